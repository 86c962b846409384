package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/ui"
	"github.com/launch-ml/launch/core/unit"
)

func newPrune() *cobra.Command {
	days, newest, most := int(record.Usual.Age.Hours()/24), record.Usual.Newest, record.Usual.Bytes.String()
	var dry, asJSON bool
	c := &cobra.Command{
		Use: "prune", Short: "remove old records", Args: takes(0, 0, "no argument: its flags set what is kept"),
		Long: `prune removes the records of runs that are older than --keep-days, and then the oldest ones until the
rest takes no more than --max-size. It also removes what a killed rehearsal has left in a record.

It keeps the record of every run that is running or can be resumed, and the newest --keep records. It
keeps all receipts. After a run, launch does the same by itself, at most once a day; --prune=false (or
"prune: false" in a settings file) turns that off.`,
		Example: "  launch runs prune --dry-run\n  launch runs prune --keep-days 30 --max-size 1GiB",
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := readSettings(c.Flags(), ".")
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
				clearLeftovers(s, ui.Printer{W: os.Stderr, Prefix: "launch: ", Colour: colour(os.Stderr)})
			}
			bounds := record.Bounds{Age: time.Duration(days) * 24 * time.Hour, Bytes: bytes, Newest: newest}
			out, err := store.Prune(c.Context(), bounds, time.Now(), resumable, dry)
			if err == nil && !dry {
				store.Done(time.Now())
			}
			if asJSON {
				return errors.Join(err, printJSON(append([]record.Pruned{}, out...)))
			}
			say := ui.Printer{W: os.Stdout, Colour: colour(os.Stdout)}
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
	return c
}

// tidyDeadline bounds how long launch prunes records after a program has ended. The next launch continues.
const tidyDeadline = 2 * time.Second

// tidy runs after a program has ended, before launch exits: it releases the claims and prunes the records, at most once
// a day.
func (s settings) tidy() {
	s.release()
	store, now := record.In(s.State), time.Now()
	if !s.Prune || !store.Due(now) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), tidyDeadline)
	defer cancel()
	if _, err := store.Prune(ctx, record.Usual, now, resumable, false); err == nil {
		store.Done(now) // else the next launch continues
	}
}

// resumable reports whether `launch resume` could continue a run.
func resumable(h *record.History) bool {
	r := h.Run()
	if r == nil {
		return false
	}
	if _, err := os.Stat(r.Job.Command.Dir); errors.Is(err, fs.ErrNotExist) {
		return false // without the project's folder, resume refuses
	}
	d := &ui.RunDoc{ID: h.ID, State: ui.RowOf(h, record.Life{}).State}
	d.Continue(r, h.Stop(), h.LastOutcome())
	return len(d.GoOn) > 0
}
