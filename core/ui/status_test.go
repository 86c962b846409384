package ui

import (
	"strings"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/unit"
)

// The status has what is known, and nothing of what is not.
func TestStatus(t *testing.T) {
	now := time.Unix(1000, 0)
	steps := record.Progress{Iteration: 41200, Total: 100000, At: now, Step: 200 * time.Millisecond}
	epoch := record.Progress{Iteration: 10, Total: 20, At: now, Step: time.Second, Epoch: true}
	open := record.Progress{Iteration: 7, At: now}
	for _, tt := range []struct {
		name        string
		s           record.Status
		line, title string
		percent     int
	}{
		{"nothing is known", record.Status{Attempt: 1}, " launch", "launch", -1},
		{"all is known", record.Status{Attempt: 2, Phase: "training", Progress: &steps,
			Memory: &record.StatusMemory{Now: 9 * unit.GiB,
				Peak: 10 * unit.GiB, Is: "used"}, Predicted: map[string]unit.Bytes{"training": 11 * unit.GiB}},
			" launch (attempt 2) · training · 41200/100000 (41 %) · 3h16m left · 9.00 GiB now, 10.0 GiB peak, 11.0 GiB " +
				"estimated (used)", "41 % · 3h16m left · training", 41},
		{"an epoch", record.Status{Attempt: 1, Phase: "training", Progress: &epoch}, " launch · training · 10/20",
			"launch · training", -1},
		{"no total", record.Status{Attempt: 1, Progress: &open}, " launch · 7", "launch", -1},
		{"a phase with an escape", record.Status{Attempt: 1, Phase: "a\x1b]0;b\n"}, " launch · a]0;b", "launch · a]0;b", -1},
	} {
		tt.s.Time = now
		got := Status(tt.s)
		got.Line = strings.ReplaceAll(got.Line, "\u00a0", " ")
		if got != (StatusText{tt.line, tt.title, tt.percent}) {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}

func TestLeftText(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0 s", 59 * time.Second: "59 s", 61 * time.Second: "1 min",
		59 * time.Minute: "59 min", 25*time.Hour + 61*time.Second: "25h01m", 72 * time.Hour: "3 days"} {
		if got := leftText(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}
