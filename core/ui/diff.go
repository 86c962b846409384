package ui

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/unit"
)

// Diff writes what differs between two runs.
func (p Printer) Diff(d record.Diff) {
	for _, r := range []struct {
		name string
		run  record.ComparedRun
	}{{"A", d.A}, {"B", d.B}} {
		ending := cmp.Or(string(r.run.Ending), "no end recorded")
		attempt := ""
		if r.run.Attempt > 1 {
			attempt = fmt.Sprintf(", attempt %d", r.run.Attempt)
		}
		p.whole("%s  %s  %s%s  %s", p.bold(r.name), r.run.ID, ending, attempt, OneLine(strings.Join(r.run.Command, " ")))
	}
	for _, phase := range d.Phases {
		p.diffPhase(phase)
	}
	if len(d.Results) > 0 {
		p.line("")
		const title = "speed and results"
		rows := []tableRow{{line: p.bold(fmt.Sprintf("%-40s %14s %14s", title, "A", "B")), title: p.bold(title)}}
		for _, f := range d.Results {
			name := OneLine(f.Name)
			rows = append(rows, tableRow{
				line:   fmt.Sprintf("  %-38s %14s %14s %s", name, pairFigure(f, f.A), pairFigure(f, f.B), change(f)),
				fields: []string{name + ": A " + pairFigure(f, f.A), "B " + pairFigure(f, f.B), strings.TrimSpace(change(f))}})
		}
		p.grid("", rows)
	}
	p.differences(d)
	if len(d.Unknown) > 0 {
		p.line("")
		p.line("not recorded: %s", strings.Join(d.Unknown, ", "))
	}
}

// diffPhase writes the memory of a phase. Lines that are equal are added up.
func (p Printer) diffPhase(phase record.PhasePair) {
	p.line("")
	title := "memory, " + OneLine(phase.Phase)
	rows := []tableRow{{line: p.bold(fmt.Sprintf("%-40s %14s %14s %14s", title, "A", "B", "B − A")), title: p.bold(title)}}
	pair := func(name string, v record.Pair, note string) {
		if v.A != nil || v.B != nil {
			rows = append(rows, pairRow(name, v, note))
		}
	}
	same, sum := 0, unit.Bytes(0)
	for _, l := range phase.Predicted {
		if delta, ok := l.Delta(); ok && delta == 0 {
			same, sum = same+1, sum+*l.A
			continue
		}
		pair(fmt.Sprintf("%s, %s", l.Kind, l.What), l.Pair, "")
	}
	if same > 0 {
		pair(Count(same, "equal line"), record.Pair{A: &sum, B: &sum}, "")
	}
	pair("estimate", phase.Total, "")
	for _, m := range phase.Measured {
		pair("measured "+m.Is, m.Pair, bounds(m))
	}
	p.grid("", rows)
}

// bounds names what is only a bound.
func bounds(m record.PeakPair) string {
	var out []string
	for _, b := range []struct {
		name  string
		bound mem.Bound
	}{{"A", m.BoundA}, {"B", m.BoundB}} {
		if b.bound == mem.AtLeast || b.bound == mem.AtMost {
			out = append(out, fmt.Sprintf("%s is %s", b.name, b.bound))
		}
	}
	return strings.Join(out, ", ")
}

// pairRow is an amount in both runs, and the difference.
func pairRow(name string, v record.Pair, note string) tableRow {
	delta := ""
	if d, ok := v.Delta(); ok {
		delta = signed(d)
	}
	name = OneLine(name)
	return tableRow{
		line:   fmt.Sprintf("  %-38s %14s %14s %14s  %s", name, amountText(v.A), amountText(v.B), delta, note),
		fields: []string{name + ": A " + amountText(v.A), "B " + amountText(v.B), field("B − A", delta), note}}
}

// signed writes a difference: "+1.2 GiB", "−300 MiB", "=".
func signed(d unit.Bytes) string {
	switch {
	case d > 0:
		return "+" + d.String()
	case d < 0:
		return "−" + (-d).String()
	}
	return "="
}

func amountText(b *unit.Bytes) string {
	if b == nil {
		return "not known"
	}
	return b.String()
}

// pairFigure is a figure of a pair: of speeds and times four digits mean something, of results one more.
func pairFigure(of record.FigurePair, f *float64) string {
	switch {
	case f == nil:
		return "not known"
	case of.Relative:
		return Figure(*f, 4)
	}
	return Figure(*f, 5)
}

// Figure writes a number with so many digits, and all of a large one that stand before the point.
func Figure(f float64, digits int) string {
	if math.Abs(f) >= math.Pow10(digits) {
		return strconv.FormatFloat(f, 'f', 0, 64)
	}
	return strconv.FormatFloat(f, 'g', digits, 64)
}

// change writes how B differs: speed and time in percent, other figures by their difference.
func change(f record.FigurePair) string {
	if f.A == nil || f.B == nil {
		return ""
	}
	text := "="
	switch r, ok := f.Ratio(); {
	case *f.A == *f.B:
	case f.Relative && ok:
		text = fmt.Sprintf("%+.1f %%", 100*(r-1))
	case !f.Relative:
		text = fmt.Sprintf("%+.4g", *f.B-*f.A)
	}
	return fmt.Sprintf("%14s", text)
}

// differences writes what is not the same, by kind.
func (p Printer) differences(d record.Diff) {
	p.line("")
	if len(d.Differs) == 0 {
		p.line("no recorded setting, version, card or data differs")
		return
	}
	p.line("%s", p.bold("what differs (launch does not know which of it caused what)"))
	kind := ""
	for _, x := range d.Differs {
		label := ""
		if x.Kind != kind {
			kind, label = x.Kind, x.Kind
		}
		p.line("  %-12s %s: %s → %s", label, OneLine(x.Name), orUnset(x.A), orUnset(x.B))
	}
}

func orUnset(s *string) string {
	switch {
	case s == nil:
		return "not set"
	case *s == "":
		return "empty"
	}
	return unit.Clip(OneLine(*s), 120)
}
