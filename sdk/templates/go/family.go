package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/unit"
)

// family is the plugin. It has no state: several questions may be asked at once.
type family struct{}

// script is the file name by which the family is known. Choose a mark that no other project bears.
const script = "train_newplugin.py"

// Manifest implements [plugin.Plugin].
func (family) Manifest() plugin.Manifest {
	return plugin.Manifest{
		Name: "newplugin", Version: "0.1.0", About: "a small training to begin with",
		Archs: []string{"mlp"},
		Marks: []plugin.Mark{{Script: script}},
	}
}

// options are those of the program's parser, all of them: an edit of an argument goes where the program reads it.
var options = []config.Option{
	{Names: []string{"--batch-size", "-b"}},
	{Names: []string{"--accumulate"}},
	{Names: []string{"--width"}},
	{Names: []string{"--steps"}},
	{Names: []string{"--resume"}},
}

// settings are what the program would read.
type settings struct {
	prog  command.Prog
	env   []string
	argv  *config.Argv
	split ladder.Split // micro-batch and accumulation
	width int64
	steps int64
	job   *job.Job
}

// Recognize implements [plugin.Plugin].
func (family) Recognize(_ context.Context, c job.Command) (plugin.Recognized, error) {
	prog, err := c.Prog()
	if err != nil || filepath.Base(prog.Path()) != script {
		return nil, plugin.ErrNotMine
	}
	if len(prog.Launchers) > 0 {
		return nil, &plugin.Caution{Why: "train_newplugin.py trains in one process, and the command starts several"}
	}
	s := &settings{prog: prog, env: c.Env}
	if s.argv, err = config.ParseArgv(prog.Args, options); err != nil {
		return nil, &plugin.Caution{Why: err.Error()}
	}
	for _, n := range []struct {
		into      *int64
		name      string
		otherwise int64 // the program's default
		most      int64
	}{
		{&s.split.Micro, "--batch-size", 64, 1 << 20},
		{&s.split.Accumulation, "--accumulate", 1, 1 << 20},
		{&s.width, "--width", 512, 1 << 16},
		{&s.steps, "--steps", 20, 1 << 40},
	} {
		if *n.into, err = s.number(n.name, n.otherwise, n.most); err != nil {
			return nil, err
		}
	}
	s.job = s.recognised()
	return s, nil
}

// number reads an option with a whole number. The error is for the user: the program would refuse the command, too.
func (s *settings) number(name string, otherwise, most int64) (int64, error) {
	text, ok := s.argv.Get(name)
	if !ok {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("%s is %q: it is a whole number from 1 to %d", name, text, most)
	}
	return n, nil
}

// recognised is the job: what launch may change, what the program prints, and how it resumes.
func (s *settings) recognised() *job.Job {
	return &job.Job{
		Dialect: "newplugin", Name: "mlp", Arch: "mlp", Options: options, Steps: s.steps,
		Batch: job.Batch{Micro: s.split.Micro, Accumulation: s.split.Accumulation, Ranks: 1},
		Knobs: []job.Knob{
			s.knob(job.MicroBatch, "--batch-size", s.split.Micro),
			s.knob(job.Accumulation, "--accumulate", s.split.Accumulation),
		},
		Ignore: []string{"--steps"}, // it does not change the memory
		Signs: job.Signs{
			Lines: []job.Sign{
				{Kind: job.Started, Pattern: `batch size \d+, accumulation \d+`},
				{Kind: job.Setting, Knob: job.MicroBatch, Pattern: `batch size (?P<value>\d+)`},
				{Kind: job.Setting, Knob: job.Accumulation, Pattern: `accumulation (?P<value>\d+)`},
				{Kind: job.Progress, Pattern: `step (?P<iteration>\d+)/(?P<total>\d+)`},
				{Kind: job.SavedState, Pattern: `saved (?P<path>out/step_(?P<iteration>\d+)\.pt)`},
				{Kind: job.Resumed, Pattern: `resumed at step (?P<iteration>\d+)`},
				{Kind: job.Succeeded, Pattern: `training is over`},
			},
			States: []string{"out/step_*.pt"}, StateIteration: `step_(?P<iteration>\d+)`,
		},
		Resume:    job.Resume{Edits: []config.Edit{s.edit("resume", "--resume", job.SavedPath, "goes on from the state")}},
		Rehearsal: job.Rehearsal{None: "it always writes to out/"},
	}
}

func (s *settings) knob(name, option string, value int64) job.Knob {
	return job.Knob{Name: name, At: config.Address{Doc: config.ArgvDoc, Path: option}, Value: fmt.Sprint(value),
		Default: !s.argv.Has(option)}
}

func (s *settings) edit(knob, option, to, why string) config.Edit {
	e := config.Proposed(s.argv, config.ArgvDoc, option, to)
	e.Knob, e.Why = knob, why
	return e
}

// Job implements [plugin.Recognized].
func (s *settings) Job() *job.Job { return s.job }

// Ladders implements [plugin.Recognized]: one rung for each other way to divide the same global batch.
func (s *settings) Ladders(_ context.Context, d gpu.Device) (*ladder.Set, error) {
	return plugin.Divisions{
		Asked: s.split,
		Cost:  ladder.Speed, // Numerics, where batch normalisation sees the micro-batch
		Edits: func(to ladder.Split) []config.Edit {
			const why = "the same global batch in pieces of another size"
			return []config.Edit{
				s.edit(job.MicroBatch, "--batch-size", fmt.Sprint(to.Micro), why),
				s.edit(job.Accumulation, "--accumulate", fmt.Sprint(to.Accumulation), why),
			}
		},
		Price: func(at ladder.Split) mem.Estimate { return plugin.OnDevice(s.training(at), d, s.prog, s.env) },
	}.Set(), nil
}

// training is the memory of a training step's tensors. The body follows train_newplugin.py line by line.
func (s *settings) training(at ladder.Split) (e mem.Tensors) {
	defer mem.Refused(&e, func() string { return fmt.Sprintf("a micro-batch of %d with width %d", at.Micro, s.width) })
	const net = "net"
	t := nn.NewTape()
	t.Part(net, func() {
		if at.Accumulation > 1 {
			t.KeepGradients(net) // of the micro-batches before
		}
		x := t.Hold(t.Input(nn.F32, at.Micro, s.width))
		y := t.Sequential("", x, nn.Linear{Out: 4 * s.width}.Module(), (*nn.Tape).ReLU, nn.Linear{Out: s.width}.Module())
		t.Backward(t.MSELoss(y, x))
	})
	size := t.Size(net)
	t.OptimizerStep(net, size.GradBytes) // AdamW needs a temporary of each gradient
	const states = 2
	e.Add(
		mem.Item{Kind: mem.Parameters, What: net, Bytes: size.ParamBytes, Count: size.Params, From: "counted"},
		mem.Item{Kind: mem.Optimizer, What: net, Bytes: states * size.GradBytes, From: "AdamW: two for each parameter"},
	)
	e.AddPeak(t.Peak(), fmt.Sprintf("%d samples of %v", at.Micro, unit.Bytes(4*s.width)))
	return e
}
