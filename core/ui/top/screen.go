package top

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/launch-ml/launch/core/unit"
)

// A view is what fills the screen.
type view int

const (
	overview view = iota
	details
	processes
	help
)

// A Screen is what the user has chosen to see, and the memory that is used again for each text.
type Screen struct {
	Width, Height int
	Colour        bool

	snapshot Snapshot
	seen     bool // there was a snapshot
	view     view
	sort     *column // nil: by their beginning
	reversed bool
	filter   string
	typing   bool // the filter is being typed
	paused   bool
	selected string // the run's name
	first    int    // the first run that is shown, of those that are chosen

	rows    []int // the chosen runs
	canvas  canvas
	runsAt  int // the line of the first run
	shown   int // how many runs are shown
	headAt  int // the line with the names of the columns
	columns layout
}

// Take gives the screen a new snapshot.
func (s *Screen) Take(snapshot Snapshot) {
	if !s.paused || !s.seen {
		s.snapshot, s.seen = snapshot, true
	}
	s.choose()
}

// choose finds the runs to show, and keeps the selection on its run.
func (s *Screen) choose() {
	s.rows = chosen(s.rows, s.snapshot.Runs, s.filter, s.sort, s.reversed)
	if s.row() < 0 {
		s.selected = ""
		if len(s.rows) > 0 {
			s.selected = s.snapshot.Runs[s.rows[0]].ID
		}
	}
}

// row is the place of the selected run among those chosen; -1 if there is none.
func (s *Screen) row() int {
	return slices.IndexFunc(s.rows, func(i int) bool { return s.snapshot.Runs[i].ID == s.selected })
}

// run is the selected run; nil if there is none.
func (s *Screen) run() *Run {
	if at := s.row(); at >= 0 {
		return &s.snapshot.Runs[s.rows[at]]
	}
	return nil
}

// move moves the selection by so many runs.
func (s *Screen) move(by int) {
	if len(s.rows) > 0 {
		at := min(max(0, s.row()+by), len(s.rows)-1)
		s.selected = s.snapshot.Runs[s.rows[at]].ID
	}
}

// Text is the screen, its lines separated by line breaks. None is wider than the screen, and there are no more of them
// than it has.
func (s *Screen) Text() string {
	c := &s.canvas
	c.reset(max(1, s.Width), s.Colour)
	s.shown, s.headAt = 0, -1
	switch {
	case !s.seen:
		c.line("reading the runs of this machine …", plain)
	case s.view == details:
		s.drawDetails(c)
	case s.view == processes:
		s.title(c)
		s.drawProcesses(c, s.Height-3)
	case s.view == help:
		s.drawHelp(c)
	default:
		s.title(c)
		if s.Height >= leastForCards {
			s.drawCards(c, max(1, (s.Height-4)/2))
		}
		s.drawRuns(c)
	}
	return s.fit(c)
}

// leastForCards is the height from which a run has a line beside the host memory and the cards: a run is worth more.
const leastForCards = 6

// fit cuts the text to the screen's height, with the line of keys at the bottom.
func (s *Screen) fit(c *canvas) string {
	text := string(c.text)
	height := max(1, s.Height-1)
	if lines := strings.Count(text, "\n"); lines > height {
		at := 0
		for range height {
			at += strings.IndexByte(text[at:], '\n') + 1
		}
		text = text[:at]
	} else {
		text += strings.Repeat("\n", height-lines)
	}
	if s.Height < 2 {
		return strings.TrimSuffix(text, "\n")
	}
	c.reset(c.width, c.paint)
	s.keys(c)
	return text + strings.TrimSuffix(string(c.text), "\n")
}

// keys is the last line.
func (s *Screen) keys(c *canvas) {
	switch {
	case s.typing:
		c.write("filter: ", bold)
		c.write(s.filter+"_", plain)
		c.write("   enter: keep it  esc: no filter", faint)
	case s.view != overview:
		c.write("esc back   q quit", faint)
	default:
		by := "start"
		if s.sort != nil {
			by = strings.ToLower(s.sort.name)
		}
		text := "q quit  ? help  ↑↓ select  enter details  s sort: " + by + "  / filter  o processes"
		if s.filter != "" {
			text = "filter " + strconv.Quote(s.filter) + "  esc no filter  " + text
		}
		c.write(text, faint)
	}
	c.end()
}

// title is the first line.
func (s *Screen) title(c *canvas) {
	n := s.snapshot
	c.write("launch top", bold)
	c.gap(2)
	c.write(n.Machine, plain)
	c.gap(2)
	c.write(n.Time.Format("15:04:05"), plain)
	if s.paused {
		c.gap(1)
		c.write("paused", yellow)
	}
	c.gap(2)
	c.write(counts(n), plain)
	if len(n.Problems) > 0 {
		c.gap(2)
		c.write(ends(len(n.Problems), "problem")+": "+n.Problems[0], red)
	}
	c.end()
}

// counts is how many runs and launches there are.
func counts(n Snapshot) string {
	cut := 0
	for i := range n.Runs {
		if n.Runs[i].State == CutOff {
			cut++
		}
	}
	text := ends(len(n.Runs)-cut, "run")
	if cut > 0 {
		text += ", " + strconv.Itoa(cut) + " cut off"
	}
	if n.Waiting > 0 {
		text += ", " + strconv.Itoa(n.Waiting) + " waiting for memory"
	}
	if n.Elsewhere > 0 {
		text += ", " + strconv.Itoa(n.Elsewhere) + " on other machines"
	}
	return text
}

// ends is a number and a noun, which has an s unless there is one of it.
func ends(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

// drawCards adds the host memory and the cards, in at most so many lines.
func (s *Screen) drawCards(c *canvas, most int) {
	n := s.snapshot
	if n.Host != nil {
		used := unit.Bytes(0)
		if n.Host.Total > 0 {
			used = max(0, n.Host.Total-n.Host.Free)
		}
		row := cardRow{number: "host", name: "memory", used: used, total: n.Host.Total}
		if n.Host.Total == 0 {
			row.name = n.Host.Free.String() + " free"
		}
		row.draw(c)
		most--
	}
	if n.NoCards != "" && len(n.Cards) == 0 {
		c.line("no card: "+n.NoCards, faint)
	}
	for i, card := range n.Cards {
		if most <= 1 && i < len(n.Cards)-1 {
			c.line("… and "+ends(len(n.Cards)-i, "more card"), faint)
			return
		}
		most--
		row := cardRow{number: strconv.Itoa(i), name: card.Name, used: card.Used, others: card.Others, total: card.Total,
			busy: card.Busy, runs: len(card.Runs), card: true, fault: card.Fault}
		if card.Parent != "" {
			row.number = " " + row.number
		}
		row.draw(c)
	}
}

// A cardRow is a line about a memory: a card's or the host's.
type cardRow struct {
	number, name        string
	used, others, total unit.Bytes
	busy                *int
	runs                int
	card                bool
	fault               string // what the driver says of a card that does not answer
}

// held is the text of what is held, where that is known.
func (r cardRow) held(text string) string {
	switch {
	case r.fault != "":
		return r.fault
	case r.card && r.total == 0:
		return unknown
	}
	return text
}

// draw adds the line. Its parts take their place by their weight: the bar, the amounts, how busy it is, its runs.
func (r cardRow) draw(c *canvas) {
	const amounts, others, more = 22, 17, 17
	c.cell(r.number, 4, false, bold)
	c.gap(1)
	wide := c.width <= 0 || c.width >= 100
	if c.left() < amounts+8 { // the amount is worth more than the name
		c.line(r.held(amount(r.used)), plain)
		return
	}
	name := 12
	if wide {
		name = 24
	}
	full, taken := 0.0, 0.0
	if r.total > 0 {
		full, taken = float64(r.used-r.others)/float64(r.total), float64(r.others)/float64(r.total)
	}
	c.cell(r.name, name, false, plain)
	c.gap(1)
	if columns := c.left() - amounts - more; wide || columns >= 6 {
		if wide {
			columns -= others
		}
		c.write(bar(min(40, columns), full, taken), cyan)
		c.gap(1)
	}
	c.cell(r.held(r.used.String()+" of "+r.total.String()), amounts-1, true, plain)
	if !r.card || c.left() < more {
		c.end()
		return
	}
	busy := "busy ?"
	if r.busy != nil {
		busy = "busy " + strconv.Itoa(*r.busy) + "%"
	}
	c.gap(1)
	c.cell(busy, 9, true, plain)
	c.gap(1)
	c.cell(ends(r.runs, "run"), 6, true, plain)
	if r.others > 0 && c.left() > others-1 {
		c.gap(1)
		c.write("others "+r.others.String(), yellow)
	}
	c.end()
}

// drawRuns adds the list of runs, and what there is room for of the other processes.
func (s *Screen) drawRuns(c *canvas) {
	below := s.Height - c.lines - 2 // the names of the columns, and the keys
	some := len(s.snapshot.Others)
	if some > 0 { // the runs come first
		some = min(some+1, 5, max(0, below-max(3, len(s.rows))))
		if some < 2 {
			some = 0
		}
		below -= some
	}
	s.columns = layoutFor(s.Width)
	s.headAt = c.lines
	s.columns.header(c, s.sort, s.reversed)
	s.runsAt = c.lines
	if len(s.rows) == 0 {
		text := "no run on this machine now"
		if len(s.snapshot.Runs) > 0 {
			text = "no run has the text of the filter"
		}
		c.line("  "+text, faint)
	}
	s.shown = min(len(s.rows), max(1, below))
	at := max(0, s.row())
	s.first = min(max(s.first, at-s.shown+1, 0), at, len(s.rows)-s.shown)
	for _, i := range s.rows[s.first : s.first+s.shown] {
		r := &s.snapshot.Runs[i]
		s.columns.draw(c, r, s.snapshot.Time, r.ID == s.selected)
	}
	if some > 0 {
		for s.Height-1-c.lines > some {
			c.end()
		}
		s.drawProcesses(c, some-1)
	}
}

// drawProcesses adds the processes that are of no run, at most so many.
func (s *Screen) drawProcesses(c *canvas, most int) {
	others := s.snapshot.Others
	if len(others) == 0 {
		c.line("no other process holds memory of a card, as far as the driver lists them", faint)
		return
	}
	c.cell("OTHER", 9, true, faint)
	c.gap(2)
	c.cell("CARD", 4, false, faint)
	c.gap(2)
	c.cell("MEMORY", 9, true, faint)
	c.gap(2)
	c.write("USER AND PROGRAM", faint)
	c.end()
	for i, p := range others {
		if most--; most < 1 && i < len(others)-1 {
			c.line(strings.Repeat(" ", 11)+"… and "+strconv.Itoa(len(others)-i)+" more processes", faint)
			return
		}
		c.cell(strconv.Itoa(p.PID), 9, true, plain)
		c.gap(2)
		c.cell(strconv.Itoa(p.Card), 4, false, plain)
		c.gap(2)
		c.cell(amount(p.Used), 9, true, plain)
		c.gap(2)
		c.write(strings.TrimSpace(p.User+"  "+p.Name), plain)
		c.end()
	}
}

var helpLines = []string{
	"launch top shows the runs of this machine. It changes nothing and stops nobody.",
	"",
	"  ↑ ↓ j k, wheel     select a run               page up, page down, home, end",
	"  enter, click       its details, and the commands that read or resume it",
	"  s, click a name    sort by the next column, or by this one       r  the other way round",
	"  /                  show only runs with a text in their name, command, phase or plugin",
	"  o                  the other processes on the cards",
	"  space              pause: the figures stay as they are",
	"  esc                back            q, ctrl-c  quit            ctrl-z  suspend",
	"",
	"NOW and PEAK are what the job holds, and held at most in this attempt. ESTIMATE is the plan's estimate for the " +
		"phase that runs. A peak above its estimate is yellow, and one above the room is red.",
	"SAMPLES/S is the speed in the last minute of steps. TIME LEFT counts on the mean time of a step so far, with " +
		"validation; it is not known if the program does not print how many steps there are, or counts them by epoch.",
	"Of a card, █ is in use and ╱ is held by other processes.",
}

func (s *Screen) drawHelp(c *canvas) {
	for _, text := range helpLines {
		for l := range strings.SplitSeq(ansi.Wrap(text, c.width, ""), "\n") {
			c.line(l, plain)
		}
	}
}

// Table returns a snapshot as text for a person, without a screen: every run, and lines as long as they are.
func Table(snapshot Snapshot) string {
	s := Screen{snapshot: snapshot, Height: 1 << 20}
	c := &s.canvas
	s.title(c)
	s.drawCards(c, 1<<20)
	if len(snapshot.Runs) > 0 {
		l := whole(snapshot.Runs)
		l.header(c, nil, false)
		for i := range snapshot.Runs {
			l.draw(c, &snapshot.Runs[i], snapshot.Time, false)
		}
	}
	if len(snapshot.Others) > 0 {
		s.drawProcesses(c, 1<<20)
	}
	for _, p := range snapshot.Problems {
		c.line(fmt.Sprintf("problem: %s", p), plain)
	}
	return string(c.text)
}
