// Package reading reads commands: it finds the plugin that knows one, and prices its ladders.
package reading

import (
	"context"
	"slices"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/records"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/intake"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/overlay"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/ui"
	"github.com/launch-ml/launch/core/unit"
)

// A Reader reads commands: it finds the plugin of each, and prices its ladders.
type Reader struct {
	Plugins intake.Plugins
	Room    settings.Room
	Limits  run.Limits
	How     settings.Reading
	State   string // folder of the receipts
	// Runs: the command is run after it was read. Its plugin is then asked in a process of its own, else in this one.
	Runs  bool
	Trace intake.Tracing // which commands are traced when they are read
}

// New returns what reads commands as the user has set.
func New(
	f *cli.Factory, state string, where settings.Room, limits run.Limits, how settings.Reading,
) Reader {
	return Reader{Plugins: PluginsOf(f, state), Room: where, Limits: limits, How: how, State: state}
}

// Before is which commands are traced when they are read. fills: the job is run, and is to use more of the card.
func Before(how settings.Reading, fills bool) intake.Tracing {
	switch {
	case how.Trace == settings.TraceAlways:
		return intake.Everything
	case how.Trace == settings.TraceUnpriced, how.Trace == settings.TraceAuto && fills:
		return intake.Unpriced
	}
	return intake.Untraced
}

// Read finds the plugin and the ladders of a command.
func (r Reader) Read(ctx context.Context, args []string) (*intake.Reading, error) {
	ask := r.Plugins.Here
	if r.Runs {
		ask = r.Plugins.Elsewhere
	}
	o := r.options()
	o.Ask = ask
	p, err := intake.Read(ctx, o, args)
	if p != nil {
		p.Warnings = append(slices.Clone(r.How.Notes), p.Warnings...)
	}
	return p, err
}

// options are the settings by which commands are read.
func (r Reader) options() intake.Options {
	return intake.Options{
		Plugins: r.Plugins, Plugin: r.How.Plugin, AsTyped: r.How.AsTyped, Wish: r.Room.Wish, GPUs: r.Room.GPUs,
		Set: r.How.Set, Called: r.Room.Names, Learner: r.learner, FormulaTime: r.How.FormulaTime, Runs: r.Runs,
		Limits: r.Limits, Trace: r.Trace, TraceTime: r.How.TraceTime,
	}
}

// A Foresight prices a run by traces, as [attempt.Setup] takes it.
type Foresight func(ctx context.Context, of *run.Run, seen room.Room, tell func(format string, args ...any)) bool

// Foresight returns what prices a run after an out-of-memory; nil where the user wants no trace. It goes on with what
// was traced when the command was read, if p is not nil.
func (r Reader) Foresight(p *intake.Reading) Foresight {
	if r.How.Trace == settings.TraceNever {
		return nil
	}
	var f *intake.Foreseer
	if p != nil {
		f = p.Foreseer
	}
	o, learner := r.options(), r.learner()
	o.Learner = func() intake.Learner { return learner }
	return func(ctx context.Context, of *run.Run, seen room.Room, tell func(format string, args ...any)) bool {
		if f == nil {
			f = intake.NewForeseer(o, of.Job, seen)
		}
		return f.Foresee(ctx, of, tell)
	}
}

// learner starts to read the receipts, and returns the function that corrects ladders by them. That returns an error if
// the receipts could not be read.
func (r Reader) learner() intake.Learner {
	if !r.How.Receipts {
		return func(_ *job.Job, _ room.Room, set *ladder.Set) (*ladder.Set, bool, error) { return set, false, nil }
	}
	var rs []record.Receipt
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		rs, _, err = records.Receipts(r.State).Read()
	}()
	return func(j *job.Job, r room.Room, set *ladder.Set) (*ladder.Set, bool, error) {
		<-done
		if len(rs) == 0 {
			return set, false, err
		}
		set, learned := record.SubjectOf(j, r.Device, r.Limit() > 0).Learn(set, rs)
		return set, learned, err
	}
}

// Speeds returns the measured speed of a configuration, by the receipts of this machine.
func (r Reader) Speeds(p *intake.Reading) func(run.Configuration) float64 {
	if !r.How.Receipts {
		return nil
	}
	rs, _, err := records.Receipts(r.State).Read()
	if err != nil || len(rs) == 0 {
		return nil
	}
	of := record.SubjectOf(p.Job, p.Room.Device, p.Room.Limit() > 0)
	return func(c run.Configuration) float64 { return of.Speed(rs, p.Run.Ladders, c.Shared, c.Rung) }
}

// PriceOn reads a command again if another kind of card was chosen than the one that it was priced for: the estimates
// may differ.
func (r Reader) PriceOn(
	ctx context.Context, p *intake.Reading, priced *gpu.Device, chosen string, args []string,
) *intake.Reading {
	if now := p.Room.Device; priced.Name == now.Name && priced.Capability == now.Capability {
		return p
	}
	r.Room.Device = chosen
	again, err := r.Read(ctx, args)
	if err != nil || again.Job == nil {
		return p
	}
	p.Close()
	again.Room = p.Room
	return again
}

// Prefer makes a plan that of the card that launch would choose now.
func (r Reader) Prefer(ctx context.Context, p *intake.Reading, args []string) (*intake.Reading, error) {
	if p.Job == nil || !r.Room.Chooses() {
		return p, nil
	}
	priced := p.Room.Device
	need := room.Need{Cards: Cards(r.Room.GPUs, p.Command, p.Job), On: Shares(p.Run)}
	if err := p.Room.Prefer(p.Command.Env, need); err != nil {
		return p, r.Room.DeviceError(err)
	}
	if priced != nil {
		p = r.PriceOn(ctx, p, priced, room.Names([]gpu.Device{*p.Room.Device}), args)
	}
	p.Run.Room, p.Run.Empty = p.Room.Size(), p.Room.Empty()
	return p, nil
}

// Cards is how many cards a command uses; 0: that is not known. asked is --gpus, j nil for a command that no plugin
// recognised.
func Cards(asked int, c job.Command, j *job.Job) int {
	n := room.PromiseOf(0, c, j).Ranks
	switch {
	case asked > 0:
		return asked
	case j == nil && n <= 1:
		return 0
	}
	return int(n)
}

// Shares returns what a run would take of a card, by the memory that it has there.
func Shares(r *run.Run) func(unit.Bytes) room.Share {
	known := map[unit.Bytes]room.Share{}
	return func(free unit.Bytes) room.Share {
		s, ok := known[free]
		if !ok {
			s = shareOf(r, free)
			known[free] = s
		}
		return s
	}
}

func shareOf(r *run.Run, free unit.Bytes) room.Share {
	p, stop := r.On(free)
	if stop != nil || p == nil {
		return room.Share{Never: true}
	}
	s := room.Share{Bytes: min(p.Need(), free), Rank: int(p.Cost)}
	if v := p.Verdict(); v != ladder.Fits && v != ladder.Unknown { // it starts there all the same
		s.Rank += int(ladder.Model) + 1
	}
	return s
}

// View returns the first plan of a command, for printing.
func View(p *intake.Reading) ui.View {
	v := ui.View{Run: p.Run, Device: p.Room.Device, Limit: p.Room.Limit(), Decimal: p.Room.Decimal(),
		Warnings: p.Warnings, Truths: p.Job.Truths, Declaration: p.Declaration, Fails: StopsAtOnce(p.Command),
		Saves: p.Job.Save.Signal != "" || overlay.SavesOnRequest(p.Job.LastWords)}
	v.Plan, v.Stop = p.Run.First()
	return v
}
