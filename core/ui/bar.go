package ui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
)

// A group is what the lines of an estimate are added up to in a bar and in one line of text.
type group struct {
	name  string
	glyph string // differs from the others without colour too
	mark  rune
	kinds []mem.Kind
}

// groups are all groups, by names that need no glossary, in the order in which a bar stacks them. The last one takes
// the kinds that no other has.
var groups = []group{
	{"model and optimizer", "█", markBlue, []mem.Kind{mem.Parameters, mem.Gradients, mem.Optimizer, mem.Buffers}},
	{"saved for backward", "▓", markCyan, []mem.Kind{mem.Saved}},
	{"working memory", "▒", markMagenta, []mem.Kind{mem.Inputs, mem.Transients, mem.Workspace, mem.Late}},
	{"learned from runs", "▚", markYellow, []mem.Kind{mem.Correction}},
	{"torch itself", "░", markPlain, nil},
}

// A part is a group with what an estimate has in it.
type part struct {
	group
	bytes, guess unit.Bytes // guess is how much of bytes is guessed
}

// parts adds up an estimate's lines by group. There are as many as groups, and together they have the total.
func parts(e mem.Estimate) []part {
	out := make([]part, len(groups))
	for i, g := range groups {
		out[i].group = g
	}
	for _, it := range e.Items {
		i := slices.IndexFunc(groups, func(g group) bool { return slices.Contains(g.kinds, it.Kind) })
		if i < 0 {
			i = len(groups) - 1
		}
		out[i].bytes += it.Bytes
		if it.Guess {
			out[i].guess += it.Bytes
		}
	}
	return out
}

// GroupNames are what a plan calls the groups of an estimate's lines, in their order.
func GroupNames() (names []string) {
	for _, g := range groups {
		names = append(names, g.name)
	}
	return names
}

// GroupBytes adds up an estimate's lines by these groups.
func GroupBytes(e mem.Estimate) (all []unit.Bytes) {
	for _, p := range parts(e) {
		all = append(all, p.bytes)
	}
	return all
}

// partsText returns the groups of an estimate in words: "saved for backward 322 MiB → 161 MiB, …". asked is left out
// where it is nil.
func partsText(asked *mem.Estimate, planned mem.Estimate) string {
	var out []string
	was := make([]part, len(groups))
	if asked != nil {
		was = parts(*asked)
	}
	for i, p := range parts(planned) {
		if p.bytes == 0 && was[i].bytes == 0 {
			continue
		}
		s := p.name + " "
		if asked != nil && was[i].bytes.String() != p.bytes.String() {
			s += was[i].bytes.String() + " → "
		}
		s += p.bytes.String()
		switch {
		case p.guess != 0 && p.guess == p.bytes:
			s += " (rough)"
		case p.guess != 0:
			s += fmt.Sprintf(" (%v of it rough)", p.guess)
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

// A scale is the amount of memory that a bar of full width shows, and where the room ends.
type scale struct {
	width     int // in columns, with one for the end of the room
	full      unit.Bytes
	room, top unit.Bytes // top is what the device has in all; both 0 without a device
}

// newScale returns the scale of all bars of a plan. The largest amount fills it; but what is more than twice the
// device is cut, so that the device stays visible beside it.
func newScale(width int, room, top unit.Bytes, totals []unit.Bytes) scale {
	s := scale{width: width, room: room, top: max(room, top), full: max(room, top)}
	for _, t := range totals {
		s.full = max(s.full, t)
	}
	if s.top > 0 {
		s.full = min(s.full, 2*s.top)
	}
	return s
}

// columns returns how many columns an amount takes, at least one where there is any.
func (s scale) columns(b unit.Bytes) int {
	data := s.width - 1
	if b <= 0 || s.full <= 0 || data <= 0 {
		return 0
	}
	n := int(float64(b)/float64(s.full)*float64(data) + 0.5)
	return min(data, max(1, n))
}

// A bar's cell is one column of it.
type barCell struct {
	glyph string
	mark  rune
}

// drawn returns cells as text, with one colour for each run of the same.
func drawn(cells []barCell) string {
	var b strings.Builder
	for i, c := range cells {
		if i == 0 || c.mark != cells[i-1].mark {
			b.WriteRune(c.mark)
		}
		b.WriteString(c.glyph)
		if i+1 == len(cells) || c.mark != cells[i+1].mark {
			b.WriteRune(markEnd)
		}
	}
	return b.String()
}

// bar returns the bar of an estimate: its groups, stacked, and the end of the room. A bar that ends in "»" is longer
// than the scale, and one that ends in "?" is a lower bound.
func (s scale) bar(e mem.Estimate) string {
	cells := s.stack(e)
	if !e.Known() && len(cells) < s.width-1 { // it is longer, nobody knows how much
		cells = append(cells, barCell{"?", markPlain})
	}
	if s.room > 0 {
		end := s.columns(s.room)
		for len(cells) < end {
			cells = append(cells, barCell{" ", markPlain})
		}
		mark := markBold
		if e.Total() > s.room {
			mark = markRed
		}
		cells = slices.Insert(cells, end, barCell{"┃", mark})
	}
	return drawn(cells)
}

// stack returns the cells of an estimate's groups. Their number is that of its total; each group has its share, by the
// largest remainder. A group below zero makes the whole shorter and has no cells.
func (s scale) stack(e mem.Estimate) []barCell {
	all := parts(e)
	sum := unit.Bytes(0)
	for _, p := range all {
		sum += max(0, p.bytes)
	}
	n := s.columns(e.Total())
	if sum <= 0 || n == 0 {
		return nil
	}
	counts, left := make([]int, len(all)), n
	order := make([]int, len(all))
	rest := make([]float64, len(all))
	for i, p := range all {
		exact := float64(max(0, p.bytes)) / float64(sum) * float64(n)
		counts[i], order[i] = int(exact), i
		rest[i] = exact - float64(counts[i])
		left -= counts[i]
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rest[b], rest[a]) })
	for _, i := range order[:max(0, left)] {
		counts[i]++
	}
	cells := make([]barCell, 0, n+1)
	for i, p := range all {
		for range counts[i] {
			cells = append(cells, barCell{p.glyph, p.mark})
		}
	}
	if s.full < e.Total() {
		cells[len(cells)-1] = barCell{"»", markRed}
	}
	return cells
}

// device returns the bar of the device: the room, its end, and what others hold or the user reserves.
func (s scale) device() string {
	room := s.columns(s.room)
	rest := max(0, s.columns(s.top)-room)
	return strings.Repeat("─", room) + string(markBold) + "┃" + string(markEnd) + strings.Repeat("╱", rest)
}

// legend names the glyphs of the groups that the estimates have, and what a device's bar shows.
func legend(all []mem.Estimate, taken bool) string {
	var out []string
	for i, g := range groups {
		if slices.ContainsFunc(all, func(e mem.Estimate) bool { return parts(e)[i].bytes > 0 }) {
			out = append(out, string(g.mark)+g.glyph+string(markEnd)+" "+g.name)
		}
	}
	out = append(out, "┃ room")
	if taken {
		out = append(out, "╱ taken")
	}
	return strings.Join(out, "  ")
}
