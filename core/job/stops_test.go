package job

import (
	"slices"
	"testing"
)

// A warning that tells that the program will stop is one at which it stops, as a fault is.
func TestStopsAt(t *testing.T) {
	j := Job{Faults: []string{"the trainer asserts that"}, Warnings: []string{"the trainer asserts that",
		"--x is no number: argparse stops at it", "main.py stops without --base, which it requires",
		"it would stop with an AttributeError", "launch stops the program when others need the card",
		"the bar stops at 99 %"}}
	want := []string{j.Faults[0], j.Warnings[1], j.Warnings[2], j.Warnings[3]}
	if got := j.StopsAt(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
