package ui

import (
	"testing"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/run"
)

// A free port is no setting that a program could be asked to confirm, and its placeholder nothing to show.
func TestUnconfirmed(t *testing.T) {
	plan := &run.Plan{Edits: []config.Edit{{Knob: "rendezvous", To: "tcp://localhost:" + job.FreePort}, {Knob: job.MicroBatch, To: "8"}}}
	if got := unconfirmed(plan, &run.Outcome{}); len(got) != 1 || got[0] != "micro-batch = 8" {
		t.Errorf("%q", got)
	}
}
