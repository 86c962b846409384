// Package engine has the flags of commands that Slurm runs, and what such a job asks of it.
package engine

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"mvdan.cc/sh/v3/shell"

	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/sweep"
	"github.com/launch-ml/launch/core/sweep/slurm"
	"github.com/launch-ml/launch/core/unit"
)

// Flags are the flags of a sweep that another engine runs.
type Flags struct {
	On     string
	Sbatch []string
	Before time.Duration
	Detach bool
}

// Add declares the flags.
func (f *Flags) Add(to *pflag.FlagSet) {
	to.StringVar(&f.On, "on", "", "where the trials run: slurm submits them as array jobs (default: this machine)")
	to.StringArrayVar(&f.Sbatch, "sbatch", nil,
		`with --on slurm: options of sbatch, such as "--partition=gpu --time=8:00:00"`)
	to.BoolVar(&f.Detach, "detach", false, "with --on slurm: submit and return; launch sweep status collects the results")
	to.DurationVar(&f.Before, "save-before", slurm.DefaultBefore,
		"with --on slurm: how long before its time limit a trial is asked to save and is requeued")
}

// Read returns the engine; nil is this machine. jobs is --jobs.
func (f *Flags) Read(c *cobra.Command, jobs int) (*sweep.Engine, error) {
	switch {
	case f.On == "" && (len(f.Sbatch) > 0 || f.Detach || c.Flags().Changed("save-before")):
		return nil, errors.New("--sbatch, --detach and --save-before go with --on slurm")
	case f.On == "":
		return nil, nil
	case f.On != "slurm":
		return nil, fmt.Errorf("--on %s: launch submits to slurm", f.On)
	}
	if err := slurm.Here(); err != nil {
		return nil, err
	}
	e, err := f.Engine("-a", "--array", "-J", "--job-name", "--wrap", "--parsable", "--signal", "-d", "--no-requeue")
	if err != nil {
		return nil, err
	}
	if e.Name = f.On; c.Flags().Changed("jobs") {
		e.Throttle = jobs
	}
	return e, nil
}

// Engine reads the options of sbatch. own are those that launch sets itself.
func (f *Flags) Engine(own ...string) (*sweep.Engine, error) {
	if f.Before < 5*time.Second {
		return nil, fmt.Errorf("--save-before %v is less than 5s", f.Before)
	}
	e := &sweep.Engine{Before: f.Before}
	for _, text := range f.Sbatch {
		words, err := shell.Fields(text, func(name string) string { return os.Getenv(name) })
		if err != nil {
			return nil, fmt.Errorf("--sbatch %q: %w", text, err)
		}
		e.Options = append(e.Options, words...)
	}
	for _, o := range e.Options {
		if OptionIn([]string{o}, own...) {
			return nil, fmt.Errorf("--sbatch %s: launch sets that itself", o)
		}
	}
	return e, nil
}

// OptionIn reports whether options have one of these names.
func OptionIn(options []string, names ...string) bool {
	return slices.ContainsFunc(options, func(o string) bool {
		name, _, _ := strings.Cut(o, "=")
		return slices.Contains(names, name)
	})
}

// MemoryOptions are those of sbatch that set the host memory of a job.
var MemoryOptions = []string{"--mem", "--mem-per-cpu", "--mem-per-gpu", "--exclusive"}

// Spare is what a task is given in addition to the estimate of its host memory: estimates of libraries are guesses, and
// Slurm kills what exceeds its memory.
const Spare = unit.GiB

// Sized asks the engine for what the trials need: the largest estimate of host memory and, unless the job runs on the
// CPU, a card for each rank. The user's own options outrank it. With an unknown estimate the cluster's default holds.
func Sized(e *sweep.Engine, where settings.Room, quotes []sweep.Quote) *sweep.Engine {
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
		e.Memory += Spare
	}
	if known && where.Device != "cpu" &&
		!OptionIn(e.Options, "--gres", "-G", "--gpus", "--gpus-per-task", "--gpus-per-node") {
		e.GPUs = max(1, where.GPUs, ranks)
	}
	if OptionIn(e.Options, MemoryOptions...) {
		e.Memory = 0
	}
	return e
}
