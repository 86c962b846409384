package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/observe"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/ui"
	"github.com/launch-ml/launch/core/unit"
)

// The plot of memory over time has a panel for each attempt, side by side: the time between two attempts is left out.
const (
	plotWidth    = 760.0
	plotHeight   = 250.0 // of the memory, without what is above and below
	plotLeft     = 78.0
	plotRight    = 14.0
	panelTop     = 56.0
	panelGap     = 10.0
	leastPanel   = 44.0 // an attempt that failed at once is still seen
	laneHeight   = 14.0
	legendHeight = 22.0
	// maxPanels is how many attempts the plot has: the last ones.
	maxPanels = 12
	// maxSpans is how many spans all panels have together; each has two points.
	maxSpans = 1000
)

// A panel is the place of an attempt in the plot.
type panel struct {
	t        tried
	curve    *observe.Curve // nil: none was recorded
	lasted   time.Duration
	x, width float64
}

// memoryPlot draws the memory over time.
func memoryPlot(curves []*observe.Curve, all []tried, running bool) Drawing {
	d := Drawing{Name: "memory", Title: "Memory over time", W: plotWidth}
	panels := panelsOf(curves, all)
	phases := phasesOf(panels)
	top := ceiling(panels)
	s := scale{top: top, y: panelTop, height: plotHeight}
	d.H = panelTop + plotHeight + 26 + laneHeight*float64(len(phases)) + legendHeight + 10
	s.axis(&d)
	for i, p := range panels {
		s.panel(&d, p, phases, running && i+1 == len(panels))
	}
	legend(&d, panels, phases, d.H-legendHeight)
	d.About = aboutMemory(panels)
	d.Hint = "Each attempt has a panel; the time between two attempts is left out, and a short attempt is drawn wider " +
		"than its time. The bars below show the phases by the lines that the program printed: of some phases it prints " +
		"the end only, which is then a thin line."
	if len(panels) < len(all) {
		d.Hint += fmt.Sprintf(" Only the last %d of %d attempts are drawn.", len(panels), len(all))
	}
	for _, p := range panels {
		if p.curve != nil {
			d.Hint = fmt.Sprintf("The line is memory as %s, read from %s. ", p.curve.Is, p.curve.From) + d.Hint
			break
		}
	}
	return d
}

// aboutMemory describes the plot to those who do not see it.
func aboutMemory(panels []panel) string {
	s := fmt.Sprintf("%s side by side.", ui.Count(len(panels), "attempt"))
	for _, p := range panels {
		s += fmt.Sprintf(" Attempt %d: ", p.t.Plan.Attempt)
		if n := p.t.Plan.Need(); n > 0 {
			s += fmt.Sprintf("predicted %v, ", n)
		}
		if p.t.Outcome.Peak > 0 {
			s += fmt.Sprintf("measured peak %v, ", p.t.Outcome.Peak)
		}
		s += fmt.Sprintf("room %v, %s.", known(p.t.Plan.Room), orElse(string(p.t.Outcome.Ending), "no end"))
	}
	return s
}

// known writes an amount; 0 is one that is not known.
func known(b unit.Bytes) string {
	if b == 0 {
		return "not known"
	}
	return b.String()
}

// panelsOf gives each attempt a width in proportion to the time that it took, but a least one.
func panelsOf(curves []*observe.Curve, all []tried) (out []panel) {
	first := max(0, len(all)-maxPanels)
	for i, t := range all[first:] {
		p := panel{t: t, lasted: t.Outcome.Took}
		if k := first + i; k < len(curves) && curves[k] != nil {
			p.curve = curves[k].Thin(maxSpans / min(maxPanels, len(all)))
			p.lasted = max(p.lasted, p.curve.Spans[len(p.curve.Spans)-1].To)
		}
		p.lasted = max(p.lasted, time.Millisecond)
		out = append(out, p)
	}
	free, total := plotWidth-plotLeft-plotRight-panelGap*float64(max(0, len(out)-1)), 0.0
	for _, p := range out {
		total += p.lasted.Seconds()
	}
	spare, wide := free-leastPanel*float64(len(out)), 0.0
	for _, p := range out { // what remains after the least widths goes to those that are longer
		wide += max(0, p.lasted.Seconds()/total-leastPanel/free)
	}
	x := plotLeft
	for i, p := range out {
		out[i].x, out[i].width = x, leastPanel
		if wide > 0 {
			out[i].width += spare * max(0, p.lasted.Seconds()/total-leastPanel/free) / wide
		} else {
			out[i].width += spare / float64(len(out))
		}
		x += out[i].width + panelGap
	}
	return out
}

// phasesOf lists the phases that were planned or seen, in their order.
func phasesOf(panels []panel) (names []string) {
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, p := range panels {
		for _, c := range p.t.Plan.Choices {
			add(c.Phase)
		}
		if p.curve != nil {
			for _, name := range p.curve.Phases {
				add(name)
			}
		}
	}
	return names[:min(len(names), 8)]
}

// ceiling is the largest amount of the plot.
func ceiling(panels []panel) unit.Bytes {
	most := unit.Bytes(0)
	for _, p := range panels {
		most = max(most, p.t.Plan.Room, p.t.Outcome.Peak)
		for _, c := range p.t.Plan.Choices {
			if c.Estimate.Known() {
				most = max(most, c.Estimate.Total())
			}
		}
		if p.curve != nil {
			for _, s := range p.curve.Spans {
				most = max(most, s.Most)
			}
		}
	}
	// a card of 80 GiB around a job of 2 GiB would leave a flat line: the room is then above the plot
	need := unit.Bytes(0)
	for _, p := range panels {
		need = max(need, p.t.Outcome.Peak, p.t.Plan.Need())
	}
	if need > 0 && most > 4*need {
		most = 2 * need
	}
	return max(most, unit.MiB) + max(most, unit.MiB)/12
}

// A scale maps amounts to places.
type scale struct {
	top       unit.Bytes
	y, height float64
}

func (s scale) at(b unit.Bytes) float64 {
	return s.y + s.height*(1-float64(b)/float64(s.top))
}

// steps returns round amounts from 0 to the top.
func (s scale) steps() (out []unit.Bytes) {
	for size := unit.MiB; ; size *= 2 {
		if s.top/size <= 6 {
			for b := unit.Bytes(0); b <= s.top; b += size {
				out = append(out, b)
			}
			return out
		}
	}
}

// axis draws the amounts.
func (s scale) axis(d *Drawing) {
	for _, b := range s.steps() {
		y := s.at(b)
		d.Line(plotLeft, y, plotWidth-plotRight, y, Shape{Stroke: Grid})
		d.Write(plotLeft-8, y+4, axisText(b), Shape{Anchor: End, Fill: Muted, Small: true})
	}
}

// axisText writes an amount that is round in binary units.
func axisText(b unit.Bytes) string {
	if b == 0 {
		return "0"
	}
	for _, u := range []struct {
		size unit.Bytes
		name string
	}{{unit.TiB, "TiB"}, {unit.GiB, "GiB"}, {unit.MiB, "MiB"}} {
		if b >= u.size {
			return fmt.Sprintf("%.4g %s", float64(b)/float64(u.size), u.name)
		}
	}
	return b.String()
}

// panel draws an attempt.
func (s scale) panel(d *Drawing, p panel, phases []string, running bool) {
	bottom := s.y + s.height
	d.Rect(p.x, s.y, p.width, s.height, Shape{Stroke: Grid})
	title, end, colour := fmt.Sprintf("attempt %d", p.t.Plan.Attempt), string(p.t.Outcome.Ending), Bad
	switch {
	case p.t.Outcome.Ending == run.Succeeded:
		colour = Good
	case end == "" && running:
		end, colour = "running", Ink
	case end == "":
		end = "cut off"
	}
	note := title + ", " + orElse(changes(p.t), run.AsAsked) + ": " + end
	if p.width < TextWidth(title) {
		title = fmt.Sprint(p.t.Plan.Attempt)
	}
	d.Write(p.x, panelTop-22, title, Shape{Bold: true, Note: note})
	d.Write(p.x, panelTop-8, Fit(end, 1.15*p.width), Shape{Fill: colour, Small: true, Note: note})
	s.times(d, p, bottom)
	s.curve(d, p)
	s.predicted(d, p, phases)
	if room := p.t.Plan.Room; room > 0 && room <= s.top {
		d.Line(p.x, s.at(room), p.x+p.width, s.at(room), Shape{Stroke: Bad, Width: 1.5, Note: "room " +
			room.String()})
	} else if room > s.top {
		d.Write(p.x+p.width-4, s.y+13, Fit("room "+room.String()+" ↑", p.width-8),
			Shape{Fill: Bad, Small: true, Anchor: End})
	}
	s.peak(d, p)
	lanes(d, p, phases, bottom+24)
}

// times draws the time axis of an attempt.
func (s scale) times(d *Drawing, p panel, bottom float64) {
	d.Write(p.x, bottom+14, "0", Shape{Fill: Muted, Small: true})
	if p.width > 40 {
		d.Write(p.x+p.width, bottom+14, lasting(p.lasted), Shape{Fill: Muted, Small: true, Anchor: End})
	}
}

// place is the place of a time in an attempt.
func (p panel) place(at time.Duration) float64 {
	return p.x + p.width*min(1, float64(at)/float64(p.lasted))
}

// curve draws what was read. A time without a reading is a gap.
func (s scale) curve(d *Drawing, p panel) {
	if p.curve == nil {
		if p.width > 130 {
			d.Write(p.x+p.width/2, s.y+s.height/2, "not recorded over time", Shape{Anchor: Middle, Fill: Muted})
		}
		return
	}
	for _, part := range unbroken(p.curve) {
		var upper, lower, line []Point
		for _, sp := range part {
			first := Point{X: p.place(sp.LeastAt), Y: s.at(sp.Least)}
			second := Point{X: p.place(sp.MostAt), Y: s.at(sp.Most)}
			if sp.MostAt < sp.LeastAt {
				first, second = second, first
			}
			line = append(line, first)
			if first != second {
				line = append(line, second)
			}
			upper = append(upper, Point{X: p.place(sp.MostAt), Y: s.at(sp.Most)})
			lower = append(lower, Point{X: p.place(sp.LeastAt), Y: s.at(0)})
		}
		slices.Reverse(lower)
		d.Add(Shape{Points: append(upper, lower...), Closed: true, Fill: Series(0), Alpha: 0.18})
		d.Add(Shape{Points: line, Stroke: Series(0), Width: 1.6})
	}
}

// unbroken splits a curve where nothing was read for much longer than usual.
func unbroken(c *observe.Curve) (out [][]observe.Span) {
	var gaps []time.Duration
	for i := 1; i < len(c.Spans); i++ {
		gaps = append(gaps, c.Spans[i].From-c.Spans[i-1].To)
	}
	slices.Sort(gaps)
	usual := c.Width
	if len(gaps) > 0 {
		usual = max(usual, gaps[len(gaps)/2])
	}
	begin := 0
	for i := 1; i <= len(c.Spans); i++ {
		if i == len(c.Spans) || c.Spans[i].From-c.Spans[i-1].To > 20*usual {
			out = append(out, c.Spans[begin:i])
			begin = i
		}
	}
	return out
}

// predicted draws the estimate of each phase as a dashed line in the phase's colour.
func (s scale) predicted(d *Drawing, p panel, phases []string) {
	for _, c := range p.t.Plan.Choices {
		if !c.Estimate.Known() || len(c.Estimate.Items) == 0 {
			continue
		}
		total := c.Estimate.Total()
		if total > s.top {
			continue
		}
		d.Line(p.x, s.at(total), p.x+p.width, s.at(total), Shape{Stroke: phaseColour(phases, c.Phase), Width: 1.8,
			Dash: true, Note: fmt.Sprintf("predicted for %s: %v", c.Phase, total)})
	}
}

// phaseColour is the colour of a phase. The first colour is the curve's.
func phaseColour(phases []string, name string) Colour {
	return Series(1 + max(0, slices.Index(phases, name)))
}

// peak marks the largest reading.
func (s scale) peak(d *Drawing, p panel) {
	if p.curve == nil {
		if b := p.t.Outcome.Peak; b > 0 {
			d.Line(p.x, s.at(b), p.x+p.width, s.at(b), Shape{Stroke: Series(0), Width: 1.6, Note: "measured peak " +
				b.String()})
		}
		return
	}
	most := slices.MaxFunc(p.curve.Spans, func(a, b observe.Span) int { return cmp.Compare(a.Most, b.Most) })
	x, y := p.place(most.MostAt), s.at(most.Most)
	note := fmt.Sprintf("peak %v %s after %s", most.Most, p.curve.Is, lasting(most.MostAt))
	d.Circle(x, y, 4, Shape{Fill: Series(0), Stroke: Paper, Note: note})
	text := most.Most.String()
	if wide := TextWidth(text); p.width > wide+8 {
		x = math.Min(math.Max(x, p.x+wide/2+2), p.x+p.width-wide/2-2)
		d.Write(x, y-8, text, Shape{Anchor: Middle, Small: true, Bold: true, Note: note})
	}
}

// lanes draws when each phase ran, by the lines that the program printed.
func lanes(d *Drawing, p panel, phases []string, y float64) {
	if p.curve == nil {
		return
	}
	for lane, name := range phases {
		top := y + laneHeight*float64(lane)
		d.Rect(p.x, top+2, p.width, laneHeight-4, Shape{Fill: Grid, Alpha: 0.45})
		i := slices.Index(p.curve.Phases, name)
		begin, end := -1.0, 0.0
		flush := func() {
			if begin >= 0 {
				d.Rect(begin, top+2, max(1.5, end-begin), laneHeight-4, Shape{Fill: phaseColour(phases, name),
					Note: name + " ran"})
			}
			begin = -1
		}
		for k, sp := range p.curve.Spans {
			if i < 0 || !slices.Contains(sp.Phases, i) {
				flush()
				continue
			}
			if begin < 0 {
				begin = p.place(sp.From)
			}
			end = p.place(sp.To)
			if k+1 < len(p.curve.Spans) && slices.Contains(p.curve.Spans[k+1].Phases, i) {
				end = p.place(p.curve.Spans[k+1].From)
			}
		}
		flush()
	}
}

// legend names the lines, and the lanes.
func legend(d *Drawing, panels []panel, phases []string, y float64) {
	for lane, name := range phases {
		d.Write(plotLeft-8, panelTop+plotHeight+24+laneHeight*float64(lane)+10, Fit(name, plotLeft-6),
			Shape{Anchor: End, Fill: phaseColour(phases, name), Small: true, Note: name})
	}
	is := "measured"
	for _, p := range panels {
		if p.curve != nil {
			is = "measured (" + p.curve.Is + ")"
		}
	}
	x := plotLeft
	add := func(text string, line Shape) {
		d.Line(x, y+8, x+22, y+8, line)
		d.Write(x+27, y+12, text, Shape{Small: true})
		x += 27 + TextWidth(text) + 14
	}
	add(is, Shape{Stroke: Series(0), Width: 1.6})
	for _, name := range phases {
		if slices.ContainsFunc(panels, func(p panel) bool {
			c := p.t.Plan.Choice(name)
			return c != nil && c.Estimate.Known() && len(c.Estimate.Items) > 0
		}) {
			add("predicted, "+short(name), Shape{Stroke: phaseColour(phases, name), Width: 1.8, Dash: true})
		}
	}
	if slices.ContainsFunc(panels, func(p panel) bool { return p.t.Plan.Room > 0 }) {
		add("room", Shape{Stroke: Bad, Width: 1.5})
	}
}

// short cuts the name of a phase, which may be anything.
func short(name string) string {
	if name == ladder.Training || name == ladder.Validation {
		return name
	}
	return Fit(name, 90)
}
