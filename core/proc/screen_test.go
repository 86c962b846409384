package proc

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
)

// A tty is a terminal with a program in it, as proc connects them: the program's terminal has the rows that the screen
// leaves.
type tty struct {
	t     *testing.T
	emu   *vt.Emulator
	sent  bytes.Buffer
	s     *Shared
	rows  int
	cols  int
	left  int // rows of the program's terminal
	again int
	own   bytes.Buffer
}

func (y *tty) Write(p []byte) (int, error) {
	y.sent.Write(p)
	if y.emu == nil { // only the bytes count
		return len(p), nil
	}
	return y.emu.Write(p)
}

func newTTY(t *testing.T, rows, cols int, shows Shows) *tty {
	y := newBytes(t, rows, cols, shows)
	y.emu = vt.NewEmulator(cols, rows)
	y.emu.Write(y.sent.Bytes())
	return y
}

// newBytes is a terminal that nobody looks at.
func newBytes(t *testing.T, rows, cols int, shows Shows) *tty {
	y := &tty{t: t, rows: rows, cols: cols}
	y.s = Share(&y.own, shows)
	y.s.patience, y.s.stall = time.Hour, time.Hour
	y.fit()
	return y
}

// fit is what proc does at the start, at a SIGWINCH, and when the screen asks for it.
func (y *tty) fit() {
	y.left = y.s.Fit(Terminal{To: y, Rows: y.rows, Cols: y.cols, Raw: true, Ours: true,
		Again: func() { y.again++ }})
}

// print is the program's output, and what proc does after it.
func (y *tty) print(parts ...string) {
	y.t.Helper()
	for _, p := range parts {
		if n, err := y.s.Write([]byte(p)); err != nil || n != len(p) {
			y.t.Fatalf("%d of %d bytes: %v", n, len(p), err)
		}
		for y.again > 0 {
			y.again = 0
			y.fit()
		}
	}
}

// close is what proc does at the end: it does not look at the size again.
func (y *tty) close() {
	y.s.Close()
	y.again = 0
}

// late is what happens when lines have waited long enough.
func (y *tty) late() {
	y.s.mu.Lock()
	defer y.s.mu.Unlock()
	y.s.write(y.s.flush(true))
}

// row is the text of a row, the first of them 1.
func (y *tty) row(n int) string {
	rows := strings.Split(y.emu.String(), "\n")
	if n > len(rows) {
		return ""
	}
	return strings.TrimRight(rows[n-1], " \r")
}

func (y *tty) all() string {
	var out []string
	for n := range y.rows {
		out = append(out, y.row(n+1))
	}
	return strings.Join(out, "\n")
}

func lines(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintf(&b, "step %d\r\n", i)
	}
	return b.String()
}

var line = Shows{Line: true}

// The status line stays in the last row, and the program scrolls above it. Without the setting the last row is the
// program's.
func TestLine(t *testing.T) {
	y := newTTY(t, 10, 40, line)
	y.s.Show(Status{Line: "training 5 %"})
	y.print(lines(1, 30))
	if y.left != 9 || y.row(10) != "training 5 %" || y.row(8) != "step 30" || y.row(1) != "step 23" {
		t.Errorf("%d rows:\n%s", y.left, y.all())
	}
	y.s.Show(Status{Line: strings.Repeat("x", 100)})
	y.print("step 31\r\n")
	if got := y.row(10); got != strings.Repeat("x", 38)+"…" || y.row(8) != "step 31" {
		t.Errorf("a long line:\n%s", y.all())
	}
	y.close()
	y.print(lines(32, 50))
	if y.row(9) != "step 50" || y.row(1) != "step 42" || y.row(10) != "" {
		t.Errorf("after the end:\n%s", y.all())
	}

	y = newTTY(t, 10, 40, Shows{})
	y.s.Show(Status{Line: "training 5 %"})
	y.print(lines(1, 30))
	if y.left != 10 || y.row(9) != "step 30" || y.row(1) != "step 22" {
		t.Errorf("%d rows without the setting:\n%s", y.left, y.all())
	}
	y = newTTY(t, fewest-1, 40, line)
	if y.print(lines(1, 9)); y.left != fewest-1 || y.row(1) != "step 6" {
		t.Errorf("%d rows of a small terminal:\n%s", y.left, y.all())
	}
}

// A program that begins in the last row of a full terminal goes on there.
func TestLineOnAFullTerminal(t *testing.T) {
	y := newTTY(t, 10, 40, Shows{})
	y.print(lines(1, 30) + "$ launch")
	y.print("\r\n")
	y.close()
	y.s.shows = line
	y.fit()
	y.s.Show(Status{Line: "status"})
	y.print("first\r\nsecond\r\n")
	if y.row(10) != "status" || y.row(8) != "second" || y.row(7) != "first" ||
		y.row(6) != "$ launch" || y.row(5) != "step 30" {
		t.Errorf("\n%s", y.all())
	}
}

// outputs are of programs that leave the whole screen to the line.
var outputs = map[string]string{
	"lines": lines(1, 40),
	"a bar": strings.Repeat("\r 10%|█   | 3/9\r 20%|██  | 4/9", 20) + "\r\n",
	"colours": strings.Repeat("\x1b[1;31mred\x1b[0m and \x1b[38;2;1;2;3mmore\x1b[m\r\n", 15) +
		"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\",
	"several bars": lines(1, 12) + "a\r\nb\r\nc\r\n" +
		strings.Repeat("\x1b[3A\x1b[2Ka 1\r\n\x1b[2Kb 2\r\n\x1b[2Kc 3\r\n", 9),
	"a clear":  lines(1, 20) + "\x1b[H\x1b[2J" + lines(1, 4) + "\x1b[2;3Hx\x1b[J",
	"wide":     strings.Repeat("日本語 🙂 text ", 30) + "\r\nä",
	"far down": "a\x1b[99Bb\r\nc\x1b[2K\x1b[99Ad",
}

// The program's part of the screen is what a terminal of that size would show, wherever its output is cut into parts,
// and whenever the status changes.
func TestLineChangesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for name, text := range outputs {
		bare := newTTY(t, 9, 40, Shows{})
		bare.print("x\r\n\r\nx\r\n", text)
		for range 20 {
			y := newTTY(t, 10, 40, line)
			y.print("x\r\n\r\nx\r\n")
			for rest := text; rest != ""; {
				n := 1 + r.IntN(min(len(rest), 40))
				// At the end of a row a saved cursor has the wrap that is due (DECSC, as xterm does it). That of this emulator
				// does not.
				if y.emu.CursorPosition().X < 39 {
					y.s.Show(Status{Line: fmt.Sprint("status ", n)})
				}
				y.print(rest[:n])
				rest = rest[n:]
			}
			var got []string
			for n := range 9 {
				got = append(got, y.row(n+1))
			}
			if strings.Join(got, "\n") != bare.all() {
				t.Fatalf("%s: the screen is\n%s\nwant\n%s", name, y.all(), bare.all())
			}
			if !strings.HasPrefix(y.row(10), "status ") {
				t.Fatalf("%s: the last row is %q", name, y.row(10))
			}
		}
	}
}

// Whatever a program prints passes unchanged, if nothing is shown.
func TestBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	alphabet := []string{"\x1b", "\x1b[", "?1049h", "H", "1;5r", "\x1b7", "\x1b]0;t\a", "\x1bP", "\x1b\\", "x", "\n",
		"\r", "\xe6", "日", "\x00", "\x9b", "99;1H", strings.Repeat("q", 300), "\x1b_", "\x18"}
	for range 2000 {
		y := newBytes(t, 10, 40, Shows{})
		want := ""
		for range 1 + r.IntN(12) {
			part := ""
			for range 1 + r.IntN(3) {
				part += alphabet[r.IntN(len(alphabet))]
			}
			want += part
			y.print(part)
		}
		y.s.Close()
		if y.sent.String() != want {
			t.Fatalf("%q became %q", want, y.sent.String())
		}
	}
}

// With a status line all bytes of the program still arrive, in their order.
func TestBytesWithLine(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	alphabet := []string{"\x1b", "[", "?1049h", "?1049l", "H", "\x1b[3r", "\x1b7", "\x1b]0;t\a", "x", "\n", "\xe6", "日",
		"\x1b[2J", "\x18"}
	for range 2000 {
		y := newBytes(t, 10, 40, line)
		want := ""
		for range 1 + r.IntN(12) {
			part := alphabet[r.IntN(len(alphabet))]
			want += part
			y.print(part)
		}
		y.s.Close()
		rest := y.sent.String()
		for _, c := range []byte(want) {
			i := strings.IndexByte(rest, c)
			if i < 0 {
				t.Fatalf("%q became %q", want, y.sent.String())
			}
			rest = rest[i+1:]
		}
	}
}

// What takes the whole screen gets it: the line goes before, wherever the sequence is cut.
func TestWholeScreen(t *testing.T) {
	for name, tt := range map[string]struct {
		seq  string
		gone bool
	}{
		"the alternate screen": {"\x1b[?1049h", true}, "an old one": {"\x1b[?47h", true},
		"among other modes": {"\x1b[?25;1049h", true}, "margins": {"\x1b[2;10r", true},
		"a saved cursor": {"\x1b7", true}, "another": {"\x1b[s", true}, "a place below": {"\x1b[10;1H", true},
		"a place far below": {"\x1b[999;999H", true}, "its size": {"\x1b[18t", true}, "a reset": {"\x1bc", true},
		"a soft one": {"\x1b[!p", true}, "origin": {"\x1b[?6h", true},
		"a hidden cursor": {"\x1b[?25l", false}, "a place above": {"\x1b[9;1H", false}, "a clear": {"\x1b[2J", false},
		"a colour": {"\x1b[31m", false}, "a title": {"\x1b]2;x\a", false}, "pasting": {"\x1b[?2004h", false},
		"keys": {"\x1b[>1u", false}, "a title that is put away": {"\x1b[22;2t", false},
	} {
		for cut := range len(tt.seq) {
			y := newTTY(t, 10, 40, line)
			y.s.Show(Status{Line: "status"})
			y.print(lines(1, 3))
			y.print(tt.seq[:cut])
			y.print(tt.seq[cut:])
			y.s.Show(Status{Line: "status 2"})
			if gone := !strings.HasPrefix(y.row(10), "status"); gone != tt.gone || (y.left == 10) != tt.gone {
				t.Errorf("%s, cut at %d: gone %v, %d rows:\n%s", name, cut, gone, y.left, y.all())
			}
			if sent := y.sent.String(); tt.gone && strings.Index(sent, "\x1b[r") > strings.LastIndex(sent, tt.seq) {
				t.Errorf("%s, cut at %d: the line goes after it: %q", name, cut, sent)
			}
			if tt.gone { // its margins are those of the whole terminal
				y.print("\x1b[1;1H" + strings.ReplaceAll(lines(1, 9), "\r\n", "\x1b[K\r\n") + "last")
				if y.row(10) != "last" && name != "margins" && name != "origin" {
					t.Errorf("%s: the screen is\n%s", name, y.all())
				}
			}
		}
	}
}

// After the alternate screen the line comes back, and the main screen is as it was.
func TestLineComesBack(t *testing.T) {
	y := newTTY(t, 10, 40, line)
	y.s.Show(Status{Line: "status"})
	y.print(lines(1, 3), "\x1b[?1049h\x1b[Hfull", "\x1b[?1049l")
	if y.row(10) != "status" || y.row(3) != "step 3" || y.left != 9 {
		t.Errorf("%d rows:\n%s", y.left, y.all())
	}
	y.print(lines(4, 30))
	if y.row(10) != "status" || y.row(8) != "step 30" {
		t.Errorf("\n%s", y.all())
	}
}

// A terminal that gets another size has the line in its new last row.
func TestScreenResize(t *testing.T) {
	y := newTTY(t, 10, 40, line)
	y.s.Show(Status{Line: "status"})
	y.print(lines(1, 30))
	for _, rows := range []int{14, 8, 5, 12} {
		y.rows = rows
		y.emu.Resize(40, rows)
		y.fit()
		if n := strings.Count(y.all(), "status"); n > 1 {
			t.Errorf("%d rows: %d lines:\n%s", rows, n, y.all())
		}
		y.print(lines(1, 30))
		if rows < fewest {
			if y.left != rows || y.row(rows-1) != "step 30" {
				t.Errorf("%d rows, %d for the program:\n%s", rows, y.left, y.all())
			}
			continue
		}
		if y.left != rows-1 || y.row(rows) != "status" || y.row(rows-2) != "step 30" {
			t.Errorf("%d rows, %d for the program:\n%s", rows, y.left, y.all())
		}
	}
}

// Launch's lines come between the program's: where its line has ended, or after some time.
func TestVoice(t *testing.T) {
	y := newTTY(t, 20, 60, Shows{})
	fmt.Fprintln(y.s.Voice(), "launch: one")
	y.print("step 1\r\nste")
	fmt.Fprintln(y.s.Voice(), "launch: two")
	if y.row(1) != "launch: one" || y.row(3) != "ste" || y.row(4) != "" {
		t.Errorf("within a line:\n%s", y.all())
	}
	y.print("p 2\r\n")
	if y.row(3) != "step 2" || y.row(4) != "launch: two" {
		t.Errorf("\n%s", y.all())
	}
	y.print("\x1b[31") // in a sequence: not there either
	fmt.Fprintln(y.s.Voice(), "launch: three")
	y.late()
	if strings.Contains(y.all(), "three") {
		t.Errorf("in a sequence:\n%s", y.all())
	}
	y.print("mred\x1b[0m\r\n")
	y.print("\r 10 %") // a bar
	y.late()
	if !strings.Contains(y.all(), "red\nlaunch: three") && !strings.Contains(y.all(), " 10 %\nlaunch: three") {
		t.Errorf("late:\n%s", y.all())
	}
	y.print("\x1b[?1049hfull")
	fmt.Fprintln(y.s.Voice(), "launch: four")
	y.print("\r\n")
	y.late()
	if strings.Contains(y.all(), "four") {
		t.Errorf("in the alternate screen:\n%s", y.all())
	}
	y.print("\x1b[2Aup\x1b[?1049l") // it draws
	fmt.Fprintln(y.s.Voice(), "launch: five")
	y.print("\r\n")
	if y.late(); strings.Contains(y.all(), "four") || strings.Contains(y.all(), "five") {
		t.Errorf("into what it draws:\n%s", y.all())
	}
	y.print("\x1b[3B")
	y.close()
	if !strings.Contains(y.all(), "launch: four\nlaunch: five") {
		t.Errorf("at the end:\n%s", y.all())
	}
	if y.own.Len() > 0 {
		t.Errorf("beside the screen: %q", y.own.String())
	}
	fmt.Fprintln(y.s.Voice(), "launch: six")
	if y.own.String() != "launch: six\n" {
		t.Errorf("after the end: %q", y.own.String())
	}
}

// Where launch prints elsewhere than the program, its lines do not wait.
func TestVoiceElsewhere(t *testing.T) {
	y := newTTY(t, 20, 60, Shows{})
	y.s.Fit(Terminal{To: y})
	y.print("within a line")
	fmt.Fprintln(y.s.Voice(), "launch: one")
	if y.own.String() != "launch: one\n" || y.sent.String() != "within a line" {
		t.Errorf("%q %q", y.own.String(), y.sent.String())
	}
}

// A line that waits in vain for the end of the program's line is printed all the same, and its end is then launch's.
func TestPatience(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	s := Share(os.Stderr, Shows{})
	s.patience = time.Millisecond
	s.Fit(Terminal{To: write, Ours: true})
	s.Write([]byte("10 %"))
	fmt.Fprintln(s.Voice(), "launch: now")
	want := "10 %\nlaunch: now\n"
	got := make([]byte, len(want))
	read.SetReadDeadline(time.Now().Add(time.Minute))
	for n := 0; n < len(want); {
		m, err := read.Read(got[n:])
		if n += m; err != nil {
			t.Fatalf("%q: %v", got[:n], err)
		}
	}
	if string(got) != want || !s.Ended() {
		t.Errorf("%q, ended %v", got, s.Ended())
	}
	if s.Write([]byte("20 %")); s.Ended() {
		t.Error("the program's line is launch's")
	}
}

// Title and progress are set where they are asked for, and taken back at the end. A title of the program's own stays.
func TestTitleAndTaskbar(t *testing.T) {
	y := newTTY(t, 10, 40, Shows{Title: true, Taskbar: true})
	y.s.Show(Status{Title: "5 %", Percent: 5})
	y.s.Show(Status{Title: "5 %", Percent: 5})
	y.s.Show(Status{Title: "starting", Percent: -1})
	want := "\x1b[22;2t\x1b]2;5 %\a\x1b]9;4;1;5\a\x1b]2;starting\a\x1b]9;4;3\a"
	if got := y.sent.String(); got != want || y.left != 10 {
		t.Errorf("%q, want %q", got, want)
	}
	y.print("\x1b]0;mine\a")
	y.sent.Reset()
	y.s.Show(Status{Title: "6 %", Percent: -1})
	y.s.Close()
	if got, want := y.sent.String(), "\x1b[23;2t\x1b]9;4;0\a"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A stuck is a terminal that takes nothing until it is let go.
type stuck struct {
	in  chan struct{} // a write began
	let chan struct{}
	got bytes.Buffer
}

func (w *stuck) Write(p []byte) (int, error) {
	select {
	case w.in <- struct{}{}:
	default:
	}
	<-w.let
	return w.got.Write(p)
}

// Where the terminal takes nothing, as over a connection that hangs, only the program's output waits for it: launch
// goes on, passes signals on, and ends. Nothing is written out of its order when the terminal goes on.
func TestStuckTerminal(t *testing.T) {
	w := &stuck{in: make(chan struct{}, 1), let: make(chan struct{})}
	var own bytes.Buffer
	s := Share(&own, Shows{Line: true, Title: true})
	s.stall = time.Millisecond
	at := Terminal{To: w, Rows: 10, Cols: 40, Raw: true, Ours: true}
	done := make(chan struct{})
	go func() {
		defer close(done)
		wrote := make(chan struct{})
		s.Fit(at)
		<-w.in
		go func() { s.Write([]byte("step 1\n")); close(wrote) }()
		for i := range 1000 {
			s.Show(Status{Line: fmt.Sprintf("number %d", i)})
		}
		at.Rows = 12
		s.Fit(at)
		fmt.Fprintln(s.Voice(), "launch: a line")
		s.Close()
		select {
		case <-wrote:
			t.Error("the program's output was taken")
		default:
		}
		close(w.let)
		<-wrote
		s.out.flush()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("it waits for the terminal")
	}
	got := w.got.String()
	if a, b := strings.Index(got, "step 1\n"), strings.Index(got, "launch: a line"); a < 0 || b < 0 ||
		strings.Contains(got, "number 999") {
		t.Errorf("%q", got)
	}
	if own.Len() > 0 {
		t.Errorf("%q", own.String())
	}
}

// Where launch's own lines go elsewhere, and nobody reads them there, the program's output goes on.
func TestStuckVoice(t *testing.T) {
	y := newBytes(t, 10, 40, Shows{})
	w := &stuck{in: make(chan struct{}, 1), let: make(chan struct{})}
	y.s.own = w
	y.s.Fit(Terminal{To: y, Rows: 10, Cols: 40})
	said := make(chan struct{})
	go func() { fmt.Fprintln(y.s.Voice(), "launch: a line"); close(said) }()
	<-w.in
	done := make(chan struct{})
	go func() { y.print("step 1\n"); y.close(); close(done) }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Error("the program's output waits for a line of launch")
	}
	close(w.let)
	<-said
}

// A reader that takes nothing is waited for until launch is asked to end.
func TestPatient(t *testing.T) {
	w := &stuck{in: make(chan struct{}, 1), let: make(chan struct{})}
	p := NewPatient(w)
	first, second := make(chan struct{}), make(chan struct{})
	go func() { fmt.Fprintln(p, "launch: one"); close(first) }()
	<-w.in
	go func() { <-first; fmt.Fprintln(p, "launch: two"); close(second) }()
	select {
	case <-first:
		t.Error("it did not wait")
	case <-time.After(2 * stall):
	}
	p.Leave()
	p.Leave()
	for _, done := range []chan struct{}{first, second} {
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Fatal("it still waits")
		}
	}
	close(w.let)
	p.out.flush()
	if got := w.got.String(); got != "launch: one\nlaunch: two\n" {
		t.Errorf("%q", got)
	}
}
