package intake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/overlay"
	"github.com/launch-ml/launch/core/python"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/trace"
)

// Traced is the plugin's name of a job that no plugin knows, and that was traced.
const Traced = "trace"

// A Tracing is which commands are traced when they are read.
type Tracing int

// The tracings.
const (
	Untraced Tracing = iota
	Unpriced         // a job whose ladders do not know what it needs
	Everything
)

// unpriced reports whether a plugin's ladders do not know what the job needs as asked, or with another micro-batch.
func unpriced(set *ladder.Set) bool {
	shared := set.Shared.Asked
	return slices.ContainsFunc(set.Phases, func(l ladder.Ladder) bool {
		for i, r := range l.Rungs {
			counts := i == l.Asked || l.Phase == ladder.Training && r.Values[job.MicroBatch] > 0
			if counts && !r.At(shared).Known() {
				return true
			}
		}
		return false
	})
}

// traceTyped makes a job of a command that no plugin knows: it runs as typed, and what it needs is traced.
func (r *Reading) traceTyped(ctx context.Context, o Options) {
	look := lookFor(ctx, o.Wish, r.Command.Env)
	r.Job = &job.Job{Command: r.Command, Plugin: Traced, Dialect: "a script that no plugin knows",
		Name: filepath.Base(r.program.Script)}
	if !r.measure(o, look) {
		return
	}
	unknown := mem.Estimate{Unknown: "nothing is known of it but what a trace shows"}
	set := &ladder.Set{Shared: ladder.Ladder{Phase: ladder.Shared, Rungs: []ladder.Rung{ladder.AsAsked()}},
		Phases: []ladder.Ladder{{Phase: ladder.Training, Rungs: []ladder.Rung{ladder.AsAsked(unknown)}}}}
	r.Foreseer = NewForeseer(o, r.Job, r.Room)
	r.Warnings = append(r.Warnings, r.Foreseer.price(ctx, set)...)
	r.Run = &run.Run{Job: r.Job, Ladders: set, Limits: o.Limits,
		Rooms: r.Room.Host(), Room: r.Room.Size(), Empty: r.Room.Empty(), Host: r.Room.OnHost(), Shared: r.Room.Shared()}
	r.startsAllTheSame(o, r.Foreseer)
}

// startsAllTheSame has a run start that would be refused by what was traced alone: values that are not there may have
// led the script another way, and a trace is never the reason why a run does not start.
func (r *Reading) startsAllTheSame(o Options, f *Foreseer) {
	p, stop := r.Run.First()
	if stop == nil || p == nil || !o.Runs || !f.priced {
		return
	}
	for _, c := range p.Choices {
		if c.Verdict == ladder.Not && f.known[place{c.Phase, c.Rung, p.Shared.Rung}] {
			return
		}
	}
	r.Run.Limits.Anyway = true
	r.Warnings = append(r.Warnings, "by the trace it cannot fit; it starts all the same, because a trace is no proof")
}

// A Foreseer prices by traces of a job's script what its ladders do not know.
type Foreseer struct {
	tracer  trace.Tracer
	caching mem.Caching
	none    error // why nothing can be traced
	failed  bool  // a trace has
	job     *job.Job
	learn   func(*ladder.Set) (*ladder.Set, bool)
	before  map[place]mem.Estimate // as the plugin priced them
	known   map[place]bool         // by the plugin
	exact   map[place]bool         // by a trace of their own
	priced  bool
}

// A place is a rung of a phase, beside a rung of the shared ladder.
type place struct {
	phase        string
	rung, shared int
}

// NewForeseer returns what traces a job in a room.
func NewForeseer(o Options, j *job.Job, seen room.Room) *Foreseer {
	f := &Foreseer{job: j, before: map[place]mem.Estimate{}, known: map[place]bool{}, exact: map[place]bool{}}
	p, err := j.Command.Prog()
	if err == nil {
		err = traceable(&p, j.Command.Env, seen.Device)
	}
	if f.none = err; err != nil {
		return f
	}
	env := python.Of(p, j.Command.Env)
	f.caching = mem.CachingOf(env.AllocatorConf())
	f.tracer = trace.New(trace.Tracer{Interpreter: env.Interpreter, Card: *seen.Device, Deadline: o.TraceTime,
		Ranks: ranks(&p), Cache: filepath.Join(o.State, "traces"), Packages: env.Packages(), Serve: serve})
	if free := room.Host().Memory; free != nil {
		f.tracer.Memory = free.Free * 3 / 4
	}
	learner := o.Learner() // what is measured from now on corrects the run in another way
	f.learn = func(set *ladder.Set) (*ladder.Set, bool) {
		learned, is, err := learner(j, seen, set)
		return learned, is && err == nil
	}
	return f
}

// serve lets a program read edited Python source in place of its files, as an attempt does.
func serve(dir string, files []job.File, env []string) ([]string, error) {
	var copies []overlay.File
	for _, f := range files {
		copies = append(copies, overlay.File{Path: f.Path, SHA256: f.Source.SHA256, Text: f.Text})
	}
	o, err := overlay.Install(dir, copies, env)
	if err != nil {
		return nil, err
	}
	return o.Env, nil
}

// traceable is why a command cannot be traced for a card, as far as that is known before; nil if it may be.
func traceable(p *command.Prog, env []string, d *gpu.Device) error {
	switch {
	case d == nil:
		return errors.New("it is not known for which card: --vram 24GiB names one")
	case d.Kind != gpu.CUDA && d.Kind != gpu.HIP:
		return errors.New("a trace is of a card that programs call cuda")
	}
	if path := p.Path(); path != "" {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("there is no script %s", path)
		}
	}
	of := python.Of(*p, env)
	if !filepath.IsAbs(of.Interpreter) || of.Missing() {
		return errors.New("the command's Python was not found")
	}
	if major, minor, ok := of.Torch(); ok && (major < 2 || major == 2 && minor < 1) {
		return &torchError{of.TorchBuild(), "is older than 2.1, and has no tensors that can be traced",
			"torch 2.1 or later"}
	}
	if _, cuda := of.TorchCUDA(); cuda == "none" {
		return &torchError{of.TorchBuild(), "is built without CUDA, and cannot make a card's tensors",
			"a torch that is built for CUDA"}
	}
	return trace.Supported()
}

// A torchError is why a command cannot be traced with the torch that its Python has.
type torchError struct{ has, why, takes string }

func (e *torchError) Error() string { return fmt.Sprintf("torch %s %s", e.has, e.why) }

// TraceHelps reports whether a trace could well show what is not known of the command on a device. takes is what its
// Python would have to have for that, and has what it has; "" where nothing is lacking.
func (r *Reading) TraceHelps(d *gpu.Device) (helps bool, takes, has string) {
	p := r.program
	if p == nil || p.Kind == command.Code || r.AsksForHelp || r.Failed || r.Foreseer != nil {
		return false, "", ""
	}
	if _, _, ok := python.Of(*p, r.Command.Env).Torch(); !ok {
		return false, "", ""
	}
	err := traceable(p, r.Command.Env, d)
	if other := (*torchError)(nil); errors.As(err, &other) && trace.Supported() == nil {
		return true, other.takes, other.has
	}
	return err == nil, "", ""
}

// price fills what the ladders of the job do not know from a trace of its script. It changes set. notes is what is to
// be told of it.
func (f *Foreseer) price(ctx context.Context, set *ladder.Set) (notes []string) {
	if f.none != nil {
		return []string{fmt.Sprintf("the script was not traced: %v", f.none)}
	}
	each(set, func(at place, e *mem.Estimate) { f.before[at], f.known[at] = *e, e.Known() })
	notes, err := f.tracer.Price(ctx, f.job, set, f.caching)
	if err != nil {
		f.failed = true
		return append(notes, fmt.Sprintf("the script was not traced: %v", err))
	}
	for _, l := range set.Phases {
		at := place{l.Phase, l.Asked, set.Shared.Asked}
		f.exact[at] = true
		f.priced = f.priced || !f.known[at] && traced(l, at.shared)
	}
	f.failed = !f.priced
	return notes
}

// traced reports whether a phase's need as asked is known after a trace. If it is not, another rung's will not be.
func traced(l ladder.Ladder, shared int) bool { return l.Rungs[l.Asked].At(shared).Known() }

// each calls do with every estimate of a set.
func each(set *ladder.Set, do func(place, *mem.Estimate)) {
	for _, l := range set.Phases {
		for i, r := range l.Rungs {
			for s := range r.Estimates {
				do(place{l.Phase, i, s}, &r.Estimates[s])
			}
		}
	}
}

// cachingOf are the settings of a command's allocator.
func cachingOf(c job.Command) (mem.Caching, error) {
	p, err := c.Prog()
	if err != nil {
		return mem.Caching{}, err
	}
	return mem.CachingOf(python.Of(p, c.Env).AllocatorConf()), nil
}

// mostRungs bounds how many rungs are traced before one is taken.
const mostRungs = 6

// Foresee prices the ladders of a run after an out-of-memory, if they do not know what the job needs. Then it traces
// the rung that the run would take, until that is one that was traced. It tells what it does, and reports whether it
// has changed the run's ladders.
func (f *Foreseer) Foresee(ctx context.Context, r *run.Run, tell func(format string, args ...any)) (changed bool) {
	set := base(r)
	if f.none != nil || f.failed || !f.priced && !unpriced(set) {
		return false
	}
	if !f.priced {
		tell("no formula knows what it needs: its script is traced, without computing anything, for a change that fits")
		notes := f.price(ctx, set)
		if changed = f.priced; changed {
			f.relearn(r, set)
		}
		for _, note := range notes {
			tell("%s", note)
		}
	}
	for _, note := range f.promise(ctx, r, func() *run.Plan { p, _ := r.Next(); return p }) {
		changed = true
		tell("%s", note)
	}
	if p, _ := r.Next(); p == nil && f.priced && ctx.Err() == nil {
		f.forget(r, set)
		changed = true
		if p, _ = r.Next(); p != nil {
			tell("by the trace no change that is allowed fits; it goes on as without one, because a trace is no proof")
		}
	}
	return changed
}

// forget takes from ladders what was traced, but not what a trace has shown a rung to cost.
func (f *Foreseer) forget(r *run.Run, set *ladder.Set) {
	f.failed = true
	set.Phases = slices.DeleteFunc(slices.Clone(set.Phases), func(l ladder.Ladder) bool {
		_, had := f.before[place{l.Phase, 0, 0}]
		return !had
	})
	each(set, func(at place, e *mem.Estimate) { *e = f.before[at] })
	f.relearn(r, set)
}

// base are the ladders of a run as they were priced.
func base(r *run.Run) *ladder.Set {
	if r.Priced != nil {
		return r.Priced
	}
	return r.Ladders
}

// relearn corrects newly priced ladders by what earlier runs measured, where the run was corrected by that.
func (f *Foreseer) relearn(r *run.Run, set *ladder.Set) {
	if r.Priced == nil {
		return
	}
	r.Priced, r.Ladders = nil, set
	if learned, is := f.learn(set); is {
		r.Priced, r.Ladders = set, learned
	}
}

// promise traces the rungs that the next plan would take, until they are such as were traced themselves.
func (f *Foreseer) promise(ctx context.Context, r *run.Run, next func() *run.Plan) (notes []string) {
	if !f.priced {
		return nil
	}
	defer func() { f.tracer = trace.New(f.tracer) }() // events take memory, which the program may need now
	for range mostRungs {
		p := next()
		if p == nil || ctx.Err() != nil {
			return notes
		}
		set := base(r)
		edits := slices.Clone(set.Shared.Rungs[p.Shared.Rung].Edits)
		open := map[string]*mem.Estimate{}
		for _, c := range p.Choices {
			l := set.Ladder(c.Phase)
			at := place{c.Phase, c.Rung, p.Shared.Rung}
			edits = append(edits, l.Rungs[c.Rung].Edits...)
			if !f.known[at] && !f.exact[at] && traced(*l, set.Shared.Asked) && at.shared < len(l.Rungs[c.Rung].Estimates) {
				f.exact[at] = true
				open[c.Phase] = &l.Rungs[c.Rung].Estimates[at.shared]
			}
		}
		if len(open) == 0 {
			return notes
		}
		notes = append(notes, f.at(ctx, p, edits, open)...)
		f.relearn(r, set)
	}
	return notes
}

// at traces the rungs of a plan, and replaces their estimates.
func (f *Foreseer) at(ctx context.Context, p *run.Plan, edits []config.Edit, open map[string]*mem.Estimate) []string {
	var caching mem.Caching
	made, err := f.job.Rewrite(edits, AttemptFolder)
	if err == nil {
		caching, err = cachingOf(made.Command)
	}
	var phases []trace.Phase
	var took time.Duration
	if err == nil {
		phases, took, err = f.tracer.At(ctx, f.job, edits, caching)
	}
	if err != nil {
		return []string{fmt.Sprintf("%q was not traced: %v", p.Changes(), err)}
	}
	var needs []string
	for _, seen := range phases {
		if e := open[seen.Name]; e != nil && seen.Estimate.Known() {
			*e = seen.Estimate
			needs = append(needs, fmt.Sprintf("%s %v", seen.Name, seen.Estimate.Total()))
		}
	}
	text := fmt.Sprintf("%q is traced itself: %s", p.Changes(), cmp.Or(strings.Join(needs, ", "), "its need is not known"))
	if took >= 100*time.Millisecond {
		text += fmt.Sprintf("; that took %v", took.Round(100*time.Millisecond))
	}
	return []string{text}
}

// ranks is how many processes the command's launcher starts in all; 1 where it is not known.
func ranks(p *command.Prog) int64 {
	n := int64(1)
	for _, l := range p.Launchers {
		n *= int64(max(1, l.Procs)) * int64(max(1, l.Nodes))
	}
	return n
}
