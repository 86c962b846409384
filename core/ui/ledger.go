package ui

import (
	"fmt"

	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

// phase writes every line of a phase's estimate, as asked beside as planned, and where each number is from.
func (p Printer) phase(v View, c run.Choice) {
	asked, planned := v.asked(c.Phase), c.Estimate
	p.line("")
	changed := v.moved(c)
	both := func(a, b string) string {
		if changed {
			return padLeft(a, 12) + " " + padLeft(b, 12)
		}
		return padLeft(b, 12)
	}
	head := "as asked"
	if changed {
		head = "planned"
	}
	p.line("  %s %s   from", p.bold(pad(c.Phase, 36)), both("as asked", head))
	if !changed {
		asked = planned
	}
	for _, row := range joined(asked, planned) {
		p.line("    %s %s   %s", pad(row.name, 34), both(cell(row.asked), cell(row.planned)), row.from)
	}
	name := "estimate"
	if !planned.Known() {
		name = "so far, at least"
	}
	p.line("    %s %s", pad(name, 34), both(askedTotal(asked), planned.Total().String()))
	if r := planned.Reserved; r > planned.Total()+planned.Total()/20 {
		p.line("    given more room, the allocator caches up to %v and returns most of it under pressure", r)
	}
}

func askedTotal(e mem.Estimate) string {
	if !e.Known() {
		return "unknown"
	}
	return e.Total().String()
}

// row is a line of a phase's table.
type row struct {
	name           string
	asked, planned unit.Bytes
	from           string
}

// minor is the share of a phase below which its lines are added up into one.
const minor = 0.01

// joined joins the lines of two estimates by part and kind.
func joined(asked, planned mem.Estimate) (rows []row) {
	at := map[string]int{}
	put := func(it mem.Item, into func(*row) *unit.Bytes) {
		name := it.Title()
		if it.Guess {
			name += " (guess)"
		}
		i, ok := at[name]
		if !ok {
			i = len(rows)
			at[name] = i
			rows = append(rows, row{name: name, from: it.From})
		}
		*into(&rows[i]) += it.Bytes
	}
	for _, it := range asked.Items {
		put(it, func(r *row) *unit.Bytes { return &r.asked })
	}
	for _, it := range planned.Items {
		put(it, func(r *row) *unit.Bytes { return &r.planned })
	}
	return rows
}

// ledger is joined with the minor lines added up.
func ledger(asked, planned mem.Estimate) (shown []row) {
	large := func(b, total unit.Bytes) bool {
		return float64(b) >= minor*float64(total) || float64(-b) >= minor*float64(total)
	}
	rest, n := row{}, 0
	for _, r := range joined(asked, planned) {
		if large(r.asked, asked.Total()) || large(r.planned, planned.Total()) {
			shown = append(shown, r)
			continue
		}
		rest.asked, rest.planned, n = rest.asked+r.asked, rest.planned+r.planned, n+1
	}
	if n > 0 {
		rest.name = fmt.Sprintf("%d smaller lines", n)
		shown = append(shown, rest)
	}
	return shown
}

func cell(b unit.Bytes) string {
	if b == 0 {
		return "-"
	}
	return b.String()
}
