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
	"github.com/launch-ml/launch/core/trace"
	"github.com/launch-ml/launch/core/ui"
)

func newPlan() *cobra.Command {
	var as planFlags
	c := &cobra.Command{
		Use:   "plan [flags] -- COMMAND [ARG ...]",
		Short: "print what launch would do, and start nothing",
		Long: `plan reads the command, estimates its memory and prints what launch would change. It starts nothing and
writes nothing, except the plan to --json-file. --compare prints all configurations beside each other instead.`,
		Example: "  launch plan --vram 12GiB -- python train.py -opt x.yml\n" +
			"  launch plan --compare --vram '8GiB,RTX 3060' -- python train.py -opt x.yml\n" +
			"  launch plan --json -- python train.py -opt x.yml | jq .fits",
		RunE: func(c *cobra.Command, args []string) error {
			s, args, err := commandLine(c, args)
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return errors.New("plan needs a command: launch plan -- python train.py …")
			}
			if as.Trace {
				s.Trace = trace.Deadline
			}
			if as.Compare != "" {
				return compare(c.Context(), s, args, as)
			}
			return plan(c.Context(), s, args, as)
		},
	}
	c.Flags().SetInterspersed(false)
	c.Flags().BoolVar(&as.JSON, "json", false, "print the plan as JSON")
	c.Flags().BoolVarP(&as.Verbose, "verbose", "v", false, "print every line of the estimates and every rung")
	c.Flags().StringVar(&as.Compare, "compare", "", "print all configurations beside each other: micro-batch, memory, "+
		"share of the card, measured speed, whether it fits; for several cards with --vram 8GiB,12GiB; "+
		"--compare=KEY=V1,V2: values of a setting")
	c.Flags().Lookup("compare").NoOptDefVal = byRungs
	c.Flags().BoolVar(&as.Trace, "trace", false, "run the script with tensors that are not there, for what the plan does not know: "+
		"it computes nothing, needs no card, and leaves no mark")
	addSet(c.Flags())
	return exits(c, exitMeaning{"0", "the plan fits, or nothing is known about that"},
		exitMeaning{"78", "it will not fit or might not (without plan, launch still runs what might not fit)"},
		exitMeaning{"125", "launch or a plugin failed"}, exitMeaning{"126", "the command cannot be run"},
		exitMeaning{"127", "the command was not found"})
}

// planFlags are the flags of plan itself.
type planFlags struct {
	JSON, Verbose bool
	Trace         bool
	Compare       string // "": one plan; byRungs, or KEY=V1,V2
}

func plan(ctx context.Context, s settings, args []string, as planFlags) error {
	p, err := read(ctx, s, args, here)
	if err != nil {
		return err
	}
	defer func() { p.Close() }()
	if p.Err != nil {
		return p.Err
	}
	if p, err = s.prefer(ctx, p, args); err != nil {
		return err
	}
	if err := room.PromiseOf(s.Limit(), p.Command, p.Job).Check(s.memoryCalled()); err != nil {
		p.Warnings = append(p.Warnings, err.Error())
	}
	say := ui.Printer{W: os.Stdout, Colour: colour(os.Stdout)}
	if p.Job == nil {
		return planTyped(p, say, as.JSON)
	}
	v := view(p)
	v.Verbose = as.Verbose
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
	if as.JSON {
		if err := printJSON(d); err != nil {
			return err
		}
	} else {
		s.screen(say, os.Stdout).Plan(v)
		if v.Plan != nil && len(v.Plan.Edits)+len(p.Job.Asked) > 0 {
			say.Line("command: %s", ui.Quote(command))
		}
	}
	if d.Fits != nil && !*d.Fits {
		return exitCode(run.CannotFit)
	}
	return nil
}

// planTyped prints that a command would run as typed.
func planTyped(p *intake.Reading, say ui.Printer, asJSON bool) error {
	if asJSON {
		if err := printJSON(ui.PlanDocument{Version: ui.PlanVersion, Command: p.Command.Args, Warnings: p.Warnings, Verdict: "unknown"}.Complete()); err != nil {
			return err
		}
	} else {
		if why := missingScript(p.Command); why != nil {
			say.Line("it stops as it begins: %v", why)
		}
		for _, w := range p.Warnings {
			say.Warn("%s", w)
		}
		if p.Explained {
			say.Line("it would run as typed; an out-of-memory would be explained")
		} else {
			say.Line("launch does not recognise this command (%s): it would run as typed; an out-of-memory would be "+
				"explained", p.Why())
			if hint := declareHint(p); hint != "" {
				say.Line("%s", hint)
			}
		}
	}
	if p.Failed {
		return exitCode(run.OwnTrouble)
	}
	_, err := proc.Find(p.Command.Args, p.Command.Dir, p.Command.Env)
	return started(err) // as it would end
}

// keepPlan writes the plan to --json-file. Secrets of the command are masked there, because others may read the file.
// The plan on standard output keeps them: its command is there to be run.
func keepPlan(s settings, d ui.PlanDocument) error {
	if s.JSONFile == "" || s.project["json-file"] { // a plan writes only where this user asked for it
		return nil
	}
	if err := checkJSONFile(s); err != nil {
		return err
	}
	d.Command, d.Asked = record.MaskArgs(d.Command), record.MaskAsked(d.Asked)
	b, err := json.MarshalIndent(d, "", "  ")
	if err == nil {
		err = private.Save(s.JSONFile, append(ui.CleanJSON(b), '\n'))
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", s.JSONFile, err)
	}
	return nil
}
