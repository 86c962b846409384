package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/proc/internal/keep"
	"github.com/launch-ml/launch/core/unit"
)

// TestMain makes this test binary two programs more: a keeper, and the smallest possible launch.
//
//	proc.test __wrap [--tty|--no-tty] [--grace DURATION] [--limit BYTES] [--times N] -- COMMAND...
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "__wrap" {
		wrap(os.Args[2:])
	}
	if signal.Ignored(syscall.SIGINT) { // started in the background by a plain shell: what the tests start is not
		signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGQUIT)
	}
	if signal.Ignored(syscall.SIGHUP) { // under nohup, likewise
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	os.Exit(m.Run())
}

func wrap(args []string) {
	Prepare()
	var s Spec
	times := 1
	fail := func(err error, code int) {
		fmt.Fprintln(os.Stderr, "wrap:", err)
		os.Exit(code)
	}
	for len(args) > 0 && args[0] != "--" {
		var err error
		switch flag := args[0]; flag {
		case "--tty":
			s.TTY = Always
		case "--no-tty":
			s.TTY = Never
		default:
			switch args = args[1:]; flag {
			case "--grace":
				s.Grace, err = time.ParseDuration(args[0])
			case "--limit":
				s.Limit, err = unit.Parse(args[0])
			case "--times":
				_, err = fmt.Sscan(args[0], &times)
			default:
				err = fmt.Errorf("what is %s", flag)
			}
		}
		if err != nil {
			fail(err, 125)
		}
		args = args[1:]
	}
	if len(args) > 0 {
		s.Args = args[1:]
	}
	var exit Exit
	for i := range times {
		if i > 0 {
			t, err := unix.IoctlGetTermios(0, unix.TCGETS)
			fmt.Fprintln(os.Stderr, "between: cooked", err == nil && t.Lflag&unix.ICANON != 0 && t.Lflag&unix.ECHO != 0)
		}
		var err error
		exit, err = Run(context.Background(), s)
		if start := (*StartError)(nil); errors.As(err, &start) {
			fail(err, start.ExitCode())
		} else if err != nil {
			fail(err, 125)
		}
		if os.Getenv("WRAP_REPORT") != "" {
			type fields Exit // without its String
			fmt.Fprintf(os.Stderr, "report: %+v\n", fields(exit))
		}
	}
	exit.Become()
}

// A screen is a command in a fresh pseudo-terminal of 33 rows by 111 columns, and what it has shown.
type screen struct {
	t      *testing.T
	master *os.File
	cmd    *exec.Cmd

	mu    sync.Mutex
	shown []byte
	more  chan struct{}
	over  chan struct{} // nobody holds the terminal any more
	mark  int           // up to where until has looked
}

func newScreen(t *testing.T, args ...string) *screen {
	t.Helper()
	s := &screen{t: t, cmd: exec.Command(args[0], args[1:]...), more: make(chan struct{}, 1), over: make(chan struct{})}
	s.cmd.Env = append(os.Environ(), "PS1=$ ", "TERM=dumb")
	var err error
	if s.master, err = pty.StartWithSize(s.cmd, &pty.Winsize{Rows: 33, Cols: 111}); err != nil {
		t.Fatal(err)
	}
	go func() {
		buf := make([]byte, 64<<10)
		for {
			n, err := s.master.Read(buf)
			s.mu.Lock()
			s.shown = append(s.shown, buf[:n]...)
			s.mu.Unlock()
			select {
			case s.more <- struct{}{}:
			default:
			}
			if err != nil {
				close(s.over)
				return
			}
		}
	}()
	t.Cleanup(func() {
		for _, pid := range keep.Descendants(s.cmd.Process.Pid, nil) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		_ = s.cmd.Process.Kill()
		_, _ = s.cmd.Process.Wait()
		s.master.Close()
	})
	return s
}

const patient = 20 * time.Second // for what takes a moment on an idle machine

// until waits until text has been shown, after what it was last called for, and returns what was shown in between.
func (s *screen) until(text string) string {
	s.t.Helper()
	limit := time.After(patient)
	for {
		s.mu.Lock()
		i := bytes.Index(s.shown[s.mark:], []byte(text))
		if i >= 0 {
			was := string(s.shown[s.mark : s.mark+i])
			s.mark += i + len(text)
			s.mu.Unlock()
			return was
		}
		s.mu.Unlock()
		select {
		case <-s.more:
		case <-limit:
			s.mu.Lock()
			defer s.mu.Unlock()
			s.t.Fatalf("%q was not shown; this was:\n%s", text, s.shown)
		}
	}
}

func (s *screen) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.shown)
}

func (s *screen) typeIn(keys string) {
	s.t.Helper()
	if _, err := s.master.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// status waits for the end of the command and of what it shows: "exit 7", or "signal 9".
func (s *screen) status() string {
	s.t.Helper()
	done := make(chan struct{})
	go func() { _ = s.cmd.Wait(); <-s.over; close(done) }()
	select {
	case <-done:
	case <-time.After(patient):
		s.t.Fatalf("it does not end; this was shown:\n%s", s.all())
	}
	return ended(s.cmd.ProcessState)
}

func ended(p *os.ProcessState) string {
	if w := p.Sys().(syscall.WaitStatus); w.Signaled() {
		return fmt.Sprintf("signal %d", w.Signal())
	}
	return fmt.Sprintf("exit %d", p.ExitCode())
}

func wrapped(args ...string) []string { return append([]string{os.Args[0], "__wrap", "--"}, args...) }

// tempDir is t.TempDir with a name that a shell leaves alone.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "proc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// script writes a file for sh, so that a terminal's echo of a command does not show what its output is to show.
func script(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(tempDir(t), "script")
	if err := os.WriteFile(name, []byte(text), 0o777); err != nil {
		t.Fatal(err)
	}
	return name
}

// eventually waits until f is true.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for limit := time.Now().Add(patient); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("not so in %v: %s", patient, what)
		}
	}
}

func alive(pid int) bool {
	state, _, ok := keep.StatOf(pid)
	return ok && state != 'Z' && state != 'X'
}

// pidsIn waits until n process ids stand in a file, which they write there themselves.
func pidsIn(t *testing.T, file string, n int) (pids []int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d process ids in %s", n, file), func() bool {
		text, _ := os.ReadFile(file)
		fields := strings.Fields(string(text))
		if len(fields) < n || text[len(text)-1] != '\n' {
			return false
		}
		pids = nil
		for _, f := range fields {
			pid, err := strconv.Atoi(f)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
		return true
	})
	t.Cleanup(func() {
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return pids
}
