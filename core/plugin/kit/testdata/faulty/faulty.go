// Package faulty is a small plugin that keeps all promises, and breaks one of them if it is asked to. The kit's tests
// show that each fault is found.
//
// Its family is a script train.py that reads --config FILE, a YAML file, and two options, --half and --workers.
package faulty

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/unit"
)

// A Fault is one way to break a promise, and the check that finds it.
type Fault struct{ Name, Check string }

// Faults are all faults.
var Faults = []Fault{
	{"no-about", "manifest"}, {"every-command", "manifest"}, {"no-marks", "manifest"},
	{"other-marks", "marks"},
	{"unlisted-variable", "environment"},
	{"declines-its-own", "recognised"},
	{"wrong-default", "values"}, {"no-validation", "values"},
	{"counts-questions", "same-answer"}, {"other-ladders", "same-answer"}, {"one-at-a-time", "same-answer"},
	{"invalid-utf8", "document"},
	{"negative-batch", "job"}, {"relative-folder", "job"}, {"knob-twice", "job"},
	{"knob-of-elsewhere", "knobs"}, {"knob-of-nothing", "knobs"},
	{"escape-sequence", "sentences"}, {"trace", "sentences"}, {"long-sentence", "sentences"},
	{"bad-pattern", "signs"}, {"no-group", "signs"}, {"empty-line", "signs"}, {"no-such-phase", "signs"},
	{"no-such-knob", "signs"},
	{"bad-glob", "signs"}, {"states-without-order", "signs"},
	{"fixed-state", "resume"}, {"no-resume", "resume"}, {"resume-elsewhere", "resume"}, {"no-states", "resume"},
	{"over-the-users", "rehearsal"},
	{"no-ladders", "ladders"}, {"too-mild", "ladders"}, {"asked-is-edited", "ladders"},
	{"rises", "memory-falls"},
	{"other-global-batch", "invariants"}, {"half-an-edit", "invariants"},
	{"negative-line", "units"}, {"mebibytes", "units"}, {"zero-for-unknown", "units"},
	{"no-source", "sources"},
	{"no-context", "runtime-line"},
	{"no-such-file", "edits"},
	{"deaf", "read-back"},
	{"forgets-half", "priced-as-made"}, {"coupled", "priced-as-made"}, {"a-phase-less", "priced-as-made"},
	{"unknown-as-a-rung", "priced-as-made"}, {"idle-workers", "priced-as-made"},
	{"constant", "grows"},
	{"greedy", "foreign-commands"}, {"refuses-strangers", "foreign-commands"},
	{"panics", "garbage"}, {"nonsense", "garbage"}, {"takes-nothing", "garbage"},
	{"hangs", "deadline"}, {"slow-ladders", "deadline"},
	{"writes", "writes-nothing"}, {"starts", "starts-nothing"},
}

// New returns the plugin with a fault; "" for none.
func New(fault string) plugin.Plugin { return &faulty{fault: fault} }

type faulty struct {
	fault string
	asked atomic.Int64 // questions so far
	now   atomic.Int64 // questions that are being answered
}

func (p *faulty) is(fault string) bool { return p.fault == fault }

// Manifest implements [plugin.Plugin].
func (p *faulty) Manifest() plugin.Manifest {
	m := plugin.Manifest{Name: "faulty", Version: "1", About: "a small family for tests",
		Marks: []plugin.Mark{{Script: "train.py", Flags: []string{"--config"}}},
		Env:   []string{"PATH", "HOME", "LAUNCH_TEST_FAULT"}}
	switch p.fault {
	case "no-about":
		m.About = ""
	case "every-command":
		m.Marks = []plugin.Mark{{}}
	case "no-marks":
		m.Marks = nil
	case "other-marks":
		m.Marks[0].Script = "main.py"
	}
	return m
}

var options = []config.Option{{Names: []string{"--config"}}, {Names: []string{"--half"}},
	{Names: []string{"--workers"}}, {Names: []string{"--resume"}}}

// A recipe is what the program would read.
type recipe struct {
	plugin                                        *faulty
	args                                          *config.Argv
	path                                          string
	text                                          []byte
	doc                                           config.Tree
	batch, accumulate, half, workers, crop, asked int64
	job                                           *job.Job
}

// whole reads a whole number within bounds.
func whole(what, text string, most int64) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > most {
		return 0, fmt.Errorf("%s is %q, and it is a whole number of at most %d", what, text, most)
	}
	return n, nil
}

// read reads the command.
func (p *faulty) read(c job.Command) (*recipe, error) {
	prog, err := command.Program(c.Args, c.Env, c.Dir)
	if err != nil || filepath.Base(prog.Script) != "train.py" {
		return nil, plugin.ErrNotMine
	}
	r := &recipe{plugin: p, batch: 4, accumulate: 1, crop: 64}
	if r.args, err = config.ParseArgv(prog.Args, options); err != nil {
		return nil, plugin.ErrNotMine
	}
	path, ok := r.args.Get("--config")
	if !ok {
		return nil, plugin.ErrNotMine
	}
	r.path = path
	if !filepath.IsAbs(path) {
		path = filepath.Join(prog.Dir, path)
	}
	if r.text, err = file.Read(path, 4<<20); err != nil {
		switch p.fault {
		case "panics":
			panic("no recipe")
		case "hangs":
			select {}
		}
		return nil, err
	}
	if r.doc, err = config.ParseYAML(r.text); err != nil {
		if p.is("trace") {
			return nil, errors.New("Traceback (most recent call last):\n  File \"x.py\", line 1\nValueError")
		}
		return nil, fmt.Errorf("reading %s: %w", r.path, err)
	}
	if !r.doc.Root().Get("family").Exists() {
		return nil, plugin.ErrNotMine
	}
	return r, p.numbers(r, c)
}

// numbers reads the settings.
func (p *faulty) numbers(r *recipe, c job.Command) (err error) {
	if p.is("wrong-default") {
		r.accumulate = 2
	}
	most := int64(1 << 20)
	for _, s := range []struct {
		into *int64
		path string
	}{{&r.batch, "train.batch"}, {&r.accumulate, "train.accumulate"}, {&r.crop, "train.crop"}} {
		if v := r.doc.Root().At(s.path); v.Exists() {
			if n, ok := v.Int(); p.is("nonsense") && ok {
				*s.into = max(n, -n)
				if s.path == "train.crop" {
					*s.into = n
				}
				continue
			}
			if *s.into, err = whole(s.path, v.Text(), most); err != nil {
				return err
			}
		}
	}
	if r.batch == 0 || r.accumulate == 0 {
		return errors.New("a batch of 0 trains nothing")
	}
	for _, s := range []struct {
		into *int64
		path string
	}{{&r.half, "--half"}, {&r.workers, "--workers"}} {
		if text, ok := r.args.Get(s.path); ok {
			if *s.into, err = whole(s.path, text, 1000); err != nil {
				return err
			}
		}
	}
	if p.is("unlisted-variable") {
		for _, kv := range c.Env {
			if strings.HasPrefix(kv, "FAMILY_BATCH=") {
				r.batch = 2
			}
		}
	}
	return nil
}

// Recognize implements [plugin.Plugin].
func (p *faulty) Recognize(ctx context.Context, c job.Command) (plugin.Recognized, error) {
	p.asked.Add(1)
	p.now.Add(1)
	defer p.now.Add(-1)
	if p.is("one-at-a-time") {
		time.Sleep(20 * time.Millisecond)
	}
	r, err := p.read(c)
	strange := errors.Is(err, plugin.ErrNotMine)
	switch {
	case p.is("greedy") && strange && strings.Contains(strings.Join(c.Args, " "), "train.py"),
		p.is("takes-nothing") && len(c.Args) == 0:
		return &recipe{plugin: p, job: &job.Job{}}, nil
	case p.is("refuses-strangers") && strange:
		return nil, errors.New("this command is wrong")
	case p.is("declines-its-own") && err == nil:
		return nil, plugin.ErrNotMine
	case err != nil:
		return nil, err
	}
	if p.is("writes") {
		os.WriteFile(filepath.Join(c.Dir, fmt.Sprint("note", p.asked.Load())), nil, 0o644)
	}
	if p.is("starts") {
		exec.Command("/bin/true").Run()
	}
	r.job = r.recognised()
	if p.is("one-at-a-time") && p.now.Load() > 1 {
		r.job.Name = "somebody else's"
	}
	p.spoil(r.job)
	return r, nil
}

// Job implements [plugin.Recognized].
func (r *recipe) Job() *job.Job { return r.job }

func (r *recipe) edit(knob, doc, path string, to any, cost ladder.Cost) config.Edit {
	var d config.Document = r.args
	if doc != config.ArgvDoc {
		d = r.doc
	}
	e := config.Proposed(d, doc, path, fmt.Sprint(to))
	e.Knob, e.Cost = knob, cost.String()
	return e
}

// recognised is the job, with nothing wrong.
func (r *recipe) recognised() *job.Job {
	j := &job.Job{Name: "small", Arch: "net", Options: options,
		Batch: job.Batch{Micro: r.batch, Accumulation: r.accumulate, Ranks: 1},
		Files: []job.File{{Path: r.path, Format: "yaml", Flag: "--config", Text: r.text}}}
	for _, k := range []struct {
		name, path string
		value      int64
	}{{job.MicroBatch, "train.batch", r.batch}, {job.Accumulation, "train.accumulate", r.accumulate},
		{"crop", "train.crop", r.crop}} {
		j.Knobs = append(j.Knobs, job.Knob{Name: k.name, At: config.Address{Doc: r.path, Path: k.path},
			Value:   fmt.Sprint(k.value),
			Default: !r.doc.Root().At(k.path).Exists()})
	}
	j.Signs = job.Signs{
		Lines: []job.Sign{{Kind: job.Progress, Pattern: `step (?P<iteration>\d+)`},
			{Kind: job.Phase, Phase: ladder.Validation, Pattern: "validating"},
			{Kind: job.Setting, Knob: job.MicroBatch, Pattern: `batch (?P<value>\d+)`}},
		States: []string{"*.pt"}, StateIteration: `(?P<iteration>\d+)`,
	}
	j.Resume.Edits = []config.Edit{r.edit("resume", config.ArgvDoc, "--resume", job.SavedPath, ladder.None)}
	j.Rehearsal.Edits = []config.Edit{r.edit("output", r.path, "train.output", job.Scratch, ladder.None)}
	return j
}

// spoil breaks the job.
func (p *faulty) spoil(j *job.Job) {
	switch p.fault {
	case "counts-questions":
		j.Name = fmt.Sprint("small ", p.asked.Load())
	case "invalid-utf8":
		j.Name = "caf\xe9"
	case "negative-batch":
		j.Batch.Micro = -8
	case "relative-folder":
		j.Exclusive = "runs"
	case "knob-twice":
		j.Knobs = append(j.Knobs, j.Knobs[0])
	case "knob-of-elsewhere":
		j.Knobs[0].Value = "32"
	case "knob-of-nothing":
		j.Knobs[1].Default, j.Knobs[1].At.Path = false, "train.accumulation_steps"
	case "escape-sequence":
		j.Warnings = []string{"\x1b[31mred\x1b[0m"}
	case "long-sentence":
		j.Warnings = []string{strings.Repeat("very ", 1000) + "long"}
	case "bad-pattern":
		j.Signs.Lines[0].Pattern = "step (?P<iteration"
	case "no-group":
		j.Signs.Lines[0].Pattern = `step (\d+)`
	case "empty-line":
		j.Signs.Lines[1].Pattern = "(validating)?"
	case "no-such-phase":
		j.Signs.Lines[1].Phase = "validate"
	case "no-such-knob":
		j.Signs.Lines[2].Knob = "batch"
	case "bad-glob":
		j.Signs.States[0] = "[.pt"
	case "states-without-order":
		j.Signs.StateIteration = `\d+`
	case "fixed-state":
		j.Resume.Edits[0].To = "out/last.pt"
	case "no-resume":
		j.Resume.Edits = nil
	case "no-states":
		j.Signs.States = nil
	case "resume-elsewhere":
		j.Resume.Edits[0].At.Doc = "other.yaml"
	case "over-the-users":
		j.Rehearsal.Edits[0].To = "out"
	case "deaf":
		j.Knobs[0].Value, j.Batch.Micro = "8", 8
	}
}

// net is what a phase takes.
func (r *recipe) net(batch, half int64) (e mem.Estimate) {
	params := mem.Item{Kind: mem.Parameters, What: "net", Bytes: 4_000_000, Count: 1_000_000, From: "1,000,000 × 4 B"}
	saved := unit.Bytes(batch) * (2 - unit.Bytes(half)) * unit.Bytes(r.crop*r.crop) * 4 * unit.KiB
	line := mem.Item{Kind: mem.Saved, What: "net", Bytes: saved, From: "micro-batch × crop² × 8 KiB"}
	switch r.plugin.fault {
	case "mebibytes":
		params.Bytes = 4
	case "negative-line":
		line.Bytes = -line.Bytes
	case "no-source":
		line.From = ""
	case "nonsense":
		line.Bytes = unit.Bytes(batch*r.crop) * unit.MiB
	case "constant":
		line.Bytes = unit.Bytes(min(batch, 8)) * 32 * unit.MiB
	}
	e.Add(params, line)
	if !r.plugin.is("no-context") {
		e.Add(mem.Item{Kind: mem.Context, What: "process", Bytes: 300 * unit.MiB, From: "measured", Guess: true})
	}
	return e
}

// Ladders implements [plugin.Recognized].
func (r *recipe) Ladders(ctx context.Context, d gpu.Device) (*ladder.Set, error) {
	p := r.plugin
	if p.is("slow-ladders") {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if p.is("other-ladders") {
		r.crop += p.asked.Add(1)
	}
	set := &ladder.Set{
		Values: map[string]int64{job.MicroBatch: r.batch, job.Accumulation: r.accumulate},
		Shared: ladder.Ladder{Phase: ladder.Shared, Rungs: []ladder.Rung{ladder.AsAsked()}},
		Invariants: []ladder.Invariant{{Name: "global batch", Factors: []string{job.MicroBatch, job.Accumulation},
			Equals: r.batch * r.accumulate, Until: ladder.Recipe}},
	}
	halves := []int64{r.half}
	if r.half == 0 {
		set.Shared.Rungs = append(set.Shared.Rungs, ladder.Rung{Name: "half precision", Cost: ladder.Numerics,
			Edits: []config.Edit{r.edit("half", config.ArgvDoc, "--half", 1, ladder.Numerics)}})
		halves = append(halves, 1)
	}
	set.Phases = []ladder.Ladder{r.training(halves), r.validation(halves)}
	if p.is("a-phase-less") && r.batch < 8 || p.is("no-validation") {
		set.Phases = set.Phases[:1]
	}
	switch p.fault {
	case "no-ladders":
		set.Phases = nil
	case "asked-is-edited":
		set.Phases[0].Rungs[0].Edits = set.Phases[0].Rungs[1].Edits
	}
	r.feeds(set)
	return set, nil
}

// training is the ladder of the training step.
func (r *recipe) training(halves []int64) ladder.Ladder {
	p := r.plugin
	l := ladder.Ladder{Phase: ladder.Training}
	for batch := r.batch; batch >= 1; batch /= 2 {
		g := ladder.AsAsked()
		if batch != r.batch {
			g = r.smaller(batch)
		}
		for _, half := range halves {
			if p.is("forgets-half") && batch != r.batch {
				half = 0
			}
			e := r.net(batch, half)
			switch {
			case p.is("zero-for-unknown") && batch == r.batch:
				e = mem.Estimate{}
			case p.is("unknown-as-a-rung") && batch != r.batch:
				e.Unknown = "nobody knows"
			case p.is("rises") && batch == r.batch/4:
				e = r.net(r.batch, half)
			}
			g.Estimates = append(g.Estimates, e)
		}
		l.Rungs = append(l.Rungs, g)
	}
	return l
}

// smaller is a rung with a smaller micro-batch.
func (r *recipe) smaller(batch int64) ladder.Rung {
	accumulate := r.accumulate * r.batch / batch
	g := ladder.Rung{Name: fmt.Sprintf("micro-batch %d × accumulation %d", batch, accumulate), Cost: ladder.Speed,
		Slowdown: 1.1,
		Values:   map[string]int64{job.MicroBatch: batch, job.Accumulation: accumulate}}
	g.Edits = []config.Edit{r.edit(job.MicroBatch, r.path, "train.batch", batch, ladder.Speed),
		r.edit(job.Accumulation, r.path, "train.accumulate", accumulate, ladder.Speed)}
	switch r.plugin.fault {
	case "too-mild":
		g.Edits[0].Cost = "recipe"
	case "half-an-edit":
		g.Edits = g.Edits[:1]
	case "other-global-batch":
		g.Values[job.Accumulation] = r.accumulate
	case "no-such-file":
		g.Edits[1].At.Doc = "no.yaml"
	}
	return g
}

// validation is the ladder of the validation, which sees one sample at a time.
func (r *recipe) validation(halves []int64) ladder.Ladder {
	g := ladder.AsAsked()
	for range halves {
		batch := int64(1)
		if r.plugin.is("coupled") {
			batch = r.batch
		}
		g.Estimates = append(g.Estimates, r.net(batch, 0))
	}
	return ladder.Ladder{Phase: ladder.Validation, Rungs: []ladder.Rung{g}}
}

// feeds adds the ladder of host memory.
func (r *recipe) feeds(set *ladder.Set) {
	lines := func(workers int64) []mem.HostLine {
		return []mem.HostLine{{Item: mem.Item{Kind: mem.Loaders, What: "workers",
			Bytes: unit.Bytes(workers+1) * unit.MiB, From: "measured"}}}
	}
	set.Host = &ladder.HostLadder{Rungs: []ladder.HostRung{{Name: "as asked", Lines: lines(r.workers)}}}
	if r.workers == 0 {
		return
	}
	e := r.edit("workers", config.ArgvDoc, "--workers", 0, ladder.None)
	if r.plugin.is("idle-workers") {
		e.To = "1"
	}
	set.Host.Rungs = append(set.Host.Rungs, ladder.HostRung{Name: "no workers", Edits: []config.Edit{e}, Lines: lines(0)})
}
