package ui

import (
	"testing"
	"time"
)

func TestRunFilter(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	row := RunRow{ID: "20261121-1200-ab", Name: "2x_AttnSR", Began: now.Add(-24 * time.Hour), Command: []string{"python", "train.py", "-opt", "x.yml"}}
	for text, want := range map[string]bool{"": true, "attnsr": true, "X.yml": true, "20261121": true, "moco": false} {
		if got := (RunFilter{Name: text}).Has(row); got != want {
			t.Errorf("--name %q: %v", text, got)
		}
	}
	for text, want := range map[string]bool{"2d": true, "24h": true, "23h": false, "2026-11-21": true, "2026-11-22": false, "2026-11-21 13:00": false} {
		since, err := ParseSince(text, now)
		if got := (RunFilter{Since: since}).Has(row); err != nil || got != want {
			t.Errorf("--since %q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "yesterday", "-3d", "-2h", "d"} {
		if at, err := ParseSince(text, now); err == nil {
			t.Errorf("--since %q is %v", text, at)
		}
	}
}

// The runs of one script differ in their arguments.
func TestTitleOfARun(t *testing.T) {
	for want, row := range map[string]RunRow{
		"2x_AttnSR":         {Name: "2x_AttnSR", Command: []string{"python", "train.py", "-opt", "x.yml"}},
		"train.py --lr 0.1": {Name: "train.py", Command: []string{"python", "-u", "src/train.py", "--lr", "0.1"}},
		"make train":        {Command: []string{"make", "train"}},
	} {
		if got := row.Title(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
