// Package screen shares the place where a program prints with launch: its own lines go between those of the program and
// never into one, and where the user asks for it, the terminal shows a status line, a title and a progress.
//
// What the program prints passes through unchanged. A status line takes the last row of the terminal, outside the
// region that scrolls (DECSTBM), and the program's own terminal is one row smaller. A program that takes the whole
// screen, by the alternate screen, margins of its own, or a place below its last row, gets it: the line goes away.
package screen

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"github.com/launch-ml/launch/core/proc"
)

// Shows is what of a status a terminal shows. None by default.
type Shows struct {
	Line    bool // a status line in the last row
	Title   bool // the terminal's title (OSC 2)
	Taskbar bool // the progress, in the taskbar or the tab (OSC 9;4)
}

// Any reports whether anything is shown.
func (s Shows) Any() bool { return s.Line || s.Title || s.Taskbar }

// A Status is what is shown. Texts are one line without control characters.
type Status struct {
	Line, Title string
	Percent     int // negative: not known
}

const (
	// patience is how long a line waits for the program to end its own. A progress bar never does.
	patience = 2 * time.Second
	// drawing is how long after a program has moved the cursor up a line waits: it draws several rows again and again,
	// and would draw over what is put between.
	drawing = 30 * time.Second
	// stall is how long launch waits for a terminal that takes nothing. The program's own output waits for ever.
	stall = 250 * time.Millisecond
	// fewest rows of a terminal that has a status line.
	fewest = 6
	// mostCarried bounds what is kept of a sequence that has not ended, such as a picture.
	mostCarried = 256
)

// A Screen implements [proc.Screen], and io.Writer for launch's own lines: [Screen.Voice].
type Screen struct {
	own   io.Writer // launch's own lines, while no program runs or where it prints elsewhere
	shows Shows

	patience, drawing, stall time.Duration // for tests

	owning sync.Mutex // of own
	out    *outlet    // to at.To

	mu     sync.Mutex    // never held while something is written
	at     proc.Terminal // where the program prints; To is nil before
	open   bool          // a program prints
	sized  bool          // its terminal's size is at.Rows, at.Cols
	parser *ansi.Parser
	carry  []byte // of a sequence or a letter that has not ended, for the parser
	held   []byte // the same, if it was not written yet
	text   bool   // in a long sequence, such as a picture, that has not ended
	middle bool   // the program's last line has not ended
	ended  bool   // launch has ended it
	alt    bool   // the alternate screen
	taken  bool   // the program wants the whole screen
	titled bool   // it has set a title of its own
	drew   time.Time
	lines  []string // of launch's, that wait
	timer  *time.Timer
	rows   int  // of the terminal, if its last one is the status line; else 0
	cols   int  // with rows
	erased bool // the program has cleared the status line
	status *Status
	shown  int64 // [outlet.mark] after the status
	pushed bool  // the terminal's own title was put away
}

// New returns a screen. own is where launch prints.
func New(own io.Writer, shows Shows) *Screen {
	return &Screen{own: own, shows: shows, patience: patience, drawing: drawing, stall: stall, out: newOutlet(),
		parser: ansi.NewParser()}
}

// Undo is what takes everything off a terminal that the screen may have put there, should launch be killed.
func (s *Screen) Undo() string {
	out := ""
	if s.shows.Line {
		out += "\x1b7\x1b[r\x1b8"
	}
	if s.shows.Title {
		out += "\x1b[23;2t"
	}
	if s.shows.Taskbar {
		out += "\x1b]9;4;0\a"
	}
	return out
}

// Fit implements [proc.Screen].
func (s *Screen) Fit(t proc.Terminal) (rows int) {
	defer s.out.within(s.stall)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open {
		_ = s.out.failed() // of another program
		s.alt, s.taken, s.titled, s.middle, s.text, s.drew = false, false, false, false, false, time.Time{}
		s.carry, s.held = nil, nil
	}
	s.open, s.at, s.sized = true, t, t.Rows > 0
	rows = t.Rows
	if s.line() {
		rows--
	}
	s.write(s.update(true))
	return rows
}

// line reports whether there is to be a status line. mu is held.
func (s *Screen) line() bool {
	return s.shows.Line && s.open && s.sized && s.at.Rows >= fewest && !s.alt && !s.taken
}

// Write passes on what the program prints. It implements [proc.Screen].
func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	s.write(s.pass(p))
	if s.open {
		s.write(append(s.update(false), s.flush(false)...))
	}
	s.mu.Unlock()
	s.out.flush()
	if err := s.out.failed(); err != nil {
		return 0, err
	}
	return len(p), nil
}

// pass reads what the program prints, and returns what is written for it: the same, with the status line taken away
// before a sequence that needs the whole screen. mu is held.
func (s *Screen) pass(p []byte) []byte {
	if len(s.carry) == 0 && !s.text && bytes.IndexByte(p, '\x1b') < 0 {
		s.tail(p)
		return p
	}
	text := append(bytes.Clone(s.carry), p...)
	done := len(s.carry) - len(s.held) // of text, that was written before
	s.carry, s.held = nil, nil
	i := 0
	if s.text {
		if i = bytes.IndexAny(text, "\x1b\a\x18\x1a"); i < 0 {
			return p
		}
		s.text = false
	}
	var out []byte
	for {
		n := bytes.IndexByte(text[i:], '\x1b')
		if n < 0 {
			s.tail(text)
			return append(out, text[done:]...)
		}
		i += n
		seq, _, n, state := ansi.DecodeSequence(text[i:], ansi.NormalState, s.parser)
		if state != ansi.NormalState && i+n >= len(text) {
			return append(out, s.unfinished(text, i, done)...)
		}
		if s.see(string(seq)) && s.rows > 0 && i >= done {
			out = append(append(out, text[done:i]...), s.away()...)
			done = i
		}
		i += max(1, n)
	}
}

// unfinished notes a sequence that begins at i and has not ended. It returns what is written of text from done on: a
// short sequence waits for its end where there is a status line, which may have to go before it.
func (s *Screen) unfinished(text []byte, i, done int) []byte {
	s.middle, s.ended = true, false
	if len(text)-i > mostCarried {
		s.text = true
		return text[done:]
	}
	s.carry = bytes.Clone(text[i:])
	if s.rows > 0 && i >= done {
		s.held = s.carry
		return text[done:i]
	}
	return text[done:]
}

// tail notes how what was printed ends: in the middle of a line, or of a letter.
func (s *Screen) tail(p []byte) {
	if len(p) == 0 {
		return
	}
	s.middle, s.ended = p[len(p)-1] != '\n', false
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		if b := p[len(p)-n:]; utf8.RuneStart(b[0]) {
			if b[0] >= utf8.RuneSelf && !utf8.FullRune(b) {
				s.carry = bytes.Clone(b)
			}
			return
		}
	}
}

// see takes one sequence of the program. It reports whether the status line has to go before it. mu is held.
func (s *Screen) see(seq string) (whole bool) {
	cmd := ansi.Cmd(s.parser.Command())
	if strings.HasPrefix(seq, "\x1b]") {
		kind := s.parser.Command()
		s.titled = s.titled || kind == 0 || kind == 2
		return false
	}
	if !strings.HasPrefix(seq, "\x1b[") {
		switch seq {
		case "\x1b7", "\x1b8", "\x1bc", "\x1b#8": // it keeps a place of its own, or resets the terminal
			s.taken = true
			return true
		}
		return false
	}
	first, _ := s.parser.Param(0, 0)
	switch final, prefix := cmd.Final(), cmd.Prefix(); {
	case prefix == '?' && (final == 'h' || final == 'l'):
		return s.mode(final == 'h')
	case prefix != 0:
	case cmd.Intermediate() != 0:
		if cmd.Intermediate() == '!' && final == 'p' { // a reset
			s.taken = true
			return true
		}
	case final == 'r' || final == 's' || final == 'u' || final == 't' && (first == 18 || first == 8):
		s.taken = true
		return true
	case final == 'H' || final == 'f' || final == 'd':
		s.drew = time.Now()
		if first >= s.at.Rows && s.sized {
			s.taken = true
			return true
		}
	case final == 'A' || final == 'F' || final == 'L' || final == 'M':
		s.drew = time.Now()
	case final == 'J': // it clears the last row, too
		s.erased = true
	}
	return false
}

// mode takes a private mode that is set or reset.
func (s *Screen) mode(set bool) (whole bool) {
	for i := range 32 {
		switch n, more := s.parser.Param(i, 0); {
		case !more:
			return whole
		case n == 47 || n == 1047 || n == 1049:
			s.alt = set
			whole = whole || set
		case n == 6 && set:
			s.taken, whole = true, true
		}
	}
	return whole
}

// away returns what takes the status line off the terminal. mu is held.
func (s *Screen) away() []byte {
	if s.rows == 0 {
		return nil
	}
	out := fmt.Appendf(nil, "\x1b7\x1b[%d;1H\x1b[0m\x1b[2K\x1b[r\x1b8", s.rows)
	s.rows = 0
	s.refit()
	return out
}

// whole reports whether anything can be written now: not in the middle of a sequence. mu is held.
func (s *Screen) whole() bool { return len(s.carry) == 0 && !s.text }

// update returns what brings the terminal to the present status. fit: its size may be another one. mu is held.
func (s *Screen) update(fit bool) (out []byte) {
	if !s.whole() || !s.open {
		return nil
	}
	switch want := s.line(); {
	case !want:
		out = s.away()
	case s.rows == 0 && !fit:
		s.refit() // the program's terminal has to be smaller first
	case s.rows != s.at.Rows: // the cursor may be in the last row: a new row for it, above the line
		clear := ""
		if s.rows > 0 { // the line is still where the last row was: below the program's row, wherever that has moved
			clear = "\r\x1b[J"
		}
		out = fmt.Appendf(nil, "\n\x1b7%s\x1b[1;%dr\x1b8\x1b[A", clear, s.at.Rows-1)
		s.rows, s.cols = s.at.Rows, s.at.Cols
		out = append(out, s.drawn()...)
	case s.cols != s.at.Cols: // which makes a terminal forget its margins
		out = fmt.Appendf(nil, "\x1b7\x1b[1;%dr\x1b8", s.rows-1)
		s.cols = s.at.Cols
		out = append(out, s.drawn()...)
	case s.erased || fit:
		out = s.drawn()
	}
	s.erased = false
	return out
}

// refit has the program's terminal sized again: it has one row more, or less.
func (s *Screen) refit() {
	if s.at.Again != nil {
		s.at.Again()
	}
}

// drawn returns the status line, in its row. mu is held.
func (s *Screen) drawn() []byte {
	text := ""
	if s.status != nil {
		text = ansi.Truncate(s.status.Line, max(1, s.at.Cols-1), "…")
	}
	return fmt.Appendf(nil, "\x1b7\x1b[%d;1H\x1b[0;7m%s\x1b[K\x1b[0m\x1b8", s.rows, text)
}

// Show shows a status, if there is anything to show it on. It is left out while the terminal has not taken the one
// before.
func (s *Screen) Show(st Status) {
	defer s.out.within(s.stall)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.out.wrote(s.shown) {
		return
	}
	before := s.status
	s.status = &st
	if !s.open || !s.sized || !s.whole() {
		return
	}
	var out []byte
	if s.rows > 0 && (before == nil || before.Line != st.Line) {
		out = s.drawn()
	}
	if s.shows.Title && !s.titled && (before == nil || before.Title != st.Title) {
		if !s.pushed {
			out = append(out, "\x1b[22;2t"...)
			s.pushed = true
		}
		out = append(out, "\x1b]2;"+st.Title+"\a"...)
	}
	if s.shows.Taskbar && (before == nil || before.Percent != st.Percent) {
		if st.Percent < 0 {
			out = append(out, "\x1b]9;4;3\a"...)
		} else {
			out = fmt.Appendf(out, "\x1b]9;4;1;%d\a", min(100, st.Percent))
		}
	}
	s.write(out)
	s.shown = s.out.mark()
}

// write puts what goes to where the program prints. mu is held.
func (s *Screen) write(p []byte) {
	if len(p) > 0 && s.at.To != nil {
		s.out.add(s.at.To, p)
	}
}

// Voice is where launch prints its own lines. While a program runs that prints to the same place, they wait until the
// program has ended its line, or for a short time.
func (s *Screen) Voice() io.Writer { return voice{s} }

type voice struct{ s *Screen }

func (v voice) Write(p []byte) (int, error) {
	s := v.s
	if !s.take(p) {
		s.owning.Lock()
		defer s.owning.Unlock()
		return s.own.Write(p)
	}
	s.out.within(s.stall)
	return len(p), nil
}

// take takes a line that goes to where a program prints.
func (s *Screen) take(line []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open || !s.at.Ours {
		return false
	}
	s.lines = append(s.lines, string(line))
	s.write(s.flush(false))
	s.wait()
	return true
}

// wait sets the time after which lines that wait are printed. mu is held.
func (s *Screen) wait() {
	if len(s.lines) == 0 || s.timer != nil {
		return
	}
	s.timer = time.AfterFunc(s.patience, func() {
		defer s.out.within(s.stall)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.timer = nil
		if s.open {
			s.write(s.flush(true))
			s.wait()
		}
	})
}

// flush returns launch's lines, if they can be printed now. late: they have waited for the program's line to end. mu
// is held.
func (s *Screen) flush(late bool) (out []byte) {
	if len(s.lines) == 0 || s.alt || !s.whole() || s.middle && !late ||
		!s.drew.IsZero() && time.Since(s.drew) < s.drawing {
		return nil
	}
	return s.all()
}

// all returns the lines that wait. mu is held.
func (s *Screen) all() (out []byte) {
	end := "\n"
	if s.at.Raw {
		end = "\r\n"
	}
	if s.middle && len(s.lines) > 0 {
		out = append(out, end...)
		s.middle, s.ended = false, true
	}
	for _, line := range s.lines {
		out = append(out, strings.ReplaceAll(line, "\n", end)...)
	}
	s.lines = nil
	return out
}

// Ended reports whether launch has ended the program's last line.
func (s *Screen) Ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// Close gives the terminal back: the program has ended, or is suspended. It implements [proc.Screen].
func (s *Screen) Close() {
	defer s.out.within(8 * s.stall)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open {
		return
	}
	out := append([]byte{}, s.held...) // the rest of a sequence never came
	s.carry, s.held = nil, nil
	out = append(out, s.away()...)
	if s.pushed {
		out = append(out, "\x1b[23;2t"...)
	}
	if s.shows.Taskbar && s.sized && s.status != nil {
		out = append(out, "\x1b]9;4;0\a"...)
	}
	s.pushed, s.status = false, nil
	s.write(append(out, s.all()...))
	s.open = false
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
}

var _ proc.Screen = (*Screen)(nil)
