package intake

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/launch-ml/launch/core/plugin/host"
)

// tick is how often the clock of a pausable timeout is read.
const tick = 50 * time.Millisecond

// patience is how many times longer a plugin may take that gets hardly any of the processors.
const patience = 6

// withPausableTimeout is context.WithTimeout whose clock stops while this process is suspended (Ctrl-Z, a suspended machine, a
// debugger): then the plugin is usually suspended too, and cannot answer. While a process of the plugin's would run,
// the clock counts the processor time that it gets: on a busy machine that is little, and the plugin no slower for it.
func withPausableTimeout(ctx context.Context, d time.Duration) (*pausableTimeout, context.CancelFunc) {
	return withClock(ctx, d, host.Used)
}

func withClock(ctx context.Context, d time.Duration, used func() host.Use) (*pausableTimeout, context.CancelFunc) {
	p := &pausableTimeout{Context: ctx, done: make(chan struct{})}
	go func() {
		clock := time.NewTicker(tick)
		defer clock.Stop()
		before, passed := host.Use{}, time.Duration(0)
		for left, last := d, time.Now(); left > 0 && passed < patience*d; {
			select {
			case <-p.done:
				return
			case <-ctx.Done():
				p.end(ctx.Err())
				return
			case now := <-clock.C:
				if between := running(now.Sub(last)); p.held.Load() == 0 {
					passed += between
					if passed > d/4 { // most have answered by then
						u := used()
						between = charged(between, before, u)
						before = u
					}
					left -= between
				}
				last = now
			}
		}
		p.end(context.DeadlineExceeded)
	}()
	return p, func() { p.end(context.Canceled) }
}

// running returns how long this process ran between two ticks. Before a very late tick it was suspended.
func running(between time.Duration) time.Duration {
	if between > 20*tick {
		return tick
	}
	return between
}

// charged returns how much of the time between two looks counts.
func charged(between time.Duration, before, now host.Use) time.Duration {
	if !now.Runs { // it waits for something else
		return between
	}
	return min(between, max(0, now.CPU-before.CPU))
}

// pausableTimeout is a context whose clock stops while this process is suspended, so it reports no deadline.
type pausableTimeout struct {
	context.Context
	once sync.Once
	done chan struct{}
	err  error
	held atomic.Int32 // how many wait for something with a deadline of its own
}

// hold stops the clock until the function that it returns is called.
func (p *pausableTimeout) hold() (release func()) {
	if p == nil {
		return func() {}
	}
	p.held.Add(1)
	return func() { p.held.Add(-1) }
}

func (p *pausableTimeout) end(err error) {
	p.once.Do(func() {
		p.err = err
		close(p.done)
	})
}

// Deadline implements [context.Context].
func (p *pausableTimeout) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done implements [context.Context].
func (p *pausableTimeout) Done() <-chan struct{} { return p.done }

// Err implements [context.Context].
func (p *pausableTimeout) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}
