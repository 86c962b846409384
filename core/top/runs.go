package top

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/unit"
)

// A column of the list of runs.
type column struct {
	name    string
	width   int // 0: it takes what the others leave
	toRight bool
	cell    func(r *Run, now time.Time) (string, style)
	less    func(a, b *Run) int // nil: the list cannot be sorted by it
}

// narrow is the width below which the progress has no bar.
const narrow = 60

// leastTitle is the least width of a run's title.
const leastTitle = 12

var (
	colRun = column{name: "RUN", width: 4, cell: func(r *Run, _ time.Time) (string, style) {
		return r.ID[strings.LastIndexByte(r.ID, '-')+1:], faint
	}, less: func(a, b *Run) int { return cmp.Compare(a.ID, b.ID) }}
	colTitle = column{name: "NAME", cell: func(r *Run, _ time.Time) (string, style) { return r.Title, plain },
		less: func(a, b *Run) int { return cmp.Compare(a.Title, b.Title) }}
	colPhase = column{name: "PHASE", width: 10, cell: phase,
		less: func(a, b *Run) int { return cmp.Compare(phaseOf(a), phaseOf(b)) }}
	colProgress = column{name: "PROGRESS", width: 12, cell: progress, less: byPart}
	colPercent  = column{name: "DONE", width: 5, toRight: true, cell: percent, less: byPart}
	colRate     = column{name: "SAMPLES/S", width: 9, toRight: true, cell: speed,
		less: func(a, b *Run) int { return known(a, b, rateOf) }}
	colLeft = column{name: "TIME LEFT", width: 9, toRight: true, cell: left,
		less: func(a, b *Run) int { return known(a, b, leftOf) }}
	colNow = column{name: "NOW", width: 9, toRight: true, cell: func(r *Run, _ time.Time) (string, style) {
		return amount(nowOf(r)), plain
	}, less: func(a, b *Run) int { return known(a, b, func(r *Run) float64 { return float64(nowOf(r)) }) }}
	colPeak = column{name: "PEAK", width: 9, toRight: true, cell: peak,
		less: func(a, b *Run) int { return known(a, b, func(r *Run) float64 { return float64(peakOf(r)) }) }}
	colEstimate = column{name: "ESTIMATE", width: 9, toRight: true, cell: func(r *Run, _ time.Time) (string, style) {
		return amount(r.Expected), plain
	}, less: func(a, b *Run) int {
		return known(a, b, func(r *Run) float64 { return float64(r.Expected) })
	}}
	colCard = column{name: "CARD", width: 5, cell: cards}
)

// order is the order in which columns stand, and weight the order in which they get their place.
var (
	order = []*column{&colRun, &colTitle, &colPhase, &colProgress, &colPercent, &colRate, &colLeft, &colNow, &colPeak,
		&colEstimate, &colCard}
	weight = []*column{&colProgress, &colPercent, &colLeft, &colNow, &colPhase, &colRate, &colEstimate, &colPeak,
		&colCard, &colRun}
	// sorts are the columns by which key "s" sorts, after the one of the runs' beginning.
	sorts = []*column{nil, &colTitle, &colPhase, &colProgress, &colRate, &colLeft, &colNow, &colPeak, &colEstimate}
)

// A layout is the columns that a width has room for.
type layout struct {
	columns []*column
	title   int // the width of the title
	gap     int
}

// marker is the width of the mark at a line's beginning.
const marker = 2

func layoutFor(width int) layout {
	l := layout{gap: 1}
	if width >= 110 {
		l.gap = 2
	}
	least := leastTitle
	if width < 2*leastTitle {
		least = leastTitle / 2
	}
	free, has := width-marker-least, map[*column]bool{&colTitle: true}
	for _, c := range weight {
		bars := width >= narrow
		if c == &colProgress && !bars || c == &colPercent && bars {
			continue
		}
		if need := c.width + l.gap; need <= free {
			free -= need
			has[c] = true
		}
	}
	for _, c := range order {
		if has[c] {
			l.columns = append(l.columns, c)
		}
	}
	l.title = least + max(0, free)
	return l
}

// whole is the layout for a width that is not limited: every column, and the longest title.
func whole(runs []Run) layout {
	l := layout{gap: 2, title: leastTitle}
	for i := range runs {
		_, w := tidy(runs[i].Title)
		l.title = max(l.title, w)
	}
	for _, c := range order {
		if c != &colPercent {
			l.columns = append(l.columns, c)
		}
	}
	return l
}

func (l layout) widthOf(c *column) int {
	if c.width == 0 {
		return l.title
	}
	return c.width
}

// draw adds the line of one run.
func (l layout) draw(c *canvas, r *Run, now time.Time, selected bool) {
	mark, cursor := "  ", plain
	if selected {
		mark, cursor = "> ", reverse
	}
	c.write(mark, bold)
	for i, col := range l.columns {
		if i > 0 {
			c.gap(l.gap)
		}
		text, s := col.cell(r, now)
		if col == &colTitle && selected {
			s = cursor
		}
		c.cell(text, l.widthOf(col), col.toRight, s)
	}
	c.end()
}

// header adds the names of the columns; by is the one that sorts.
func (l layout) header(c *canvas, by *column, reversed bool) {
	c.gap(marker)
	for i, col := range l.columns {
		if i > 0 {
			c.gap(l.gap)
		}
		name, s := col.name, faint
		if by != nil && col.name == by.name {
			if s = bold; len(name) < l.widthOf(col) {
				name += map[bool]string{true: "▴", false: "▾"}[reversed]
			}
		}
		c.cell(name, l.widthOf(col), col.toRight, s)
	}
	c.end()
}

// at returns the column at a position of a line; nil if there is none.
func (l layout) at(x int) *column {
	x -= marker
	for _, col := range l.columns {
		if x >= 0 && x < l.widthOf(col) {
			return col
		}
		x -= l.widthOf(col) + l.gap
	}
	return nil
}

// chosen returns the indices of the runs that a filter leaves, sorted: what is not known stands last. It uses the
// memory of rows.
func chosen(rows []int, runs []Run, filter string, by *column, reversed bool) []int {
	rows = rows[:0]
	filter = strings.ToLower(filter)
	for i := range runs {
		if filter == "" || matches(&runs[i], filter) {
			rows = append(rows, i)
		}
	}
	if by != nil && by.less != nil {
		slices.SortStableFunc(rows, func(a, b int) int { return by.less(&runs[a], &runs[b]) })
	}
	if reversed {
		slices.Reverse(rows)
	}
	return rows
}

func matches(r *Run, filter string) bool {
	for _, text := range []string{r.ID, r.Title, r.Plugin, phaseOf(r), strings.Join(r.Command, " ")} {
		if strings.Contains(strings.ToLower(text), filter) {
			return true
		}
	}
	return false
}

// known compares two figures, the larger first and what is not known, 0, last.
func known(a, b *Run, of func(*Run) float64) int { return cmp.Compare(of(b), of(a)) }

func byPart(a, b *Run) int { return known(a, b, partOf) }

func partOf(r *Run) float64 {
	if r.Status == nil {
		return 0
	}
	part, _ := r.Status.Progress.Part()
	return part
}

func rateOf(r *Run) float64 {
	if r.Status == nil || r.Status.Progress == nil || r.State != Running {
		return 0
	}
	return r.Status.Progress.Rate
}

// leftOf is larger the sooner a run ends.
func leftOf(r *Run) float64 {
	if r.Left == nil {
		return 0
	}
	return 1 / (1 + *r.Left)
}

// onCards reports whether the driver alone knows what a run holds of its cards: launch watches no card for a command
// that no plugin knows, and of several cards only one.
func onCards(r *Run) bool {
	return r.OnCards > 0 && (r.Status == nil || r.Status.Memory == nil || r.Status.Memory.Is == record.Anonymous)
}

func nowOf(r *Run) unit.Bytes {
	switch {
	case r.State != Running:
		return 0
	case onCards(r):
		return r.OnCards
	case r.Status == nil || r.Status.Memory == nil:
		return 0
	}
	return r.Status.Memory.Now
}

func peakOf(r *Run) unit.Bytes {
	if onCards(r) || r.Status == nil || r.Status.Memory == nil {
		return 0
	}
	return r.Status.Memory.Peak
}

// phaseOf is what a run does: its phase, or why it has none.
func phaseOf(r *Run) string {
	switch {
	case r.State != Running:
		return r.State
	case r.Status == nil:
		return "no program" // between two attempts
	case r.Status.Trial != "":
		return r.Status.Trial
	case r.Status.Phase == "" && r.Plugin == "":
		return "as typed" // no plugin knows its phases
	case r.Status.Phase == "":
		return "started"
	}
	return r.Status.Phase
}

func phase(r *Run, now time.Time) (string, style) {
	if age, silent := r.Silent(now); silent {
		return "silent " + span(age), yellow
	}
	switch {
	case r.State != Running:
		return r.State, red
	case r.Status == nil, r.Status.Phase == "":
		return phaseOf(r), faint
	}
	return phaseOf(r), plain
}

func progress(r *Run, _ time.Time) (string, style) {
	if r.Status == nil || r.Status.Progress == nil {
		return unknown, faint
	}
	part, ok := r.Status.Progress.Part()
	if !ok {
		return "step " + strconv.FormatInt(r.Status.Progress.Iteration, 10), plain
	}
	text := strconv.Itoa(int(part*100)) + " %"
	return bar(6, part, 0) + strings.Repeat(" ", max(1, 6-len(text))) + text, plain
}

func percent(r *Run, _ time.Time) (string, style) {
	if r.Status != nil {
		if part, ok := r.Status.Progress.Part(); ok {
			return strconv.Itoa(int(part*100)) + " %", plain
		}
	}
	return "?", faint
}

func speed(r *Run, _ time.Time) (string, style) {
	v := rateOf(r)
	if v <= 0 {
		return unknown, faint
	}
	return rate(v), plain
}

func left(r *Run, _ time.Time) (string, style) {
	if r.Left == nil {
		return unknown, faint
	}
	return span(time.Duration(*r.Left * float64(time.Second))), plain
}

func peak(r *Run, _ time.Time) (string, style) {
	p := peakOf(r)
	switch {
	case p > 0 && r.Status.Room > 0 && p > r.Status.Room:
		return amount(p), red
	case p > 0 && r.Expected > 0 && p > r.Expected:
		return amount(p), yellow
	}
	return amount(p), plain
}

func cards(r *Run, _ time.Time) (string, style) {
	if len(r.Cards) == 0 {
		return "none", faint
	}
	text := strconv.Itoa(r.Cards[0])
	for _, n := range r.Cards[1:] {
		text += "," + strconv.Itoa(n)
	}
	return text, plain
}
