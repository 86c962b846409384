package run

import (
	"slices"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/ladder"
)

// ordering is [rehearsable] with a setting that puts the largest batch first.
func ordering() *Run {
	r := rehearsable()
	r.Limits = Limits{Allow: ladder.Metrics, Rehearse: true}
	r.Job.Rehearsal.Largest = []config.Edit{{Knob: "largest batch first", At: config.Address{Doc: config.ArgvDoc,
		Path: "--sampler"}, To: "length",
		Add: true}}
	return r
}

func ordered(p *Plan) bool {
	return slices.ContainsFunc(p.Edits, func(e config.Edit) bool { return e.At.Path == "--sampler" })
}

// The largest batch comes first in rehearsals, and never in the run itself or in a trial of speed.
func TestOrder(t *testing.T) {
	r := ordering()
	first := then(t, r, oomIn(ladder.Validation, 0, 0))
	second := then(t, r, Outcome{Ending: Succeeded})
	real, stop := r.Next()
	if stop != nil {
		t.Fatal(stop.Why)
	}
	if !ordered(first) || !ordered(second) || !strings.Contains(first.Order, "--sampler=length") {
		t.Errorf("the rehearsals: %+v, %+v", first, second)
	}
	if real.Trial != "" || ordered(real) || real.Order != "" {
		t.Errorf("the run itself: %+v", real)
	}
	timed := ordering()
	timed.Limits = Limits{Allow: ladder.Metrics, Fill: true, Fast: true}
	if p, _ := timed.Next(); p == nil || p.Trial != Timing || ordered(p) || p.Order != "" {
		t.Errorf("a trial of speed: %+v", p)
	}
}

// A rehearsal that fails with the setting is made again without it, once for the whole run.
func TestOrderThatFails(t *testing.T) {
	r := ordering()
	if p := then(t, r, Outcome{Ending: Failed, Cause: "unknown option"}); !ordered(p) {
		t.Fatalf("first: %+v", p)
	}
	again := then(t, r, oomIn(ladder.Validation, 0, 0))
	if again.Trial != Rehearsal || ordered(again) || !shortened(again) || !strings.Contains(again.Order,
		"in the program's own order") {
		t.Errorf("again: %+v", again)
	}
	third := then(t, r, Outcome{Ending: Succeeded})
	if third.Trial != Rehearsal || ordered(third) || third.Shared.Name != "micro-batch 2" {
		t.Errorf("after an out-of-memory: %+v", third)
	}
	if real, _ := r.Next(); real == nil || real.Trial != "" || ordered(real) {
		t.Errorf("the run itself: %+v", real)
	}
	both := ordering()
	then(t, both, Outcome{Ending: Failed, Cause: "no images"})
	then(t, both, Outcome{Ending: Failed, Cause: "no images"})
	if real, _ := both.Next(); real == nil || real.Trial != "" || !strings.Contains(real.Why, "not rehearsed") {
		t.Errorf("a rehearsal that fails either way: %+v", real)
	}
}

// Where nothing orders the batches, the rehearsal reports that; where they are alike, nothing.
func TestUnordered(t *testing.T) {
	r := ordering()
	r.Job.Rehearsal.Largest, r.Job.Rehearsal.Unordered = nil, "the buckets are shuffled"
	if p, _ := r.Next(); p.Order != "launch cannot order the batches by their size: the buckets are shuffled" {
		t.Errorf("%q", p.Order)
	}
	r.Job.Rehearsal.Unordered = ""
	if p, _ := r.Next(); p.Order != "" {
		t.Errorf("alike: %q", p.Order)
	}
}
