package main

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/oom"
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

// guarded returns the context that the attempt is to run under.
func guarded(ctx context.Context, a attempt, d *oom.Detector, t *tap) (*guard, context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	g := &guard{cancel: cancel, done: make(chan struct{})}
	if a.overlay == nil && (a.trial == "" || a.steps == 0) {
		close(g.done)
		return g, ctx
	}
	go func() {
		defer close(g.done)
		tick := time.NewTicker(look)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			state := d.State()
			if a.overlay != nil {
				begun := state.Started || state.Iteration >= 0
				if why := a.overlay.NotTaken(begun, t.since()); why != "" {
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
	mu          sync.Mutex
	first, last int64
	began, at   time.Time
	seen        bool
}

func (p *pace) see(iteration int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if iteration < 1 { // the first iteration loads kernels, and cuDNN tries its algorithms
		return
	}
	if !p.seen || iteration < p.first {
		p.seen, p.first, p.began = true, iteration, now
	}
	if iteration > p.last || p.last < p.first {
		p.last, p.at = iteration, now
	}
}

// rate is samples a second between the first report and the last; 0 where that is too little to say.
func (p *pace) rate(b job.Batch, micro bool) float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	took := p.at.Sub(p.began).Seconds()
	if p.last <= p.first || took <= 0 || b.Global() == 0 {
		return 0
	}
	per := b.Global()
	if micro {
		per = b.Micro * max(1, b.Ranks)
	}
	return float64(p.last-p.first) * float64(per) / took
}

// withEnv returns env with the entries "NAME=value" set, each once.
func withEnv(env, set []string) []string {
	out := slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.ContainsFunc(set, func(s string) bool { return strings.HasPrefix(s, name+"=") })
	})
	return append(out, set...)
}
