package ui

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/sweep"
)

// A table cuts no name: not where there is no terminal, nor on a wide one, and on a narrow one it is a list.
func TestTablesCutNoName(t *testing.T) {
	key := "model.encoder.blocks.attention.projection_dropout"
	h := &sweep.History{Spec: sweep.Spec{Name: "s"}}
	for i, value := range []string{"0.1", "0.25"} {
		a := sweep.Assignment{{Key: key, Value: value}, {Key: "optimizer.learning_rate", Value: "0.0003"}}
		h.Rows = append(h.Rows, &sweep.Row{Trial: sweep.Trial{Number: i + 1, Assignment: a}, State: sweep.Waiting})
	}
	for _, width := range []int{0, 80, 120, 300} {
		for name, write := range map[string]func(Printer){
			"status": func(p Printer) { p.Sweep(h, 0) },
			"plan":   func(p Printer) { p.SweepPlan(h.Spec, SweepPlanDoc{Rows: []QuoteDoc{{Trial: h.Rows[0].Trial}}}) },
			"trial":  func(p Printer) { p.Width = 0; p.Trial(h, h.Rows[0]) },
		} {
			var out strings.Builder
			write(Printer{W: &out, Width: width})
			if text := out.String(); !strings.Contains(text, key+"=0.1") || strings.Contains(text, "…") {
				t.Errorf("%s at %d:\n%s", name, width, text)
			}
		}
	}
}
