package top

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/unit"
)

// patience is how long a test waits for what has to come.
const patience = time.Minute

// counter counts writes.
type counter struct {
	mu    sync.Mutex
	n     int
	wrote chan struct{} // after each write that anybody waits for
}

func (w *counter) Write(p []byte) (int, error) {
	w.mu.Lock()
	w.n++
	w.mu.Unlock()
	select {
	case w.wrote <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (w *counter) writes() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.n
}

// crowd is the machine of 200 runs and 8 cards after n looks: every figure that is shown has changed.
func crowd(n int) Snapshot {
	s := many(200, 8)
	s.Time = s.Time.Add(time.Duration(n) * 2 * time.Second)
	for i := range s.Runs {
		st := s.Runs[i].Status
		st.Time, st.Progress.At = s.Time, s.Time
		st.Progress.Iteration += int64(n)
		st.Progress.Rate += float64(n)
		st.Memory.Now += unit.Bytes(n) * 100 * unit.MiB
		*s.Runs[i].Left += float64(60 * n)
	}
	for i := range s.Cards {
		s.Cards[i].Used += unit.Bytes(n%10) * unit.GiB
	}
	return s
}

// A screen of 40 lines has at most 30 runs with 10 cells. A cell needs up to 4 allocations on average: an amount is
// formatted by fmt.Sprintf, and a bar is put together from its parts. mostMallocs is for a refresh in all of the
// process: bubbletea's renderer needs some for each cell that has changed.
const (
	mostOfScreen = 30 * 10 * 4
	mostMallocs  = mostOfScreen + 30*10*2
)

// With 200 runs on 8 cards, of which every figure changes, a refresh is one write, and a bounded number of allocations.
func TestOneWriteARefresh(t *testing.T) {
	out := &counter{wrote: make(chan struct{}, 1)}
	const from, to = 3, 13 // the first looks may share a frame with what starts the screen
	var looks, before int
	var start, end runtime.MemStats
	snapshots := make([]Snapshot, to+1)
	for i := range snapshots {
		snapshots[i] = crowd(i)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var p *tea.Program
	look := func(time.Time) Snapshot {
		if looks > 0 { // the look before has to be on the screen
			select {
			case <-out.wrote:
			case <-ctx.Done():
			}
			time.Sleep(3 * time.Second / frames) // a second write would come in one of the next frames
		}
		switch looks++; looks {
		case from:
			before = out.writes()
			runtime.ReadMemStats(&start)
		case to:
			runtime.ReadMemStats(&end)
			if n := out.writes() - before; n != to-from {
				t.Errorf("%d refreshes are %d writes", to-from, n)
			}
			go p.Quit()
		}
		return snapshots[min(looks, to)]
	}
	p = program(ctx, Options{Every: 2 * time.Second / frames, Colour: true, Look: look, Out: out}, tea.WithInput(nil),
		tea.WithWindowSize(120, 40), tea.WithoutSignals())
	if _, err := p.Run(); err != nil {
		t.Fatal(err)
	}
	mallocs := (end.Mallocs - start.Mallocs) / (to - from)
	t.Logf("%d allocations a refresh", mallocs)
	if mallocs > mostMallocs {
		t.Errorf("%d allocations a refresh, want at most %d", mallocs, mostMallocs)
	}
}

// What the screen allocates depends on the lines that it shows, not on the number of runs.
func TestScreenAllocations(t *testing.T) {
	of := func(runs int) float64 {
		a, b := many(runs, 8), many(runs, 8)
		s := screenOf(120, 40, a)
		s.Colour = true
		s.Key("s", "")
		n := 0
		return testing.AllocsPerRun(20, func() {
			if n++; n%2 == 0 {
				s.Take(a)
			} else {
				s.Take(b)
			}
			s.Text()
		})
	}
	few, lots := of(200), of(2000)
	t.Logf("%v allocations with 200 runs, %v with 2,000", few, lots)
	if few > mostOfScreen {
		t.Errorf("%v allocations a screen with 200 runs", few)
	}
	if lots > few+50 {
		t.Errorf("%v allocations with 2,000 runs, %v with 200", lots, few)
	}
}

// A terminal is a pseudo-terminal and what was written to it.
type terminal struct {
	user, program *os.File
	mu            sync.Mutex
	seen          bytes.Buffer
	grew          chan struct{}
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	user, program, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(user, &pty.Winsize{Cols: 100, Rows: 30}); err != nil {
		t.Fatal(err)
	}
	x := &terminal{user: user, program: program, grew: make(chan struct{}, 1)}
	t.Cleanup(func() { program.Close(); user.Close() })
	go io.Copy(x, user)
	return x
}

func (x *terminal) Write(p []byte) (int, error) {
	x.mu.Lock()
	x.seen.Write(p)
	x.mu.Unlock()
	select {
	case x.grew <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (x *terminal) text() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.seen.String()
}

// wait waits until the terminal has received a text.
func (x *terminal) wait(t *testing.T, has string) {
	t.Helper()
	deadline := time.After(patience)
	for !strings.Contains(x.text(), has) {
		select {
		case <-x.grew:
		case <-deadline:
			t.Fatalf("%q never came; received: %q", has, x.text())
		}
	}
}

func (x *terminal) state(t *testing.T) unix.Termios {
	t.Helper()
	s, err := unix.IoctlGetTermios(int(x.program.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *s
}

// The sequences by which a terminal shows its second screen and no cursor, and those that end that.
const (
	secondScreen, firstScreen = "\x1b[?1049h", "\x1b[?1049l"
	cursorShown               = "\x1b[?25h"
	mouseOff                  = "\x1b[?1006l"
)

// On every way out the terminal is as it was: by key, by an end from outside, and after a panic in the program.
func TestTerminalIsRestored(t *testing.T) {
	for name, tt := range map[string]struct {
		leave func(x *terminal, cancel context.CancelFunc)
		fails bool
	}{
		"q":      {leave: func(x *terminal, _ context.CancelFunc) { x.user.WriteString("q") }},
		"ctrl-c": {leave: func(x *terminal, _ context.CancelFunc) { x.user.WriteString("\x03") }},
		"ended":  {leave: func(_ *terminal, cancel context.CancelFunc) { cancel() }},
		"panic":  {leave: func(x *terminal, _ context.CancelFunc) { x.user.WriteString("!") }, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TERM", "xterm-256color")
			x := newTerminal(t)
			before := x.state(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			failing := make(chan struct{})
			looks := 0
			done := make(chan error, 1)
			quiet(t)
			go func() {
				look := func(time.Time) Snapshot {
					looks++
					select {
					case <-failing:
						panic("the test's own")
					default:
					}
					return crowd(looks % 10)
				}
				done <- Show(ctx, Options{Every: time.Millisecond, In: x.program, Out: x.program, Look: look})
			}()
			x.wait(t, secondScreen)
			x.wait(t, "trial-003")
			if x.state(t) == before {
				t.Error("the terminal is not in the raw mode")
			}
			if tt.fails {
				close(failing)
			} else {
				tt.leave(x, cancel)
			}
			select {
			case err := <-done:
				if (err != nil) != tt.fails || err != nil && !errors.Is(err, ErrFailed) {
					t.Errorf("it ended with %v", err)
				}
			case <-time.After(patience):
				t.Fatal("it does not end")
			}
			x.wait(t, firstScreen)
			if after := x.state(t); after != before {
				t.Errorf("the terminal's mode is %+v, was %+v", after, before)
			}
			rest := x.text()[strings.LastIndex(x.text(), secondScreen):]
			for _, s := range []string{firstScreen, cursorShown, mouseOff} {
				if !strings.Contains(rest, s) {
					t.Errorf("%q is missing at the end: %q", s, rest[max(0, len(rest)-300):])
				}
			}
		})
	}
}

// quiet keeps the report of a panic out of the test's output.
func quiet(t *testing.T) {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stderr
	os.Stderr = null
	t.Cleanup(func() { os.Stderr = before; null.Close() })
}

// A terminal may become very small, and large again; and keys and the mouse reach the screen.
func TestTerminalKeys(t *testing.T) {
	t.Setenv("TERM", "xterm-256color")
	x := newTerminal(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- Show(ctx, Options{Every: 5 * time.Millisecond, In: x.program, Out: x.program,
			Look: func(time.Time) Snapshot { return workstation() }})
	}()
	x.wait(t, "span_x4_df2k")
	x.user.WriteString("\x1b[<0;6;7M") // a click on the second run's line
	x.user.WriteString("\r")
	x.wait(t, "launch explain 20261123-090002")
	x.user.WriteString("\x1b")
	for _, size := range []pty.Winsize{{Cols: 20, Rows: 4}, {Cols: 100, Rows: 30}} {
		if err := pty.Setsize(x.user, &size); err != nil {
			t.Fatal(err)
		}
		tellResized(t)
	}
	x.user.WriteString("o")
	x.wait(t, "esc back")
	x.user.WriteString("q")
	if err := <-done; err != nil || ctx.Err() != nil {
		t.Errorf("%v, %v", err, ctx.Err())
	}
}

// tellResized sends this process the signal that the kernel sends to those of a terminal that was resized.
func tellResized(t *testing.T) {
	t.Helper()
	if err := unix.Kill(os.Getpid(), unix.SIGWINCH); err != nil {
		t.Fatal(err)
	}
}
