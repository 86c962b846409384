package main

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/overlay"
)

// A guard ends an attempt that has shown what it was to show, or that runs without the settings it was to have.
type guard struct {
	cancel context.CancelFunc
	done   chan struct{}
	why    string // read once done is closed
}

// enough is why a trial is ended that would not end by itself.
const enough = "enough was seen"

// look is how often a guard looks. An attempt must not waste a minute on wrong settings; reading a short file costs nothing.
const look = 200 * time.Millisecond

// settled is how long a report of other settings has to stand where no step was made yet: programs print their defaults, too,
// before what they run with.
const settled = 10 * time.Second

// guarded returns the context that the attempt is to run under.
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
		var since time.Time // since when what it reports is another training than the plan's
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
				case overlay.Taken: // once and for all
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

// stop ends the guard and says why it ended the attempt, if it did.
func (g *guard) stop() string {
	g.cancel()
	<-g.done
	return g.why
}

// pace is how fast the program trains, by its reports of progress.
type pace struct {
	mu     sync.Mutex
	at     []report // the first of an epoch, and the last two
	epochs float64  // seconds in epochs that are over
	done   int64    // iterations in them
}

type report struct {
	iteration int64
	when      time.Time
}

func (p *pace) see(iteration int64) { p.report(iteration, time.Now()) }

func (p *pace) report(iteration int64, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if iteration < 1 { // the first iteration loads kernels, and cuDNN tries its algorithms
		return
	}
	switch n := len(p.at); {
	case n > 0 && iteration < p.at[n-1].iteration: // counted anew in every epoch
		iterations, seconds := p.span()
		p.done, p.epochs = p.done+iterations, p.epochs+seconds
		p.at = append(p.at[:0], report{iteration, now})
	case n > 0 && iteration == p.at[n-1].iteration:
	case n == 3:
		p.at = append(p.at[:1], p.at[2], report{iteration, now})
	default:
		p.at = append(p.at, report{iteration, now})
	}
}

// span is the iterations from the first report to the last but one, and the time they took. A bar that is drawn over and
// over counts as said when the next one is drawn over it, and the last of them when the program goes on: too early.
func (p *pace) span() (iterations int64, seconds float64) {
	if len(p.at) < 3 {
		return 0, 0
	}
	return p.at[1].iteration - p.at[0].iteration, p.at[1].when.Sub(p.at[0].when).Seconds()
}

// rate is samples a second; 0 where too little was reported to say.
func (p *pace) rate(b job.Batch, micro bool) float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	iterations, seconds := p.span()
	iterations, seconds = iterations+p.done, seconds+p.epochs
	if iterations < 1 || seconds <= 0 || b.Global() == 0 {
		return 0
	}
	per := b.Global()
	if micro {
		per = b.Micro * max(1, b.Ranks)
	}
	return float64(iterations) * float64(per) / seconds
}

// withEnv returns env with the entries "NAME=value" set, each once.
func withEnv(env, set []string) []string {
	out := slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.ContainsFunc(set, func(s string) bool { return strings.HasPrefix(s, name+"=") })
	})
	return append(out, set...)
}
