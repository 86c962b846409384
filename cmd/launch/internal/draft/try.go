package draft

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/launch-ml/launch/core/plugin/declared/draft"
	"github.com/launch-ml/launch/core/ui"
)

// A listener collects a program's output and ends the trial after enough steps.
type listener struct {
	mu    sync.Mutex
	text  []byte
	line  []byte
	steps int
	enter func(line string) bool
	stop  func()
	want  int
}

// maxHeard bounds what is kept of a trial's output.
const maxHeard = 4 << 20

func (l *listener) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.text) < maxHeard {
		l.text = append(l.text, p...)
	}
	for _, c := range p {
		if c != '\n' && c != '\r' {
			if len(l.line) < 4096 {
				l.line = append(l.line, c)
			}
			continue
		}
		if l.enter(string(l.line)) {
			if l.steps++; l.steps == l.want {
				l.stop()
			}
		}
		l.line = l.line[:0]
	}
	return len(p), nil
}

// tryDraft runs the command through launch for a few steps, and reports which signs of the draft its output had.
func tryDraft(c *cobra.Command, say ui.Printer, d *draft.Draft, args []string, o initOptions) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding launch itself: %w", err)
	}
	ctx, stop := context.WithTimeout(c.Context(), o.Limit)
	defer stop()
	own := handedOn(c.Flags())
	cmd := exec.CommandContext(ctx, self, append(append(own, "--"), args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = 45 * time.Second
	isStep := func(string) bool { return false }
	for _, s := range d.Signs {
		if s.Key == "progress" {
			isStep = func(line string) bool {
				return (&draft.Draft{Signs: []draft.Sign{s}}).Look([]string{line})[0].Lines > 0
			}
		}
	}
	heard := &listener{enter: isStep, stop: stop, want: o.Steps}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Stdout = &both{os.Stdout, heard}
	cmd.Stderr = &both{os.Stderr, heard}
	say.Line("trying it: at most %d steps or %v. The program runs for real, and what it writes stays", o.Steps, o.Limit)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the trial: %w", err)
	}
	ended := cmd.Wait()
	stopped := ctx.Err() != nil && c.Context().Err() == nil
	if err := c.Context().Err(); err != nil {
		return err
	}
	heard.mu.Lock()
	lines := draft.Lines(string(heard.text))
	heard.mu.Unlock()
	reportDraft(say, d, lines)
	if !stopped && ended != nil {
		say.Warn("the trial failed: %v", ended)
	}
	return nil
}

// both writes to two.
type both struct {
	first  *os.File
	second *listener
}

func (b *both) Write(p []byte) (int, error) {
	_, _ = b.second.Write(p)
	return b.first.Write(p)
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
