package run

import (
	"strings"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
)

// pressed is a run whose rungs all fit, and which was stopped on its first because memory ran short.
func pressed(allow ladder.Cost) (r *Run, first *Plan) {
	fits := func(unit.Bytes) mem.Estimate { return sure(unit.GiB, unit.GiB, 0) }
	r = sr(training(fits), validation(fits))
	r.Job.Resume.Edits = nil
	r.Limits.Allow, r.Room = allow, 100*unit.GiB
	first, _ = r.Next()
	return r, first
}

// A run that was stopped because memory ran short goes on one rung lower from its state, though its estimate says that
// all rungs fit; where none is allowed, launch knows it before it stops the program.
func TestStepDown(t *testing.T) {
	r, first := pressed(ladder.Speed)
	below := r.Below(first)
	if below == nil || names(first) != "as asked, as asked" || names(below) != "8 × 2, as asked" || len(r.Attempts) != 0 {
		t.Fatalf("below %s: %+v", names(first), below)
	}
	out := Outcome{Ending: Interrupted, Phase: ladder.Training, Pressure: &Pressure{Why: "the card refused 2", Down: true},
		Saved: &State{Path: "s"}}
	r.End(Attempt{*first, out})
	next, stop := r.Next()
	if stop != nil || !next.stands(below) || next.Resume == nil || !strings.HasPrefix(next.Why, "the card refused 2; ") {
		t.Fatalf("%+v %+v", next, stop)
	}
	// and on, rung by rung, until none is left
	last := next
	for below = next; below != nil; below = r.Below(last) {
		last = below
	}
	r.End(Attempt{*last, out})
	if next, stop = r.Next(); stop != nil || !next.stands(last) || next.Resume == nil {
		t.Errorf("without a rung below it goes on as it was: %+v %+v", next, stop)
	}
	r, first = pressed(ladder.None)
	if below := r.Below(first); below != nil {
		t.Errorf("allowed %v, below is %s", ladder.None, names(below))
	}
	r, _ = pressed(ladder.Speed)
	r.Limits.AsAsked = true
	first, _ = r.Next()
	if below := r.Below(first); below == nil || names(below) != "8 × 2, as asked" {
		t.Errorf("pressure was seen, and is no estimate: %+v", below)
	}
	r, first = pressed(ladder.Speed)
	r.Job.Resume.None = "it cannot"
	if r.Below(first) != nil {
		t.Error("a program that cannot resume would start over")
	}
	r, first = pressed(ladder.Speed)
	for i := range r.Ladders.Phases {
		for k := range r.Ladders.Phases[i].Rungs[1:] {
			r.Ladders.Phases[i].Rungs[k+1].NewState = true
		}
	}
	if r.Below(first) != nil {
		t.Error("no rung below can read the state, so the run would start over")
	}
	r, first = pressed(ladder.Speed)
	r.End(Attempt{*first, Outcome{Ending: Interrupted, Left: "SIGTERM", Pressure: &Pressure{Down: true}}})
	if next, stop := r.Next(); next != nil || stop == nil {
		t.Errorf("one that a scheduler ended does not go on: %+v", next)
	}
}

// What a save would have kept is said where steps were lost, and where there was a way to save.
func TestMissed(t *testing.T) {
	seen := func() Outcome {
		return Outcome{Ending: OutOfMemory, Took: time.Hour, Saved: &State{Iteration: 100},
			Pressure: &Pressure{Why: "the card refused 2", Iteration: 120, After: 48 * time.Minute, Way: true}}
	}
	for name, c := range map[string]struct {
		change func(*Outcome)
		want   string
	}{
		"steps were lost": {func(*Outcome) {}, "the card refused 2 at iteration 120, 12m0s before: with"},
		"no state at all": {func(o *Outcome) { o.Saved = nil }, "12m0s before"},
		"no way to save":  {func(o *Outcome) { o.Pressure.Way = false }, ""},
		"it was saved":    {func(o *Outcome) { o.Pressure.Saved = 1 }, ""},
		"saved since":     {func(o *Outcome) { o.Saved.Iteration = 120 }, ""},
		"last words":      {func(o *Outcome) { o.LastWords = &LastWords{Path: "x"} }, ""},
		"no last words":   {func(o *Outcome) { o.LastWords = &LastWords{Why: "x"} }, "12m0s before"},
		"another end":     {func(o *Outcome) { o.Ending = Failed }, ""},
		"no pressure":     {func(o *Outcome) { o.Pressure = nil }, ""},
	} {
		out := seen()
		c.change(&out)
		if got := out.Missed(); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q; want %q", name, got, c.want)
		}
	}
	for p, want := range map[Pressure]string{
		{Why: "x", Iteration: 3}: "memory ran short at iteration 3: x",
		{Why: "x", Saved: 1}:     "memory ran short: x; the program saved its state",
		{Why: "x", Saved: 2}:     "memory ran short: x; the program saved its state 2 times",
		{Why: "x", Saved: 1, Down: true}: "memory ran short: x; the program saved its state and was " +
			"stopped, to go on one rung lower",
	} {
		if got := p.String(); got != want {
			t.Errorf("%q; want %q", got, want)
		}
	}
	w := (&LastWords{Step: 3, Path: "a/b", Asked: true}).String()
	if w != "the last finished step, 3, was saved between two steps, as launch asked: b" {
		t.Error(w)
	}
}
