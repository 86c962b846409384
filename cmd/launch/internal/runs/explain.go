package runs

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/report"
)

// NewExplain makes launch explain.
func NewExplain() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "explain [FILE ... | FOLDER | RUN | last | -]",
		Short: "print why a log or a run ended, and what would have helped",
		Long: `explain reads what a program printed, or the record of a run. It prints what ended it, the evidence, and
what would have helped, with the mildest cost first. For a run it also prints how to continue.

Input: log files (plain or gzip), notebooks (.ipynb), a folder (its newest *.log, *.out or *.err), - for
standard input, or a run by its name. Given several logs, explain reports the first rank that failed.
Without an argument it reads standard input; on a terminal it explains the last run.

For scripts: launch explain --json x.log | jq -e .oom`,
		Example: "  launch explain slurm-4711.out\n  launch explain rank*.log\n  launch explain train.ipynb\n  python train.py 2>&1 | tee log | launch explain\n  launch explain last --json",
		RunE: settings.With(func(_ *cobra.Command, s settings.Values, args []string) error {
			if len(args) == 0 {
				args = []string{"-"}
				if cli.IsTerminal(os.Stdin) {
					args = []string{"last"}
				}
			}
			x, err := report.Explain(record.In(s.State), args)
			if err != nil {
				return err
			}
			return cli.Show(asJSON, x, cli.Tables().Explain)
		}),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the explanation as JSON")
	settings.Use(c, settings.StateFlags)
	return cli.Exits(c, cli.Exit("0", "the input could be read, whatever was found"),
		cli.Exit("125", "it could not be read"))
}
