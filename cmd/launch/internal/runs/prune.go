package runs

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/records"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/unit"
)

func newPrune() *cobra.Command {
	days, newest, most := int(record.Usual.Age.Hours()/24), record.Usual.Newest, record.Usual.Bytes.String()
	var dry, asJSON bool
	c := &cobra.Command{
		Use: "prune", Short: "remove old records", Args: cli.Takes(0, 0, "no argument: its flags set what is kept"),
		Long: `prune removes the records of runs that are older than --keep-days, and then the oldest ones until the
rest takes no more than --max-size. It also removes what a killed rehearsal has left in a record.

It keeps the record of every run that is running or can be resumed, and the newest --keep records. It
keeps all receipts. After a run, launch does the same by itself, at most once a day; --prune=false (or
"prune: false" in a settings file) turns that off.`,
		Example: "  launch runs prune --dry-run\n  launch runs prune --keep-days 30 --max-size 1GiB",
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := settings.Read(c.Flags(), ".")
			if err != nil {
				return err
			}
			bytes, err := unit.Parse(most)
			switch {
			case err != nil:
				return fmt.Errorf("--max-size: %w", err)
			case days < 0 || newest < 0 || bytes < 0:
				return errors.New("--keep-days, --keep and --max-size cannot be negative")
			}
			store := record.In(s.State)
			if !dry {
				records.ClearLeftovers(s.State, cli.Notes())
			}
			bounds := record.Bounds{Age: time.Duration(days) * 24 * time.Hour, Bytes: bytes, Newest: newest}
			out, err := store.Prune(c.Context(), bounds, time.Now(), records.Resumable, dry)
			if err == nil && !dry {
				store.Done(time.Now())
			}
			if asJSON {
				return errors.Join(err, cli.PrintJSON(append([]record.Pruned{}, out...)))
			}
			say := cli.Out()
			sum := unit.Bytes(0)
			for _, p := range out {
				say.Line("%s  %10v  %s", p.ID, p.Bytes, p.Why)
				sum += p.Bytes
			}
			verb := "removed"
			if dry {
				verb = "would be removed"
			}
			say.Line("%v %s", sum, verb)
			return err
		},
	}
	c.Flags().IntVar(&days, "keep-days", days, "keep runs for this many days after their last event")
	c.Flags().StringVar(&most, "max-size", most, "keep this much in all")
	c.Flags().IntVar(&newest, "keep", newest, "keep this many of the newest runs, whatever their age and size")
	c.Flags().BoolVar(&dry, "dry-run", false, "print what would be removed, and remove nothing")
	c.Flags().BoolVar(&asJSON, "json", false, "print what was removed, as JSON")
	return settings.Use(c, settings.StateFlags)
}
