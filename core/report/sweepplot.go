package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/launch-ml/launch/core/ui"
	"github.com/launch-ml/launch/core/unit"
)

const (
	parallelHeight = 260.0
	parallelTop    = 52.0
	// maxLinesDrawn is how many trials a plot draws.
	maxLinesDrawn = 600
	// maxAxes is how many axes the parallel coordinates have.
	maxAxes = 9
)

// An axis of the parallel coordinates has a place from 0 to 1 for each trial; ok is false where it is not known.
type axis struct {
	name      string
	low, high string // what lies at 0 and at 1
	ticks     []tick // of an axis of texts
	at        func(row ui.SweepRow) (place float64, ok bool)
}

type tick struct {
	place float64
	text  string
}

// parallelPlot draws each trial as a line through its settings and its results; ok is false if there is only one axis.
func parallelPlot(d ui.SweepDoc) (Drawing, bool) {
	settings, metrics := keys(d)
	var all []axis
	for _, k := range settings {
		if a, ok := settingAxis(d, k); ok {
			all = append(all, a)
		}
	}
	all = all[:min(len(all), maxAxes-3)]
	results := []func(ui.SweepRow) (float64, bool){peakOf, rateOf}
	for i, name := range []string{"peak", "samples/s"} {
		text := digits
		if i == 0 {
			text = amounts
		}
		if a, ok := numberAxis(d, name, text, results[i]); ok {
			all = append(all, a)
		}
	}
	for _, name := range metrics[:min(len(metrics), maxAxes-len(all))] {
		if a, ok := numberAxis(d, name, digits, func(row ui.SweepRow) (float64, bool) { return bestOf(row, name) }); ok {
			all = append(all, a)
		}
	}
	out := Drawing{Name: "parallel", Title: "Settings and results", W: plotWidth,
		H:     parallelTop + parallelHeight + 50,
		About: "Parallel coordinates: a line for each trial through its settings, its peak, its speed and its metrics.",
		Hint:  "Each line is a trial. A setting that all trials share has no axis." + drawn(d)}
	if len(all) < 2 || len(d.Rows) < 2 {
		return out, false
	}
	drawAxes(&out, all)
	for _, row := range d.Rows[:min(len(d.Rows), maxLinesDrawn)] {
		drawTrial(&out, all, row)
	}
	trialLegend(&out, out.H-14)
	return out, true
}

// drawn is a sentence about how many trials a plot shows; "" if it shows all.
func drawn(d ui.SweepDoc) string {
	if len(d.Rows) <= maxLinesDrawn {
		return ""
	}
	return fmt.Sprintf(" Only the first %d of %d trials are drawn.", maxLinesDrawn, len(d.Rows))
}

func axisX(i, n int) float64 {
	return 60 + (plotWidth-150)*float64(i)/float64(n-1)
}

func axisY(place float64) float64 { return parallelTop + parallelHeight*(1-place) }

// drawAxes draws the axes with their names and values.
func drawAxes(d *Drawing, all []axis) {
	wide := (plotWidth - 150) / float64(len(all)-1)
	for i, a := range all {
		x := axisX(i, len(all))
		d.Line(x, axisY(0), x, axisY(1), Shape{Stroke: Muted})
		name := Fit(a.name, min(wide-6, 130))
		d.Write(x, parallelTop-30, name, Shape{Anchor: Middle, Bold: true, Note: a.name})
		d.Write(x, axisY(1)-8, Fit(a.high, wide-6), Shape{Anchor: Middle, Small: true, Fill: Muted,
			Note: a.high})
		d.Write(x, axisY(0)+16, Fit(a.low, wide-6), Shape{Anchor: Middle, Small: true, Fill: Muted,
			Note: a.low})
		texts := cutTicks(a.ticks, wide-12)
		for i, t := range a.ticks {
			d.Write(x+5, axisY(t.place)+4, texts[i], Shape{Small: true, Fill: Muted, Note: t.text})
		}
	}
}

// cutTicks cuts the texts of an axis to a width: at their ends or, where they would then be the same, such as the paths
// of files of one folder, at their beginnings.
func cutTicks(all []tick, width float64) []string {
	ends, begins, seen := make([]string, len(all)), make([]string, len(all)), map[string]bool{}
	for i, t := range all {
		text := []rune(t.text)
		slices.Reverse(text)
		begin := []rune(Fit(string(text), width))
		slices.Reverse(begin)
		ends[i], begins[i] = Fit(t.text, width), string(begin)
		seen[ends[i]] = true
	}
	if len(seen) < len(all) {
		return begins
	}
	return ends
}

// drawTrial draws the line of a trial. It is broken at an axis where nothing is known of the trial.
func drawTrial(d *Drawing, all []axis, row ui.SweepRow) {
	s := trialShape(row)
	s.Width = 1.4
	var points []Point
	flush := func() {
		if len(points) > 1 {
			s.Points = points
			d.Add(s)
		}
		points = nil
	}
	for i, a := range all {
		place, ok := a.at(row)
		if !ok {
			flush()
			continue
		}
		points = append(points, Point{X: axisX(i, len(all)), Y: axisY(place)})
	}
	flush()
}

// trialShape is how a trial is drawn: as asked, on a lower rung, or failed.
func trialShape(row ui.SweepRow) Shape {
	s := Shape{Stroke: Series(0), Alpha: 0.75, Key: rowKey(row.Trial)}
	switch {
	case !good(row):
		s.Stroke, s.Dash = Bad, true
	case row.Changes != "":
		s.Stroke = Series(1)
	}
	s.Note = fmt.Sprintf("trial %d, %s", row.Trial, row.State)
	if v := row.Assignment.String(); v != "" {
		s.Note += ": " + v
	}
	if row.Peak != nil {
		s.Note += fmt.Sprintf("; peak %v", *row.Peak)
	}
	if row.Rate != nil {
		s.Note += "; " + plain(*row.Rate) + " samples/s"
	}
	return s
}

// trialLegend names the colours.
func trialLegend(d *Drawing, y float64) {
	x := 60.0
	for _, l := range []struct {
		text string
		line Shape
	}{{"as asked", Shape{Stroke: Series(0), Width: 2}},
		{"with changed settings", Shape{Stroke: Series(1), Width: 2}},
		{"did not succeed", Shape{Stroke: Bad, Width: 2, Dash: true}}} {
		d.Line(x, y-4, x+22, y-4, l.line)
		d.Write(x+28, y, l.text, Shape{Small: true})
		x += 28 + TextWidth(l.text) + 18
	}
}

// settingAxis is the axis of a setting; ok is false if all trials have the same value.
func settingAxis(d ui.SweepDoc, key string) (axis, bool) {
	value := func(row ui.SweepRow) (float64, bool) {
		text, ok := row.Assignment.Get(key)
		v, err := strconv.ParseFloat(text, 64)
		return v, ok && err == nil
	}
	if numeric(d, key) {
		return numberAxis(d, key, digits, value)
	}
	var texts []string
	for _, row := range d.Rows {
		if text, ok := row.Assignment.Get(key); ok && !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	if len(texts) < 2 {
		return axis{}, false
	}
	slices.Sort(texts)
	a := axis{name: key, at: func(row ui.SweepRow) (float64, bool) {
		text, ok := row.Assignment.Get(key)
		return float64(slices.Index(texts, text)) / float64(len(texts)-1), ok
	}}
	for i, text := range texts {
		if len(texts) <= 14 {
			a.ticks = append(a.ticks, tick{float64(i) / float64(len(texts)-1), text})
		}
	}
	if len(a.ticks) == 0 {
		a.low, a.high = texts[0], texts[len(texts)-1]
	}
	return a, true
}

// numberAxis is an axis of numbers, logarithmic where the largest is at least 50 times the smallest and both are
// above 0; ok is false if fewer than two values differ.
func numberAxis(d ui.SweepDoc, name string, text func(v float64, digits int) string,
	of func(ui.SweepRow) (float64, bool)) (axis, bool) {
	low, high := math.Inf(1), math.Inf(-1)
	for _, row := range d.Rows {
		if v, ok := of(row); ok && !math.IsNaN(v) && !math.IsInf(v, 0) {
			low, high = min(low, v), max(high, v)
		}
	}
	if !(low < high) {
		return axis{}, false
	}
	a := axis{name: name, low: text(low, 4), high: text(high, 4)}
	for digits := 5; a.low == a.high && digits <= 17; digits++ { // an axis with one value twice shows nothing
		a.low, a.high = text(low, digits), text(high, digits)
	}
	place := func(v float64) float64 { return (v - low) / (high - low) }
	if low > 0 && high >= 50*low {
		place = func(v float64) float64 { return math.Log(v/low) / math.Log(high/low) }
		a.high += " (log)"
	}
	a.at = func(row ui.SweepRow) (float64, bool) {
		v, ok := of(row)
		if !ok || math.IsNaN(v) || math.IsInf(v, 0) {
			return 0, false
		}
		return place(v), true
	}
	return a, true
}

func plain(v float64) string { return digits(v, 4) }

func digits(v float64, n int) string { return strconv.FormatFloat(v, 'g', n, 64) }

// amounts writes an amount of memory; with more digits than usual in MiB.
func amounts(v float64, n int) string {
	if n <= 4 {
		return unit.Bytes(v).String()
	}
	return digits(v/float64(unit.MiB), n) + " MiB"
}

func peakOf(row ui.SweepRow) (float64, bool) {
	if row.Peak == nil {
		return 0, false
	}
	return float64(*row.Peak), true
}

func rateOf(row ui.SweepRow) (float64, bool) {
	if row.Rate == nil {
		return 0, false
	}
	return *row.Rate, true
}

func bestOf(row ui.SweepRow, name string) (float64, bool) {
	m, ok := row.Metrics[name]
	if !ok || m.Best == nil {
		return 0, false
	}
	return m.Best.Value, true
}

// speedPlot draws memory against speed; ok is false if no trial has both.
func speedPlot(d ui.SweepDoc) (Drawing, bool) {
	const height, left, top, bottom = 260.0, 76.0, 24.0, 60.0
	out := Drawing{Name: "speed", Title: "Memory against speed", W: plotWidth, H: top + height + bottom,
		About: "A dot for each trial: its measured peak against its samples a second. Up and to the left is better.",
		Hint:  "Trials that share a card or run at the same time slow each other down: compare speeds with care." + drawn(d)}
	var peak unit.Bytes
	fastest := 0.0
	for _, row := range d.Rows {
		if row.Peak != nil && row.Rate != nil {
			peak, fastest = max(peak, *row.Peak), max(fastest, *row.Rate)
		}
	}
	if fastest <= 0 || peak <= 0 {
		return out, false
	}
	wide := plotWidth - left - 40
	across := scale{top: peak + peak/12}
	x := func(b unit.Bytes) float64 { return left + wide*float64(b)/float64(across.top) }
	y := func(rate float64) float64 { return top + height*(1-rate/(fastest*1.08)) }
	for _, b := range across.steps() {
		out.Line(x(b), top, x(b), top+height, Shape{Stroke: Grid})
		out.Write(x(b), top+height+16, axisText(b), Shape{Anchor: Middle, Fill: Muted, Small: true})
	}
	for i := range 5 {
		v := fastest * float64(i) / 4
		out.Line(left, y(v), left+wide, y(v), Shape{Stroke: Grid})
		out.Write(left-8, y(v)+4, plain(v), Shape{Anchor: End, Fill: Muted, Small: true})
	}
	out.Write(left+wide, top+height+32, "measured peak →", Shape{Anchor: End, Small: true})
	out.Write(left, top-9, "↑ samples a second", Shape{Small: true})
	for _, row := range d.Rows[:min(len(d.Rows), maxLinesDrawn)] {
		if row.Peak == nil || row.Rate == nil {
			continue
		}
		s := trialShape(row)
		px, py := x(*row.Peak), y(*row.Rate)
		if s.Dash { // a cross, so that colour is not the only difference
			s.Width, s.Dash = 2, false
			s.Points = []Point{{X: px - 4, Y: py - 4}, {X: px, Y: py}, {X: px + 4, Y: py + 4}, {X: px, Y: py},
				{X: px + 4, Y: py - 4}, {X: px, Y: py}, {X: px - 4, Y: py + 4}}
			out.Add(s)
			continue
		}
		s.Fill, s.Stroke = s.Stroke, Paper
		if row.Changes != "" { // a diamond
			s.Points = []Point{{X: px, Y: py - 6}, {X: px + 6, Y: py}, {X: px, Y: py + 6}, {X: px - 6, Y: py}}
			s.Closed = true
			out.Add(s)
			continue
		}
		out.Circle(px, py, 4.5, s)
	}
	trialLegend(&out, out.H-10)
	return out, true
}
