package proc

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/proc/internal/keep"
)

// inTerminal runs a script under wrap, in a screen.
func inTerminal(t *testing.T, text string, flags ...string) *screen {
	t.Helper()
	args := append(append([]string{os.Args[0], "__wrap"}, flags...), "--", "sh", script(t, text))
	return newScreen(t, args...)
}

func TestTerminalIsSeenWhereItIsBare(t *testing.T) {
	look := script(t, `s=; for i in 0 1 2; do if [ -t $i ]; then s=${s}1; else s=${s}0; fi; done; echo $s >$1
		stty size <&2 2>/dev/null || :`)
	for _, around := range []string{"W", "W 2>/dev/null", "W </dev/null", "W | cat", "W </dev/null | cat", "W 2>&1 | cat",
		"W >/dev/null"} {
		t.Run(around, func(t *testing.T) {
			t.Parallel()
			of := func(w []string) string {
				note := filepath.Join(tempDir(t), "note")
				w = append(w, "sh", look, note)
				s := newScreen(t, "sh", "-c", strings.ReplaceAll(around, "W", strings.Join(w, " ")))
				status := s.status()
				saw, _ := os.ReadFile(note)
				return fmt.Sprintf("%s %s %q", status, saw, strings.ReplaceAll(s.all(), "\r", ""))
			}
			if bare, got := of(nil), of(wrapped()); got != bare {
				t.Errorf("got %s, bare %s", got, bare)
			}
		})
	}
}

func TestTerminalSettings(t *testing.T) {
	look := script(t, "stty -a; tty >/dev/null && echo tty; grep Sig[BI] /proc/self/status; printf 'a\\tb\\n'; exit 3")
	of := func(w []string) string {
		s := newScreen(t, "sh", "-c", "stty susp ^Y erase ^H -ixon; "+strings.Join(append(w, "sh", look), " "))
		return s.status() + s.all()
	}
	if bare, got := of(nil), of(wrapped()); got != bare {
		t.Errorf("got\n%s\nbare\n%s", got, bare)
	}
}

func TestResize(t *testing.T) {
	s := inTerminal(t, `trap 'stty size; exit 0' WINCH; stty size; echo READY; while :; do sleep 0.02; done`)
	s.until("33 111")
	s.until("READY")
	if err := pty.Setsize(s.master, &pty.Winsize{Rows: 50, Cols: 150}); err != nil {
		t.Fatal(err)
	}
	s.until("50 150")
	if got := s.status(); got != "exit 0" {
		t.Error(got)
	}
}

// counts counts what comes of a signal, until it is told that it was all: one more would have come by then.
func counts(sig string) string {
	return `n=0; trap 'n=$((n+1)); echo CAME' ` + sig + `; trap 'echo "N=$n;"; exit 3' USR1; echo "PID=$$;"; while :; do sleep 0.02; done`
}

func (s *screen) pid() (pid int) {
	s.t.Helper()
	s.until("PID=")
	if _, err := fmt.Sscan(s.until(";"), &pid); err != nil {
		s.t.Fatal(err)
	}
	return pid
}

func TestKeysComeOnce(t *testing.T) {
	for _, tt := range []struct{ key, signal, around string }{
		{"\x03", "INT", "W"},
		{"\x1c", "QUIT", "W"},
		{"\x03", "INT", "W | (trap '' INT; cat)"},
		{"\x03", "INT", "W </dev/null"},
	} {
		t.Run(tt.signal+" "+tt.around, func(t *testing.T) {
			t.Parallel()
			w := append(wrapped(), "sh", script(t, counts(tt.signal)))
			s := newScreen(t, "sh", "-c", "trap : INT QUIT; "+strings.ReplaceAll(tt.around, "W", "{ trap : INT QUIT; WRAP_REPORT=1 "+
				strings.Join(w, " ")+"; echo C=$?; }"))
			pid := s.pid()
			s.typeIn(tt.key)
			s.settle(pid)
			s.until(fmt.Sprintf("Interrupted:%v", tt.signal == "INT"))
			s.until("C=3")
		})
	}
}

func TestKeysEndIt(t *testing.T) {
	for key, want := range map[string]string{"\x03": "signal 2", "\x1c": "signal 3", "\x04": "exit 5", "line\n\x04": "exit 5"} {
		t.Run(fmt.Sprintf("%q", key), func(t *testing.T) {
			t.Parallel()
			s := newScreen(t, wrapped("sh", "-c", "echo READY; while read x; do :; done; exit 5")...)
			s.until("READY")
			s.typeIn(key)
			if got := s.status(); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		})
	}
}

func TestInputOfATTYOnPipes(t *testing.T) {
	for _, input := range []string{"", "hi\n", "no end", strings.Repeat("0123456789\n", 5000)} {
		cmd := exec.Command(os.Args[0], "__wrap", "--tty", "--", "sh", "-c", "test -t 0 && test -t 1 && cat; exit 4")
		var out bytes.Buffer
		cmd.Stdin, cmd.Stdout = strings.NewReader(input), &out
		_ = cmd.Run()
		if got := strings.ReplaceAll(out.String(), "\r", ""); got != input || ended(cmd.ProcessState) != "exit 4" {
			t.Errorf("%.30q: %s, %.30q (%d of %d bytes)", input, ended(cmd.ProcessState), got, len(got), len(input))
		}
	}
}

func TestBurstAtTheEnd(t *testing.T) {
	s := newScreen(t, wrapped("sh", "-c", "seq 400000; exit 2")...)
	if got := s.status(); got != "exit 2" {
		t.Error(got)
	}
	eventually(t, "all lines shown", func() bool { return strings.HasSuffix(s.all(), "\r\n400000\r\n") })
	if n := strings.Count(s.all(), "\r\n"); n != 400000 {
		t.Errorf("%d lines of 400000", n)
	}
}

func TestTerminalIsRepaired(t *testing.T) {
	for name, end := range map[string]string{"ended": "exit 0", "killed": "kill -9 $$", "crashed": "kill -SEGV $$"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := strings.Join(append(wrapped(), "sh", script(t, "stty raw -echo; "+end)), " ")
			s := newScreen(t, "sh", script(t, "a=$(stty -a); "+w+"; test \"$a\" = \"$(stty -a)\" && echo SAME"))
			s.until("SAME")
		})
	}
}

func TestKilledLaunchLeavesNothing(t *testing.T) {
	for _, around := range []string{"W", "W | cat", "W </dev/null >/dev/null 2>&1"} {
		t.Run(around, func(t *testing.T) {
			t.Parallel()
			note := filepath.Join(tempDir(t), "pids")
			// A child, one in a session of its own, and a daemon: orphaned twice.
			text := script(t, `trap "" HUP TERM INT
sh -c 'while :; do sleep 1; done' & a=$!
setsid sh -c 'while :; do sleep 1; done' & b=$!
( setsid sh -c 'echo $$ >>`+note+`; while :; do sleep 1; done' & )
echo $$ $a $b $PPID >>`+note+`
while :; do sleep 1; done`)
			s := newScreen(t, "sh", "-c", "stty -a >/dev/null; "+strings.ReplaceAll(around, "W", "{ "+strings.Join(append(wrapped(),
				"sh", text), " ")+"; echo DIED; }")+"; echo OVER; sleep 1000")
			pids := pidsIn(t, note, 5)
			keeper := 0
			for _, pid := range pids {
				if cmd, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); bytes.Contains(cmd, []byte(keep.Word)) {
					keeper = pid
				}
			}
			_, launch, _ := keep.StatOf(keeper)
			if cmd, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", launch)); !bytes.Contains(cmd, []byte("__wrap")) {
				t.Fatalf("the keeper's parent is %q", cmd)
			}
			if err := syscall.Kill(launch, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			for _, pid := range pids {
				eventually(t, fmt.Sprintf("%d of %v is gone", pid, pids), func() bool { return !alive(pid) })
			}
			eventually(t, "the terminal is repaired", func() bool {
				tio, err := unix.IoctlGetTermios(int(s.master.Fd()), unix.TCGETS)
				return err == nil && tio.Lflag&unix.ICANON != 0 && tio.Lflag&unix.ECHO != 0 && tio.Oflag&unix.OPOST != 0
			})
		})
	}
}

func TestKilledKeeper(t *testing.T) {
	s := inTerminal(t, `sh -c 'echo "PID=$$;"; while :; do sleep 1; done' & echo "K=$PPID;"; while :; do sleep 1; done`)
	var keeper, child int
	s.until("K=")
	fmt.Sscan(s.until(";"), &keeper)
	s.mark = 0
	child = s.pid()
	if err := syscall.Kill(keeper, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if got := s.status(); got != "exit 125" {
		t.Error(got)
	}
	eventually(t, "its child is gone", func() bool { return !alive(child) })
}

// TestRemains: what a program has left running is ended or left as the caller says, in a session of its own too.
func TestRemains(t *testing.T) {
	for _, end := range []bool{true, false} {
		dir := tempDir(t)
		note := filepath.Join(dir, "pids")
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer null.Close()
		exit, err := Run(t.Context(), Spec{Args: []string{"sh", script(t, "sleep 300 & a=$!; setsid sleep 300 & echo $a $! >"+note+"; exit 1")},
			Stdin: null, Stdout: null, Stderr: null, TTY: Never, Hold: true})
		if err != nil || exit.Code != 1 || !exit.Left || exit.Remains == nil {
			t.Fatalf("%+v, %v", exit, err)
		}
		pids := pidsIn(t, note, 2)
		if end {
			exit.Remains.End()
		} else {
			exit.Remains.Leave()
		}
		for _, pid := range pids {
			if end {
				eventually(t, "it is ended", func() bool { return !alive(pid) })
			} else if !alive(pid) {
				t.Errorf("%d of %v is gone", pid, pids)
			} else {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
	(*Remains)(nil).End()
	(*Remains)(nil).Leave()
}

func TestWhatIsLeftRunsOn(t *testing.T) {
	for _, around := range []string{"W", "W | cat", "W --no-tty"} {
		t.Run(around, func(t *testing.T) {
			t.Parallel()
			dir := tempDir(t)
			note, gone := filepath.Join(dir, "pids"), filepath.Join(dir, "go")
			// One in the program's own group and one that left it, both holding its output.
			late := `sh -c 'while [ ! -e ` + gone + ` ]; do sleep 0.02; done; echo LATE$0; echo done >>` + gone + `'`
			text := script(t, late+" 1 & a=$!; setsid "+late+" 2 & echo $a $! >"+note+"; echo EARLY; exit 0")
			w := strings.Join(append(wrapped(), "sh", text), " ")
			if f, ok := strings.CutPrefix(around, "W --no-tty"); ok {
				w, around = strings.Replace(w, " -- ", " --no-tty -- ", 1), "W"+f
			}
			s := newScreen(t, "sh", "-c", strings.ReplaceAll(around, "W", "{ "+w+"; echo C=$?; }")+"; sleep 1000")
			s.until("EARLY")
			s.until("C=0") // launch does not wait for them
			pids := pidsIn(t, note, 2)
			for _, pid := range pids {
				if !alive(pid) {
					t.Errorf("%d of %v is gone", pid, pids)
				}
			}
			if err := os.WriteFile(gone, nil, 0o666); err != nil {
				t.Fatal(err)
			}
			s.until("LATE") // they print on, where they would have
			s.until("LATE")
			for _, pid := range pids {
				eventually(t, "it has ended by itself", func() bool { return !alive(pid) })
			}
		})
	}
}
