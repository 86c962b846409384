package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/sweep"
	"github.com/launch-ml/launch/core/ui"
	"github.com/launch-ml/launch/core/unit"
)

// SweepInput is what was read of a sweep.
type SweepInput struct {
	Doc     ui.SweepDoc
	Mask    record.Mask
	Version string
	Now     time.Time
}

const (
	// maxRows is how many trials the table has, so that a page stays below 2 MB.
	maxRows = 1000
	// maxKeys is how many columns of settings and of metrics each it has.
	maxKeys = 24
)

// OfSweep returns the report of a sweep. It is a pure function.
func OfSweep(in SweepInput) Report {
	d := in.Doc
	r := Report{Name: d.Name, Title: "sweep " + d.Name, State: d.State, Good: d.Code == 0, By: by(in.Version, in.Now)}
	if len(d.Command) > 0 {
		r.Command = ui.Quote(record.MaskArgs(d.Command))
	}
	r.Summary = []Fact{{Name: "began", Value: minute(d.Began)}, {Name: "trials", Value: fmt.Sprint(len(d.Rows))}}
	for _, state := range states(d) {
		r.Summary = append(r.Summary, Fact{Name: state, Num: countNum("counts."+state, int64(d.Counts[state]))})
	}
	r.Environment = []Fact{{Name: "folder", Value: d.Dir}}
	if d.Tree != nil {
		changed := ", as committed"
		if d.Tree.Changes != "" {
			changed = ", with changes"
		}
		r.Environment = append(r.Environment, Fact{Name: "code", Value: fmt.Sprintf("commit %.12s%s", d.Tree.Commit,
			changed)})
	} else {
		r.Environment = append(r.Environment, Fact{Name: "code", Value: "not under git, so its version is not known"})
	}
	if slices.ContainsFunc(d.Rows, func(row ui.SweepRow) bool { return row.Beyond }) {
		r.Notes = append(r.Notes, "rows with a cost beyond numerics cannot be compared with the others as they are")
	}
	r.Sweep = table(d)
	if p, ok := parallelPlot(d); ok {
		r.Plots = append(r.Plots, p)
	}
	if p, ok := speedPlot(d); ok {
		r.Plots = append(r.Plots, p)
	} else {
		r.Notes = append(r.Notes, "memory against speed: no trial has both figures")
	}
	r.mask(in.Mask)
	return r
}

// states lists the states that trials are in, the most frequent first.
func states(d ui.SweepDoc) (names []string) {
	for name, n := range d.Counts {
		if n > 0 {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		if d.Counts[a] != d.Counts[b] {
			return d.Counts[b] - d.Counts[a]
		}
		return strings.Compare(a, b)
	})
	return names
}

// keys lists the settings that differ between trials, and the metrics.
func keys(d ui.SweepDoc) (settings, metrics []string) {
	values := map[string]map[string]bool{}
	for _, row := range d.Rows {
		for _, s := range row.Assignment {
			if values[s.Key] == nil {
				values[s.Key] = map[string]bool{}
				settings = append(settings, s.Key)
			}
			values[s.Key][s.Value] = true
		}
		for _, name := range row.Metrics.Names() {
			if !slices.Contains(metrics, name) {
				metrics = append(metrics, name)
			}
		}
	}
	return settings[:min(len(settings), maxKeys)], metrics[:min(len(metrics), maxKeys)]
}

// rowKey links a row with its shapes.
func rowKey(trial int) string { return "t" + strconv.Itoa(trial) }

// good reports whether a trial succeeded or is on its way.
func good(row ui.SweepRow) bool {
	return slices.Contains([]sweep.State{sweep.Succeeded, sweep.Running, sweep.Waiting}, sweep.State(row.State))
}

// table makes the table of a sweep.
func table(d ui.SweepDoc) *Sweep {
	settings, metrics := keys(d)
	commands := slices.ContainsFunc(d.Rows, func(row ui.SweepRow) bool { return len(row.Command) > 0 })
	out := &Sweep{Columns: []Column{{"trial", true}, {"state", false}}}
	for _, k := range settings {
		out.Columns = append(out.Columns, Column{k, numeric(d, k)})
	}
	if commands {
		out.Columns = append(out.Columns, Column{"command", false})
	}
	for _, name := range metrics {
		out.Columns = append(out.Columns, Column{"best " + name, true})
	}
	out.Columns = append(out.Columns, Column{"peak", true}, Column{"samples/s", true}, Column{"seconds", true},
		Column{"micro-batch", true}, Column{"accumulation", true}, Column{"attempts", true}, Column{"out of memory", true},
		Column{"cost", false}, Column{"changed", false}, Column{"why", false})
	for i, row := range d.Rows {
		if i == maxRows {
			out.More = len(d.Rows) - i
			break
		}
		out.Rows = append(out.Rows, tableRow(fmt.Sprintf("rows.%d.", i), row, settings, metrics, commands))
	}
	return out
}

// tableRow makes a row. at is its place in the JSON document.
func tableRow(at string, row ui.SweepRow, settings, metrics []string, commands bool) Row {
	r := Row{Key: rowKey(row.Trial), Good: good(row)}
	text := func(s string) { r.Cells = append(r.Cells, Cell{Text: s}) }
	number := func(n *Num) { r.Cells = append(r.Cells, Cell{Num: n}) }
	number(countNum(at+"trial", int64(row.Trial)))
	text(row.State)
	for _, k := range settings {
		v, ok := row.Assignment.Get(k)
		if !ok {
			v = "as in the recipe"
		}
		text(v)
	}
	if commands {
		text(ui.Quote(record.MaskArgs(row.Command)))
	}
	for _, name := range metrics {
		m := row.Metrics[name]
		if m.Best == nil {
			number(nil)
			continue
		}
		n := floatNum(at+"metrics."+name+".best.value", m.Best.Value)
		if m.Diverged {
			n.Text += " (then diverged)"
		}
		number(n)
	}
	number(maybe(row.Peak, func(b unit.Bytes) *Num { return bytesNum(at+"peak_bytes", b) }))
	number(maybe(row.Rate, func(f float64) *Num { return speedNum(at+"samples_per_second", f) }))
	number(maybe(row.Seconds, func(f float64) *Num { return speedNum(at+"seconds", f) }))
	number(maybe(row.Micro, func(n int64) *Num { return countNum(at+"micro_batch", n) }))
	number(maybe(row.Accum, func(n int64) *Num { return countNum(at+"accumulation", n) }))
	number(countNum(at+"attempts", int64(row.Attempts)))
	number(countNum(at+"out_of_memory", int64(row.Short)))
	cost := ""
	if row.Cost != nil {
		cost = *row.Cost
	}
	if row.Beyond {
		cost += " *"
	}
	text(cost)
	text(row.Changes)
	text(row.Why)
	return r
}

// maybe returns the number of a value that is known; nil for others.
func maybe[T any](v *T, f func(T) *Num) *Num {
	if v == nil {
		return nil
	}
	return f(*v)
}

// numeric reports whether all values of a setting are numbers.
func numeric(d ui.SweepDoc, key string) bool {
	for _, row := range d.Rows {
		if v, ok := row.Assignment.Get(key); ok {
			if _, err := strconv.ParseFloat(v, 64); err != nil {
				return false
			}
		}
	}
	return true
}
