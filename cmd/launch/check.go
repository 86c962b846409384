package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/check"
	"github.com/launch-ml/launch/core/intake"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/proc"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/ui"
)

// foundProblem is the exit code of launch check where something is a problem.
const foundProblem = 1

func newCheck() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "check [flags] -- COMMAND [ARG ...]",
		Short: "check a command before it runs: settings, data, memory, disk, saved states, Python",
		Long: `check looks for what would stop a training, or make it do something else than its settings promise. For
each line it prints what it found and, where there is a problem, what mends it. It starts nothing and
writes nothing. It reads the command as launch plan does; of the data folders it reads whether they are
there, not the data.

  ok         as it should be                 note       it runs; worth knowing
  problem    it would stop, or not as set    not known  launch could not find out`,
		Example: "  launch check -- python train.py -opt x.yml\n" +
			"  launch check --vram 12GiB -- python train.py -opt x.yml\n" +
			"  launch check --json -- python train.py -opt x.yml | jq -r '.checks[] | select(.state == \"problem\")'",
		RunE: func(c *cobra.Command, args []string) error {
			s, args, err := commandLine(c, args)
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return errors.New("check needs a command: launch check -- python train.py …")
			}
			return checkCommand(c.Context(), s, args, asJSON)
		},
	}
	c.Flags().SetInterspersed(false)
	c.Flags().BoolVar(&asJSON, "json", false, "print the checks as JSON")
	addSet(c.Flags())
	return exits(c, exitMeaning{"0", "there is no problem"}, exitMeaning{"1", "there is one"},
		exitMeaning{"78", "the job cannot fit at the allowed cost"}, exitMeaning{"125", "launch or a plugin failed"})
}

func checkCommand(ctx context.Context, s settings, args []string, asJSON bool) error {
	p, err := read(ctx, s, args, here)
	if err != nil {
		return err
	}
	defer func() { p.Close() }()
	if p, err = s.prefer(ctx, p, args); err != nil {
		return err
	}
	f := factsOf(ctx, s, p)
	d := ui.CheckOf(record.MaskArgs(args), check.Examine(f))
	switch {
	case p.Failed:
		d.ExitCode = run.OwnTrouble
	case f.Cannot():
		d.ExitCode = run.CannotFit
	case d.Problems > 0:
		d.ExitCode = foundProblem
	}
	if asJSON {
		if err := printJSON(d); err != nil {
			return err
		}
	} else {
		ui.Printer{W: os.Stdout, Colour: colour(os.Stdout)}.Check(d)
	}
	if d.ExitCode != 0 {
		return exitCode(d.ExitCode)
	}
	return nil
}

// factsOf gathers what the checks decide by.
func factsOf(ctx context.Context, s settings, p *intake.Reading) check.Facts {
	f := check.Facts{Mistake: p.Err, Warnings: p.Warnings, Job: p.Job, Host: s.Device == "cpu"}
	if _, err := proc.Find(p.Command.Args, p.Command.Dir, p.Command.Env); err != nil {
		f.Missing = err
	} else {
		f.Missing = missingScript(p.Command)
	}
	f.Machine = check.LookAtMachine(ctx, subject(p.Command.Args)).Examine()
	if p.Job == nil {
		f.Why = p.Why()
		f.Declare = declareHint(p)
		return f
	}
	v := view(p)
	f.Title, f.Plan, f.Stop, f.Room = ui.Title(p.Job), v.Plan, v.Stop, p.Run.Room
	f.Read = check.Look(ctx, p.Job)
	f.Earlier = earlier(s, p)
	return f
}

// missingScript is an error if the command names a script that is not there.
func missingScript(c job.Command) error {
	prog, err := c.Prog()
	if err != nil || prog.Path() == "" || prog.Shell || len(prog.Texts) > 0 { // a shell may make the script first
		return nil
	}
	if _, err := os.Stat(prog.Path()); errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return fmt.Errorf("there is no script %s", prog.Path())
	}
	return nil
}

// earlier is what the checks have to know of the last run of the same command; nil if there is none.
func earlier(s settings, p *intake.Reading) *check.Earlier {
	c, err := s.lastOf(p)
	if c == nil || err != nil {
		return nil
	}
	h := c.history
	r, last := h.Run(), h.LastOutcome()
	return &check.Earlier{Run: h.ID, Running: h.Life().Alive, Succeeded: last != nil && last.Ending == run.Succeeded,
		Changed: c.changed(p), Saved: r.Saved()}
}
