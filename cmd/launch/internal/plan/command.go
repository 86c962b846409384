// Package plan has the commands that only price: launch plan, with --compare, and launch estimate.
package plan

import (
	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/reading"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
)

// NewPlan makes launch plan.
func NewPlan(f *cli.Factory) *cobra.Command {
	var o planOptions
	c := &cobra.Command{
		Use:   "plan [flags] -- COMMAND [ARG ...]",
		Short: "print what launch would do, and start nothing",
		Long: `plan reads the command, estimates its memory and prints what launch would change. It starts nothing and
writes nothing, except the plan to --json-file. --compare prints all configurations beside each other instead.

--trace starts something: it runs the script with tensors that are not there, for what the plan does not know.
Nothing is computed, a card need not be there, and the script leaves no mark: all that it writes ends with it.`,
		Example: "  launch plan --vram 12GiB -- python train.py -opt x.yml\n" +
			"  launch plan --compare --vram '8GiB,RTX 3060' -- python train.py -opt x.yml\n" +
			"  launch plan --json -- python train.py -opt x.yml | jq .fits",
		RunE: settings.WithCommand(func(c *cobra.Command, s settings.Values, args []string) error {
			o.reader = reading.New(f, s.State, s.Room, s.Limits, s.Reading)
			o.result, o.bars = s.Result, s.Output.Bars
			o.flags = settings.Given(c.Flags(), func(name string) bool { return name != "trace" && name != "compare" })
			o.reader.Trace = reading.Before(s.Reading, false)
			if o.compare != "" {
				return compare(c.Context(), o, s.Cards, args)
			}
			return plan(c.Context(), o, args)
		}),
	}
	c.Flags().SetInterspersed(false)
	c.Flags().BoolVar(&o.asJSON, "json", false, "print the plan as JSON")
	c.Flags().BoolVarP(&o.verbose, "verbose", "v", false, "print every line of the estimates and every rung")
	c.Flags().StringVar(&o.compare, "compare", "", "print all configurations beside each other: micro-batch, memory, "+
		"share of the card, measured speed, whether it fits; for several cards with --vram 8GiB,12GiB; "+
		"--compare=KEY=V1,V2: values of a setting")
	c.Flags().Lookup("compare").NoOptDefVal = byRungs
	settings.AddSet(c.Flags())
	settings.Use(c, settings.RoomFlags, settings.LimitFlags, settings.ReadingFlags, settings.StateFlags,
		settings.ResultFlags, settings.PlanFlags)
	return cli.Exits(c, cli.Exit("0", "the plan fits, or nothing is known about that"),
		cli.Exit("78", "it will not fit or might not (without plan, launch still runs what might not fit)"),
		cli.Exit("125", "launch or a plugin failed"), cli.Exit("126", "the command cannot be run"),
		cli.Exit("127", "the command was not found"))
}
