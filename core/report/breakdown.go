package report

import (
	"fmt"
	"strings"

	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/ui"
	"github.com/launch-ml/launch/core/unit"
)

// The breakdown has two bars a phase: what was predicted, by the groups of a plan, and what was measured.
const (
	barLeft   = 250.0
	barHeight = 16.0
)

// A bar is one row of the breakdown.
type bar struct {
	label string
	parts []part
	total unit.Bytes
	room  unit.Bytes // 0: not known
	note  string
	first bool // of its attempt
}

// A part is what a bar has of a group; measured is the group of what was measured.
type part struct {
	group int
	bytes unit.Bytes
}

const measured = -1

// groupColours are those of the bars of a plan on a terminal.
var groupColours = []Colour{Series(0), Series(5), Series(3), Series(4), Grid}

// breakdownPlot draws the last attempt of each plan that has an estimate or a measurement; ok is false if none has.
func breakdownPlot(all []tried) (d Drawing, ok bool) {
	d = Drawing{Name: "breakdown", Title: "Predicted beside measured", W: plotWidth,
		About: "For each attempt and phase a bar of what was predicted, by what it is for, and bars of what was measured."}
	if len(all) > maxPanels {
		d.Hint = fmt.Sprintf("Only the last %d of %d attempts are drawn.", maxPanels, len(all))
	}
	var bars []bar
	most := unit.Bytes(0)
	for _, t := range all[max(0, len(all)-maxPanels):] {
		n := len(bars)
		for _, c := range t.Plan.Choices {
			bars = append(bars, barsOf(t, c)...)
		}
		if n > 0 && n < len(bars) {
			bars[n].first = true
		}
	}
	seen := make([]bool, len(groupColours))
	for _, b := range bars {
		sum := unit.Bytes(0)
		for _, p := range b.parts {
			sum += max(0, p.bytes)
			if p.group != measured {
				seen[p.group] = true
			}
		}
		most = max(most, b.total, sum)
	}
	if most == 0 {
		return d, false
	}
	wide := plotWidth - barLeft - 90
	y, x := 12.0, 12.0
	for _, b := range bars {
		if b.first {
			y += 12
		}
		drawBar(&d, b, y, wide/float64(most))
		y += barHeight + 8
	}
	y += 12
	d.Line(x+1, y-1, x+1, y+11, Shape{Stroke: Bad, Width: 1.5})
	d.Write(x+8, y+9, "room", Shape{Small: true})
	x += 60
	for i, name := range ui.GroupNames() {
		if !seen[i] {
			continue
		}
		if x+TextWidth(name)+34 > plotWidth {
			x, y = 12, y+18
		}
		d.Rect(x, y, 12, 10, Shape{Fill: groupColours[i]})
		d.Write(x+17, y+9, name, Shape{Small: true})
		x += TextWidth(name) + 34
	}
	d.H = y + 26
	return d, true
}

// barsOf are the bars of a phase.
func barsOf(t tried, c run.Choice) (out []bar) {
	name := fmt.Sprintf("attempt %d, %s", t.Plan.Attempt, short(c.Phase))
	if e := c.Estimate; e.Known() && len(e.Items) > 0 {
		b := bar{label: name + ": predicted", total: e.Total(), room: t.Plan.Room}
		for i, n := range ui.GroupBytes(e) {
			if n != 0 {
				b.parts = append(b.parts, part{i, n})
			}
		}
		out = append(out, b)
	}
	for _, m := range t.Outcome.Measured[c.Phase] {
		label := strings.TrimSpace("measured " + ui.BoundSign(m.Bound))
		out = append(out, bar{label: fmt.Sprintf("%s (%s)", label, m.Is), total: m.Bytes, note: m.From, room: t.Plan.Room,
			parts: []part{{measured, m.Bytes}}})
	}
	return out
}

// drawBar draws a bar. A correction below zero is taken off the end: the bar without it is drawn paler.
func drawBar(d *Drawing, b bar, y, unitWidth float64) {
	names := ui.GroupNames()
	d.Write(barLeft-8, y+12, Fit(b.label, barLeft-12), Shape{Anchor: End, Small: true, Note: b.label})
	x, end := barLeft, barLeft
	for _, p := range b.parts {
		if p.bytes < 0 {
			continue
		}
		w := float64(p.bytes) * unitWidth
		s := Shape{Note: p.bytes.String() + " " + b.note, Stroke: Paper, Fill: Ink, Alpha: 0.55}
		if p.group != measured {
			s.Fill, s.Alpha, s.Note = groupColours[p.group], 0, fmt.Sprintf("%s: %v", names[p.group], p.bytes)
		}
		d.Rect(x, y, w, barHeight, s)
		x += w
		end = x
	}
	for _, p := range b.parts {
		if p.bytes < 0 {
			w := float64(-p.bytes) * unitWidth
			d.Rect(x-w, y, w, barHeight, Shape{Fill: Paper, Alpha: 0.65, Note: fmt.Sprintf("%s: %v", names[p.group], p.bytes)})
			x -= w
		}
	}
	if at := barLeft + float64(b.room)*unitWidth; b.room > 0 && at < plotWidth-60 {
		d.Line(at, y-4, at, y+barHeight+4, Shape{Stroke: Bad, Width: 1.5, Note: "room " + b.room.String()})
		if at > end && at < end+TextWidth(b.total.String())+10 {
			end = at
		}
	}
	d.Write(end+6, y+12, b.total.String(), Shape{Small: true, Bold: true})
}
