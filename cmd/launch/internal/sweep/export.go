package sweep

import (
	"encoding/json"
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/records"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/sweep"
	"github.com/launch-ml/launch/core/sweep/local"
	"github.com/launch-ml/launch/core/ui"
)

func newExport() *cobra.Command {
	var asJSON, asCSV, lines, follow bool
	c := &cobra.Command{
		Use: "export [NAME]", Short: "print the rows of a sweep as CSV, as JSON, or as JSON lines", Args: cli.Takes(0, 1,
			oneSweep),
		RunE: func(c *cobra.Command, args []string) error {
			_, sweeps, name, err := openSweep(c, args)
			if err != nil {
				return err
			}
			if follow {
				return followRows(sweeps, name)
			}
			h, err := records.Collected(sweeps, name)
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
				return cli.PrintJSON(ui.SweepDocument(h, sweeps.Folder(name), sweeps.Driver(name)))
			}
			return errors.New("export needs a format: --csv, --json, --lines, or --follow")
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON document, as of status --json")
	c.Flags().BoolVar(&asCSV, "csv", false, "CSV, with a column for each key")
	c.Flags().BoolVar(&lines, "lines", false, "one JSON object a line")
	c.Flags().BoolVar(&follow, "follow", false, "one JSON object a line, each when its trial has ended, until the "+
		"sweep ends")
	return settings.Use(c, settings.StateFlags)
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
