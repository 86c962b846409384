// Package receipts is launch receipts, which lists, exports and imports what was predicted and measured.
package receipts

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/records"
	"github.com/launch-ml/launch/cmd/launch/internal/result"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/ui"
)

// New makes launch receipts.
func New() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "receipts",
		Short: "list what was predicted and what was measured; export and import it",
		Long: `Every finished attempt leaves a receipt for each of its phases: what was predicted, line by line, and
what was measured, with card, driver, torch and settings. The next estimate on this machine uses them:

  the same phase of the same architecture   the measurement at a measured size; a straight line between
                                            two sizes
  another job on the same card and driver   the CUDA context only
  another job of the same project on the CPU, with the same interpreter and torch
                                            Python and torch only
  a model without a formula                 a straight line over the micro-batch

A plan names the receipts that it used. --receipts=false (or "receipts: false" in .launch.yaml) plans
without them; they are written in any case. A phase that ran out of memory counts only as needing more
than it had.

launch keeps the newest five receipts of one phase at the same settings on the same machine, and the
newest 500 of all, those of this machine first. They are lines of receipts.jsonl in the state folder.
launch receipts drop RUN removes those of one run. An imported receipt counts only where nothing was
measured here, never lowers an estimate below its certain lines, and is ignored if it is far from the
estimate.

On a card, the peak that the program prints counts more than what the driver reports, which launch
reads once a second. On the CPU with --memory, launch reads what the limit counts (VmData) thirty times
a second: it misses a peak that is shorter than that and lower than an earlier one.`,
		Example: "  launch receipts\n  launch receipts --json | jq '.[].measured'\n  launch receipts export a100.jsonl\n  launch receipts import a100.jsonl",
		Args:    cli.Takes(0, 0, "no argument; launch receipts export and launch receipts import take a file"),
		RunE: settings.With(func(_ *cobra.Command, s settings.Values, _ []string) error {
			rs, bad, err := records.Receipts(s.State).Read()
			if err != nil {
				return err
			}
			if asJSON {
				return cli.PrintJSON(append([]record.Receipt{}, rs...))
			}
			say := cli.Out()
			cli.Tables().Receipts(rs)
			if bad > 0 {
				say.Warn("%s: launch ignores lines that are not receipts: %d", records.Receipts(s.State).Path, bad)
			}
			return nil
		}),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the receipts as JSON")
	c.AddCommand(newReceiptsDrop(), newReceiptsExport(), newReceiptsImport())
	return settings.Use(c, settings.StateFlags)
}

func newReceiptsDrop() *cobra.Command {
	return settings.Use(&cobra.Command{
		Use: "drop RUN", Short: "forget the receipts of one run", Args: cli.Takes(1, 1,
			"one run, as launch runs and launch receipts name it"),
		Long: `drop removes the receipts of one run, so that no estimate uses them any more. The record of the run stays.`,
		RunE: settings.With(func(_ *cobra.Command, s settings.Values, args []string) error {
			name := args[0]
			// if not, its record is gone, but its receipts may be there
			if id, err := record.In(s.State).Find(name); err == nil {
				name = id
			}
			n, err := records.Receipts(s.State).Drop(name)
			if err != nil {
				return err
			}
			if n == 0 {
				return fmt.Errorf("no receipt of run %s; launch receipts --json lists them", name)
			}
			fmt.Printf("%s of run %s removed\n", ui.Count(n, "receipt"), name)
			return nil
		}),
	}, settings.StateFlags)
}

func newReceiptsExport() *cobra.Command {
	return settings.Use(&cobra.Command{
		Use: "export [FILE]", Short: "write the receipts to a file or to standard output, one line of JSON each",
		Args: cli.Takes(0, 1, "one file, or none for standard output"),
		Long: `export writes the receipts, one line of JSON each. They hold settings, figures, versions and names of
cards, but no path, no command and no name of the machine.`,
		RunE: settings.With(func(_ *cobra.Command, s settings.Values, args []string) error {
			rs, _, err := records.Receipts(s.State).Read()
			if err != nil {
				return err
			}
			text, err := record.ReceiptLines(rs)
			if err != nil {
				return err
			}
			if len(args) == 0 || args[0] == "-" {
				_, err = os.Stdout.Write(ui.CleanJSON(text))
				return err
			}
			if !result.HoldsJSON(args[0]) {
				return fmt.Errorf("%s exists, and launch has not written it: name another file, or remove it", args[0])
			}
			if err := private.Save(args[0], text); err != nil {
				return fmt.Errorf("writing the receipts: %w", err)
			}
			ui.Printer{W: os.Stdout}.Line("%s written to %s", ui.Count(len(rs), "receipt"), args[0])
			return nil
		}),
	}, settings.StateFlags)
}

func newReceiptsImport() *cobra.Command {
	c := &cobra.Command{
		Use: "import FILE", Short: "add the receipts of an exported file; - reads standard input", Args: cli.Takes(1, 1,
			"one file that launch receipts export wrote, or - for standard input"),
		Long: `import adds the receipts of a file that are not known yet. It reports the line
number of each line that is not a receipt, and skips it.`,
		RunE: settings.With(func(_ *cobra.Command, s settings.Values, args []string) error {
			in := io.Reader(os.Stdin)
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return fmt.Errorf("reading receipts: %w", err)
				}
				defer f.Close()
				in = f
			}
			added, known, problems, err := records.Receipts(s.State).Import(in, time.Now())
			for _, p := range problems {
				ui.Printer{W: os.Stderr, Prefix: "launch: "}.Line("%s: %v", args[0], p)
			}
			if err != nil {
				return err
			}
			fmt.Printf("%s added, %d known already, %s left out\n", ui.Count(added, "receipt"), known, ui.Count(len(problems), "line"))
			if there, kept, err := records.Receipts(s.State).Bound(); err == nil && kept < there {
				fmt.Printf("launch keeps the newest %[2]d of %[1]d receipts, those of this machine first\n", there,
					kept)
			}
			if len(problems) > 0 {
				return cli.ExitCode(1)
			}
			return nil
		}),
	}
	settings.Use(c, settings.StateFlags)
	return cli.Exits(c, cli.Exit("0", "each line is a receipt"), cli.Exit("1", "a line was skipped"),
		cli.Exit("125", "launch itself failed"))
}
