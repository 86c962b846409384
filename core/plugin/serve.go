package plugin

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"sync"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/plugin/internal/wire"
)

// Recognition is the document that answers a command: a job, or what has to be known before there can be one.
type Recognition struct {
	*job.Job
	Need *Need `json:"need,omitempty"`
	// Caution is why the command is left alone.
	Caution string `json:"caution,omitempty"`
}

// LaddersQuestion is the document that asks for ladders.
type LaddersQuestion struct {
	Job    *job.Job   `json:"job"`
	Device gpu.Device `json:"device"`
}

// Hurry lets this process' garbage lie until it matters: a plugin lives for some milliseconds, and its user waits for them.
func Hurry() {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(512 << 20)
}

// Serve answers launch's questions with p until launch ends the process. It is all that a plugin's main does.
func Serve(p Plugin) {
	Hurry()
	k := &keeper{plugin: p}
	if c := (job.Command{}); wire.Announced(&c) {
		k.begin(c)
	}
	methods := map[string]wire.Method{
		"Manifest": func(context.Context, []byte) (any, error) {
			m := p.Manifest()
			m.SDK = SDK
			return m, nil
		},
		"Recognize": wire.Asked(func(ctx context.Context, c job.Command) (any, error) {
			r, err := k.recognize(ctx, c)
			var need *Need
			var caution *Caution
			switch {
			case errors.As(err, &caution):
				return Recognition{Caution: caution.Why}, nil
			case errors.As(err, &need):
				return Recognition{Need: need}, nil
			case errors.Is(err, ErrNotMine):
				return nil, fmt.Errorf("%w: %w", wire.ErrDeclined, err)
			case err != nil || r == nil:
				return Recognition{}, err
			}
			return Recognition{Job: r.Job()}, nil
		}),
		"Ladders": wire.Asked(func(ctx context.Context, q LaddersQuestion) (any, error) {
			if q.Job == nil {
				return nil, errors.New("there is no job in the question")
			}
			r, err := k.recognized(ctx, q.Job.Command)
			if err != nil {
				return nil, err
			}
			return r.Ladders(ctx, q.Device)
		}),
	}
	if e, ok := p.(Estimator); ok {
		methods["Estimate"] = wire.Asked(func(ctx context.Context, q EstimateQuestion) (any, error) {
			return e.Estimate(ctx, q.Bare, q.Device)
		})
	}
	wire.Serve(methods)
}

// A keeper keeps what its plugin has recognised last, until its ladders are asked for.
type keeper struct {
	plugin Plugin

	mu   sync.Mutex
	last *recognition
}

// A recognition is one call of [Plugin.Recognize].
type recognition struct {
	command job.Command
	ended   chan struct{} // closed when there is an answer
	answer  Recognized
	err     error
	failed  bool // it panicked: there is no answer
	begun   bool // before launch asked, and not answered with yet
}

// begin recognises a command before launch has asked: the connection does not stand yet. Where it fails, the question itself fails.
func (k *keeper) begin(c job.Command) {
	r := &recognition{command: c, ended: make(chan struct{}), failed: true, begun: true}
	k.keep(r)
	go func() {
		defer close(r.ended)
		defer func() { _ = recover() }()
		r.answer, r.err = k.plugin.Recognize(context.Background(), c)
		r.failed = false
	}()
}

func (k *keeper) keep(r *recognition) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last = r
}

// of is the recognition of a command that is kept, or nil. With begun it is one that launch has not asked for yet: who
// asks again wants to know what the files have now.
func (k *keeper) of(c job.Command, begun bool) *recognition {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.last == nil || begun && !k.last.begun || !reflect.DeepEqual(k.last.command, c) {
		return nil
	}
	k.last.begun = false
	return k.last
}

// recognize is [Plugin.Recognize], and keeps what that returns.
func (k *keeper) recognize(ctx context.Context, c job.Command) (Recognized, error) {
	return k.ask(ctx, c, k.of(c, true))
}

// ask returns the answer of a recognition, or recognises the command.
func (k *keeper) ask(ctx context.Context, c job.Command, r *recognition) (Recognized, error) {
	if r != nil {
		select {
		case <-r.ended:
			if !r.failed {
				return r.answer, r.err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	r = &recognition{command: c, ended: make(chan struct{})}
	defer close(r.ended)
	r.answer, r.err = k.plugin.Recognize(ctx, c)
	if r.err == nil {
		k.keep(r)
	}
	return r.answer, r.err
}

// recognized is what was recognised of a job's command: launch asks for the ladders of the job that it was given.
func (k *keeper) recognized(ctx context.Context, c job.Command) (Recognized, error) {
	r, err := k.ask(ctx, c, k.of(c, false))
	if err == nil && r == nil {
		err = errors.New("it does not recognise the job's command")
	}
	return r, err
}
