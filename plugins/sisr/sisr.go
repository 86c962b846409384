// Package sisr is the plugin of the single-image super-resolution trainers: traiNNer-redux and its forks, BasicSR, neosr.
//
// It reads the recipe that `-opt` names and the checkout beside it, and knows what a training step and a validation of
// it cost, and which settings change that.
package sisr

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/plugins/sisr/arch"
)

// New returns the plugin.
func New() plugin.Plugin { return sisr{} }

type sisr struct{}

// options are those of train.py: traiNNer-redux at 68629319 (traiNNer/utils/options.py), with BasicSR's --force_yml,
// which traiNNer-redux removed in 2025-06.
var options = []config.Option{
	{Names: []string{"-opt"}},
	{Names: []string{"--launcher"}},
	{Names: []string{"--auto_resume"}, Takes: config.None},
	{Names: []string{"--resume"}},
	{Names: []string{"--watch"}, Takes: config.None},
	{Names: []string{"--start-iter"}},
	{Names: []string{"--debug"}, Takes: config.None},
	{Names: []string{"--local_rank", "--local-rank"}},
	{Names: []string{"--manual_seed"}},
	{Names: []string{"--name"}},
}

var forceYML = config.Option{Names: []string{"--force_yml"}, Takes: config.Some}

// errOtherRecipe says that a file is no recipe of this family.
var errOtherRecipe = errors.New("no super-resolution recipe: it has neither network_g nor datasets")

// Manifest implements [plugin.Plugin].
func (sisr) Manifest() plugin.Manifest {
	return plugin.Manifest{
		Name: "sisr", Version: "1", About: "super-resolution trainers: traiNNer-redux and its forks, BasicSR, neosr",
		Archs: arch.AllNames(), Projects: arch.Holders(),
		Marks: []plugin.Mark{{Script: "train*.py", Flags: []string{"-opt", "--opt"}}},
	}
}

// Recognize implements [plugin.Plugin].
func (sisr) Recognize(_ context.Context, c job.Command) (plugin.Recognized, error) {
	prog, err := c.Prog()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", plugin.ErrNotMine, err)
	}
	opts := options
	argv, err := config.ParseArgv(prog.Args, opts)
	if err != nil {
		return nil, fmt.Errorf("reading the options of %s: %w", prog.Script, err)
	}
	r, text, warnings, err := recipeOf(prog, argv)
	if err != nil {
		return nil, err
	}
	if r.dialect == &basicSR {
		opts = append(opts[:len(opts):len(opts)], forceYML)
	}
	shared, asks := ranks(r, prog, c)
	if asks {
		return nil, &plugin.Need{Devices: true}
	}
	x := checkout{prog: prog, recipe: r}
	if err := x.read(); err != nil {
		return nil, err
	}
	if name, ok := argv.Get("--name"); ok && name != "" {
		r.title = name
	}
	x.place()
	j := &job.Job{
		Dialect: r.name, Name: r.title, Options: opts,
		Files:     []job.File{{Path: r.path, Format: format(r.path), Flag: "-opt", Text: text}},
		Batch:     job.Batch{Micro: r.microBatch, Accumulation: r.accum, Ranks: shared},
		Knobs:     x.knobs(),
		Signs:     signs(r),
		Rehearsal: rehearsal(r, argv, x.root),
		Exclusive: r.experiment,
		Save:      r.save,
		LastWords: r.lastWords,
		Warnings:  append(warnings, x.warnings()...),
		Data:      r.data(c.Dir, prog.Dir),
		States:    r.states(),
	}
	j.Signs.Benchmark = x.benchmarks()
	j.Steps = r.int(r.totalIter, 0)
	j.Warnings = append(j.Warnings, launchers(prog, c.Devices)...)
	if shared > 1 && !launched(prog, c.Env) {
		j.Batch.Replicas = true
		j.Warnings = append(j.Warnings, replicas(shared, c.Devices))
	}
	j.Arch = r.net.kind
	net, err := x.build(j)
	j.Truths = x.truths(net, err == nil && !net.Assumed)
	if _, resumes := argv.Get(r.resumeFlag); !resumes {
		j.Resume.Edits = []config.Edit{{Knob: "resume", At: config.Address{Doc: config.ArgvDoc, Path: r.resumeFlag}, Add: true, Cost: "none"}}
	} else {
		j.Resume.Edits = []config.Edit{} // it resumes as typed
	}
	j.Faults = faults(j.Warnings)
	j.Command = c
	return &recognized{x, j, net, err}, nil
}

// recipeOf reads the recipe that the command names, and what there is to warn of in it.
func recipeOf(prog command.Prog, argv *config.Argv) (r *recipe, text []byte, warnings []string, err error) {
	path, ok := argv.Get("-opt")
	if !ok {
		return nil, nil, nil, fmt.Errorf("%w: no -opt", plugin.ErrNotMine)
	}
	if text, err = readFile(file.In(prog.Dir, path), path); err != nil {
		return nil, nil, nil, err
	}
	if r, warnings, err = readRecipe(path, text, forced(prog.Args)); errors.Is(err, errOtherRecipe) {
		err = fmt.Errorf("%w: %s is %w", plugin.ErrNotMine, path, err)
	}
	return r, text, warnings, err
}

// build makes the recipe's network of the formulas, and enters what is to be said of it.
func (x *checkout) build(j *job.Job) (arch.Network, error) {
	r := x.recipe
	net, assumed, err := arch.Build(x.spec(nil))
	switch {
	case err == nil:
		j.Generation = net.Generation
		if r.microBatch > 0 && r.microBatch < net.MinBatch {
			j.Warnings = append(j.Warnings, fmt.Sprintf("the trainer will stop at its first step: the batch normalisation of %s sees one pixel of each image, so a micro-batch takes %d of them at least", r.net.kind, net.MinBatch))
		}
		for _, w := range assumed {
			if net.Assumed && strings.Contains(w, "not read") { // of another generation it may be
				w += ", if it is the one assumed"
			}
			j.Warnings = append(j.Warnings, w)
		}
	case !errors.Is(err, arch.ErrUnknown):
		j.Warnings = append(j.Warnings, fmt.Sprintf("the trainer will stop at %v", err))
	}
	return net, err
}

// recognized is a command of this family.
type recognized struct {
	checkout
	job    *job.Job
	net    arch.Network
	netErr error // ErrUnknown, or what the trainer itself would stop at
}

// Job implements [plugin.Recognized].
func (r *recognized) Job() *job.Job { return r.job }

// forced returns the values of --force_yml, which only BasicSR has.
func forced(args []string) []string {
	argv, err := config.ParseArgv(args, append(options[:len(options):len(options)], forceYML))
	if err != nil || !argv.Has("--force_yml") {
		return nil
	}
	return argv.Values("--force_yml")
}

// readFile reads a recipe. The errors are what a person can act on.
func readFile(path, named string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no recipe %s%s", named, config.Meant(config.NearFile(path)))
	case err != nil:
		return nil, fmt.Errorf("reading the recipe %s: %w", named, errors.Unwrap(err))
	case info.IsDir():
		return nil, fmt.Errorf("the recipe %s is a folder", named)
	case !info.Mode().IsRegular():
		return nil, &file.Unread{Why: fmt.Sprintf("the recipe %s is no ordinary file", named)}
	case info.Size() > maxRecipe:
		return nil, &file.Unread{Why: fmt.Sprintf("the recipe %s has %d bytes, and at most %d are read", named, info.Size(), maxRecipe)}
	}
	text, err := file.Read(path, maxRecipe)
	if err != nil {
		return nil, fmt.Errorf("reading the recipe %s: %w", named, err)
	}
	return text, nil
}

const maxRecipe = 4 << 20

func format(path string) string {
	if strings.EqualFold(filepath.Ext(path), ".toml") {
		return "toml"
	}
	return "yaml"
}

// ranks is how many processes, or replicas, share a step. Without a launcher traiNNer-redux wraps the network in
// DataParallel over num_gpu cards and multiplies the loader's batch by their number (data/__init__.py:92): one
// micro-batch a card all the same. asks says that how many cards there are decides it, which is not known yet.
func ranks(r *recipe, prog command.Prog, c job.Command) (n int64, asks bool) {
	for _, l := range prog.Launchers {
		n, asks := l.Ranks(c.Devices)
		if asks && c.Devices == 0 {
			return 0, true
		}
		if n > 1 {
			return int64(n), false
		}
	}
	if n := worldSize(c.Env); n > 1 && r.at(r.gpus).Text() == auto {
		return n, false
	}
	switch n, ok := r.at(r.gpus).Int(); {
	case ok && n > 1:
		return n, c.Devices == 0 && !launched(prog, c.Env)
	case ok || launched(prog, c.Env) || r.at(r.gpus).Text() != auto:
	case c.Devices == 0:
		return 0, true
	default: // torch.cuda.device_count() (utils/options.py:181)
		return max(1, int64(c.Devices)), false
	}
	return max(1, worldSize(c.Env)), false
}

// replicas says what DataParallel does, over all cards that the process sees, however many num_gpu counts.
func replicas(counted int64, seen int) string {
	s := fmt.Sprintf("without a launcher it is DataParallel: the first card gathers the outputs of all %d and computes every loss, and is the one that is estimated", counted)
	if seen > 0 && int64(seen) != counted {
		return fmt.Sprintf("num_gpu is %d and the process sees %d: batches are made for %d cards, and DataParallel deals them to all that it sees; the estimate is of %d", counted, seen, counted, counted)
	}
	return s
}

// perCard is how many of a launcher's processes stand on the fullest of so many GPUs: rank % device_count(), in
// utils/dist_util.py of redux (line 27 at 68629319), BasicSR and neosr. It is 1 where that is not known.
func perCard(l command.Launcher, devices int) int {
	n, _ := l.PerNode(devices)
	if devices < 1 {
		return 1
	}
	return max(1, (n+devices-1)/devices)
}

// launchers are what is to be said of the processes that the command starts, of a command that sees so many GPUs.
func launchers(prog command.Prog, devices int) (out []string) {
	if why := prog.Refuses(); why != "" {
		out = append(out, why)
	}
	for _, l := range prog.Launchers {
		n, asks := l.PerNode(devices)
		if k := perCard(l, devices); k > 1 {
			out = append(out, fmt.Sprintf("%s starts %d processes where %d GPUs are seen: %d of them share a GPU, and it is planned for all of these; NCCL may refuse it (\"Duplicate GPU detected\")",
				l.Name, n, devices, k))
		}
		if asks {
			without := ""
			if l.Spec == auto { // determine_local_world_size: os.cpu_count()
				without = ", without one for each core"
			}
			out = append(out, fmt.Sprintf("%s starts a process for each GPU%s (%s), and how many there are is not known: this is planned for one, without what several exchange; say --gpus N", l.Name, without, l.Spec))
		}
	}
	return out
}

const auto = "auto"

// launched reports whether something starts a process for each card.
func launched(prog command.Prog, env []string) bool {
	return slices.ContainsFunc(prog.Launchers, func(l command.Launcher) bool { return l.Procs > 0 || l.Spec != "" }) || worldSize(env) > 0
}

// worldSize is a launcher's word on how many processes there are; 0 for none.
func worldSize(env []string) int64 {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "WORLD_SIZE="); ok {
			n, _ := strconv.ParseInt(v, 10, 64)
			return max(0, n)
		}
	}
	return 0
}
