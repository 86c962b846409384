package main

import (
	"bytes"
	"context"
	"reflect"
	"slices"

	"github.com/launch-ml/launch/core/intake"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/ui"
)

// mostLooked bounds how many runs are compared with a command.
const mostLooked = 200

// goOn continues the last run that is the same as this one, if it has not succeeded. done is false if there is none.
func goOn(ctx context.Context, s settings, p *intake.Reading, args []string, say ui.Printer) (done bool, err error) {
	if !s.Continue || p.Job == nil {
		return false, nil
	}
	c, err := s.lastOf(p)
	if c == nil || err != nil {
		return false, err
	}
	h := c.history
	last := h.LastOutcome()
	switch {
	case last != nil && last.Ending == run.Succeeded && last.Doubtful != "":
		say.Line("run %s of this command has ended, and is doubtful (%s): another run starts", h.ID, last.Doubtful)
		return false, nil
	case last != nil && last.Ending == run.Succeeded:
		say.Line("run %s of this command has succeeded: another run starts", h.ID)
		return false, nil
	case h.Identity() == nil && c.changed(p):
		say.Line("the recipe has changed since run %s: another run starts", h.ID)
		return false, nil
	case len(c.what) > 0 && !s.Accept:
		say.Line("another run starts, because run %s of this command is not the same: %s", h.ID, sinceBegun(c.what))
		return false, nil
	}
	p.Close()
	var command []string
	if record.HasMask(record.MaskArgs(args)) {
		command = args
	}
	s.AllowTyped = true // --continue is given with the whole command: its --allow counts, be it lower
	return true, resume(ctx, s, h.ID, command, whereNeeded)
}

// sameCommand reports whether two jobs are of one command.
func sameCommand(a, b *job.Job) bool {
	return a.Plugin == b.Plugin && a.Command.Dir == b.Command.Dir && slices.Equal(a.Command.Args, b.Command.Args)
}

// sameRecipe reports whether two jobs of one command have the same settings.
func sameRecipe(a, b *job.Job) bool {
	return reflect.DeepEqual(a.Asked, b.Asked) && slices.EqualFunc(a.Files, b.Files, func(a, b job.File) bool {
		if a.Source != nil && b.Source != nil && a.Source.SHA256 != b.Source.SHA256 {
			return false
		}
		return a.Path == b.Path && bytes.Equal(a.Text, b.Text)
	})
}

// A restart is when a run that is resumed starts over.
type restart int

const (
	never       restart = iota // the run has to have a saved state
	whereNeeded                // if it has none
	always
)
