// Package check has the commands that look for faults before a start: launch check and launch doctor.
package check

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/reading"
	"github.com/launch-ml/launch/cmd/launch/internal/sameness"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/check"
	"github.com/launch-ml/launch/core/intake"
	"github.com/launch-ml/launch/core/proc"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/ui"
)

// foundProblem is the exit code of launch check where something is a problem.
const foundProblem = 1

// NewCheck makes launch check.
func NewCheck(f *cli.Factory) *cobra.Command {
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
		RunE: settings.WithCommand(func(c *cobra.Command, s settings.Values, args []string) error {
			r := reading.New(f, s.State, s.Room, s.Limits, s.Reading)
			return checkCommand(c.Context(), r, args, asJSON)
		}),
	}
	c.Flags().SetInterspersed(false)
	c.Flags().BoolVar(&asJSON, "json", false, "print the checks as JSON")
	settings.AddSet(c.Flags())
	settings.Use(c, settings.RoomFlags, settings.LimitFlags, settings.ReadingFlags, settings.StateFlags)
	return cli.Exits(c, cli.Exit("0", "there is no problem"), cli.Exit("1", "there is one"),
		cli.Exit("78", "the job cannot fit at the allowed cost"), cli.Exit("125", "launch or a plugin failed"))
}

func checkCommand(ctx context.Context, r reading.Reader, args []string, asJSON bool) error {
	p, err := r.Read(ctx, args)
	if err != nil {
		return err
	}
	defer func() { p.Close() }()
	if p, err = r.Prefer(ctx, p, args); err != nil {
		return err
	}
	f := factsOf(ctx, r, p)
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
		if err := cli.PrintJSON(d); err != nil {
			return err
		}
	} else {
		cli.Tables().Check(d)
	}
	if d.ExitCode != 0 {
		return cli.ExitCode(d.ExitCode)
	}
	return nil
}

// factsOf gathers what the checks decide by.
func factsOf(ctx context.Context, r reading.Reader, p *intake.Reading) check.Facts {
	f := check.Facts{Mistake: p.Err, Warnings: p.Warnings, Job: p.Job, Host: r.Room.Device == "cpu"}
	if _, err := proc.Find(p.Command.Args, p.Command.Dir, p.Command.Env); err != nil {
		f.Missing = err
	} else {
		f.Missing = reading.MissingScript(p.Command)
	}
	f.Machine = check.LookAtMachine(ctx, machineOf(p.Command.Args)).Examine()
	if p.Job == nil {
		f.Why = p.Why()
		f.Declare = reading.DeclareHint(p)
		return f
	}
	v := reading.View(p)
	f.Title, f.Plan, f.Stop, f.Room = ui.Title(p.Job), v.Plan, v.Stop, p.Run.Room
	f.Read = check.Look(ctx, p.Job)
	f.Earlier = earlier(r.State, p)
	return f
}

// earlier is what the checks have to know of the last run of the same command; nil if there is none.
func earlier(state string, p *intake.Reading) *check.Earlier {
	c, err := sameness.LastOf(state, p)
	if c == nil || err != nil {
		return nil
	}
	h := c.History
	r, last := h.Run(), h.LastOutcome()
	return &check.Earlier{Run: h.ID, Running: h.Life().Alive, Succeeded: last != nil && last.Ending == run.Succeeded,
		Changed: c.Changed(p), Saved: r.Saved()}
}
