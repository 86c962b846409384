package draft

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

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

// tryDraft runs the command through launch, with the flags in own, for a few steps, and reports which signs of the
// draft its output had.
func tryDraft(
	ctx context.Context, say ui.Printer, d *draft.Draft, own, args []string, steps int, limit time.Duration,
) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding launch itself: %w", err)
	}
	within, stop := context.WithTimeout(ctx, limit)
	defer stop()
	cmd := exec.CommandContext(within, self, append(append(own, "--"), args...)...)
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
	heard := &listener{enter: isStep, stop: stop, want: steps}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Stdout = &both{os.Stdout, heard}
	cmd.Stderr = &both{os.Stderr, heard}
	say.Line("trying it: at most %d steps or %v. The program runs for real, and what it writes stays", steps, limit)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the trial: %w", err)
	}
	ended := cmd.Wait()
	stopped := within.Err() != nil && ctx.Err() == nil
	if err := ctx.Err(); err != nil {
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
