package main

import (
	"github.com/launch-ml/launch/core/explain"
	"os"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/ui"
)

func newExplain() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "explain [FILE ... | FOLDER | RUN | last | -]",
		Short: "say what a log, or a run, died of, and what would have helped",
		Long: `explain reads what a program printed, or the record of a run, and says what ended it, who saw that, what would have
helped, the mildest cost first, and of a run how to go on.

It reads files, of several the first failing rank; gzip'd ones; notebooks (.ipynb); a folder's newest *.log, *.out or *.err; a
pipe; and runs by their name. Without an argument it reads what is piped to it, and on a terminal explains the last run.

Exit code: 0 if it could read, whatever it found; scripts ask the JSON: launch explain --json x.log | jq -e .oom`,
		Example: "  launch explain slurm-4711.out\n  launch explain rank*.log\n  launch explain train.ipynb\n  python train.py 2>&1 | tee log | launch explain\n  launch explain last --json",
		RunE: func(c *cobra.Command, args []string) error {
			s, err := settingsHere(c)
			if err != nil {
				return err
			}
			if len(args) == 0 {
				args = []string{"-"}
				if isTerminal(os.Stdin) {
					args = []string{"last"}
				}
			}
			x, err := explain.Explain(record.In(s.State), args)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(x)
			}
			ui.Printer{W: os.Stdout, Colour: colour(os.Stdout)}.Explain(x)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	return c
}
