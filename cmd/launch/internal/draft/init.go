// Package draft is launch init, which drafts the declaration of a training script, and tries it.
package draft

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/reading"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/intake"
	"github.com/launch-ml/launch/core/plugin/declared/draft"
	"github.com/launch-ml/launch/core/ui"
)

// initOptions are the flags of launch init.
type initOptions struct {
	Print, Try, Known bool
	Steps             int
	Limit             time.Duration
}

// initFlags are flags that init's own trial does not hand on.
var initFlags = []string{"print", "try", "try-steps", "try-time", "even-if-known"}

// New makes launch init.
func New(f *cli.Factory) *cobra.Command {
	var o initOptions
	c := &cobra.Command{
		Use:   "init [flags] -- COMMAND [ARG ...]",
		Short: "draft the .launch-job.yaml of a training script",
		Long: `init reads a training command and its script, and writes a first .launch-job.yaml beside the script: where the
batch size is set, what the program prints, and how it resumes. Each line names the file and line where it was found.
init prints what it could not find. It runs nothing without --try, and it never overwrites a file.`,
		Example: "  launch init -- python train.py\n  launch init --print -- python train.py\n  launch init --try -- " +
			"python train.py --epochs 1",
		RunE: settings.WithCommand(func(c *cobra.Command, s settings.Values, args []string) error {
			if o.Print && o.Try {
				return errors.New("--try needs the file that --print does not write: use one of them")
			}
			return initialise(c, reading.New(f, s.State, s.Room, s.Limits, s.Reading), args, o)
		}),
	}
	c.Flags().SetInterspersed(false)
	c.Flags().BoolVar(&o.Print, "print", false, "print the draft on standard output and write no file")
	c.Flags().BoolVar(&o.Known, "even-if-known", false, "draft a declaration even if launch already knows the command")
	c.Flags().BoolVar(&o.Try, "try", false, "run the command for a few steps, and report what launch saw of it")
	c.Flags().IntVar(&o.Steps, "try-steps", 3, "with --try: stop after so many steps")
	c.Flags().DurationVar(&o.Limit, "try-time", 2*time.Minute, "with --try: stop after this time")
	return settings.Use(c, settings.All) // with --try it hands them on
}

func initialise(c *cobra.Command, r reading.Reader, args []string, o initOptions) error {
	ctx, say := c.Context(), cli.Out()
	p, err := r.Read(ctx, args)
	if err != nil {
		return err
	}
	defer func() { p.Close() }()
	if known := knownBy(p); known != "" && !o.Known {
		say.Line("launch already knows this command: %s. No file was written (--even-if-known drafts one)", known)
		return nil
	}
	prog, err := command.Program(p.Command.Args, p.Command.Env, p.Command.Dir)
	if err != nil {
		return fmt.Errorf("reading the command: %w", err)
	}
	d, err := draft.Of(prog, p.Command.Env)
	if err != nil {
		return fmt.Errorf("drafting a declaration: %w", err)
	}
	if o.Print {
		if _, err := os.Stdout.WriteString(d.Text); err != nil {
			return fmt.Errorf("printing the declaration: %w", err)
		}
		listMissing(cli.Fitted(cli.Notes(), os.Stderr, "never"), d)
		return nil
	}
	if _, err := os.Lstat(d.Path); err == nil {
		if p.Err != nil { // what is wrong with it
			say.Warn("%v", p.Err)
		}
		return exists(d.Path)
	}
	if !d.Loads {
		listMissing(cli.Tables(), d)
		return fmt.Errorf("no file was written, because the micro-batch was not found and launch cannot use a "+
			"declaration without it. To begin with what was found: launch init --print -- %s", ui.Quote(args))
	}
	if err := writeNew(d.Path, d.Text); err != nil {
		return err
	}
	say.Line("wrote %s: %d entries", d.Path, d.Found)
	listMissing(cli.Tables(), d)
	if err := checkDraft(ctx, r, args, say); err != nil {
		return err
	}
	if o.Try {
		return tryDraft(ctx, say, d, handedOn(c.Flags()), args, o.Steps, o.Limit)
	}
	say.Line("next: read the file, then run launch init --try or launch plan with the same command")
	return nil
}

// knownBy names the plugin that knows a command, "" if none does.
func knownBy(p *intake.Reading) string {
	switch {
	case p.Job != nil:
		return fmt.Sprintf("%s (plugin %s)", p.Job.Dialect, p.Job.Plugin)
	case p.Explained && len(p.Warnings) > 0:
		return strings.Join(p.Warnings, "; ")
	}
	return ""
}

func listMissing(say ui.Printer, d *draft.Draft) {
	if len(d.Missing) == 0 {
		return
	}
	say.Line("not found:")
	for i, m := range d.Missing {
		say.Beside(fmt.Sprintf("  %d. ", i+1), m)
	}
}

// exists is the error of a declaration that is there already.
func exists(path string) error {
	return fmt.Errorf("%s exists, and launch init never overwrites a file; --print prints the draft", path)
}

// writeNew writes a file that is not there yet.
func writeNew(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return exists(path)
	}
	if err != nil {
		return fmt.Errorf("writing the draft: %w", err)
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// checkDraft reads the command again, now with its draft.
func checkDraft(ctx context.Context, r reading.Reader, args []string, say ui.Printer) error {
	p, err := r.Read(ctx, args)
	if err != nil {
		return err
	}
	defer func() { p.Close() }()
	if p.Err != nil {
		return fmt.Errorf("launch cannot use the file yet: %w", p.Err)
	}
	if p.Job == nil {
		for _, w := range p.Warnings {
			say.Warn("%s", w)
		}
		say.Line("launch cannot use the file yet: %s", p.Why())
		return nil
	}
	switch b := p.Job.Batch; {
	case b.Global() > 0:
		say.Line("launch now knows the command: global batch %d = micro-batch %d × accumulation %d × ranks %d", b.Global(),
			b.Micro, b.Accumulation, b.Ranks)
	case b.Micro > 0:
		say.Line("launch now knows the command: micro-batch %d; the accumulation is not known", b.Micro)
	}
	for _, w := range p.Job.Warnings {
		say.Warn("%s", w)
	}
	return nil
}

// handedOn are the flags of launch that were given to init, for the trial.
func handedOn(flags *pflag.FlagSet) (args []string) {
	flags.Visit(func(f *pflag.Flag) {
		if !slices.Contains(initFlags, f.Name) {
			args = append(args, "--"+f.Name+"="+f.Value.String())
		}
	})
	return args
}

// reportDraft prints what of the draft was seen in an output, and mends the pattern of a step that was not.
func reportDraft(say ui.Printer, d *draft.Draft, lines []string) {
	progressed := false
	for _, seen := range d.Look(lines) {
		switch {
		case seen.Lines > 0:
			progressed = progressed || seen.Key == "progress"
			say.Line("seen: %s, in %s: %s", seen.Key, ui.Count(seen.Lines, "line"), ui.OneLine(seen.Example))
		case seen.Key == "succeeded" || seen.Key == "saved" || seen.Key == "metric":
			say.Line("not seen yet: %s (the trial may have been too short)", seen.Key)
		default:
			say.Line("not seen: %s", seen.Key)
		}
	}
	if progressed {
		return
	}
	pattern, example, found := draft.Progress(lines)
	if !found {
		say.Line("no line of the output counts steps: set progress by hand, or try again with a longer --try-time")
		return
	}
	before := d.Text
	d.WithProgress(pattern, "from the trial's output")
	if now, err := os.ReadFile(d.Path); err != nil || string(now) != before {
		say.Line("the output counts steps by progress: '%s'", pattern)
		return
	}
	if err := os.WriteFile(d.Path, []byte(d.Text), 0o644); err != nil {
		say.Warn("writing %s: %v", d.Path, err)
		return
	}
	say.Line("mended %s: progress: '%s'", d.Path, pattern)
	if example != "" {
		say.Line("  it matches: %s", ui.OneLine(example))
	}
}
