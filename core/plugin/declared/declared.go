// Package declared is the plugin of projects that nobody has written a plugin for: a declaration names the settings of
// a training script and what the script prints. It is a file beside the script, .launch-job.yaml, or one of the ready
// declarations that are built in (ready/).
//
//	script: train.py                                # which script is meant
//	micro-batch: {src/config.py: Config.batch_size} # where the micro-batch is set, and
//	accumulation: {src/config.py: Config.accum}     # the accumulation, if there is one
//	rungs:                                          # what else may be changed, mildest first
//	  - {name: activation checkpointing, at: {src/config.py: Config.remat}, to: true, cost: speed}
//	progress: 'step (?P<iteration>\d+)'             # what it prints, as RE2 expressions
//	succeeded: 'training is over'
//	resume: {--resume: 'checkpoints/*.pt'}          # by which option it goes on, and from what: files or folders
//
// The format is described once, by the type declaration in format.go; docs/launch-job.md explains every key. The work
// is divided so: which.go finds the declaration of a command, read.go reads it, place.go knows the places of settings,
// open.go finds them in the command, batch.go divides the global batch, job.go and ladders.go make the answer, and
// memory.go evaluates an author's formula.
//
// A file beside the script is believed as a settings file is (core/private): else the command runs as typed.
package declared

import (
	"context"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/plugin"
)

// File is the name of a declaration.
const File = ".launch-job.yaml"

// New returns the plugin.
func New() plugin.Plugin { return declared{} }

type declared struct{}

// Manifest implements [plugin.Plugin].
func (declared) Manifest() plugin.Manifest {
	m := plugin.Manifest{Name: "declared", Version: "1", About: "any project with a " + File + " beside its script",
		Marks: []plugin.Mark{{Beside: []string{File}}}}
	for _, r := range readyMarks() {
		m.Marks = append(m.Marks, r.Marks...)
	}
	return m
}

// Recognize implements [plugin.Plugin].
func (declared) Recognize(_ context.Context, c job.Command) (plugin.Recognized, error) {
	r, err := open(c)
	if err != nil {
		return nil, err
	}
	if err := r.left(); err != nil {
		return nil, err
	}
	if err := r.divide(); err != nil {
		return nil, err
	}
	return r, r.recognize()
}
