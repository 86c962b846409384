package host

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/plugin"
)

// A Here is a built-in plugin that is asked within this process. A program that starts nothing has no training to lose should a
// plugin fail, and a fifth of the time that a plan takes is a second process and the way to it. What it answers is checked
// as if it came from one.
type Here struct{ p plugin.Plugin }

var (
	_ plugin.Plugin    = (*Here)(nil)
	_ plugin.Estimator = (*Here)(nil)
)

// NewHere returns p, to be asked in this process.
func NewHere(p plugin.Plugin) *Here {
	plugin.Hurry()
	return &Here{p}
}

// Manifest implements [plugin.Plugin].
func (h *Here) Manifest() plugin.Manifest { return h.p.Manifest() }

// Recognize implements [plugin.Plugin].
func (h *Here) Recognize(ctx context.Context, c job.Command) (plugin.Recognized, error) {
	r := &recognized{}
	own, err := within(ctx, h, "reading the command", func() (plugin.Recognized, error) {
		own, err := h.p.Recognize(ctx, Source{Manifest: h.Manifest()}.told(c))
		if err == nil && own != nil {
			r.job = own.Job()
		}
		return own, err
	})
	switch {
	case err != nil:
		return nil, err
	case r.job == nil:
		return nil, h.trouble("reading the command", errors.New("it answered with no job"))
	}
	j := *r.job // the plugin keeps its own: it was told less of the environment, and launch changes this one
	j.Command, j.Plugin = c, h.Manifest().Name
	r.job = &j
	r.ladders = func(ctx context.Context, d gpu.Device) (*ladder.Set, error) { return h.ladders(ctx, own, d) }
	return r, nil
}

func (h *Here) ladders(ctx context.Context, r plugin.Recognized, d gpu.Device) (*ladder.Set, error) {
	s, err := within(ctx, h, "pricing the job", func() (*ladder.Set, error) { return r.Ladders(ctx, d) })
	if err != nil {
		return nil, err
	}
	if s == nil {
		s = &ladder.Set{}
	}
	if err := s.Check(); err != nil {
		return nil, h.trouble("pricing the job", fmt.Errorf("its answer contradicts itself: %w", err))
	}
	return s, nil
}

// Estimate implements [plugin.Estimator]. A plugin that is none says so by an error.
func (h *Here) Estimate(ctx context.Context, q *plugin.Bare, d gpu.Device) ([]plugin.Phase, error) {
	e, ok := h.p.(plugin.Estimator)
	if !ok {
		return nil, h.trouble("pricing "+q.Arch, errors.New("it prices no bare network"))
	}
	return within(ctx, h, "pricing "+q.Arch, func() ([]plugin.Phase, error) { return e.Estimate(ctx, q, d) })
}

// Close is that of a [Client]: there is nothing to end.
func (h *Here) Close() {}

func (h *Here) trouble(doing string, err error) error {
	return &troubleError{fmt.Errorf("plugin %s: %s: %w", h.Manifest().Name, doing, err)}
}

// within waits for an answer, until the context ends: what it does not wait for any more ends with this process.
func within[T any](ctx context.Context, h *Here, doing string, ask func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answered := make(chan answer, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				said := &tail{}
				_, _ = said.Write(debug.Stack())
				answered <- answer{err: h.trouble(doing, fmt.Errorf("panic: %v\n%s", r, said))}
			}
		}()
		v, err := ask()
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.As(err, new(*file.Unread)) { // it gave up, as it should: that is no answer
			err = h.trouble(doing, err)
		}
		answered <- answer{v, err}
	}()
	select {
	case a := <-answered:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, h.trouble(doing, fmt.Errorf("the plugin did not answer in time: %w", ctx.Err()))
	}
}
