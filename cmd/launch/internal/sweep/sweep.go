// Package sweep is launch sweep. It reads the space, prices its rows and chooses their places, runs or submits them,
// and prints what came of them.
package sweep

import (
	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
)

const sweepHelp = `sweep runs a command once for each row of a space of settings, each as a launch of its own: with an
estimate, a ladder and a record. Rows that ran out of memory as asked finish on a lower rung, and the
table marks them. A sweep that was killed continues with "launch sweep resume": no row is lost, and
none that succeeded runs again.

KEY is
  {KEY} in COMMAND   a placeholder, replaced by the value
  --option           an option of the program: replaced where it stands, or added
  env:NAME           a variable of the environment
  anything else      an address in the recipe, or a setting in Python (as with --set)
{trial} is the row's number and {name} is SWEEP-NUMBER, in COMMAND and in values. With --halve,
{first} is the number of the row that a row continues.

VALUES is a list as in CSV: 0.1,0.2 or "a,b",c. 1..5 is 1,2,3,4,5; 0.1..0.5..0.2 is 0.1,0.3,0.5. With
--random also uniform:0..1, log:1e-5..1e-1 and int:1..1000.

Without COMMAND, sweep reads commands from standard input, one a line. --file is a YAML file with the
keys name, command, grid, zip, seeds, where, only, random, seed, jobs, flags, same-plan, snapshot,
metric, halve, ask, ask-timeout.

--halve and --ask search: the trials depend on the metric that earlier ones reported. A trial that
cannot fit is then an answer, and no failure.

Ctrl-C asks the trials to save and stop; a second Ctrl-C ends them.`

const sweepExamples = `  launch sweep --grid --lr=0.1,0.2 --jobs 2 -- python train.py --out runs/{name}
  launch sweep --grid train.optim_g.lr=1e-4,2e-4 --grid name={name} -- python train.py -opt x.yml
  launch sweep plan --grid --width=32..128..32 -- python train.py
  launch sweep --random 20 --seed 1 --grid --lr=log:1e-5..1e-1 --jobs 2 --memory 8GiB -- python train.py
  for f in *.yml; do echo "python train.py -opt $f"; done | launch sweep --name all
  launch sweep status; launch sweep resume; launch sweep export --csv > rows.csv`

// New makes launch sweep.
func New() *cobra.Command {
	f := &sweepFlags{}
	c := &cobra.Command{
		Use: "sweep [flags] -- COMMAND [ARG ...]", Short: "run a command with many settings, each as a launch of its own",
		Long: sweepHelp, Example: sweepExamples, Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			s, args, err := settings.CommandLine(c, args)
			if err != nil {
				return err
			}
			asked, trials, err := f.asked(c, args)
			if err != nil {
				return err
			}
			engine, err := f.engine.Read(c, f.jobs)
			if err != nil {
				return err
			}
			return newDriver(s, false).start(c.Context(), asked, trials, engine, f.engine.Detach)
		},
	}
	c.Flags().SetInterspersed(false)
	f.add(c.Flags())
	for _, sub := range []*cobra.Command{newPlan(), newStatus(), newShow(), newResume(), newStop(), newExport(), newEmit(),
		newLine(), newRow()} {
		c.AddCommand(sub)
	}
	settings.Use(c, settings.All)
	return cli.Exits(c, sweepExits...)
}
