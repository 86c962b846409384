// Package runs has the commands about recorded runs: launch runs, show, stop, diff and explain.
package runs

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/ui"
)

// NewRuns makes launch runs.
func NewRuns() *cobra.Command {
	var asJSON bool
	var name, since string
	c := &cobra.Command{
		Use: "runs", Short: "list the recorded runs", Args: cli.Takes(0, 0, "no argument; launch show RUN prints one run"),
		RunE: settings.With(func(_ *cobra.Command, s settings.Values, _ []string) error {
			only := ui.RunFilter{Name: name}
			if since != "" {
				var err error
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
			return cli.Show(asJSON, rows, cli.Tables().Runs)
		}),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the list as JSON")
	c.Flags().StringVar(&name, "name", "", "only runs whose name, experiment or command contains this, in any case")
	c.Flags().StringVar(&since, "since", "", "only runs that began since then: 7d, 12h, or a date such as 2026-11-22")
	c.AddCommand(newPrune())
	return settings.Use(c, settings.StateFlags)
}
