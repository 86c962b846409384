package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/ui"
)

// runAndCommand is cobra's check of a run's name that may be followed by -- and the run's command.
func runAndCommand(c *cobra.Command, args []string) error {
	before := args
	if dash := c.ArgsLenAtDash(); dash >= 0 {
		before = args[:dash]
	}
	return takes(1, 1, "one run, which launch runs lists, or the word last; a command goes after --")(c, before)
}

// hasMask reports whether a recorded command lacks a secret.
func hasMask(args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool { return strings.Contains(a, record.Masked) })
}

// giveAgain fills the secrets of a run's command in from the whole command, given again.
func giveAgain(r *run.Run, id string, command []string) error {
	recorded := r.Job.Command.Args
	switch {
	case len(command) > 0:
		if err := record.Unmask(recorded, command); err != nil {
			return fmt.Errorf("run %s is of another command: %w", id, err)
		}
		j := *r.Job
		j.Command.Args = slices.Clone(command)
		r.Job = &j
	case hasMask(recorded):
		return fmt.Errorf("run %s has a secret in its command, which was not recorded. Give the whole command again:\nlaunch resume %s -- %s", id, id, quoted(recorded))
	}
	return nil
}

// withCommand completes the command that goes on with a run, where a secret of the run's command was not recorded.
func withCommand(d *ui.RunDoc, r *run.Run) {
	if len(d.GoOn) == 0 || r == nil || !hasMask(r.Job.Command.Args) {
		return
	}
	d.GoOn = append(append(d.GoOn, "--"), r.Job.Command.Args...)
	d.When = strings.TrimPrefix(d.When+", with the secrets in the place of "+record.Masked, ", ")
}
