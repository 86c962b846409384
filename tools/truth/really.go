package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// reallyOff is how far a trace may be from the peak of the same script, really run on a CPU.
const reallyOff = 0.02

// reallyReasons say why a trace is not.
var reallyReasons = map[string]string{
	"speech": "attention: torch's kernel for the CPU lays its result out as (batch, heads, tokens, width), the " +
		"card's as (batch, tokens, heads, width), which nn.MultiheadAttention copies: one map a layer",
}

// A reallyRow is a script of tools/capture/train_small.py: bytes of tensors at the fullest moment.
type reallyRow struct {
	kind           string
	really, traced float64
}

func (r reallyRow) agrees() bool { return math.Abs(r.traced/r.really-1) <= reallyOff }

// readReally reads what tools/capture/really.py has recorded.
func readReally(root string) (out []reallyRow, err error) {
	rows, err := recordedRows(root, "really.csv")
	if err != nil {
		return nil, err
	}
	for _, r := range rows { // kind, really, traced
		really, traced, err := twoNumbers(r[1:])
		if err != nil {
			return nil, err
		}
		out = append(out, reallyRow{r[0], really, traced})
	}
	return out, nil
}

func reallyBroken(all []reallyRow) (out []string) {
	for _, r := range all {
		if reason := reallyReasons[r.kind]; r.agrees() != (reason == "") {
			out = append(out, fmt.Sprintf("traces: %s has %.4f of what it really needs on a CPU, and the reason %q", r.kind,
				r.traced/r.really, reason))
		}
	}
	for kind := range reallyReasons {
		if !slices.ContainsFunc(all, func(r reallyRow) bool { return r.kind == kind }) {
			out = append(out, fmt.Sprintf("traces: a reason for %s, and no such row", kind))
		}
	}
	return out
}

func reallyTable(p *printer, all []reallyRow) {
	p.heading("Traces: scripts that were really run on a CPU")
	p.text("The most bytes of tensors that lived at once in small trainings (tools/capture/train_small.py), as torch "+
		"2.15 traced them for a card, and as they were when the same scripts were really run on a CPU "+
		"(tools/capture/really.py), in MiB. They agree within %.0f %%, or "+
		"the row has the reason.", 100*reallyOff)
	var lines [][]string
	for _, r := range all {
		why := cmp.Or(reallyReasons[r.kind], "–")
		lines = append(lines, []string{r.kind, fmt.Sprintf("%.2f", r.traced/(1<<20)), fmt.Sprintf("%.2f", r.really/(1<<20)),
			fmt.Sprintf("%.4f", r.traced/r.really), why})
	}
	p.table([]string{"script", "traced", "really", "ratio", "why"}, 1, lines)
}
