// Package dualattn is the plugin of dual cross-attention learning for fine-grained recognition and re-identification:
// DCAL (Zhu et al., CVPR 2022) as clau_duaL_cross_attention_learning re-implements it, with its settings in Python.
//
// Which code it is decides what a step costs, so the plugin reads the model file itself; the batch and its accumulation
// are changed together, where the configuration class declares them.
package dualattn

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/plugin"
)

// New returns the plugin.
func New() plugin.Plugin { return dualattn{} }

type dualattn struct{}

// Manifest implements [plugin.Plugin].
func (dualattn) Manifest() plugin.Manifest {
	return plugin.Manifest{
		Name: "dualattn", Version: "1", About: "dual cross-attention vision transformers (DCAL), for recognition and re-identification",
		Archs: []string{"dual cross-attention ViT"},
		Marks: []plugin.Mark{{Script: "train.py", Flags: []string{"--task"}, Beside: []string{
			"dual_cross_attention/models/dual_vit.py", // mossbee/clau_duaL_cross_attention_learning
			"dualattn/models/dual_vit.py",             // examples/dualattn
		}}},
	}
}

// Recognize implements [plugin.Plugin].
func (dualattn) Recognize(_ context.Context, c job.Command) (plugin.Recognized, error) {
	x, err := open(c)
	if err != nil {
		return nil, err
	}
	x.job = &job.Job{
		Dialect: x.dialect(), Name: x.experiment(), Arch: "dual cross-attention ViT", Generation: x.version.generation(),
		Options: x.options, Batch: job.Batch{Micro: x.micro, Accumulation: x.accum, Ranks: 1},
		Files: x.files(), Knobs: x.knobs(), Signs: x.signs(), Resume: x.resume(), Rehearsal: x.rehearsal(),
		Exclusive: x.states(), Warnings: x.warnings(), Truths: x.truths(), Data: x.data(),
		LastWords: job.WholeEpochs, // also where a validation fails: a state has its figures, and decides which is the best
	}
	x.job.Faults = x.faults(x.job.Warnings)
	return x, nil
}

// Job implements [plugin.Recognized].
func (x *checkout) Job() *job.Job { return x.job }

// open reads a command of this family. The error is a [plugin.Need] until launch has read the project's files.
func open(c job.Command) (*checkout, error) {
	prog, err := c.Prog()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", plugin.ErrNotMine, err)
	}
	script := prog.Path()
	if script == "" {
		return nil, fmt.Errorf("%w: it runs no script", plugin.ErrNotMine)
	}
	if !filepath.IsAbs(script) {
		script = filepath.Join(prog.Dir, script)
	}
	x := &checkout{command: c, prog: prog, env: c.Env}
	if err := x.declared(script); err != nil {
		return nil, err
	}
	files, cut := closure(script)
	x.cut = cut
	if !ours(files) {
		return nil, fmt.Errorf("%w: its files have no pair-wise cross-attention", plugin.ErrNotMine)
	}
	var need plugin.Need
	for _, f := range files {
		src := c.Source(f)
		if src == nil {
			need.Sources = append(need.Sources, f)
			continue
		}
		x.sources = append(x.sources, src)
	}
	if len(need.Sources) > 0 {
		return nil, &need
	}
	return x, x.read()
}

// knobs are the settings that cost memory, and those of which people think so.
func (x *checkout) knobs() (out []job.Knob) {
	add := func(name, field, dead string) {
		if s, ok := x.class.field(field); ok && s.item.Literal {
			out = append(out, job.Knob{Name: name, At: s.at(), Value: string(s.spelled()), Dead: dead})
		}
	}
	if x.batchFlag {
		v, _ := x.argv.Get("--batch_size")
		out = append(out, job.Knob{Name: job.MicroBatch, At: config.Address{Doc: config.ArgvDoc, Path: "--batch_size"}, Value: v})
	} else {
		add(job.MicroBatch, "batch_size", "")
	}
	add(job.Accumulation, "gradient_accumulation_steps", "")
	add(knobAMP, "mixed_precision", "")
	size := ""
	if !x.sizeReachable() {
		size = "the transforms have sizes of their own"
	}
	add(knobSize, "input_size", size)
	add(knobGLCA, "num_glca_layers", "")
	add(knobWorkers, "num_workers", "")
	add(knobPinned, "pin_memory", "")
	flag := "it is no lever in this code: see the warnings"
	if x.version.flag == idle {
		flag = "the model never calls checkpoint()"
	}
	add("activation checkpointing", "use_gradient_checkpointing", flag)
	for _, f := range [...]struct{ name, field string }{
		{"pair-wise layers", "num_pwca_layers"}, {"pair-wise training", "use_pwca_training"}, {"shared pair-wise weights", "share_pwca_weights"}, {"frozen backbone", "freeze_backbone"},
	} {
		if !x.reads(f.field) {
			add(f.name, f.field, "the model and the trainer do not read it: pair-wise cross-attention runs in every block")
		}
	}
	return out
}
