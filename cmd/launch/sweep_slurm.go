package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"mvdan.cc/sh/v3/shell"

	"github.com/launch-ml/launch/core/sweep"
	"github.com/launch-ml/launch/core/sweep/local"
	"github.com/launch-ml/launch/core/sweep/slurm"
	"github.com/launch-ml/launch/core/ui"
	"github.com/launch-ml/launch/core/unit"
)

// engineFlags are the flags of a sweep that another engine runs.
type engineFlags struct {
	on     string
	sbatch []string
	before time.Duration
	detach bool
}

func (f *engineFlags) add(to *pflag.FlagSet) {
	to.StringVar(&f.on, "on", "", "where the trials run: slurm submits them as array jobs (default: this machine)")
	to.StringArrayVar(&f.sbatch, "sbatch", nil,
		`with --on slurm: options of sbatch, such as "--partition=gpu --time=8:00:00"`)
	to.BoolVar(&f.detach, "detach", false, "with --on slurm: submit and return; launch sweep status collects the results")
	to.DurationVar(&f.before, "save-before", slurm.DefaultBefore,
		"with --on slurm: how long before its time limit a trial is asked to save and is requeued")
}

// read returns the engine; nil is this machine.
func (f *engineFlags) read(c *cobra.Command, s settings, jobs int) (*sweep.Engine, error) {
	switch {
	case f.on == "" && (len(f.sbatch) > 0 || f.detach || c.Flags().Changed("save-before")):
		return nil, errors.New("--sbatch, --detach and --save-before go with --on slurm")
	case f.on == "":
		return nil, nil
	case f.on != "slurm":
		return nil, fmt.Errorf("--on %s: launch submits to slurm", f.on)
	}
	if err := slurm.Here(); err != nil {
		return nil, err
	}
	e, err := f.engine("-a", "--array", "-J", "--job-name", "--wrap", "--parsable", "--signal", "-d", "--no-requeue")
	if err != nil {
		return nil, err
	}
	if e.Name = f.on; c.Flags().Changed("jobs") {
		e.Throttle = jobs
	}
	return e, nil
}

// engine reads the options of sbatch. own are those that launch sets itself.
func (f *engineFlags) engine(own ...string) (*sweep.Engine, error) {
	if f.before < 5*time.Second {
		return nil, fmt.Errorf("--save-before %v is less than 5s", f.before)
	}
	e := &sweep.Engine{Before: f.before}
	for _, text := range f.sbatch {
		words, err := shell.Fields(text, func(name string) string { return os.Getenv(name) })
		if err != nil {
			return nil, fmt.Errorf("--sbatch %q: %w", text, err)
		}
		e.Options = append(e.Options, words...)
	}
	for _, o := range e.Options {
		if optionIn([]string{o}, own...) {
			return nil, fmt.Errorf("--sbatch %s: launch sets that itself", o)
		}
	}
	return e, nil
}

// optionIn reports whether options have one of these names.
func optionIn(options []string, names ...string) bool {
	return slices.ContainsFunc(options, func(o string) bool {
		name, _, _ := strings.Cut(o, "=")
		return slices.Contains(names, name)
	})
}

// memoryOptions are those of sbatch that set the host memory of a job.
var memoryOptions = []string{"--mem", "--mem-per-cpu", "--mem-per-gpu", "--exclusive"}

// spare is what a task is given in addition to the estimate of its host memory: estimates of libraries are guesses, and
// Slurm kills what exceeds its memory.
const spare = unit.GiB

// sized asks the engine for what the trials need: the largest estimate of host memory and, unless the job runs on the
// CPU, a card for each rank. The user's own options outrank it. With an unknown estimate the cluster's default holds.
func sized(e *sweep.Engine, s settings, quotes []sweep.Quote) *sweep.Engine {
	if e == nil {
		return nil
	}
	known, ranks := false, 0
	for _, q := range quotes {
		if q.Plugin == "" {
			continue
		}
		known, ranks = true, max(ranks, int(q.Ranks))
		if e.Memory = max(e.Memory, q.Memory); q.Memory == 0 {
			e.Memory = 0
			break
		}
	}
	if e.Memory > 0 {
		e.Memory += spare
	}
	if known && s.Device != "cpu" &&
		!optionIn(e.Options, "--gres", "-G", "--gpus", "--gpus-per-task", "--gpus-per-node") {
		e.GPUs = max(1, s.GPUs, ranks)
	}
	if optionIn(e.Options, memoryOptions...) {
		e.Memory = 0
	}
	return e
}

// where describes where the trials of a sweep run.
func where(spec sweep.Spec, cards int) string {
	e := spec.Engine
	if spec.Pack {
		text := "on " + ui.Count(cards, "card")
		if spec.Jobs > 0 {
			text += fmt.Sprintf(", at most %d at the same time", spec.Jobs)
		}
		return text
	}
	if e == nil {
		return fmt.Sprintf("%d at the same time", spec.Jobs)
	}
	text := "array jobs on Slurm"
	if e.Memory > 0 {
		text += fmt.Sprintf(", %v of host memory each (the largest estimate and %v spare)", e.Memory, spare)
	}
	if e.GPUs > 0 {
		text += ", " + ui.Count(e.GPUs, "card") + " each"
	}
	return text
}

// runner returns what runs the trials of a sweep, and which of them run together.
func runner(ctx context.Context, s settings, spec sweep.Spec, dir string) (sweep.Executor, sweep.Admission,
	func(), error) {
	if spec.Engine == nil {
		x, err := executor(s, spec, dir)
		return x, sweep.Jobs(max(1, spec.Jobs)), func() {}, err
	}
	x, err := tasks(ctx, s, spec, dir)
	if err != nil {
		return nil, nil, nil, err
	}
	// the tasks go on when the user leaves, and so does what collects their results
	signal.Ignore(syscall.SIGHUP)
	return x, sweep.Jobs(math.MaxInt), x.Close, nil // Slurm decides which run together
}

// leaveTasks returns after the tasks were submitted.
func leaveTasks(x sweep.Executor, h *sweep.History, say ui.Printer) error {
	if tasks, ok := x.(*slurm.Executor); ok {
		if err := tasks.Flush(); err != nil {
			return err
		}
	}
	name := h.Spec.Name
	say.Line("sweep %s is submitted and goes on by itself: launch sweep status %s; "+
		"launch sweep resume %s waits for its end", name, name, name)
	return nil
}

// collected reads a sweep, with the results of tasks that nobody has collected yet.
func collected(sweeps local.Folders, name string) (*sweep.History, error) {
	h, err := sweeps.Read(name)
	if err == nil && h.Spec.Engine != nil && sweeps.Driver(name) == 0 {
		slurm.Collect(sweeps.Folder(name), h)
	}
	return h, err
}

// tasks returns the executor of a sweep on Slurm.
func tasks(ctx context.Context, s settings, spec sweep.Spec, dir string) (*slurm.Executor, error) {
	own, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding launch itself: %w", err)
	}
	e := spec.Engine
	o := slurm.Options{
		Launch: own, Dir: dir, Flags: append(s.withoutNotices(spec.Flags), "--state-dir="+s.State),
		Folder: local.In(s.State).Folder(spec.Name), State: s.State, Sbatch: e.Options, Throttle: e.Throttle,
		Memory: e.Memory, GPUs: e.GPUs, Before: e.Before,
	}
	if spec.ID != "" {
		o.Mark = spec.Mark
	}
	return slurm.New(ctx, o)
}

// stopTasks asks the tasks of a sweep that no process drives to stop.
func stopTasks(ctx context.Context, s settings, h *sweep.History, sweeps local.Folders, now bool) error {
	x, err := tasks(ctx, s, h.Spec, h.Spec.Dir)
	if err != nil {
		return err
	}
	defer x.Close()
	found, err := x.Tasks(ctx)
	if err != nil {
		return err
	}
	for n := range found {
		x.End(n, now)
	}
	if len(found) == 0 {
		return fmt.Errorf("sweep %s is not running", h.Spec.Name)
	}
	ui.Printer{W: os.Stdout}.Line("no process drives sweep %s: asked its %s to stop", h.Spec.Name,
		ui.Count(len(found), "task"))
	return nil
}

// newSweepRow is what the job of one trial runs.
func newSweepRow() *cobra.Command {
	return &cobra.Command{
		Use: "row FOLDER", Short: "run one trial inside its Slurm job", Hidden: true, Args: takes(1, 1,
			"the folder of a sweep"),
		RunE: func(c *cobra.Command, args []string) error {
			code, err := slurm.Row(c.Context(), args[0])
			if err == nil && code != 0 {
				err = exitCode(code)
			}
			return err
		},
	}
}
