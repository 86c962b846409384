package sweep

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/sweep"
	"github.com/launch-ml/launch/core/sweep/pack"
	"github.com/launch-ml/launch/core/ui"
)

// newPlan prices every row and starts nothing.
func newPlan() *cobra.Command {
	f, asJSON := &sweepFlags{}, false
	c := &cobra.Command{
		Use: "plan [flags] -- COMMAND [ARG ...]", Short: "print what each row needs, and which rows do not fit; start " +
			"nothing",
		Long: `plan prints each row's estimate, the rung on which it would run, its card and its length. It starts and
writes nothing, except to --json-file. Two rows that would write into the same folder are an error.

Where no formula knows what a row needs, its script is traced, one row after the other: it runs with tensors that
are not there, and leaves no mark. --trace=never leaves that out.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			s, args, err := settings.CommandLine(c, args)
			if err != nil {
				return err
			}
			a, trials, err := f.asked(c, args)
			if err != nil {
				return err
			}
			d := newDriver(s, false)
			if s.Reading.Trace == settings.TraceAuto {
				d.pricing = []string{"--trace=" + settings.TraceUnpriced}
			}
			return d.plan(c.Context(), a, trials, asJSON)
		},
	}
	c.Flags().SetInterspersed(false)
	f.add(c.Flags())
	c.Flags().BoolVar(&asJSON, "json", false, "print the plans as JSON")
	settings.Use(c, settings.RoomFlags, settings.LimitFlags, settings.ReadingFlags, settings.StateFlags,
		settings.Group{"nodes-at", "quiet"})
	return cli.Exits(c, cli.Exit("0", "every row fits, or nothing is known about that"),
		cli.Exit("78", "a row will not fit or might not"), cli.Exit("125", "launch itself failed"))
}

func (d *driver) plan(ctx context.Context, a sweep.Asked, trials []sweep.Trial, asJSON bool) error {
	if a.Search != nil && len(a.Search.Ask) > 0 {
		return errors.New("a searcher program chooses the rows while the sweep runs: there are none to plan")
	}
	if err := checkTexts(a, trials); err != nil {
		return err
	}
	spec, t, err := a.Spec(record.MaskArgs(a.Command))
	if err != nil {
		return err
	}
	cards := d.packing(ctx, spec, nil, t, trials)
	spec.Pack = len(cards) > 0
	quotes, err := d.price(ctx, &spec, &t, a.SamePlan, trials, false)
	if err != nil {
		return err
	}
	if spec.Pack {
		of := d.ofTrials(spec.Flags)
		pack.Forecast(of.policy(), of.fill, cards, a.Jobs, trials, quotes)
	}
	doc := ui.SweepPlan(spec, trials, quotes)
	if asJSON {
		err = cli.PrintJSON(doc)
	} else {
		cli.Tables().SweepPlan(spec, doc)
	}
	if err == nil {
		err = sweep.Conflicts(quotes)
	}
	if err == nil && !doc.Fits {
		err = cli.ExitCode(run.CannotFit)
	}
	return err
}
