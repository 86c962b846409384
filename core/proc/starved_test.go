package proc

import (
	"context"
	"testing"
	"time"
)

// A plugin that gets none of the processors is waited for; one that waits itself, or takes all the time, is not.
func TestStarved(t *testing.T) {
	const limit = 400 * time.Millisecond
	for name, tt := range map[string]struct {
		use       func(passed time.Duration) Use
		waitedFor bool
	}{
		"it sleeps":   {func(time.Duration) Use { return Use{} }, false},
		"it computes": {func(d time.Duration) Use { return Use{CPU: d, Runs: true} }, false},
		"it starves":  {func(d time.Duration) Use { return Use{CPU: d / 50, Runs: true} }, true},
	} {
		began := time.Now()
		ctx, cancel := withClock(context.Background(), limit, func() Use { return tt.use(time.Since(began)) })
		select {
		case <-ctx.Done():
			if tt.waitedFor {
				t.Errorf("%s: the time was up after %v", name, time.Since(began))
			}
		case <-time.After(5 * limit):
			if !tt.waitedFor {
				t.Errorf("%s: it is waited for", name)
			}
		}
		cancel()
	}
	// in the end it is given up
	began := time.Now()
	ctx, cancel := withClock(context.Background(), 20*time.Millisecond, func() Use { return Use{Runs: true} })
	defer cancel()
	<-ctx.Done()
	if took := time.Since(began); took < 100*time.Millisecond {
		t.Errorf("given up after %v", took)
	}
}
