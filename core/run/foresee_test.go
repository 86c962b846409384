package run

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/unit"
)

// foresighted is a script whose ladders are priced when it is asked.
type foresighted struct {
	*script
	asked int
	err   error
}

func (f *foresighted) Foresee(_ context.Context, r *Run) error {
	f.asked++
	r.Ladders.Phases[0].Rungs = training(func(batch unit.Bytes) mem.Estimate { return sure(g, 3*batch*g, 0) })
	return f.err
}

// After an out-of-memory the ladders are priced before the next rung is chosen: it is the first that fits.
func TestForesee(t *testing.T) {
	none := func(unit.Bytes) mem.Estimate { return unknown() }
	r := sr(training(none), validation(none))
	f := &foresighted{script: &script{outcomes: []Outcome{oomIn(ladder.Training, 0, 0), {Ending: Succeeded}}}}
	if _, err := r.Carry(t.Context(), f, f); err != nil {
		t.Fatal(err)
	}
	if len(f.plans) != 2 || names(f.plans[0]) != "as asked, as asked" || names(f.plans[1]) != "2 × 8, as asked" {
		t.Errorf("the plans are %v", f.plans)
	}
	if f.asked != 1 {
		t.Errorf("it was asked %d times", f.asked)
	}
}

// What no smaller rung would mend is nothing to foresee, and neither is a run that begins.
func TestForeseeNothing(t *testing.T) {
	others := oomIn(ladder.Training, 0, 0)
	others.Report.Kind = oom.GPUContention
	host := oomIn(ladder.Training, 0, 0)
	host.Report.Kind = oom.HostOOM
	left := oomIn(ladder.Training, 0, 0)
	left.Left = "preempted"
	beside := oomIn(ladder.Training, 0, 0)
	beside.Beside = true
	for name, out := range map[string]Outcome{
		"others hold the card": others, "host memory": host, "it gave way": left, "beside another": beside,
		"a mistake": {Ending: Failed, Code: 1}, "a success": {Ending: Succeeded},
	} {
		none := func(unit.Bytes) mem.Estimate { return unknown() }
		r := sr(training(none), validation(none))
		f := &foresighted{script: &script{outcomes: []Outcome{out, {Ending: Succeeded}}}}
		if _, err := r.Carry(t.Context(), f, f); err != nil || f.asked != 0 {
			t.Errorf("%s: it was asked %d times (%v)", name, f.asked, err)
		}
	}
}

// A signal while it is foreseen ends the run.
func TestForeseeEnds(t *testing.T) {
	none := func(unit.Bytes) mem.Estimate { return unknown() }
	r := sr(training(none), validation(none))
	f := &foresighted{script: &script{outcomes: []Outcome{oomIn(ladder.Training, 0, 0)}}, err: errors.New("interrupted")}
	if _, err := r.Carry(t.Context(), f, f); err == nil || !strings.Contains(err.Error(), "interrupted") ||
		len(f.plans) != 1 {
		t.Errorf("%v after %d attempts", err, len(f.plans))
	}
}
