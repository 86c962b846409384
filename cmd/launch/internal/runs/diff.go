package runs

import (
	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/records"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/record"
)

// NewDiff makes launch diff.
func NewDiff() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "diff RUN RUN", Short: "compare two recorded runs: memory line by line, figures, and what else differs",
		Args: cli.Takes(2, 2, "two runs, as launch runs names them"),
		Long: `diff compares the last attempt of two recorded runs: each line of the memory estimate and each measured
peak, speed and metrics, and below them the settings, data, versions, card and variables that are not the
same. It does not decide which of these caused which. What a record lacks is listed as not recorded.`,
		Example: "  launch diff 20261122-101500.123-ab12 last\n  launch diff ab12 cd34 --json | jq '.differs[].name'",
		RunE: settings.With(func(_ *cobra.Command, s settings.Values, args []string) error {
			store := record.In(s.State)
			all, _, err := records.Receipts(s.State).Read()
			if err != nil {
				return err
			}
			var sides []record.Side
			for _, name := range args {
				id, err := store.Find(name)
				if err != nil {
					return err
				}
				h, err := store.Read(id)
				if err != nil {
					return err
				}
				sides = append(sides, record.Side{History: h, Receipts: all})
			}
			d := record.Compare(sides[0], sides[1])
			return cli.Show(asJSON, d, cli.Tables().Diff)
		}),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the comparison as JSON")
	return settings.Use(c, settings.StateFlags)
}
