package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/core/gpu/nvml"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/ui"
)

func newGPUs() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "gpus", Short: "list the GPUs, how much memory is in use or claimed, and by whom",
		Args: takes(0, 0, "no argument"),
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(c.Context(), room.DriverDeadline)
			defer cancel()
			all, err := nvml.List(ctx)
			if err != nil && !errors.Is(err, nvml.ErrNoDriver) {
				return err
			}
			held := room.Claims()
			if asJSON {
				return printJSON(ui.CardsOf(all, held))
			}
			say := ui.Printer{W: os.Stdout, Colour: colour(os.Stdout)}
			if err != nil {
				say.Line("no GPU: %v", err)
			} else {
				say.GPUs(ui.CardsOf(all, held))
			}
			if len(all) > 0 && all[0].Asked != "" {
				say.Line("launch asked %s, because it cannot load NVIDIA's library", all[0].Asked)
			}
			say.OtherClaims(all, held)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the list as JSON")
	return c
}

func newRuns() *cobra.Command {
	var asJSON bool
	var name, since string
	c := &cobra.Command{
		Use: "runs", Short: "list the recorded runs", Args: takes(0, 0, "no argument; launch show RUN prints one run"),
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := settingsHere(c)
			if err != nil {
				return err
			}
			only := ui.RunFilter{Name: name}
			if since != "" {
				if only.Since, err = ui.ParseSince(since, time.Now()); err != nil {
					return fmt.Errorf("--since: %w", err)
				}
			}
			store := record.In(s.State)
			ids, err := store.List()
			if err != nil {
				return err
			}
			rows := []ui.RunRow{}
			for _, id := range ids {
				h, err := store.Read(id)
				if err != nil {
					rows = append(rows, ui.RunRow{ID: id, State: "cannot be read: " + err.Error()})
					continue
				}
				if row := ui.RowOf(h, h.Life()); only.Has(row) {
					rows = append(rows, row)
				}
			}
			if asJSON {
				return printJSON(rows)
			}
			ui.Printer{W: os.Stdout, Colour: colour(os.Stdout)}.Runs(rows)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the list as JSON")
	c.Flags().StringVar(&name, "name", "", "only runs whose name, experiment or command contains this, in any case")
	c.Flags().StringVar(&since, "since", "", "only runs that began since then: 7d, 12h, or a date such as 2026-11-22")
	c.AddCommand(newPrune())
	return c
}

// showDocument is the output of `launch show --json`.
type showDocument struct {
	Version int            `json:"version"` // of the events
	ID      string         `json:"id"`
	Dir     string         `json:"dir"`
	Running bool           `json:"running"`
	Torn    bool           `json:"torn"` // the last line of the record was truncated
	Events  []record.Event `json:"events"`
	// Checklist is empty while the run goes on, and for a command that no plugin recognised.
	Checklist []job.CheckResult `json:"checklist"`
}

func newShow() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "show [RUN | last]", Short: "print a recorded run: its attempts, changes, estimates and measured peaks",
		Args: takes(0, 1, "one run from launch runs, or no argument for the last run"),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := settingsHere(c)
			if err != nil {
				return err
			}
			store := record.In(s.State)
			id, err := store.Find(strings.Join(args, ""))
			if err != nil {
				return err
			}
			h, err := store.Read(id)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(showDocument{record.Version, h.ID, h.Dir, h.Life().Alive, h.Torn, h.Events, checklistOf(h)})
			}
			ui.Printer{W: os.Stdout, Colour: colour(os.Stdout)}.Show(h, h.Life())
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the run as JSON")
	return c
}

// checklistOf is the checklist of a recorded run; empty while it runs, and for a command that no plugin recognised.
func checklistOf(h *record.History) []job.CheckResult {
	r := h.Run()
	if r == nil || h.Life().Alive {
		return []job.CheckResult{}
	}
	return append([]job.CheckResult{}, run.Checklist(r.Job, h.Tried())...)
}

func printJSON(v any) error {
	var doc bytes.Buffer
	e := json.NewEncoder(&doc)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := os.Stdout.Write(ui.CleanJSON(doc.Bytes()))
	return err
}
