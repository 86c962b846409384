package attempt

import (
	"context"
	"time"

	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/overlay"
)

// A guard ends a trial after its steps, and an attempt that runs without the settings of its plan.
type guard struct {
	cancel context.CancelFunc
	done   chan struct{}
	why    string // read once done is closed
}

// enough is the reason for which launch ends a trial that would not end by itself.
const enough = "enough was seen"

// look is the time between two checks of a guard. Wrong settings must not waste a minute, and reading a short file
// costs little.
const look = 200 * time.Millisecond

// settled is how long, before the first step, a program must report other settings until the guard ends it: programs
// also print their defaults, before the settings that they run with.
const settled = 10 * time.Second

// guarded returns the context for the attempt, and the guard that may cancel it.
func guarded(ctx context.Context, a attempt, d *oom.Detector, t *tap) (*guard, context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	g := &guard{cancel: cancel, done: make(chan struct{})}
	taken := a.overlay == nil || len(a.overlay.Files()) == 0
	if taken && (a.trial == "" || a.steps == 0) && a.differs == nil {
		close(g.done)
		return g, ctx
	}
	go func() {
		defer close(g.done)
		tick := time.NewTicker(look)
		defer tick.Stop()
		var since time.Time // since when its reports differ from the plan
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			state := d.State()
			if !taken {
				begun := state.Started || state.Iteration >= 0
				switch said, why := a.overlay.Verdict(begun, t.since()); said {
				case overlay.Taken: // this does not change any more
					taken = true
				case overlay.NotTaken:
					g.why = why
					cancel()
					return
				}
			}
			if a.differs != nil {
				switch why := a.differs(state); {
				case why == "":
					since = time.Time{}
				case since.IsZero():
					since = time.Now()
				case state.Iteration >= 0 || time.Since(since) > settled:
					g.why = why
					cancel()
					return
				}
			}
			if a.trial != "" && a.steps > 0 && state.Iteration >= a.steps {
				g.why = enough
				cancel()
				return
			}
		}
	}()
	return g, ctx
}

// stop ends the guard. It returns why the guard ended the attempt, "" if it did not.
func (g *guard) stop() string {
	g.cancel()
	<-g.done
	return g.why
}
