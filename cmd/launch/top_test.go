package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/record"
)

// topPatience is how long a test waits for what launch top has to print.
const topPatience = time.Minute

// A topTerminal is launch top in a pseudo-terminal.
type topTerminal struct {
	t      *testing.T
	user   *os.File
	end    *os.File // the program's, kept open so that its mode can be read
	launch *exec.Cmd
	before unix.Termios
	mu     sync.Mutex
	seen   bytes.Buffer
	closed chan struct{}
}

// startTop starts launch top with one run that this test carries.
func startTop(t *testing.T, env ...string) *topTerminal {
	t.Helper()
	state := t.TempDir()
	rec, err := record.In(state + "/launch").Create(time.Now())
	if err == nil {
		err = rec.Write(record.Event{Kind: record.Followed, Args: []string{"python", "evil\x1b]0;owned\a.py"}})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rec.Close() })
	user, end, err := pty.Open()
	if err == nil {
		err = pty.Setsize(user, &pty.Winsize{Cols: 100, Rows: 30})
	}
	if err != nil {
		t.Fatal(err)
	}
	x := &topTerminal{t: t, user: user, end: end, closed: make(chan struct{})}
	x.before = x.mode()
	x.launch = exec.Command("launch", "top", "--refresh", "200ms")
	x.launch.Env = append(append(os.Environ(), "XDG_STATE_HOME="+state, "TERM=xterm-256color"), env...)
	x.launch.Stdin, x.launch.Stdout, x.launch.Stderr = end, end, end
	x.launch.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := x.launch.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(x.closed)
		some := make([]byte, 64<<10)
		for {
			n, err := user.Read(some)
			x.mu.Lock()
			x.seen.Write(some[:n])
			x.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		x.launch.Process.Kill()
		x.launch.Wait()
		end.Close()
		user.Close()
		<-x.closed
	})
	return x
}

func (x *topTerminal) mode() unix.Termios {
	x.t.Helper()
	m, err := unix.IoctlGetTermios(int(x.end.Fd()), unix.TCGETS)
	if err != nil {
		x.t.Fatal(err)
	}
	return *m
}

func (x *topTerminal) text() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.seen.String()
}

// wait waits for a text on the terminal.
func (x *topTerminal) wait(has string) {
	x.t.Helper()
	for end := time.Now().Add(topPatience); !strings.Contains(x.text(), has); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			x.t.Fatalf("%q never came; printed: %q", has, x.text())
		}
	}
}

// leaves waits for the end of launch top, with exit code 0 and the terminal as it was.
func (x *topTerminal) leaves() {
	x.t.Helper()
	done := make(chan error, 1)
	go func() { done <- x.launch.Wait() }()
	select {
	case err := <-done:
		if err != nil && !errors.Is(err, os.ErrProcessDone) {
			x.t.Errorf("it ended with %v", err)
		}
	case <-time.After(topPatience):
		x.t.Fatal("it does not end")
	}
	if m := x.mode(); m != x.before {
		x.t.Errorf("the terminal's mode is %+v, was %+v", m, x.before)
	}
}

// launch top shows a run, takes keys, and gives the terminal back whichever way it ends. What a name has in it does not
// reach the terminal.
func TestTopTerminal(t *testing.T) {
	ways := map[string]func(*topTerminal){"q": func(x *topTerminal) { x.user.WriteString("q") },
		"ctrl-C": func(x *topTerminal) { x.user.WriteString("\x03") }}
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		ways[s.String()] = func(x *topTerminal) { x.launch.Process.Signal(s) }
	}
	for name, leave := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := startTop(t)
			x.wait("python evil")
			x.user.WriteString("\r")
			x.wait("launch explain")
			leave(x)
			x.leaves()
			x.wait("\x1b[?1049l")
			if x.before == (unix.Termios{}) || strings.Contains(x.text(), "\x1b]0;") || strings.Contains(x.text(), "\a") {
				t.Errorf("printed %q", x.text())
			}
		})
	}
}

// With NO_COLOR the screen has no colour; where the terminal cannot move its cursor, one snapshot is printed.
func TestTopPlain(t *testing.T) {
	x := startTop(t, "NO_COLOR=1")
	x.wait("python evil")
	x.user.WriteString("q")
	x.leaves()
	for _, code := range []string{"1", "2", "7", "31", "36"} {
		if strings.Contains(x.text(), "\x1b["+code+"m") {
			t.Errorf("it has the style %s", code)
		}
	}
	for _, env := range []string{"TERM=dumb", "TERM="} {
		x := startTop(t, env)
		x.leaves()
		x.wait("python evil")
		if strings.ContainsRune(x.text(), '\x1b') {
			t.Errorf("%s: printed %q", env, x.text())
		}
	}
}
