package proc

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/proc/internal/keep"
)

// settle lets every copy of a signal that is under way arrive, and then asks the program how many came. That nothing
// comes cannot be waited for: a second one would be there after the keeper's patience.
func (s *screen) settle(pid int) {
	s.t.Helper()
	s.until("CAME")
	time.Sleep(4 * keep.Patience)
	if err := syscall.Kill(pid, syscall.SIGUSR1); err != nil {
		s.t.Fatal(err)
	}
	s.until("N=")
	if n := s.until(";"); n != "1" {
		s.t.Errorf("came %s times, want once", n)
	}
}

// signals to launch, as kill(1) and as a batch system that signals everybody would send them.
func TestSignalsArePassedOn(t *testing.T) {
	for _, tty := range []string{"--tty", "--no-tty"} {
		for _, sig := range []string{"HUP", "INT", "QUIT", "USR2", "TERM", "ALRM", "CONT"} {
			t.Run(sig+" "+tty, func(t *testing.T) {
				t.Parallel()
				s := inTerminal(t, counts(sig), tty)
				pid := s.pid()
				if err := syscall.Kill(s.cmd.Process.Pid, signalNumber(t, sig)); err != nil {
					t.Fatal(err)
				}
				s.settle(pid)
				if got := s.status(); got != "exit 3" {
					t.Error(got)
				}
			})
		}
	}
}

func TestSignalToTheWholeGroupComesOnce(t *testing.T) {
	s := inTerminal(t, counts("TERM"), "--no-tty")
	pid := s.pid()
	if err := syscall.Kill(-s.cmd.Process.Pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.settle(pid)
}

func signalNumber(t *testing.T, name string) syscall.Signal {
	t.Helper()
	out, err := exec.Command("sh", "-c", "kill -l "+name+" 2>/dev/null || bash -c 'kill -l "+name+"'").Output()
	n := 0
	if _, e := fmt.Sscan(string(out), &n); err != nil || e != nil {
		t.Fatal(name, err, e)
	}
	return syscall.Signal(n)
}

func TestTermEndsInKillAfterTheGrace(t *testing.T) {
	note := filepath.Join(tempDir(t), "pids")
	s := inTerminal(t, `trap "" TERM; setsid sh -c 'while :; do sleep 1; done' & echo $$ $! >`+note+`
		echo READY; while :; do sleep 0.02; done`, "--grace", "100ms")
	pids := pidsIn(t, note, 2)
	s.until("READY")
	if err := syscall.Kill(s.cmd.Process.Pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := s.status(); got != "signal 9" {
		t.Error(got)
	}
	for _, pid := range pids {
		eventually(t, "it is gone", func() bool { return !alive(pid) })
	}
}

func TestWorkersAreNotTold(t *testing.T) {
	s := inTerminal(t, `sh -c 'trap "echo WORKER" TERM; while :; do sleep 0.02; done' & w=$!
		trap 'sleep 0.1; echo MAIN; kill -9 $w; exit 9' TERM; echo READY; while :; do sleep 0.02; done`)
	s.until("READY")
	if err := syscall.Kill(s.cmd.Process.Pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := s.status(); got != "exit 9" || strings.Contains(s.all(), "WORKER") {
		t.Errorf("%s: %s", got, s.all())
	}
}

// bash gives a screen with a shell that has job control.
func bash(t *testing.T) *screen {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Fatal("bash is not installed, and these tests are about being its job")
	}
	s := newScreen(t, "bash", "--norc", "--noprofile", "-i")
	s.until("$ ")
	return s
}

func TestSuspendAndForeground(t *testing.T) {
	// It starts nothing: a shell that waits for its vfork cannot be stopped, bare or not.
	reader := `echo READY; read x; echo "GOT $x"; exit 6`
	for _, tt := range []struct{ name, before, key, line string }{
		{"bare key", "", "\x1a", "W"},
		{"another key", "stty susp ^Y", "\x19", "W"},
		{"in a script", "", "\x1a", "sh -c 'W; exit $?'"},
		{"in a pipe", "", "\x1a", "W | cat; (exit ${PIPESTATUS[0]})"},
		{"signal", "", "", "W"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := strings.Join(append(wrapped(), "sh", script(t, reader)), " ")
			s := bash(t)
			if tt.before != "" {
				s.typeIn(tt.before + "\n")
			}
			s.typeIn(strings.ReplaceAll(tt.line, "W", w) + "\n")
			s.until("READY")
			if tt.key != "" {
				s.typeIn(tt.key)
			} else {
				pid := strings.TrimSpace(output(t, "pgrep", "-P", fmt.Sprint(s.cmd.Process.Pid)))
				output(t, "kill", "-TSTP", pid)
			}
			s.until("Stopped")
			s.until("$ ")
			s.typeIn("echo SH$((1+1))\n")
			s.until("SH2")
			s.typeIn("fg\n")
			s.until("fg")
			s.typeIn("some words\n")
			s.until("GOT some words")
			s.typeIn("echo END$?\n")
			if tt.name == "in a pipe" {
				s.until("END") // bash forgets the list after a job that was stopped
			} else {
				s.until("END6")
			}
		})
	}
}

func output(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(args[0], args[1:]...).Output()
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return string(out)
}

func TestBackground(t *testing.T) {
	file := filepath.Join(tempDir(t), "go")
	s := bash(t)
	s.typeIn(strings.Join(append(wrapped(), "sh", script(t,
		`echo RUNS; while [ ! -e `+file+` ]; do sleep 0.02; done; echo READS; read x; echo "GOT $x"`)), " ") + " &\n")
	s.until("RUNS") // it has not stopped for touching the terminal
	s.typeIn("stty -a | grep -q -- '-isig' && echo RAW$((1+1)) || echo COOKED$((1+1))\n")
	s.until("COOKED2")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	s.until("READS")
	for !strings.Contains(s.all(), "Stopped") { // as bare, when it reads
		s.typeIn("\n")
		s.until("$ ")
		time.Sleep(20 * time.Millisecond)
		if !alive(s.cmd.Process.Pid) {
			t.Fatal(s.all())
		}
	}
	s.typeIn("fg\n")
	s.until("fg")
	s.typeIn("a word\n")
	s.until("GOT a word")
	s.typeIn("echo END$?\n")
	s.until("END0")
}

func TestForegroundOfARunningJob(t *testing.T) {
	file := filepath.Join(tempDir(t), "go")
	s := bash(t)
	s.typeIn(strings.Join(append(wrapped(), "sh", script(t,
		`echo RUNS; while [ ! -e `+file+` ]; do sleep 0.02; done; read x; echo "GOT $x"`)), " ") + " &\n")
	s.until("RUNS")
	s.typeIn("fg\n") // the shell tells nobody
	s.until("fg")
	s.until("sh ")
	s.typeIn("a word\n")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	s.until("GOT a word")
	s.typeIn("echo END$?\n")
	s.until("END0")
}

func TestShellInside(t *testing.T) {
	s := newScreen(t, wrapped("bash", "--norc", "--noprofile", "-i")...)
	if _, err := exec.LookPath("bash"); err != nil {
		t.Fatal("bash is not installed, and these tests are about being its job")
	}
	s.until("$ ")
	s.typeIn("sh -c 'echo RU\"\"NS; read x'\n")
	s.until("RUNS")
	s.typeIn("\x1a")
	s.until("Stopped")
	s.typeIn("exit 3\nexit 3\n") // the first says that there are stopped jobs
	if got := s.status(); got != "exit 3" {
		t.Error(got)
	}
}

func TestTypedAheadGoesToTheNext(t *testing.T) {
	file := filepath.Join(tempDir(t), "go")
	s := inTerminal(t, `if [ -e `+file+`.1 ]; then read x; echo "GOT $x"; read y; echo "GOT $y"
		else echo READY; while [ ! -e `+file+` ]; do sleep 0.02; done; echo >`+file+`.1; fi`, "--times", "2")
	s.until("READY")
	s.typeIn("first\nsecond")
	s.until("second") // echoed, so it has reached the terminal of the first, which does not read
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	s.until("between: cooked true")
	s.until("GOT first")
	s.typeIn(" half\n")
	s.until("GOT second half")
	if got := s.status(); got != "exit 0" {
		t.Error(got)
	}
}

func TestTypedAheadGoesToTheShell(t *testing.T) {
	if text, err := os.ReadFile("/proc/sys/dev/tty/legacy_tiocsti"); err == nil && text[0] == '0' && os.Geteuid() != 0 {
		t.Skip("this kernel lets only root hand typed input back (sysctl dev.tty.legacy_tiocsti)")
	}
	file := filepath.Join(tempDir(t), "go")
	s := bash(t)
	w := append(wrapped(), "sh", script(t, `echo READY; while [ ! -e `+file+` ]; do sleep 0.02; done`))
	s.typeIn(strings.Join(w, " ") + "\n")
	s.until("READY")
	s.typeIn("echo AHEAD$((1+1))\n")
	s.until("echo AHEAD") // echoed: it was read
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	s.until("AHEAD2")
}
