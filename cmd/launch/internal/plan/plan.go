package plan

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/reading"
	"github.com/launch-ml/launch/cmd/launch/internal/result"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/intake"
	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/proc"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/ui"
)

// planOptions are what launch plan takes.
type planOptions struct {
	asJSON, verbose bool
	compare         string // "": one plan; byRungs, or KEY=V1,V2
	reader          reading.Reader
	result          settings.ResultFile // --json-file
	bars            string
	flags           []string // as they were given, for a line to be typed
}

func plan(ctx context.Context, o planOptions, args []string) error {
	p, err := o.reader.Read(ctx, args)
	if err != nil {
		return err
	}
	defer func() { p.Close() }()
	if p.Err != nil {
		return p.Err
	}
	if p, err = o.reader.Prefer(ctx, p, args); err != nil {
		return err
	}
	where := o.reader.Room
	if err := room.PromiseOf(where.Limit(), p.Command, p.Job).Check(where.MemoryCalled()); err != nil {
		p.Warnings = append(p.Warnings, err.Error())
	}
	say := cli.Out()
	if p.Job == nil {
		return planTyped(ctx, o, p, say)
	}
	v := reading.View(p)
	v.Verbose = o.verbose
	command, env := args, map[string]string{}
	if v.Plan != nil {
		made, err := p.Job.Rewrite(v.Plan.Edits, intake.AttemptFolder)
		if err != nil {
			return err
		}
		command, env = made.Command.Args, made.Set
	}
	d := v.Document(command, env)
	if err := keepPlan(o.result, d); err != nil {
		return err
	}
	if o.asJSON {
		if err := cli.PrintJSON(d); err != nil {
			return err
		}
	} else {
		printPlan(cli.Fitted(say, os.Stdout, o.bars), v, command, reading.TraceHint(p, p.Room.Device, o.flags))
	}
	if d.Fits != nil && !*d.Fits {
		return cli.ExitCode(run.CannotFit)
	}
	return nil
}

// printPlan prints a plan with the command that it comes to, if that is another one, and a hint.
func printPlan(to ui.Printer, v ui.View, command []string, hint string) {
	var text bytes.Buffer
	screen := to.W
	to.W = &text
	to.Plan(v)
	whole := to
	whole.Width = 0 // somebody may copy it
	if v.Plan != nil && len(v.Plan.Edits)+len(v.Run.Job.Asked) > 0 {
		whole.Line("command: %s", ui.Quote(command))
	}
	sayLine(whole, hint)
	to.Again(v, text.String())
	_, _ = text.WriteTo(screen)
}

func sayLine(say ui.Printer, line string) {
	if line != "" {
		say.Line("%s", line)
	}
}

// planTyped prints that a command would run as typed.
func planTyped(ctx context.Context, o planOptions, p *intake.Reading, say ui.Printer) error {
	if o.asJSON {
		d := ui.PlanDocument{Version: ui.PlanVersion, Command: p.Command.Args, Warnings: p.Warnings, Verdict: "unknown"}
		if err := cli.PrintJSON(d.Complete()); err != nil {
			return err
		}
	} else {
		fitted := cli.Tables() // but what somebody may copy
		if why := reading.StopsAtOnce(p.Command); why != nil {
			fitted.Line("it stops as it begins: %v", why)
		}
		for _, w := range p.Warnings {
			fitted.Warn("%s", w)
		}
		if p.Explained {
			fitted.Line("it would run as typed; an out-of-memory would be explained")
		} else {
			fitted.Line("launch does not recognise this command (%s): it would run as typed; an out-of-memory would be "+
				"explained", p.Why())
			sayLine(say, reading.DeclareHint(p))
			if found, err := room.Find(ctx, o.reader.Room.Wish, p.Command.Env); err == nil {
				sayLine(say, reading.TraceHint(p, found.Device, o.flags))
			}
		}
	}
	if p.Failed {
		return cli.ExitCode(run.OwnTrouble)
	}
	_, err := proc.Find(p.Command.Args, p.Command.Dir, p.Command.Env)
	return cli.Started(err) // as it would end
}

// keepPlan writes the plan to --json-file. Secrets of the command are masked there, because others may read the file.
// The plan on standard output keeps them: its command is there to be run.
func keepPlan(to settings.ResultFile, d ui.PlanDocument) error {
	if to.File == "" || to.Names.OfProject("json-file") { // a plan writes only where this user asked for it
		return nil
	}
	if err := result.CheckFile(to); err != nil {
		return err
	}
	d.Command, d.Asked = record.MaskArgs(d.Command), record.MaskAsked(d.Asked)
	b, err := json.MarshalIndent(d, "", "  ")
	if err == nil {
		err = private.Save(to.File, append(ui.CleanJSON(b), '\n'))
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", to.File, err)
	}
	return nil
}
