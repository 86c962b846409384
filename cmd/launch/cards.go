package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/intake"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/ui"
	"github.com/launch-ml/launch/core/unit"
)

// claimCards claims what a command will use of its cards, for as long as this launch lives, and puts the job on the
// cards that it chose. A command that no plugin recognised claims something only if the user asked launch to choose a
// card, or to wait for one. One that its plugin could not read waits for a card of its own. An exitCode error was
// printed already.
func claimCards(
	ctx context.Context, s *settings, say ui.Printer, p *intake.Reading, args []string,
) (*intake.Reading, error) {
	var err error
	if p.Job == nil {
		asked := s.Chooses() || s.Wait != 0
		if !asked && !p.Failed || p.AsksForHelp || s.Device == "cpu" || s.VRAM > 0 {
			return p, nil
		}
		found, err := room.Find(ctx, s.Wish, p.Command.Env)
		unread := *s
		switch {
		case !asked && (err != nil || found.Device == nil):
			return p, nil
		case err != nil:
			return p, s.deviceError(err)
		case !asked: // launch cannot know what it takes, which others count with
			unread.Wait = forever
		}
		p.Room = found
		s.hold, err = unread.claimFor(ctx, say, &p.Room, p.Command, nil, room.Unknown.On)
		p.Command.Env = s.hold.Env(p.Command.Env)
		return p, err
	}
	priced := p.Room.Device
	s.hold, err = s.claimFor(ctx, say, &p.Room, p.Command, p.Job, shares(p.Run))
	if err != nil {
		return p, err
	}
	if chosen := s.hold.Devices(); chosen != nil {
		p = s.priceOn(ctx, p, priced, room.Names(chosen), args, elsewhere)
	}
	p.Run.Room, p.Run.Empty = p.Room.Size(), p.Room.Empty()
	p.Command.Env, p.Job.Command.Env = s.hold.Env(p.Command.Env), s.hold.Env(p.Job.Command.Env)
	return p, nil
}

// claimAgain claims what a run needs that is taken up again. An exitCode error was printed already.
func (s *settings) claimAgain(ctx context.Context, say ui.Printer, found *room.Room, r *run.Run) (err error) {
	if s.claim, err = claimMemory(ctx, *s, say, r.Job.Command, r.Job); err != nil {
		return err
	}
	s.hold, err = s.claimFor(ctx, say, found, r.Job.Command, r.Job, shares(r))
	r.Job.Command.Env = s.hold.Env(r.Job.Command.Env)
	return err
}

// release ends the claims.
func (s settings) release() {
	s.claim.Release()
	s.hold.Release()
}

// priceOn reads a command again if another kind of card was chosen than the one that it was priced for: the estimates
// may differ.
func (s settings) priceOn(
	ctx context.Context, p *intake.Reading, priced *gpu.Device, chosen string, args []string,
	ask func(intake.Plugins) intake.Asker,
) *intake.Reading {
	if now := p.Room.Device; priced.Name == now.Name && priced.Capability == now.Capability {
		return p
	}
	s.Device = chosen
	again, err := read(ctx, s, args, ask)
	if err != nil || again.Job == nil {
		return p
	}
	p.Close()
	again.Room = p.Room
	return again
}

// prefer makes a plan that of the card that launch would choose now.
func (s settings) prefer(ctx context.Context, p *intake.Reading, args []string) (*intake.Reading, error) {
	if p.Job == nil || !s.Chooses() {
		return p, nil
	}
	priced := p.Room.Device
	if err := p.Room.Prefer(p.Command.Env, room.Need{Cards: s.cards(p.Command, p.Job), On: shares(p.Run)}); err != nil {
		return p, s.deviceError(err)
	}
	if priced != nil {
		p = s.priceOn(ctx, p, priced, room.Names([]gpu.Device{*p.Room.Device}), args, here)
	}
	p.Run.Room, p.Run.Empty = p.Room.Size(), p.Room.Empty()
	return p, nil
}

// claimFor claims cards for a command. j is nil if no plugin recognised it.
func (s settings) claimFor(
	ctx context.Context, say ui.Printer, r *room.Room, c job.Command, j *job.Job, on func(unit.Bytes) room.Share,
) (*room.Hold, error) {
	ctx, signals := s.untilSignal(ctx)
	hold, err := r.Claim(ctx, c.Env, room.Need{Cards: s.cards(c, j), On: on}, s.patience(say))
	if by := signals.close(); by != nil {
		hold.Release()
		return nil, endWaiting(s, say, j, by)
	}
	var refused *room.Refusal
	switch {
	case err == nil:
		return hold, nil
	case errors.As(err, &refused):
		return nil, refuse(s, say, refused, j)
	case errors.Is(err, room.ErrCards):
		return nil, s.deviceError(err)
	}
	say.Warn("%v: other launches will not count the memory of the card that this one takes", err)
	return nil, nil
}

// cards is how many cards a command uses; 0: that is not known.
func (s settings) cards(c job.Command, j *job.Job) int {
	n := room.PromiseOf(0, c, j).Ranks
	switch {
	case s.GPUs > 0:
		return s.GPUs
	case j == nil && n <= 1:
		return 0
	}
	return int(n)
}

// shares returns what a run would take of a card, by the memory that it has there.
func shares(r *run.Run) func(unit.Bytes) room.Share {
	known := map[unit.Bytes]room.Share{}
	return func(free unit.Bytes) room.Share {
		s, ok := known[free]
		if !ok {
			s = share(r, free)
			known[free] = s
		}
		return s
	}
}

func share(r *run.Run, free unit.Bytes) room.Share {
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

// patience is how long this launch waits for room, and how it reports that.
func (s settings) patience(say ui.Printer) room.Patience {
	return room.Patience{For: s.Wait, Say: func(w room.Want) {
		if s.Quiet {
			return
		}
		limit := ""
		if s.Wait > 0 {
			limit = fmt.Sprintf(", at most %v", s.Wait)
		}
		switch {
		case w.Resource == room.HostMemory:
			say.Line("waiting for %v of host memory, which other launches hold%s (Ctrl-C ends the wait)", w.Bytes, limit)
		case w.Open:
			say.Line("waiting for a card that no other launch uses%s (Ctrl-C ends the wait)", limit)
		default:
			say.Line("waiting for %v of a card%s (Ctrl-C ends the wait)", w.Bytes, limit)
		}
	}}
}

// A waitSignal is the signal that ends a wait.
type waitSignal struct {
	came   os.Signal
	done   chan struct{}
	cancel func()
	from   pendingSignals
}

// untilSignal returns a context that ends with a signal, if this launch may wait.
func (s settings) untilSignal(ctx context.Context) (context.Context, *waitSignal) {
	w := &waitSignal{done: make(chan struct{})}
	ctx, w.cancel = context.WithCancel(ctx)
	if s.Wait == 0 {
		close(w.done)
		return ctx, w
	}
	w.from = collectSignals(s.Leave)
	go func() {
		defer close(w.done)
		select {
		case w.came = <-w.from:
			w.cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, w
}

// close stops to collect signals, and returns the one that came; nil for none.
func (w *waitSignal) close() os.Signal {
	w.cancel()
	<-w.done
	w.from.close()
	return w.came
}

// endWaiting ends a launch that was interrupted while it waited.
func endWaiting(s settings, say ui.Printer, j *job.Job, by os.Signal) error {
	code := 128 + number(by)
	if s.leavesOn(by) {
		code = run.TryLater
	}
	why := fmt.Sprintf("interrupted (%v) while waiting for room; nothing was started", by)
	say.Line("%s", why)
	writeResult(s, say, result{Ending: run.Interrupted, Code: code, Error: why, Job: j,
		Whose: "launch's: " + why})
	return exitCode(code)
}

// refuse ends a launch for which there is no room: now, or never.
func refuse(s settings, say ui.Printer, refused *room.Refusal, j *job.Job) error {
	why := refused.Why
	r := result{Ending: notRun, Code: run.TryLater, Error: why, Job: j}
	if refused.Never {
		r.Ending, r.Code = "refused", run.CannotFit
		why += "; nothing was started (--anyway runs it)"
		r.Stop = &run.Stop{Why: why, Code: r.Code}
	}
	say.Line("%s", why)
	writeResult(s, say, r)
	return exitCode(r.Code)
}

// forever is the wait without a limit.
const forever time.Duration = -1
