package plugin

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

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
	anticipate := func(job.Command) {}
	if a, ok := p.(Anticipator); ok {
		anticipate = a.Anticipate
	}
	if c := (job.Command{}); wire.Announced(&c) {
		anticipate(c)
	}
	methods := map[string]wire.Method{
		"Manifest": func(context.Context, []byte) (any, error) { return p.Manifest(), nil },
		"Recognize": wire.Asked(func(ctx context.Context, c job.Command) (any, error) {
			anticipate(c)
			j, err := p.Recognize(ctx, c)
			var need *Need
			var caution *Caution
			switch {
			case errors.As(err, &caution):
				return Recognition{Caution: caution.Why}, nil
			case errors.As(err, &need):
				return Recognition{Need: need}, nil
			case errors.Is(err, ErrNotMine):
				return nil, fmt.Errorf("%w: %w", wire.ErrDeclined, err)
			}
			return Recognition{Job: j}, err
		}),
		"Ladders": wire.Asked(func(ctx context.Context, q LaddersQuestion) (any, error) {
			return p.Ladders(ctx, q.Job, q.Device)
		}),
	}
	if e, ok := p.(Estimator); ok {
		methods["Estimate"] = wire.Asked(func(ctx context.Context, q EstimateQuestion) (any, error) {
			return e.Estimate(ctx, q.Bare, q.Device)
		})
	}
	wire.Serve(methods)
}
