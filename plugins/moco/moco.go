// Package moco is the plugin of the momentum-contrast trainers: facebookresearch/moco (v1 and v2),
// facebookresearch/moco-v3, and solar-ssl/moco-v3 in each of its states.
//
// Which project a command belongs to is told by its source, and so is what the source does with a setting: solar-ssl's
// guides and comments describe knobs that nothing reads and batches that are twice as large as they are.
package moco

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/python"
	"github.com/launch-ml/launch/plugins/moco/arch"
)

// New returns the plugin.
func New() plugin.Plugin { return moco{} }

type moco struct{}

// Manifest implements [plugin.Plugin].
func (moco) Manifest() plugin.Manifest {
	return plugin.Manifest{
		Name: "moco", Version: "1", About: "momentum contrast: facebookresearch/moco and moco-v3, solar-ssl/moco-v3",
		Env:   append(slices.Clone(plugin.Variables), "USE_LOW_VRAM_CONFIG"),
		Archs: arch.Names(),
		Marks: []plugin.Mark{
			{Script: "main_moco*.py", Beside: []string{"moco/builder.py"}},
			{Script: "main.py", Beside: []string{"src/training/train_moco.py"}},
			{Script: "train_moco.py", Beside: []string{"src/training/train_moco.py"}},
		},
	}
}

// Recognize implements [plugin.Plugin].
func (moco) Recognize(ctx context.Context, c job.Command) (plugin.Recognized, error) {
	p, err := read(ctx, c)
	if err != nil {
		return nil, err
	}
	return recognized{p, p.job()}, nil
}

// recognized is a command of this family.
type recognized struct {
	*project
	made *job.Job
}

// Job implements [plugin.Recognized].
func (r recognized) Job() *job.Job { return r.made }

// read reads what the command says and what the checkout says of it.
func read(ctx context.Context, c job.Command) (*project, error) {
	prog, err := c.Prog()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", plugin.ErrNotMine, err)
	}
	p := &project{command: c, prog: prog, root: prog.Dir}
	switch prog.Kind {
	case command.Script:
		p.script = prog.Path()
		p.root = filepath.Dir(p.script) // sys.path[0]
	case command.Module:
		p.script = python.Resolve(prog.Dir, "", prog.Script)
	}
	main := readText(p.script)
	switch {
	case main.Has(reMoCoK), main.Has(reMLPDim), main.Has(reStopGrad):
		err = p.readFacebook(main)
	case p.trainer(main) != "":
		err = p.readSolar(main)
	default:
		err = fmt.Errorf("%w: %s is no trainer of this family", plugin.ErrNotMine, prog.Script)
	}
	if err != nil {
		return nil, err
	}
	if why := prog.Refuses(); why != "" {
		p.warn("%s", why)
	}
	p.launched()
	p.countGPUs()
	if p.spawns && p.gpus < 0 && c.Devices == 0 {
		return nil, &plugin.Need{Devices: true}
	}
	p.divide()
	if g := p.micro * p.world; g > 0 && !p.aligned(p.micro, p.queue.int()) {
		p.warn("as asked a step enqueues %d keys, and %s asserts that they divide the queue of %d: it would stop at the first step; %s", g, p.assertAt, p.queue.int(), p.aligns())
	}
	p.countImages(ctx)
	if p.resumes() {
		p.readCheckpoint()
		p.pointers()
	}
	p.truths()
	return p, nil
}

// A knob is a setting of the recipe where it stands.
type knob struct {
	name  string
	at    config.Address
	value string // as the program reads it: without quotes
	left  bool   // the recipe leaves it open
	dead  string // why the running code does not read it
	found bool
}

func (k knob) int() int64 {
	n, _ := strconv.ParseInt(strings.ReplaceAll(k.value, "_", ""), 10, 64)
	return n
}

func (k knob) float() float64 {
	f, _ := strconv.ParseFloat(strings.ReplaceAll(k.value, "_", ""), 64)
	return f
}

func (k knob) on() bool { return k.value == "True" }

// live reports whether the knob may be turned.
func (k knob) live() bool { return k.found && k.dead == "" }

// The knobs' names beside those of package job.
const (
	knobTotal         = job.MicroBatch
	knobAccumulation  = job.Accumulation
	knobRate          = "learning rate"
	knobQueue         = "queue length"
	knobAMP           = "mixed precision"
	knobCheckpointing = "activation checkpointing"
	knobCrop          = "crop"
	knobPointer       = "queue pointer"
	knobRanks         = "ranks"
)

// A project is a command of this family, as far as it was read.
type project struct {
	command job.Command
	prog    command.Prog
	root    string // sys.path[0]
	script  string
	argv    *config.Argv
	options []python.DeclaredOption
	dialect string
	step    arch.Project

	library arch.Library
	encoder string // by its name in the library
	named   string // by its name in the recipe

	batch, accumulation, rate, queue, amp, checkpointing, crop, resume knob
	dim, mlpDim                                                        int64
	mlp, stopGrad                                                      bool
	optimizer                                                          string
	usesQueue, asserts                                                 bool
	assertAt                                                           string
	epochs                                                             int64
	data                                                               string // the folder of the images
	dataDeep                                                           bool
	dataTypes                                                          []string

	spawns  bool  // a process for each GPU of the node
	divides bool  // the worker divides the batch by their number
	nodes   int64 // 0 where it is not known
	gpus    int64 // of this node; -1 where it is not known
	world   int64 // processes that share a step; 0 where it is not known
	crowd   int64 // processes that a launcher starts on GPU 0, each by itself; 0 where it is none or not known
	micro   int64 // images of one process; 0 where it is not known
	images  int64 // of the data set; 0 where they could not be counted
	cut     bool

	checkpoint checkpoint

	solar *solar // of solar-ssl's

	warnings, said []string
}

func (p *project) warn(format string, a ...any) {
	p.warnings = append(p.warnings, fmt.Sprintf(format, a...))
}

func (p *project) truth(format string, a ...any) { p.said = append(p.said, fmt.Sprintf(format, a...)) }

// parse reads the arguments by what the source declares.
func (p *project) parse() error {
	var opts []config.Option
	for _, o := range p.options {
		opts = append(opts, o.Option)
	}
	argv, err := config.ParseArgv(p.prog.Args, opts)
	if err != nil {
		return fmt.Errorf("reading the options of %s: %w", p.prog.Script, err)
	}
	p.argv = argv
	return nil
}

// flag is an option as a knob: what the command gives, or the parser's default.
func (p *project) flag(name, path string) knob {
	o, ok := declared(p.options, path)
	if !ok {
		return knob{}
	}
	k := knob{name: name, at: config.Address{Doc: config.ArgvDoc, Path: path}, value: o.Default, left: true, found: true}
	if v, given := p.argv.Get(path); given {
		k.value, k.left = v, false
	}
	return k
}

// edit sets a knob. Values are spelled as Python spells them, which argparse reads alike.
func (p *project) edit(k knob, to any, cost, why string) (config.Edit, error) {
	text, err := config.PythonText(to)
	if err != nil {
		return config.Edit{}, fmt.Errorf("spelling %s: %w", k.name, err)
	}
	e := config.Edit{Knob: k.name, At: k.at, To: text, Cost: cost, Why: why}
	if k.at.Doc == config.ArgvDoc {
		e.From, e.Add = k.value, k.left
		if k.left {
			e.From = ""
		}
		return e, nil
	}
	doc, err := config.OpenPython(p.source(k.at.Doc))
	if err != nil {
		return config.Edit{}, err
	}
	made, err := config.Change(doc, k.at.Doc, k.at.Path, text)
	if err != nil {
		return config.Edit{}, err
	}
	made.Knob, made.Cost, made.Why = k.name, cost, why
	return made, nil
}

// source is a Python file that launch has read for the plugin.
func (p *project) source(path string) *config.PythonSource { return p.command.Source(path) }

// job is what was read, as launch needs it.
func (p *project) job() *job.Job {
	j := &job.Job{
		Dialect: p.dialect, Name: p.name(), Arch: p.named,
		Batch: job.Batch{Micro: p.micro, Accumulation: p.accumulate(), Ranks: p.world},
		Signs: p.signs(), Resume: p.resumption(), Rehearsal: p.rehearsal(), Exclusive: p.exclusive(),
		Warnings: p.warnings, Truths: p.said, Data: p.reads(), LastWords: job.WholeEpochs,
	}
	for _, o := range p.options {
		j.Options = append(j.Options, o.Option)
	}
	for _, k := range []knob{p.batch, p.accumulation, p.rate, p.queue, p.amp, p.checkpointing, p.crop, p.workers(p.trains())} {
		if k.found {
			j.Knobs = append(j.Knobs, job.Knob{Name: k.name, At: k.at, Value: k.value, Default: k.left, Dead: k.dead})
		}
	}
	if p.solar != nil {
		for _, path := range p.solar.documents {
			j.Files = append(j.Files, job.File{Path: path, Format: job.Python, Source: p.source(path)})
		}
	}
	if f, ok := p.checkpoint.file(); ok {
		j.Files = append(j.Files, f)
	}
	return j
}

// accumulate is how many micro-batches make an optimizer step.
func (p *project) accumulate() int64 {
	if p.accumulation.live() {
		return max(1, p.accumulation.int())
	}
	return 1
}

func (p *project) name() string {
	if p.solar != nil {
		return strings.TrimSuffix(filepath.Base(p.solar.config), ".py")
	}
	return p.named
}
