package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/core/intake"
	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/proc"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/ui"
)

func newPlan() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "plan [flags] -- COMMAND [ARG ...]",
		Short: "say what would be done, and do nothing",
		Long: `plan reads the command, foresees its memory and says what would be changed. It starts nothing and writes nothing.

Exit code: 0 if what is planned fits, or if there is nothing to say whether it does; 78 if it does not, or may not: what only
may not fit is run all the same.`,
		Example: "  launch plan --vram 12GiB -- python train.py -opt x.yml\n  launch plan --json -- python train.py -opt x.yml | jq .fits",
		RunE: func(c *cobra.Command, args []string) error {
			s, args, err := commandLine(c, args)
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return errors.New("plan needs a command: launch plan -- python train.py …")
			}
			return plan(c.Context(), s, args, asJSON)
		},
	}
	c.Flags().SetInterspersed(false)
	c.Flags().BoolVar(&asJSON, "json", false, "print the plan as JSON")
	return c
}

func plan(ctx context.Context, s settings, args []string, asJSON bool) error {
	p, err := read(ctx, s, args, here)
	if err != nil {
		return err
	}
	defer p.Close()
	if p.Err != nil {
		return p.Err
	}
	if err := room.PromiseOf(s.Limit(), p.Command, p.Job).Check(s.memoryCalled()); err != nil {
		p.Warnings = append(p.Warnings, err.Error())
	}
	say := ui.Printer{W: os.Stdout, Colour: colour(os.Stdout)}
	if p.Job == nil {
		return planTyped(p, say, asJSON)
	}
	v := view(p)
	command, env := args, map[string]string{}
	if v.Plan != nil {
		made, err := p.Job.Rewrite(v.Plan.Edits, intake.AttemptFolder)
		if err != nil {
			return err
		}
		command, env = made.Command.Args, made.Set
	}
	d := v.Document(command, env)
	if err := keepPlan(s, d); err != nil {
		return err
	}
	if asJSON {
		if err := printJSON(d); err != nil {
			return err
		}
	} else {
		say.Plan(v)
		if v.Plan != nil && len(v.Plan.Edits) > 0 {
			say.Line("command: %s", ui.Quote(command))
		}
	}
	if d.Fits != nil && !*d.Fits {
		return exitCode(run.CannotFit)
	}
	return nil
}

// planTyped reports that a command would run as typed.
func planTyped(p *intake.Reading, say ui.Printer, asJSON bool) error {
	if asJSON {
		if err := printJSON(ui.PlanDocument{Version: ui.PlanVersion, Command: p.Command.Args, Warnings: p.Warnings, Verdict: "unknown"}.Complete()); err != nil {
			return err
		}
	} else {
		for _, w := range p.Warnings {
			say.Warn("%s", w)
		}
		if p.Explained {
			say.Line("it would run as typed, and an out-of-memory would be explained")
		} else {
			say.Line("this command is not recognised (%s): it would run as typed, and an out-of-memory would be explained", p.Why())
		}
	}
	if p.Failed {
		return exitCode(run.OwnTrouble)
	}
	_, err := proc.Find(p.Command.Args, p.Command.Dir, p.Command.Env)
	return started(err) // as it would end
}

// keepPlan writes the plan to --json-file. The file stays, and others may read it, so it holds no secrets; the plan on standard
// output is a command to run.
func keepPlan(s settings, d ui.PlanDocument) error {
	if s.JSONFile == "" || s.project["json-file"] { // a plan writes nothing that nobody typed
		return nil
	}
	d.Command = record.MaskArgs(d.Command)
	b, err := json.MarshalIndent(d, "", "  ")
	if err == nil {
		err = private.Save(s.JSONFile, append(ui.CleanJSON(b), '\n'))
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", s.JSONFile, err)
	}
	return nil
}
