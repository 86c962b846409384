package intake

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/python"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/trace"
)

// Traced is the plugin's name of a job that no plugin knows, and that was traced.
const Traced = "trace"

// trace fills what the ladders of a job do not know from a trace of its script. It changes set.
func (r *Reading) trace(ctx context.Context, o Options, set *ladder.Set) {
	if r.clock != nil {
		defer r.clock.Hold()()
	}
	notes, err := r.tracer(o).price(ctx, r.Job, set)
	if err != nil {
		notes = append(notes, fmt.Sprintf("the script was not traced: %v", err))
	}
	r.Warnings = append(r.Warnings, notes...)
}

// traceTyped makes a job of a command that no plugin knows: it runs as typed, and what it needs is traced.
func (r *Reading) traceTyped(ctx context.Context, o Options) {
	look := lookFor(ctx, o.Wish, r.Command.Env)
	r.Job = &job.Job{Command: r.Command, Plugin: Traced, Dialect: "no plugin knows it",
		Name: filepath.Base(r.program.Script)}
	if !r.measure(o, look) {
		return
	}
	unknown := mem.Estimate{Unknown: "nothing is known of it but what a trace shows"}
	set := &ladder.Set{Shared: ladder.Ladder{Phase: ladder.Shared, Rungs: []ladder.Rung{ladder.AsAsked()}},
		Phases: []ladder.Ladder{{Phase: ladder.Training, Rungs: []ladder.Rung{ladder.AsAsked(unknown)}}}}
	r.trace(ctx, o, set)
	r.Run = &run.Run{Job: r.Job, Ladders: set, Limits: o.Limits,
		Rooms: r.Room.Host(), Room: r.Room.Size(), Empty: r.Room.Empty(), Host: r.Room.OnHost()}
}

// tracing is a tracer, or why there is none.
type tracing struct {
	trace.Tracer
	caching mem.Caching
	err     error
}

func (t tracing) price(ctx context.Context, j *job.Job, set *ladder.Set) ([]string, error) {
	if t.err != nil {
		return nil, t.err
	}
	return t.Tracer.Price(ctx, j, set, t.caching)
}

// tracer is the tracer of the command.
func (r *Reading) tracer(o Options) (t tracing) {
	d := r.Room.Device
	switch {
	case r.program == nil:
		return tracing{err: r.unread}
	case d == nil:
		return tracing{err: errors.New("it is not known for which card: --vram 24GiB names one")}
	case d.Kind != gpu.CUDA:
		return tracing{err: errors.New("a trace is of a CUDA card")}
	}
	env := python.Of(*r.program, r.Command.Env)
	if path := r.program.Path(); path != "" {
		if _, err := os.Stat(path); err != nil {
			return tracing{err: fmt.Errorf("there is no script %s", path)}
		}
	}
	if !filepath.IsAbs(env.Interpreter) {
		return tracing{err: errors.New("the command's Python was not found")}
	}
	t.Interpreter, t.Card, t.Deadline, t.Ranks = env.Interpreter, *d, o.Trace, ranks(r.program)
	if free := room.Host().Memory; free != nil {
		t.Memory = free.Free * 3 / 4
	}
	t.caching = mem.CachingOf(env.AllocatorConf())
	return t
}

// ranks is how many processes the command's launcher starts in all; 1 where it is not known.
func ranks(p *command.Prog) int64 {
	n := int64(1)
	for _, l := range p.Launchers {
		n *= int64(max(1, l.Procs)) * int64(max(1, l.Nodes))
	}
	return n
}
