package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/sweep"
	"github.com/launch-ml/launch/core/sweep/local"
	"github.com/launch-ml/launch/core/ui"
)

const oneSweep = "one sweep, or none for the last one"

func newSweepStatus() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "status [NAME]", Short: "print the table of a sweep", Args: takes(0, 1, oneSweep),
		RunE: func(c *cobra.Command, args []string) error {
			_, sweeps, name, err := openSweep(c, args)
			if err != nil {
				return err
			}
			h, err := collected(sweeps, name)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(ui.SweepDocument(h, sweeps.Folder(name), sweeps.Driver(name)))
			}
			ui.Printer{W: os.Stdout, Colour: colour(os.Stdout)}.Sweep(h, sweeps.Driver(name))
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the sweep as JSON")
	return c
}

func newSweepShow() *cobra.Command {
	return &cobra.Command{
		Use: "show [NAME] [TRIAL]", Short: "print a sweep and its folders, or one trial: its values, its run and its last " +
			"output",
		Args: takes(0, 2, "a sweep and the number of a trial"),
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
			h, err := collected(sweeps, name)
			if err != nil {
				return err
			}
			say := ui.Printer{W: os.Stdout, Colour: colour(os.Stdout)}
			if trial == 0 {
				say.Sweep(h, sweeps.Driver(name))
				showSweep(say, h, sweeps)
				return nil
			}
			row := h.Row(trial)
			if row == nil {
				return fmt.Errorf("sweep %s has no trial %d", name, trial)
			}
			return showTrial(say, h, row, sweeps)
		},
	}
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

func newSweepStop() *cobra.Command {
	var now bool
	c := &cobra.Command{
		Use: "stop [NAME]", Short: "ask the trials of a running sweep to save and stop", Args: takes(0, 1, oneSweep),
		RunE: func(c *cobra.Command, args []string) error {
			s, sweeps, name, err := openSweep(c, args)
			if err != nil {
				return err
			}
			h, err := sweeps.Read(name)
			if err != nil {
				return err
			}
			say := ui.Printer{W: os.Stdout, Colour: colour(os.Stdout)}
			if pid := sweeps.Driver(name); pid > 0 {
				times := 1
				if now {
					times = 2
				}
				for i := range times {
					if i > 0 {
						time.Sleep(100 * time.Millisecond) // two equal signals at once are one
					}
					if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
						return fmt.Errorf("stopping process %d: %w", pid, err)
					}
				}
				say.Line("asked sweep %s (process %d) to stop", name, pid)
				return nil
			}
			if e := h.Spec.Engine; e != nil {
				return stopTasks(c.Context(), s, h, sweeps, now)
			}
			if n := local.Signal(sweeps.Trials(name), now); n > 0 {
				say.Line("no process drives sweep %s: asked its %s to stop", name, ui.Count(n, "trial"))
				return nil
			}
			return fmt.Errorf("sweep %s is not running", name)
		},
	}
	c.Flags().BoolVar(&now, "now", false, "end the trials now")
	return c
}

func newSweepExport() *cobra.Command {
	var asJSON, asCSV, lines, follow bool
	c := &cobra.Command{
		Use: "export [NAME]", Short: "print the rows of a sweep as CSV, as JSON, or as JSON lines", Args: takes(0, 1,
			oneSweep),
		RunE: func(c *cobra.Command, args []string) error {
			_, sweeps, name, err := openSweep(c, args)
			if err != nil {
				return err
			}
			if follow {
				return followRows(sweeps, name)
			}
			h, err := collected(sweeps, name)
			if err != nil {
				return err
			}
			switch {
			case asCSV:
				return ui.SweepCSV(os.Stdout, h)
			case lines:
				for _, r := range h.Rows {
					if err := printRow(h, r); err != nil {
						return err
					}
				}
				return nil
			case asJSON:
				return printJSON(ui.SweepDocument(h, sweeps.Folder(name), sweeps.Driver(name)))
			}
			return errors.New("export needs a format: --csv, --json, --lines, or --follow")
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON document, as of status --json")
	c.Flags().BoolVar(&asCSV, "csv", false, "CSV, with a column for each key")
	c.Flags().BoolVar(&lines, "lines", false, "one JSON object a line")
	c.Flags().BoolVar(&follow, "follow", false, "one JSON object a line, each when its trial has ended, until the "+
		"sweep ends")
	return c
}

// printRow prints a row as one line of JSON.
func printRow(h *sweep.History, r *sweep.Row) error {
	text, err := json.Marshal(ui.RowOfTrial(h, r))
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(append(ui.CleanJSON(text), '\n'))
	return err
}

// followRows prints each row when its trial has ended, until no process drives the sweep.
func followRows(sweeps local.Folders, name string) error {
	printed := map[int]int{} // how many starts of a trial had ended
	for {
		driven := sweeps.Driver(name) != 0 // before reading: what is written until then is read
		h, err := sweeps.Read(name)
		if err != nil {
			return err
		}
		for _, r := range h.Rows {
			if r.State != sweep.Running && r.State != sweep.Waiting && printed[r.Number] != r.Starts {
				printed[r.Number] = r.Starts
				if err := printRow(h, r); err != nil {
					return err
				}
			}
		}
		if !driven {
			return nil
		}
		time.Sleep(250 * time.Millisecond)
	}
}

// sweepJSON is the document of a sweep, as text.
func sweepJSON(h *sweep.History, sweeps local.Folders, driver int) ([]byte, error) {
	var doc bytes.Buffer
	e := json.NewEncoder(&doc)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	err := e.Encode(ui.SweepDocument(h, sweeps.Folder(h.Spec.Name), driver))
	return ui.CleanJSON(doc.Bytes()), err
}
