package sweep

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/records"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/sweep"
	"github.com/launch-ml/launch/core/sweep/local"
	"github.com/launch-ml/launch/core/ui"
)

func newStatus() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "status [NAME]", Short: "print the table of a sweep", Args: cli.Takes(0, 1, oneSweep),
		RunE: func(c *cobra.Command, args []string) error {
			_, sweeps, name, err := openSweep(c, args)
			if err != nil {
				return err
			}
			h, err := records.Collected(sweeps, name)
			if err != nil {
				return err
			}
			if asJSON {
				return cli.PrintJSON(ui.SweepDocument(h, sweeps.Folder(name), sweeps.Driver(name)))
			}
			cli.Tables().Sweep(h, sweeps.Driver(name))
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the sweep as JSON")
	return settings.Use(c, settings.StateFlags)
}

func newShow() *cobra.Command {
	return settings.Use(&cobra.Command{
		Use: "show [NAME] [TRIAL]", Short: "print a sweep and its folders, or one trial: its values, its run and its last " +
			"output",
		Args: cli.Takes(0, 2, "a sweep and the number of a trial"),
		RunE: func(c *cobra.Command, args []string) error {
			trial := 0
			if n := len(args); n > 0 {
				if t, err := strconv.Atoi(args[n-1]); err == nil && n == 2 || err == nil && t < 1_000_000 {
					args, trial = args[:n-1], t
				}
			}
			_, sweeps, name, err := openSweep(c, args)
			if err != nil {
				return err
			}
			h, err := records.Collected(sweeps, name)
			if err != nil {
				return err
			}
			say := cli.Out()
			if trial == 0 {
				cli.Tables().Sweep(h, sweeps.Driver(name))
				showSweep(say, h, sweeps)
				return nil
			}
			row := h.Row(trial)
			if row == nil {
				return fmt.Errorf("sweep %s has no trial %d", name, trial)
			}
			return showTrial(say, h, row, sweeps)
		},
	}, settings.StateFlags)
}

// showSweep prints where a sweep is kept, and which code it runs.
func showSweep(say ui.Printer, h *sweep.History, sweeps local.Folders) {
	say.Line("folder:  %s", sweeps.Folder(h.Spec.Name))
	say.Line("runs in: %s", cmp.Or(h.Spec.Snapshot, h.Spec.Dir))
	say.SamePlan(h.Spec)
	if t := h.Spec.Tree; t != nil {
		changes := "as committed"
		if t.Changes != "" {
			changes = "with changes, which are in tree.diff"
		}
		say.Line("code:    commit %.12s of %s, %s", t.Commit, t.Root, changes)
	}
}

// showTrial prints one trial, with the end of its output.
func showTrial(say ui.Printer, h *sweep.History, row *sweep.Row, sweeps local.Folders) error {
	folder := trialFolder(sweeps, h.Spec.Name, row.Number)
	inv, err := h.Spec.Template().Render(row.Trial)
	if err != nil {
		return err
	}
	say.Line("%s-%d  %s, started %s", h.Spec.Name, row.Number, row.State, ui.Count(row.Starts, "time"))
	say.Line("command: %s", ui.OneLine(ui.Quote(inv.Args)))
	for _, s := range append(inv.Env, inv.Set...) {
		say.Line("with:    %s", ui.OneLine(s))
	}
	if r := row.Result; r != nil {
		if r.Run != "" {
			say.Line("run:     %s (launch show %s)", r.Run, r.Run)
		}
		if r.Changes != "" {
			say.Line("changes: %s", ui.OneLine(r.Changes))
		}
		if r.Why != "" {
			say.Line("ended:   %s", ui.OneLine(r.Why))
		}
	}
	say.Line("output:  %s", local.Output(folder))
	lines, err := record.Tail(local.Output(folder), 10)
	if err == nil {
		for _, l := range lines {
			say.Line("  %s", ui.OneLine(l))
		}
	}
	return nil
}

func trialFolder(sweeps local.Folders, name string, trial int) string {
	return filepath.Clean(sweeps.Trial(name, trial))
}
