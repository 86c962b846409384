package intake

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// tick is how often the clock of a pausable timeout is read.
const tick = 50 * time.Millisecond

// withPausableTimeout is context.WithTimeout whose clock stops while this process is suspended (Ctrl-Z, a suspended machine, a
// debugger): then the plugin is usually suspended too, and cannot answer.
func withPausableTimeout(ctx context.Context, d time.Duration) (*pausableTimeout, context.CancelFunc) {
	p := &pausableTimeout{Context: ctx, done: make(chan struct{})}
	go func() {
		clock := time.NewTicker(tick)
		defer clock.Stop()
		for left, last := d, time.Now(); left > 0; {
			select {
			case <-p.done:
				return
			case <-ctx.Done():
				p.end(ctx.Err())
				return
			case now := <-clock.C:
				if p.held.Load() == 0 {
					left -= running(now.Sub(last))
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
