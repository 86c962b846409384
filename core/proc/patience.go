package proc

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// tick is how often the clock of a pausable timeout is read.
const tick = 50 * time.Millisecond

// starving is how many times longer a process may take that gets hardly any of the processors.
const starving = 6

// WithPatience is context.WithTimeout for an answer of a process that this one has started. Its clock stops while this
// process is suspended (Ctrl-Z, a suspended machine, a debugger): then the other is usually suspended too, and cannot
// answer. While a process below this one would run, the clock counts the processor time that it gets: on a busy machine
// that is little, and the process no slower for it.
func WithPatience(ctx context.Context, d time.Duration) (*Patience, context.CancelFunc) {
	return withClock(ctx, d, Used)
}

func withClock(ctx context.Context, d time.Duration, used func() Use) (*Patience, context.CancelFunc) {
	p := &Patience{Context: ctx, done: make(chan struct{})}
	go func() {
		clock := time.NewTicker(tick)
		defer clock.Stop()
		before, passed := Use{}, time.Duration(0)
		for left, last := d, time.Now(); left > 0 && passed < starving*d; {
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
func charged(between time.Duration, before, now Use) time.Duration {
	if !now.Runs { // it waits for something else
		return between
	}
	return min(between, max(0, now.CPU-before.CPU))
}

// A Patience is a context whose clock stops while this process is suspended, so it reports no deadline.
type Patience struct {
	context.Context
	once sync.Once
	done chan struct{}
	err  error
	held atomic.Int32 // how many wait for something with a deadline of its own
}

// Hold stops the clock until the function that it returns is called.
func (p *Patience) Hold() (release func()) {
	if p == nil {
		return func() {}
	}
	p.held.Add(1)
	return func() { p.held.Add(-1) }
}

func (p *Patience) end(err error) {
	p.once.Do(func() {
		p.err = err
		close(p.done)
	})
}

// Deadline implements [context.Context].
func (p *Patience) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done implements [context.Context].
func (p *Patience) Done() <-chan struct{} { return p.done }

// Err implements [context.Context].
func (p *Patience) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}
