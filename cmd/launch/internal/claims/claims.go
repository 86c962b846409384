// Package claims claims memory of the host and of cards for a run, and waits for it.
package claims

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/result"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/attempt"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/ui"
	"github.com/launch-ml/launch/core/unit"
)

// Claims are what a launch claims of host memory and of its cards, for as long as it lives, so that no other launch
// counts on it too. An error of its methods that is an [cli.ExitCode] was printed already.
type Claims struct {
	Room    settings.Room
	Anyway  bool             // take what is there, even if it is not enough
	Leave   []attempt.Notice // further signals that end a wait
	Results result.Writer
	Say     ui.Printer

	memory *room.Claim // nil: nothing
	hold   *room.Hold  // nil: nothing
}

// Hold is what is claimed of the cards; nil: nothing.
func (c *Claims) Hold() *room.Hold { return c.hold }

// Release ends the claims.
func (c *Claims) Release() {
	c.memory.Release()
	c.hold.Release()
}

// ReleaseCards ends the claims of cards: others may wait for them.
func (c *Claims) ReleaseCards() { c.hold.Release() }

// Memory claims what --memory promises to a command. If the memory is not available, nothing is started, except with
// --anyway.
func (c *Claims) Memory(ctx context.Context, of job.Command, j *job.Job) error {
	ctx, signals := c.untilSignal(ctx, c.Room.Wait)
	held, warnings, err := room.PromiseOf(c.Room.Limit(), of, j).Take(ctx, c.Room.MemoryCalled(), c.Anyway,
		c.patience(c.Room.Wait))
	if by := signals.close(); by != nil {
		held.Release()
		return c.endWaiting(j, by)
	}
	for _, w := range warnings {
		c.Say.Warn("%s", w)
	}
	var refused *room.Refusal
	switch {
	case !errors.As(err, &refused):
		c.memory = held
		return err
	case c.Anyway:
		c.Say.Warn("%s", refused.Why)
		c.memory = held
		return nil
	}
	return c.refuse(refused, j)
}

// Cards claims cards for a command. j is nil if no plugin recognised it. n is how many it uses, 0 if that is not known,
// and on what it would take of one.
func (c *Claims) Cards(
	ctx context.Context, r *room.Room, env []string, j *job.Job, n int, on func(unit.Bytes) room.Share,
) error {
	return c.cards(ctx, c.Room.Wait, r, env, j, n, on)
}

// CardAlone claims a card that no other launch uses, and waits for it: nobody can know what the command takes.
func (c *Claims) CardAlone(ctx context.Context, r *room.Room, env []string, n int) error {
	return c.cards(ctx, settings.Forever, r, env, nil, n, room.Unknown.On)
}

func (c *Claims) cards(
	ctx context.Context, wait time.Duration, r *room.Room, env []string, j *job.Job, n int,
	on func(unit.Bytes) room.Share,
) error {
	ctx, signals := c.untilSignal(ctx, wait)
	hold, err := r.Claim(ctx, env, room.Need{Cards: n, On: on}, c.patience(wait))
	if by := signals.close(); by != nil {
		hold.Release()
		return c.endWaiting(j, by)
	}
	var refused *room.Refusal
	switch {
	case err == nil:
		c.hold = hold
		return nil
	case errors.As(err, &refused):
		return c.refuse(refused, j)
	case errors.Is(err, room.ErrCards):
		return c.Room.DeviceError(err)
	}
	c.Say.Warn("%v: other launches will not count the memory of the card that this one takes", err)
	return nil
}

// patience is how long this launch waits for room, and how it reports that.
func (c *Claims) patience(wait time.Duration) room.Patience {
	return room.Patience{For: wait, Say: func(w room.Want) {
		if c.Say.Quiet {
			return
		}
		limit := ""
		if wait > 0 {
			limit = fmt.Sprintf(", at most %v", wait)
		}
		switch {
		case w.Resource == room.HostMemory:
			c.Say.Line("waiting for %v of host memory, which other launches hold%s (Ctrl-C ends the wait)", w.Bytes, limit)
		case w.Open:
			c.Say.Line("waiting for a card that no other launch uses%s (Ctrl-C ends the wait)", limit)
		default:
			c.Say.Line("waiting for %v of a card%s (Ctrl-C ends the wait)", w.Bytes, limit)
		}
	}}
}

// endWaiting ends a launch that was interrupted while it waited.
func (c *Claims) endWaiting(j *job.Job, by os.Signal) error {
	code := 128 + cli.Number(by)
	if cli.Leaves(c.Leave, by) {
		code = run.TryLater
	}
	why := fmt.Sprintf("interrupted (%v) while waiting for room; nothing was started", by)
	c.Say.Line("%s", why)
	c.Results.Write(c.Say, result.Result{Ending: run.Interrupted, Code: code, Error: why, Job: j,
		Whose: "launch's: " + why})
	return cli.ExitCode(code)
}

// refuse ends a launch for which there is no room: now, or never.
func (c *Claims) refuse(refused *room.Refusal, j *job.Job) error {
	why := refused.Why
	r := result.Result{Ending: result.NotRun, Code: run.TryLater, Error: why, Job: j}
	if refused.Never {
		r.Ending, r.Code = "refused", run.CannotFit
		why += "; nothing was started (--anyway runs it)"
		r.Stop = &run.Stop{Why: why, Code: r.Code}
	}
	c.Say.Line("%s", why)
	c.Results.Write(c.Say, r)
	return cli.ExitCode(r.Code)
}

// A waitSignal is the signal that ends a wait.
type waitSignal struct {
	came   os.Signal
	done   chan struct{}
	cancel func()
	from   cli.Signals
}

// untilSignal returns a context that ends with a signal, if this launch may wait.
func (c *Claims) untilSignal(ctx context.Context, wait time.Duration) (context.Context, *waitSignal) {
	w := &waitSignal{done: make(chan struct{})}
	ctx, w.cancel = context.WithCancel(ctx)
	if wait == 0 {
		close(w.done)
		return ctx, w
	}
	w.from = cli.Collect(c.Leave)
	go func() {
		defer close(w.done)
		select {
		case w.came = <-w.from:
			w.cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, w
}

// close stops to collect signals, and returns the one that came; nil for none.
func (w *waitSignal) close() os.Signal {
	w.cancel()
	<-w.done
	w.from.Close()
	return w.came
}
