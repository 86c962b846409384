package proc

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestPausableTimeout(t *testing.T) {
	ctx, cancel := WithPatience(t.Context(), 3*tick)
	defer cancel()
	child, stop := context.WithCancel(ctx) // as everybody does who is handed one
	defer stop()
	if ctx.Err() != nil {
		t.Error("it begins with its end")
	}
	select {
	case <-child.Done():
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
	}
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) || !errors.Is(child.Err(), context.DeadlineExceeded) {
		t.Errorf("it ends with %v, and %v of its own", ctx.Err(), child.Err())
	}
	held, cancelHeld := WithPatience(t.Context(), tick)
	defer cancelHeld()
	release := held.Hold()
	reference, cancelReference := WithPatience(t.Context(), 5*tick)
	defer cancelReference()
	if <-reference.Done(); held.Err() != nil {
		t.Error("it ends though its clock is held")
	}
	release()
	<-held.Done()
	parent, end := context.WithCancel(t.Context())
	ctx, cancel = WithPatience(parent, time.Hour)
	end()
	if <-ctx.Done(); !errors.Is(ctx.Err(), context.Canceled) {
		t.Errorf("with its parent it ends with %v", ctx.Err())
	}
	cancel()
	ctx, cancel = WithPatience(t.Context(), time.Hour)
	if cancel(); !errors.Is(ctx.Err(), context.Canceled) {
		t.Errorf("cancelled it ends with %v", ctx.Err())
	}
	for between, want := range map[time.Duration]time.Duration{tick: tick, 5 * tick: 5 * tick, time.Minute: tick} { // late under load; stopped
		if got := running(between); got != want {
			t.Errorf("of %v it ran %v, want %v", between, got, want)
		}
	}
}
