package run

import (
	"context"
	"errors"
	"fmt"

	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/unit"
)

// An Executor carries out plans.
type Executor interface {
	// Room measures the memory that the job may take now on its fullest device; 0 if no device is visible.
	Room(ctx context.Context) (unit.Bytes, error)
	// Rooms measures host memory and /dev/shm.
	Rooms(ctx context.Context) ladder.HostRooms
	// Execute carries out one plan to its end. It returns an error only for a failure of launch itself.
	Execute(ctx context.Context, p *Plan) (Outcome, error)
}

// A Journal keeps each event before the next one happens.
type Journal interface {
	// Planned returns [ErrRoom] if the room has changed since it was measured: then there is another plan. It returns a
	// [Halt] if the attempt must not be made.
	Planned(*Plan) error
	Ended(*Attempt) error
}

// A Foreseer is an [Executor] that can find out what the ladders of a run do not know.
type Foreseer interface {
	// Foresee may change the run's ladders. An error ends the run.
	Foresee(ctx context.Context, r *Run) error
}

// A Halt is the error of a plan that must not be carried out, for a reason that is not in the run itself.
type Halt struct{ Stop *Stop }

func (h *Halt) Error() string { return h.Stop.Why }

// ErrRoom is the error of a plan whose room another launch has taken meanwhile.
var ErrRoom = errors.New("another launch has taken the room meanwhile")

// Carry makes attempts until the run has no next plan, and returns why it stopped. The error is a failure of launch
// itself.
func (r *Run) Carry(ctx context.Context, ex Executor, j Journal) (*Stop, error) {
	for {
		room, err := ex.Room(ctx)
		if err != nil {
			return nil, fmt.Errorf("measuring the room: %w", err)
		}
		r.Room, r.Rooms = room, ex.Rooms(ctx)
		if f, ok := ex.(Foreseer); ok && r.tooLarge() {
			if err := f.Foresee(ctx, r); err != nil {
				return nil, fmt.Errorf("foreseeing the next attempt: %w", err)
			}
		}
		p, stop := r.Next()
		if k, ok := ex.(Keeper); ok && p != nil && p.Resume != nil {
			p, stop = r.keep(p, k)
		}
		if stop != nil {
			return stop, nil
		}
		halt := (*Halt)(nil)
		if err := j.Planned(p); errors.Is(err, ErrRoom) {
			continue
		} else if errors.As(err, &halt) {
			return halt.Stop, nil
		} else if err != nil {
			return nil, fmt.Errorf("recording the plan: %w", err)
		}
		r.Begin(p)
		out, err := ex.Execute(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("attempt %d: %w", p.Attempt, err)
		}
		r.weigh(p, &out)
		if out.Saved != nil {
			out.Saved.Rungs = r.NewState(p)
			out.Saved.Descend(p, out.Resumption)
			out.Saved.Astray = r.astray(p, &out)
			for i := range out.Earlier {
				out.Earlier[i].Rungs, out.Earlier[i].Astray = out.Saved.Rungs, out.Saved.Astray
			}
		}
		r.End(Attempt{*p, out})
		if err := j.Ended(r.Last()); err != nil {
			return nil, fmt.Errorf("recording the attempt: %w", err)
		}
	}
}

// tooLarge reports whether the last attempt needed more of the device than there was, so that the next one takes
// another rung.
func (r *Run) tooLarge() bool {
	last := r.Last()
	return last != nil && last.Outcome.Left == "" && !last.Outcome.Beside &&
		last.Outcome.Report.Kind != oom.GPUContention && r.ranOut(*last, r.phaseOf(last.Outcome))
}
