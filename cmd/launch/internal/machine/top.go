package machine

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/gpu/drivers"
	"github.com/launch-ml/launch/core/proc"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/ui/top"
)

// refreshLeast is the least time between two looks: a running launch publishes its status once a second.
const refreshLeast = 200 * time.Millisecond

// NewTop makes launch top.
func NewTop() *cobra.Command {
	var asJSON, once bool
	var refresh time.Duration
	c := &cobra.Command{
		Use: "top", Short: "show what runs on this machine now: progress, speed, memory, cards",
		Long: `launch top shows the runs of this machine, live: phase, progress, samples a second, time left, memory now,
its peak and its estimate; the cards; and the other processes that hold memory of a card. Keys and the
mouse select, sort and filter ("?" lists them). It runs in a second terminal, or over ssh. It changes
nothing and stops nobody.

Where the output is no terminal, or with --once, it prints one snapshot and exits.`,
		Args: cli.Takes(0, 0, "no argument; launch show RUN prints one run"),
		RunE: settings.With(func(c *cobra.Command, s settings.Values, _ []string) error {
			if refresh < refreshLeast {
				return fmt.Errorf("--refresh %v is too short: at least %v", refresh, refreshLeast)
			}
			term := os.Getenv("TERM")
			able := cli.IsTerminal(os.Stdin) && cli.IsTerminal(os.Stdout) && term != "" && term != "dumb"
			from := top.Sources{Runs: record.In(s.State)}
			if asJSON || once || !able {
				return printTop(c.Context(), from, asJSON)
			}
			return showTop(c.Context(), from, refresh)
		}),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one snapshot as JSON")
	c.Flags().BoolVar(&once, "once", false, "print one snapshot as a table")
	c.Flags().DurationVar(&refresh, "refresh", 2*time.Second, "the time between two looks")
	return settings.Use(c, settings.StateFlags)
}

// printTop prints one snapshot.
func printTop(ctx context.Context, from top.Sources, asJSON bool) error {
	from.Cards = func() ([]gpu.Device, error) {
		ctx, cancel := proc.WithPatience(ctx, room.DriverDeadline)
		defer cancel()
		return drivers.List(ctx)
	}
	snapshot := top.New(from).Look(time.Now())
	if asJSON {
		return cli.PrintJSON(snapshot)
	}
	_, err := os.Stdout.WriteString(top.Table(snapshot))
	return err
}

// showTop shows the screen until its user leaves it.
func showTop(ctx context.Context, from top.Sources, refresh time.Duration) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP, syscall.SIGQUIT) // the screen takes SIGINT and SIGTERM itself
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	last, done := top.Watch(ctx, refresh)
	defer func() {
		cancel()
		<-done
	}()
	from.Cards = last
	return top.Show(ctx, top.Options{Every: refresh, Colour: cli.Colour(os.Stdout), Look: top.New(from).Look,
		In: os.Stdin, Out: os.Stdout})
}
