package run

import (
	"context"
	"fmt"

	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/unit"
)

// An Executor carries out plans.
type Executor interface {
	// Room measures what the job may take now, on its fullest device; 0 where no device can be seen.
	Room(ctx context.Context) (unit.Bytes, error)
	// Rooms measures the rooms of the host beside it.
	Rooms(ctx context.Context) ladder.HostRooms
	// Execute carries out one plan to its end. The error is launch's own trouble, never the program's.
	Execute(ctx context.Context, p *Plan) (Outcome, error)
}

// A Journal keeps what happened, before the next thing does.
type Journal interface {
	Planned(*Plan) error
	Ended(*Attempt) error
}

// Carry makes attempts until the run has no next plan, and returns why it stopped. The error is launch's own trouble.
func (r *Run) Carry(ctx context.Context, ex Executor, j Journal) (*Stop, error) {
	for {
		room, err := ex.Room(ctx)
		if err != nil {
			return nil, fmt.Errorf("measuring the room: %w", err)
		}
		r.Room, r.Rooms = room, ex.Rooms(ctx)
		p, stop := r.Next()
		if stop != nil {
			return stop, nil
		}
		if err := j.Planned(p); err != nil {
			return nil, fmt.Errorf("recording the plan: %w", err)
		}
		out, err := ex.Execute(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("attempt %d: %w", p.Attempt, err)
		}
		r.weigh(p, &out)
		r.Attempts = append(r.Attempts, Attempt{*p, out})
		if out.Saved != nil {
			r.Left = nil // which is older
		}
		if err := j.Ended(r.Last()); err != nil {
			return nil, fmt.Errorf("recording the attempt: %w", err)
		}
	}
}
