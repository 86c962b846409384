package ui

import (
	"testing"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/run"
)

// A rehearsal is no attempt at the run, and is not said to be one.
func TestTries(t *testing.T) {
	for want, n := range map[string][2]int{
		"1 attempt": {1, 0}, "3 attempts": {3, 0}, "1 attempt after 1 short run": {1, 1}, "2 attempts after 3 short runs": {2, 3}, "1 short run": {0, 1},
	} {
		if got := tries(n[0], n[1]); got != want {
			t.Errorf("%d attempts and %d short runs are %q, want %q", n[0], n[1], got, want)
		}
	}
}

// A free port is no setting that a program could be asked to confirm, and its placeholder nothing to show.
func TestUnconfirmed(t *testing.T) {
	plan := &run.Plan{Edits: []config.Edit{{Knob: "rendezvous", To: "tcp://localhost:" + job.FreePort}, {Knob: job.MicroBatch, To: "8"}}}
	if got := unconfirmed(plan, &run.Outcome{}); len(got) != 1 || got[0] != "micro-batch = 8" {
		t.Errorf("%q", got)
	}
}
