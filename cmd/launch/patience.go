package main

import (
	"context"
	"sync"
	"time"
)

// tick is how often a patience is looked at.
const tick = 50 * time.Millisecond

// withPatience is context.WithTimeout by the time in which this process runs. While it is stopped (Ctrl-Z, a suspended machine,
// a debugger) a plugin mostly is too, and has had no chance to answer.
func withPatience(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	p := &patience{Context: ctx, done: make(chan struct{})}
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
				left, last = left-running(now.Sub(last)), now
			}
		}
		p.end(context.DeadlineExceeded)
	}()
	return p, func() { p.end(context.Canceled) }
}

// running is how much of the time between two ticks this process has run: a tick that comes very late found it stopped.
func running(between time.Duration) time.Duration {
	if between > 20*tick {
		return tick
	}
	return between
}

// A patience is a context that ends by itself. It has no deadline that could be told.
type patience struct {
	context.Context
	once sync.Once
	done chan struct{}
	err  error
}

func (p *patience) end(err error) {
	p.once.Do(func() {
		p.err = err
		close(p.done)
	})
}

// Deadline implements [context.Context].
func (p *patience) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done implements [context.Context].
func (p *patience) Done() <-chan struct{} { return p.done }

// Err implements [context.Context].
func (p *patience) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}
