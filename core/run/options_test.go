package run

import (
	"fmt"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/unit"
)

func optionsText(all []Option) string {
	var out []string
	for _, o := range all {
		s := fmt.Sprintf("%s/%s %v %v", o.Phase, o.Name, o.Cost, o.Verdict)
		if !o.Allowed {
			s += " not allowed"
		}
		out = append(out, s)
	}
	return strings.Join(out, "; ")
}

// What is left after an out-of-memory: the rungs below the one that failed, corrected by what it proved, and the first that
// fits and is allowed is the one that Next takes.
func TestOptions(t *testing.T) {
	grows := func(b unit.Bytes) mem.Estimate { return sure(g, b*g/4, 0) } // 5 GiB at 16
	small := func(unit.Bytes) mem.Estimate { return sure(g, g, 0) }
	r := sr(training(grows), validation(small))
	if got := r.Options(); got != nil {
		t.Errorf("before anything ran: %v", optionsText(got))
	}
	p, _ := r.Next()
	r.Attempts = append(r.Attempts, Attempt{*p, oomIn(ladder.Training, 24*g, 9*g)}) // 33 needed: the lines that grow are eight times as large
	want := "training/8 × 2 speed may not fit; training/4 × 4 speed fits; training/2 × 8 speed fits; training/crop 64 recipe fits not allowed"
	if got := optionsText(r.Options()); got != want {
		t.Errorf("options are\n%s, want\n%s", got, want)
	}
	o := r.Options()[1]
	if o.Estimate.Total() != 9*g || o.Room != 12*g || len(o.Edits) != 1 || o.Edits[0].To != "4" {
		t.Errorf("4 × 4 is %+v", o)
	}
	if p, stop := r.Next(); stop != nil || p.Choice(ladder.Training).Name != o.Name {
		t.Errorf("Next takes %+v, %+v; the first option that fits is %s", p, stop, o.Name)
	}
	r.Attempts[0].Outcome.Ending = Failed
	if got := r.Options(); got != nil {
		t.Errorf("of a failure that is no out-of-memory: %v", optionsText(got))
	}
}

// The shared ladder is among them, in the order of cost, and what an invariant forbids is not.
func TestOptionsShared(t *testing.T) {
	r := coupled(0)
	crop := ladder.Rung{Name: "crop", Cost: ladder.Recipe}
	for range r.Ladders.Shared.Rungs {
		crop.Estimates = append(crop.Estimates, sure(g, g/4, 0))
	}
	r.Ladders.Phases[0].Rungs = append(r.Ladders.Phases[0].Rungs, crop) // which the phase's own ladder lists first
	p, _ := r.Next()
	r.Attempts = append(r.Attempts, Attempt{*p, oomIn(ladder.Training, 0, 0)})
	before := optionsText(r.Options())
	if !strings.Contains(before, "shared/") {
		t.Fatalf("no shared rung among %s", before)
	}
	last := ladder.None
	for _, o := range r.Options() {
		if o.Cost < last {
			t.Errorf("not in the order of cost: %s", before)
		}
		last = o.Cost
	}
	name := r.Options()[0].Name
	set := *r.Ladders
	set.Shared.Rungs = append([]ladder.Rung{}, set.Shared.Rungs...)
	for i := range set.Shared.Rungs {
		if set.Shared.Rungs[i].Name == name {
			set.Shared.Rungs[i].Values = map[string]int64{"odd": 3}
		}
	}
	set.Invariants = []ladder.Invariant{{Name: "even", Factors: []string{"odd"}, Equals: 2}}
	r.Ladders = &set
	if after := optionsText(r.Options()); strings.Contains(after, "/"+name+" ") {
		t.Errorf("%q breaks an invariant and is among %s", name, after)
	}
}

func TestAgain(t *testing.T) {
	small := func(unit.Bytes) mem.Estimate { return sure(g, g, 0) }
	begin := func(outs ...Outcome) *Run {
		r := sr(training(func(b unit.Bytes) mem.Estimate { return sure(g, b*g/4, 0) }), validation(small))
		r.Limits.Allow = ladder.Speed
		for _, o := range outs {
			p, stop := r.Next()
			if stop != nil {
				p = &r.Last().Plan
			}
			r.Attempts = append(r.Attempts, Attempt{*p, o})
		}
		return r
	}
	interrupted := Outcome{Ending: Interrupted, Saved: &State{Path: "7.state", Iteration: 7}}
	r := begin(oomIn(ladder.Training, 24*g, 9*g), interrupted)
	if _, stop := r.Next(); stop == nil {
		t.Fatal("an interrupted run has a next plan unasked")
	}
	if err := r.Again(r.Limits.Allow); err != nil {
		t.Fatal(err)
	}
	p, stop := r.Next()
	if stop != nil || p.Choice(ladder.Training).Name != "4 × 4" || p.Resume == nil || p.Resume.Iteration != 7 ||
		p.Attempt != 3 {
		t.Errorf("after an interruption: %+v, %+v; want 4 × 4 again, from iteration 7", p, stop)
	}
	if r.Limits.Allow != ladder.Speed {
		t.Errorf("the limit is now %v", r.Limits.Allow)
	}
	if err := r.Again(ladder.None); err != nil {
		t.Fatal(err)
	}
	if p, stop := r.Next(); stop == nil || stop.Beyond == nil {
		t.Errorf("a lower limit is not held: %+v, %+v", p, stop)
	}

	r = begin(oomIn(ladder.Training, 90*g, 9*g), oomIn(ladder.Training, 90*g, 9*g))
	if _, stop := r.Next(); stop == nil || stop.Beyond == nil {
		t.Fatalf("the ladder is not used up: %+v", stop)
	}
	if err := r.Again(ladder.Recipe); err != nil {
		t.Fatal(err)
	}
	if p, stop := r.Next(); stop != nil || p.Choice(ladder.Training).Name != "crop 64" {
		t.Errorf("with recipe allowed: %+v, %+v", p, stop)
	}

	if err := begin(Outcome{Ending: Succeeded}).Again(ladder.Model); err == nil {
		t.Error("a run that succeeded goes on")
	}
	if err := begin(Outcome{Ending: Failed, Untaken: "another interpreter"}).Again(ladder.None); err == nil {
		t.Error("a run whose settings were not taken goes on")
	}
}

// An attempt that ran out of memory after a notice to leave ends the run, and a resume takes the next rung; one that
// ran out beside others proves nothing about what fits.
func TestAgainAfterNotice(t *testing.T) {
	small := func(unit.Bytes) mem.Estimate { return sure(g, g, 0) }
	r := sr(training(small), validation(small))
	out := oomIn(ladder.Training, 24*g, 9*g)
	out.Left, out.Saved = "SIGUSR2: the program was stopped", &State{Path: "2.state", Iteration: 2}
	ex := &script{outcomes: []Outcome{out}}
	if stop, err := r.Carry(t.Context(), ex, ex); err != nil || stop.Code != TryLater {
		t.Fatalf("after a notice: %+v, %v", stop, err)
	}
	if err := r.Again(r.Limits.Allow); err != nil {
		t.Fatal(err)
	}
	p, stop := r.Next()
	if stop != nil || p.Choice(ladder.Training).Rung == 0 || p.Resume == nil || p.Resume.Iteration != 2 {
		t.Errorf("resumed: %+v, %+v; want the next rung, from iteration 2", p, stop)
	}
	for range 2 {
		contended := oomIn(ladder.Training, 24*g, 9*g)
		contended.Report.Kind = oom.GPUContention
		r.End(Attempt{*p, contended})
	}
	if _, stop := r.Next(); stop == nil || stop.Code != TryLater {
		t.Fatalf("others hold the memory: %+v", stop)
	}
	if err := r.Again(r.Limits.Allow); err != nil {
		t.Fatal(err)
	}
	if p, stop := r.Next(); stop != nil || p.Resume == nil {
		t.Errorf("once they have gone: %+v, %+v", p, stop)
	}
}

// The state from which an attempt resumes stays the run's until the attempt saves one. It is not, if something else
// lies there since, and none is after an attempt that starts over.
func TestBeginAndEnd(t *testing.T) {
	s := &State{Path: "3.pt", Iteration: 3}
	for name, tt := range map[string]struct {
		plan Plan
		out  Outcome
		want string
	}{
		"it saved nothing":     {Plan{Resume: s}, Outcome{Ending: Interrupted}, "3.pt"},
		"it saved one":         {Plan{Resume: s}, Outcome{Saved: &State{Path: "4.pt"}}, "4.pt"},
		"it left it torn":      {Plan{Resume: s}, Outcome{Torn: []string{"3.pt"}}, ""},
		"it started over":      {Plan{}, Outcome{Ending: Interrupted}, ""},
		"a trial from nothing": {Plan{Trial: Rehearsal}, Outcome{}, "3.pt"},
	} {
		r := &Run{Job: &job.Job{}, Ladders: &ladder.Set{}, Left: s, Attempts: []Attempt{{Outcome: Outcome{Saved: s}}}}
		r.Begin(&tt.plan)
		r.End(Attempt{tt.plan, tt.out})
		got := ""
		if now := r.state(); now != nil {
			got = now.Path
		}
		if got != tt.want {
			t.Errorf("%s: the state is %q, want %q", name, got, tt.want)
		}
	}
}

// A state that an attempt saved is newer than one that was left before it.
func TestLeftIsOlder(t *testing.T) {
	small := func(unit.Bytes) mem.Estimate { return sure(g, g, 0) }
	r := sr(training(small), validation(small))
	r.Left = &State{Path: "1.state", Iteration: 1}
	out := oomIn(ladder.Validation, 20*g, g)
	out.Saved = &State{Path: "9.state", Iteration: 9}
	ex := &script{outcomes: []Outcome{out, {Ending: Succeeded}}}
	if _, err := r.Carry(t.Context(), ex, ex); err != nil {
		t.Fatal(err)
	}
	if got := r.Last().Plan.Resume; got == nil || got.Iteration != 9 {
		t.Errorf("it went on from %v", got)
	}
}

// How far an attempt came that failed is not forgotten when the run is resumed: nothing may be left to train.
func TestAgainRemembersProgress(t *testing.T) {
	r := &Run{Job: &job.Job{Signs: counted}, Attempts: []Attempt{
		{Outcome: Outcome{Ending: Failed, Iteration: 6, Total: 6, Saved: &State{Path: "0006.pt"}}},
		{Plan: Plan{Trial: Rehearsal}, Outcome: Outcome{Ending: Interrupted, Iteration: 9, Claimed: true}},
	}}
	if err := r.Again(0); err != nil {
		t.Fatal(err)
	}
	if r.Cut == nil || *r.Cut != (Progress{Iteration: 6, Total: 6}) || r.Left == nil {
		t.Errorf("it remembers %+v, %+v", r.Cut, r.Left)
	}
	out := Outcome{Ending: Succeeded}
	if r.weigh(&Plan{Resume: r.Left}, &out); out.Ending != Succeeded {
		t.Errorf("all six steps were made: %s (%s)", out.Ending, out.Cause)
	}
}

// What ran out of memory because of its neighbours is no reason for other settings: the run stops, and its next launch
// begins as asked.
func TestBeside(t *testing.T) {
	small := func(unit.Bytes) mem.Estimate { return sure(g, g, 0) }
	r := sr(training(func(b unit.Bytes) mem.Estimate { return sure(g, b*g/4, 0) }), validation(small))
	p, _ := r.Next()
	out := oomIn(ladder.Training, 24*g, 9*g)
	out.Beside = true
	r.Attempts = append(r.Attempts, Attempt{*p, out})
	if next, stop := r.Next(); stop == nil || stop.Code != TryLater {
		t.Fatalf("%+v, %+v", next, stop)
	}
	if err := r.Again(r.Limits.Allow); err != nil {
		t.Fatal(err)
	}
	if again, stop := r.Next(); stop != nil || again.Changes() != p.Changes() {
		t.Errorf("%+v, %+v; want %s", again, stop, p.Changes())
	}
}
