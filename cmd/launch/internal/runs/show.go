package runs

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
)

// ShowDocument is the output of `launch show --json`.
type ShowDocument struct {
	Version int            `json:"version"` // of the events
	ID      string         `json:"id"`
	Dir     string         `json:"dir"`
	Running bool           `json:"running"`
	Torn    bool           `json:"torn"` // the last line of the record was truncated
	Events  []record.Event `json:"events"`
	// Checklist is empty while the run goes on, and for a command that no plugin recognised.
	Checklist []job.CheckResult `json:"checklist"`
}

// NewShow makes launch show.
func NewShow() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "show [RUN | last]", Short: "print a recorded run: its attempts, changes, estimates and measured peaks",
		Args: cli.Takes(0, 1, "one run from launch runs, or no argument for the last run"),
		RunE: settings.With(func(_ *cobra.Command, s settings.Values, args []string) error {
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
				return cli.PrintJSON(ShowDocument{record.Version, h.ID, h.Dir, h.Life().Alive, h.Torn, h.Events, checklistOf(h)})
			}
			cli.Tables().Show(h, h.Life())
			return nil
		}),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the run as JSON")
	return settings.Use(c, settings.StateFlags)
}

// checklistOf is the checklist of a recorded run; empty while it runs, and for a command that no plugin recognised.
func checklistOf(h *record.History) []job.CheckResult {
	r := h.Run()
	if r == nil || h.Life().Alive {
		return []job.CheckResult{}
	}
	return append([]job.CheckResult{}, run.Checklist(r.Job, h.Tried())...)
}
