package attempt

import (
	"cmp"
	"context"
	"time"

	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
)

// Foresee implements [run.Foreseer]. A signal ends it, and the run.
func (x *Executor) Foresee(ctx context.Context, r *run.Run) error {
	if x.Setup.Foresee == nil {
		return nil
	}
	ctx, end := x.untilSignal(ctx)
	defer end()
	traced := x.Setup.Foresee(ctx, r, x.Setup.Room, x.Report.Line)
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if traced {
		x.Priced = cmp.Or(r.Priced, r.Ladders)
		if x.Record != nil {
			x.Record.Write(record.Event{Kind: record.Priced, Run: record.MaskRun(r)})
		}
	}
	return nil
}

// untilSignal returns a context that the next signal ends while no program is running.
func (x *Executor) untilSignal(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil && x.Signals != nil {
			if err := x.Signals.Pending(); err != nil {
				cancel(err)
			}
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	return ctx, func() { cancel(nil); <-done }
}
