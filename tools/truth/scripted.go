package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// scriptedOff is how far a trace of a recorded step may be from the recording.
const scriptedOff = 0.01

// A scriptedRow is a recorded step that was traced as a script: how far off each figure is, relative to the recording.
type scriptedRow struct {
	family, name string
	params       bool // as recorded
	saved, peak  float64
	why          string // no figure; "" for one
}

// readScripted reads what tools/capture/traced_rows.py has made.
func readScripted(root string) (out []scriptedRow, err error) {
	rows, err := recordedRows(root, "scripted.csv")
	if err != nil {
		return nil, err
	}
	for _, r := range rows { // family, row, name, precision, then recorded and traced: params, bytes, saved, peak; why
		row := scriptedRow{family: r[0], name: r[2] + ", row " + r[1], params: r[4] == r[5] && r[6] == r[7], why: r[12]}
		for i, to := range map[int]*float64{8: &row.saved, 10: &row.peak} {
			if r[i] == "" || r[i+1] == "" || row.why != "" { // of checkpointing, what is saved is not recorded
				continue
			}
			recorded, traced, err := twoNumbers(r[i:])
			if err != nil {
				return nil, err
			}
			*to = traced/recorded - 1
		}
		out = append(out, row)
	}
	return out, nil
}

func scriptedBroken(all []scriptedRow) (out []string) {
	for _, r := range all {
		if r.why == "" && (!r.params || math.Abs(r.saved) > scriptedOff || math.Abs(r.peak) > scriptedOff) {
			out = append(out, fmt.Sprintf("traces: %s of %s: parameters equal is %v, saved tensors %s, peak %s", r.name,
				r.family, r.params, percent(r.saved), percent(r.peak)))
		}
	}
	return out
}

func scriptedTable(p *printer, all []scriptedRow) {
	p.heading("Traces: the recorded steps as scripts")
	p.text("Each recorded step of the families is run as a script that asks for a card, under the tracer "+
		"(tools/capture/traced_rows.py): its parameters and their bytes are as recorded, and what the graph holds when "+
		"the backward pass begins and the most that lives at once are within %.0f %% of the recording. The formulas "+
		"are held against the same rows above. The language models run by the Trainer itself. Rows of an "+
		"evaluation alone are no script.", 100*scriptedOff)
	var families []string
	for _, r := range all {
		if !slices.Contains(families, r.family) {
			families = append(families, r.family)
		}
	}
	var lines [][]string
	for _, f := range families {
		traced, none := 0, 0
		var saved, peak float64
		for _, r := range all {
			switch {
			case r.family != f:
			case r.why != "":
				none++
			default:
				traced++
				saved, peak = max(saved, math.Abs(r.saved)), max(peak, math.Abs(r.peak))
			}
		}
		lines = append(lines, []string{f, strconv.Itoa(traced), strconv.Itoa(none), fmt.Sprintf("%.2f %%", 100*saved),
			fmt.Sprintf("%.2f %%", 100*peak)})
	}
	p.table([]string{"family", "traced", "no script", "saved, worst", "peak, worst"}, 1, lines)
}
