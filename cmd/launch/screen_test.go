package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
)

// stepping is a training that reports its steps and the size of its terminal, each time it is let go on.
const stepping = `
import os, sys, time
step = 0
while step < 4:
    step += 1
    while not os.path.exists("go-%d" % step):
        time.sleep(0.02)
    size = os.get_terminal_size()
    print("step %d of 10, terminal %d x %d" % (step, size.lines, size.columns), flush=True)
    if os.path.exists("alternate"):
        os.remove("alternate")
        print("\x1b[?1049hfull", end="", flush=True)
        while not os.path.exists("back"):
            time.sleep(0.02)
        print("\x1b[?1049l", end="", flush=True)
print("training is over")
`

// A window is a terminal with launch in it.
type window struct {
	t      *testing.T
	dir    string
	cmd    *exec.Cmd
	master *os.File
	done   chan error

	mu  sync.Mutex
	emu *vt.Emulator
	raw strings.Builder
}

func open(t *testing.T, flags ...string) *window {
	t.Helper()
	return openBy(t, nil, flags...)
}

// openBy opens a window in which a program starts launch, whose command line is appended to its own.
func openBy(t *testing.T, by []string, flags ...string) *window {
	t.Helper()
	launch, err := exec.LookPath("launch")
	if err != nil {
		t.Skip("the test binary is not on PATH as launch")
	}
	w := &window{t: t, dir: t.TempDir(), emu: vt.NewEmulator(80, 24), done: make(chan error, 1)}
	w.write("train.py", stepping)
	w.write(".launch-job.yaml", "script: train.py\nmicro-batch: --batch-size\nprogress: "+
		"'step (?P<iteration>\\d+) of (?P<total>\\d+)'\nsucceeded: 'training is over'\n")
	args := append(slices.Concat(by, []string{launch}, flags), "--vram", "24GiB", "--", testPython(), "train.py")
	w.cmd = exec.Command(args[0], args[1:]...)
	w.cmd.Dir = w.dir
	w.cmd.Env = append(os.Environ(), "HOME="+w.dir, "XDG_STATE_HOME="+filepath.Join(w.dir, "state"), "TERM=xterm")
	if w.master, err = pty.StartWithSize(w.cmd, &pty.Winsize{Rows: 24, Cols: 80}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.cmd.Process.Kill(); w.master.Close() })
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := w.master.Read(buf)
			w.mu.Lock()
			w.raw.Write(buf[:n])
			w.emu.Write(buf[:n])
			w.mu.Unlock()
			if err != nil {
				w.done <- w.cmd.Wait()
				return
			}
		}
	}()
	return w
}

func (w *window) write(name, text string) {
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *window) screen() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	rows := strings.Split(w.emu.String(), "\n")
	for i := range rows {
		rows[i] = strings.TrimRight(rows[i], " \r")
	}
	return rows
}

// until waits until the screen is as wanted.
func (w *window) until(what string, is func(rows []string) bool) {
	w.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		rows := w.screen()
		if is(rows) {
			return
		}
		if time.Now().After(end) {
			w.t.Fatalf("%s: the screen is\n%s", what, strings.Join(rows, "\n"))
		}
	}
}

func has(text string) func([]string) bool {
	return func(rows []string) bool { return strings.Contains(strings.Join(rows, "\n"), text) }
}

func last(text string) func([]string) bool {
	return func(rows []string) bool { return strings.Contains(rows[len(rows)-1], text) }
}

// The status line is in the last row while the program runs, follows the terminal's size, makes room for a program that
// takes the screen, and is gone at the end.
func TestStatusLine(t *testing.T) {
	w := open(t, "--status")
	w.write("go-1", "")
	w.until("the first step", has("step 1 of 10, terminal 23 x 80"))
	w.until("the line", last("launch · training · 1/10 (10 %)"))
	w.mu.Lock()
	w.emu.Resize(90, 30)
	w.mu.Unlock()
	if err := pty.Setsize(w.master, &pty.Winsize{Rows: 30, Cols: 90}); err != nil {
		t.Fatal(err)
	}
	w.until("the line in the new last row", last("1/10 (10 %)"))
	w.write("alternate", "")
	w.write("go-2", "")
	w.until("the alternate screen", func(rows []string) bool {
		return strings.HasPrefix(rows[0], "full") && !has("launch · ")(rows)
	})
	w.write("back", "")
	w.until("the line is back", last("2/10 (20 %)"))
	w.write("go-3", "")
	w.until("the size after that", has("step 3 of 10, terminal 29 x 90"))
	w.write("go-4", "")
	if err := <-w.done; err != nil {
		t.Errorf("%v\n%s", err, strings.Join(w.screen(), "\n"))
	}
	rows := w.screen()
	end := slices.IndexFunc(rows, func(row string) bool { return strings.HasPrefix(row, "launch: succeeded") })
	if has("launch · ")(rows) || end < 0 || !strings.HasPrefix(rows[end+1], "    ") || !has("launch show")(rows) {
		t.Errorf("at the end, which is wrapped between words:\n%s", strings.Join(rows, "\n"))
	}
	w.whole()
}

// whole checks that the terminal's margins are its own again.
func (w *window) whole() {
	w.t.Helper()
	w.mu.Lock()
	for i := range 60 {
		fmt.Fprintf(w.emu, "\r\nrow %d", i)
	}
	w.mu.Unlock()
	if rows := w.screen(); !last("row 59")(rows) || !strings.HasPrefix(rows[len(rows)-2], "row 58") {
		w.t.Errorf("the margins stayed:\n%s", strings.Join(rows, "\n"))
	}
}

// A launch that is killed leaves the terminal as it was: its keeper repairs it.
func TestStatusLineOfAKilledLaunch(t *testing.T) {
	// The terminal is a shell's: one whose first process has died takes nothing more.
	shell := []string{"sh", "-c", `exec 3>&2 2>/dev/null
sh -c 'echo $$ > pid; exec "$@"' sh "$@" 2>&3 3>&-
until [ -e repaired ]; do sleep 0.02; done`, "sh"}
	w := openBy(t, shell, "--status=line,title,taskbar")
	w.write("go-1", "")
	w.until("the line", last("1/10 (10 %)"))
	text, err := os.ReadFile(filepath.Join(w.dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// The shell may print that its program was killed before the keeper repairs the terminal, or after.
	repaired := func(raw string) bool {
		_, after, ok := strings.Cut(raw, "\x1b]9;4;0\a")
		return ok && !strings.Contains(after, "\x1b")
	}
	w.until("the keeper", func([]string) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return repaired(w.raw.String())
	})
	w.write("repaired", "")
	<-w.done
	w.whole()
	w.mu.Lock()
	defer w.mu.Unlock()
	if text := w.raw.String(); !strings.Contains(text, "\x1b]2;10 %") || !strings.Contains(text, "\x1b]9;4;1;10\a") ||
		!strings.Contains(text, "\x1b[23;2t") || !repaired(text) {
		t.Errorf("%q", text)
	}
}

// Without the setting, launch sends the terminal nothing, and the program has all of it.
func TestNoStatusLine(t *testing.T) {
	w := open(t)
	w.write("go-1", "")
	w.until("the first step", has("step 1 of 10, terminal 24 x 80"))
	for _, name := range []string{"go-2", "go-3", "go-4"} {
		w.write(name, "")
	}
	<-w.done
	w.mu.Lock()
	defer w.mu.Unlock()
	_, text, _ := strings.Cut(w.raw.String(), "step 1")
	text, _, _ = strings.Cut(text, "training is over")
	if strings.Contains(text, "\x1b") {
		t.Errorf("%q", text)
	}
}
