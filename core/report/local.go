package report

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/unit"
)

// terminal writes to the user's terminal, wherever launch's own lines go.
func (s Sender) terminal(text string) error {
	if s.Terminal != nil {
		_, err := io.WriteString(s.Terminal, text)
		return err
	}
	to := os.Stderr
	if !term.IsTerminal(int(to.Fd())) {
		tty, err := os.OpenFile("/dev/tty", os.O_WRONLY|syscall.O_NOCTTY, 0)
		if err != nil {
			return errors.New("launch has no terminal here")
		}
		defer tty.Close()
		to = tty
	}
	// In the background of a terminal with `stty tostop` a write would stop launch.
	if !signal.Ignored(syscall.SIGTTOU) {
		signal.Ignore(syscall.SIGTTOU)
		defer signal.Reset(syscall.SIGTTOU)
	}
	_, err := to.WriteString(text)
	return err
}

// desktop shows a notice on the desktop: of this machine where it has one, else through the terminal, which shows it
// where its user is. Over ssh that is another machine.
func (s Sender) desktop(ctx context.Context, n Notice) error {
	remote := s.Getenv("SSH_CONNECTION") != "" || s.Getenv("SSH_TTY") != ""
	here := s.Getenv("DBUS_SESSION_BUS_ADDRESS") != "" || s.Getenv("WAYLAND_DISPLAY") != "" || s.Getenv("DISPLAY") != ""
	if path, err := private.Find("notify-send"); err == nil && here && !remote {
		cmd := exec.CommandContext(ctx, path, "--app-name=launch", "--", n.title(), escapes.Replace(n.text()))
		if err := started(cmd); err == nil {
			return nil
		}
	}
	if err := s.terminal(s.escape(n)); err != nil {
		return fmt.Errorf("there is no desktop: %w", err)
	}
	return nil
}

// escape is the notice as a sequence that terminals show on the desktop. There are two: most read the first, urxvt and
// foot and those of VTE the second. Others ignore it. Ours has no control characters, see Masked.
func (s Sender) escape(n Notice) string {
	seq := "\x1b]9;" + n.text() + "\a"
	names := s.Getenv("TERM") + " " + s.Getenv("TERM_PROGRAM")
	if strings.Contains(names, "rxvt") || strings.Contains(names, "foot") || s.Getenv("VTE_VERSION") != "" {
		seq = "\x1b]777;notify;" + strings.ReplaceAll(n.title(), ";", ",") + ";" + n.text() + "\a"
	}
	if s.Getenv("TMUX") != "" { // which passes it on if allow-passthrough is set
		seq = "\x1bPtmux;" + strings.ReplaceAll(seq, "\x1b", "\x1b\x1b") + "\x1b\\"
	}
	return seq
}

// runCommand has /bin/sh run a command. The notice is its standard input as JSON, and in variables.
func runCommand(ctx context.Context, text string, n Notice) error {
	in, err := json.Marshal(n)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", text)
	cmd.Stdin = bytes.NewReader(append(in, '\n'))
	cmd.Env = append(os.Environ(), "NOTICE_TITLE="+n.title(), "NOTICE_TEXT="+n.text())
	return started(cmd)
}

// started runs a program to its end, and kills it with all that it started when its context is done. The error has the
// last line that it printed.
func started(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var errs tail
	cmd.Stderr = &errs
	err := cmd.Run()
	switch {
	case err == nil || errors.Is(err, exec.ErrWaitDelay): // it left something running
		return nil
	case errs.last() != "":
		return fmt.Errorf("%w: %s", err, errs.last())
	}
	return err
}

// tail keeps the end of what is written to it.
type tail struct{ kept []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	t.kept = t.kept[max(0, len(t.kept)-4096):]
	return len(p), nil
}

func (t *tail) last() string {
	lines := strings.Split(strings.TrimSpace(string(t.kept)), "\n")
	return unit.Clip(oneLine(strings.TrimSpace(lines[len(lines)-1])), most)
}
