// Package run is launch itself, which runs a command, and launch resume, which goes on with one.
package run

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/reading"
	"github.com/launch-ml/launch/cmd/launch/internal/records"
	"github.com/launch-ml/launch/cmd/launch/internal/result"
	"github.com/launch-ml/launch/cmd/launch/internal/sameness"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/attempt"
	"github.com/launch-ml/launch/core/intake"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/run/nodes"
	"github.com/launch-ml/launch/core/ui"
)

// Declare declares the flags of launch itself, which runs a command.
func Declare(c *cobra.Command) {
	settings.AddSet(c.Flags())
	settings.AddAccept(c.Flags())
	settings.Use(c, settings.All)
}

// Launch runs the command of a command line. With no command it prints the help.
func Launch(f *cli.Factory, c *cobra.Command, args []string) error {
	s, args, err := settings.CommandLine(c, args)
	l := newLaunch(f, c, s)
	if err != nil && s.Result.File == "" { // a settings file that cannot be read
		l.Results.To.File, _ = c.Flags().GetString("json-file")
	}
	if err == nil && len(args) == 0 {
		return c.Help()
	}
	if err == nil {
		err = l.start(c.Context(), args)
	}
	l.Results.Failed(l.Say, err)
	return err
}

// start runs a command. It returns only if nothing ran: after a program, launch exits as the program did.
func (l *launch) start(ctx context.Context, args []string) error {
	if err := result.CheckFile(l.Results.To); err != nil {
		return err
	}
	p, err := l.reader.Read(ctx, args)
	if err != nil {
		return err
	}
	defer func() { p.Close() }()
	if why := reading.StopsAtOnce(p.Command); why != nil {
		l.Say.Warn("%v", why)
	}
	records.ClearLeftovers(l.Options.State, l.Say)
	if p.Err != nil {
		return p.Err
	}
	if p.Job != nil {
		if _, err := oom.NewDetector(p.Job.Signs); err != nil {
			if len(l.reader.How.Set) > 0 {
				return fmt.Errorf("plugin %s: %w", p.Job.Plugin, err)
			}
			p.Without("plugin %s: %v", p.Job.Plugin, err)
		}
	}
	l.foreseen(p)
	if done, err := l.goOn(ctx, p, args); done || err != nil {
		return err
	}
	defer l.Claims.Release()
	if err := l.Claims.Memory(ctx, p.Command, p.Job); err != nil {
		return err
	}
	if p, err = l.claimCards(ctx, p, args); err != nil {
		return err
	}
	if p.Job == nil {
		return l.typed(ctx, p)
	}
	return l.carry(ctx, p)
}

// foreseen prints what a trace has shown of a command that no plugin knows. It runs as typed all the same.
func (l *launch) foreseen(p *intake.Reading) {
	if p.Job == nil || p.Job.Plugin != intake.Traced {
		return
	}
	if !l.Say.Quiet {
		cli.Fitted(l.Say, os.Stderr, l.bars).Brief(reading.View(p))
	}
	p.Job, p.Run, p.Warnings = nil, nil, nil
}

// goOn continues the last run that is the same as this one, if it has not succeeded. done is false if there is none.
func (l *launch) goOn(ctx context.Context, p *intake.Reading, args []string) (done bool, err error) {
	if !l.continues || p.Job == nil {
		return false, nil
	}
	c, err := sameness.LastOf(l.Options.State, p)
	if c == nil || err != nil {
		return false, err
	}
	h := c.History
	last := h.LastOutcome()
	switch {
	case last != nil && last.Ending == run.Succeeded && last.Doubtful != "":
		l.Say.Line("run %s of this command has ended, and is doubtful (%s): another run starts", h.ID, last.Doubtful)
		return false, nil
	case last != nil && last.Ending == run.Succeeded:
		l.Say.Line("run %s of this command has succeeded: another run starts", h.ID)
		return false, nil
	case h.Identity() == nil && c.Changed(p):
		l.Say.Line("the recipe has changed since run %s: another run starts", h.ID)
		return false, nil
	case len(c.What) > 0 && !l.Accept:
		l.Say.Line("another run starts, because run %s of this command is not the same: %s", h.ID,
			sameness.SinceBegun(c.What))
		return false, nil
	}
	p.Close()
	var command []string
	if record.HasMask(record.MaskArgs(args)) {
		command = args
	}
	// --continue is given with the whole command: its --allow counts, be it lower
	again := &resumption{Carrier: l.Carrier, row: l.row, limits: l.reader.Limits, allowTyped: true, over: whereNeeded,
		foresee: l.reader.Foresight(nil)}
	return true, again.resume(ctx, h.ID, command)
}

// claimCards claims what a command will use of its cards, for as long as this launch lives, and puts the job on the
// cards that it chose. A command that no plugin recognised claims something only if the user asked launch to choose a
// card, or to wait for one. One that its plugin could not read waits for a card of its own. An exit code was printed
// already.
func (l *launch) claimCards(ctx context.Context, p *intake.Reading, args []string) (*intake.Reading, error) {
	where := l.reader.Room
	n := reading.Cards(where.GPUs, p.Command, p.Job)
	if p.Job == nil {
		asked := where.Chooses() || where.Wait != 0
		if !asked && !p.Failed || p.AsksForHelp || where.Device == "cpu" || where.VRAM > 0 {
			return p, nil
		}
		found, err := room.Find(ctx, where.Wish, p.Command.Env)
		switch {
		case !asked && (err != nil || found.Device == nil):
			return p, nil
		case err != nil:
			return p, where.DeviceError(err)
		}
		p.Room = found
		if asked {
			err = l.Claims.Cards(ctx, &p.Room, p.Command.Env, nil, n, room.Unknown.On)
		} else { // launch cannot know what it takes, which others count with
			err = l.Claims.CardAlone(ctx, &p.Room, p.Command.Env, n)
		}
		p.Command.Env = l.Claims.Hold().Env(p.Command.Env)
		return p, err
	}
	priced := p.Room.Device
	if err := l.Claims.Cards(ctx, &p.Room, p.Command.Env, p.Job, n, reading.Shares(p.Run)); err != nil {
		return p, err
	}
	hold := l.Claims.Hold()
	if chosen := hold.Devices(); chosen != nil {
		p = l.reader.PriceOn(ctx, p, priced, room.Names(chosen), args)
	}
	p.Run.Room, p.Run.Empty = p.Room.Size(), p.Room.Empty()
	p.Command.Env, p.Job.Command.Env = hold.Env(p.Command.Env), hold.Env(p.Job.Command.Env)
	return p, nil
}

// carry plans and runs a job to its end.
func (l *launch) carry(ctx context.Context, p *intake.Reading) error {
	signals := cli.Collect(l.Options.Leave)
	defer signals.Close()
	at, err := l.Nodes.Place(p.Command)
	if err != nil {
		return cli.NewExit(err, run.OwnTrouble)
	}
	who := sameness.Identify(l.Options.State, p.Command, p.Job, p.Room)
	v := reading.View(p)
	v.Verbose, v.Truths = l.Say.Verbose, record.In(l.Options.State).Unsaid(p.Job)
	l.show(at, v)
	if v.Stop != nil && at.Nodes < 2 { // the launches of other nodes have to learn it too
		l.Results.Write(l.Say, result.Result{Ending: "refused", Code: v.Stop.Code, Stop: v.Stop, Job: p.Job})
		return cli.ExitCode(v.Stop.Code)
	}
	rec, err := records.New(l.Options.State, l.row)
	if err != nil {
		rec = nil
		l.Say.Warn("%v: launch records nothing. If it is killed, the run cannot be resumed", err)
	}
	held, unlock, err := l.LockExperiment(p.Job, records.ID(rec))
	defer unlock()
	if errors.Is(err, record.ErrBusy) {
		if rec != nil {
			rec.Close()
			os.RemoveAll(rec.Dir)
		}
		return l.Results.Busy(l.Say, "", p.Job, err)
	}
	if err != nil {
		l.Say.Warn("%v: launch would not notice another launch in the same experiment", err)
	}
	if rec != nil {
		if err := rec.Write(record.Event{Kind: record.Started, Run: record.MaskRun(p.Run), Device: p.Room.Device,
			Limit: l.reader.Room.Limit()}); err != nil {
			l.Say.Warn("%v", err)
		}
	}
	settle := who.Record(rec)
	setup := attempt.Setup{Room: p.Room, Hold: l.Claims.Hold(), Held: held, Signals: signals,
		Foresee: l.reader.Foresight(p)}
	setup.Settle = func() {
		p.Close()
		settle()
	}
	err = l.Finish(ctx, p.Run, rec, who, setup)
	// as typed, the program would use other settings than the user asks for
	if ownTrouble(err) && len(l.reader.How.Set) == 0 {
		l.Say.Warn("%v: the command runs as typed, once, without changes", err)
		p.Warnings, p.Explained = nil, true
		return l.typed(ctx, p)
	}
	return err
}

// show prints the plan of a run, on the node that decides.
func (l *launch) show(at nodes.Place, v ui.View) {
	switch {
	case at.Node > 0:
		l.Say.Line("node %d of %d: the launch of node 0 at %s decides", at.Node, at.Nodes, at.Address)
	case !l.Say.Quiet:
		cli.Fitted(l.Say, os.Stderr, l.bars).Brief(v)
	case v.Stop != nil:
		l.Say.Stop(v.Run, v.Stop)
	}
	if l.Say.Quiet {
		for _, note := range l.reader.How.Notes { // even with --quiet: a setting that the user expects may be ignored
			l.Say.Warn("%s", note)
		}
	}
}

// ownTrouble reports whether launch itself failed before the program ran, so that the command can run as typed.
func ownTrouble(err error) bool {
	var code cli.ExitCode
	var own *cli.OwnExit
	return err != nil && !errors.As(err, &code) && !errors.As(err, &own)
}
