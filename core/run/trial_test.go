package run

import (
	"slices"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
)

// rehearsable is [coupled] with a program that can be shortened.
func rehearsable() *Run {
	r := coupled(0)
	r.Room = 20 * g
	r.Job.Rehearsal.Edits = []config.Edit{{Knob: "epochs", At: config.Address{Doc: "x.yml", Path: "epochs"}, From: "800", To: "1"}}
	return r
}

// then adds what came of the run's next plan and returns the plan.
func then(t *testing.T, r *Run, out Outcome) *Plan {
	t.Helper()
	p, stop := r.Next()
	if stop != nil {
		t.Fatalf("after %d attempts: stopped: %s", len(r.Attempts), stop.Why)
	}
	r.Attempts = append(r.Attempts, Attempt{*p, out})
	return p
}

func shortened(p *Plan) bool {
	for _, e := range p.Edits {
		if e.Knob == "epochs" {
			return true
		}
	}
	return false
}

func TestRehearsal(t *testing.T) {
	r := rehearsable()
	r.Limits = Limits{Allow: ladder.Metrics, Rehearse: true}
	first := then(t, r, oomIn(ladder.Validation, 0, 0))
	second := then(t, r, Outcome{Ending: Succeeded})
	real, stop := r.Next()
	if stop != nil {
		t.Fatal(stop.Why)
	}
	if first.Trial != Rehearsal || !shortened(first) || first.Shared.Name != "as asked" {
		t.Errorf("first: %+v", first)
	}
	if second.Trial != Rehearsal || second.Shared.Name != "micro-batch 2" {
		t.Errorf("after an out-of-memory in the rehearsal: %+v", second)
	}
	if real.Trial != "" || shortened(real) || real.Shared.Name != "micro-batch 2" || real.Resume != nil {
		t.Errorf("the run itself: %+v", real)
	}
}

// Where a rung changes what a rehearsal changes too, the rung is rehearsed. The folder stays the rehearsal's.
func TestRehearsesTheRung(t *testing.T) {
	at := func(path, to string) config.Edit {
		return config.Edit{At: config.Address{Doc: config.ArgvDoc, Path: path}, To: to, Add: true}
	}
	r := &Run{Job: &job.Job{Rehearsal: job.Rehearsal{
		Edits: []config.Edit{at("--precision", "fp16"), at("--out", job.Scratch), at("--steps", "2")},
	}}}
	p := r.short(&Plan{Edits: []config.Edit{at("--precision", "bf16"), at("--out", "runs")}}, Rehearsal)
	var got []string
	for _, e := range p.Edits {
		got = append(got, e.At.Path+" "+e.To)
	}
	if s, want := strings.Join(got, ", "), "--precision bf16, --out runs, --out "+job.Scratch+", --steps 2"; s != want {
		t.Errorf("%s, want %s", s, want)
	}
}

// A rehearsal must not make a run worse: if it fails of something else, the run starts all the same.
func TestRehearsalThatFails(t *testing.T) {
	r := rehearsable()
	r.Limits = Limits{Allow: ladder.Metrics, Rehearse: true}
	then(t, r, Outcome{Ending: Failed, Cause: "KeyError: epochs"})
	p, stop := r.Next()
	if stop != nil || p.Trial != "" || !strings.Contains(p.Why, "KeyError") {
		t.Errorf("plan %+v, stop %+v", p, stop)
	}
	r = rehearsable()
	r.Limits = Limits{Allow: ladder.Metrics, Rehearse: true}
	then(t, r, Outcome{Ending: Interrupted})
	if p, stop := r.Next(); stop == nil {
		t.Errorf("after Ctrl-C in the rehearsal it goes on: %+v", p)
	}
	r = rehearsable()
	r.Job.Rehearsal.None = "nothing shortens it"
	r.Limits = Limits{Allow: ladder.Metrics, Rehearse: true}
	if p := then(t, r, Outcome{}); p.Trial != "" {
		t.Errorf("a program that cannot be shortened is rehearsed")
	}
	r = rehearsable()
	r.Job.Rehearsal.Partial = "the first validation stands behind a whole epoch"
	r.Limits = Limits{Allow: ladder.Metrics, Rehearse: true, Fill: true, Fast: true}
	if p := then(t, r, Outcome{Ending: Succeeded, Rate: 100}); p.Trial != Timing {
		t.Errorf("what does not reach every phase can still be timed: %+v", p)
	}
	then(t, r, Outcome{Ending: Succeeded, Rate: 80})
	if p, _ := r.Next(); p.Trial != "" {
		t.Errorf("a rehearsal that does not reach every phase is none: %+v", p)
	}
}

func TestFillFast(t *testing.T) {
	for _, tt := range []struct {
		name  string
		rates []float64 // of micro-batch 4 (as asked), 8, 16
		tried int
		want  string
	}{
		{"more is faster", []float64{100, 130, 160}, 3, "micro-batch 16"},
		{"it flattens", []float64{100, 130, 131}, 3, "micro-batch 8"},
		{"it does not help at all", []float64{100, 101}, 2, "as asked"},
		{"it is slower", []float64{100, 80}, 2, "as asked"},
		{"it cannot be timed", []float64{0}, 1, "as asked"},
		{"the larger cannot be timed", []float64{100, 0}, 2, "as asked"},
	} {
		r := rehearsable()
		r.Limits = Limits{Allow: ladder.Metrics, Fill: true, Fast: true}
		for i, rate := range tt.rates {
			if p := then(t, r, Outcome{Ending: Succeeded, Rate: rate}); p.Trial != Timing || !shortened(p) {
				t.Fatalf("%s: attempt %d is no timing: %+v", tt.name, i+1, p)
			}
		}
		p, stop := r.Next()
		if few := slices.Contains(tt.rates, 0); stop != nil || p.Trial != "" || p.Shared.Name != tt.want || len(r.Attempts) != tt.tried || few != strings.Contains(p.Why, "too few steps") {
			t.Errorf("%s: plan %+v, stop %+v after %d timings", tt.name, p, stop, len(r.Attempts))
		}
	}
}

// A larger size that ran out of memory in its timing is not taken.
func TestFillFastOutOfMemory(t *testing.T) {
	r := rehearsable()
	r.Limits = Limits{Allow: ladder.Metrics, Fill: true, Fast: true}
	then(t, r, Outcome{Ending: Succeeded, Rate: 100})
	then(t, r, oomIn(ladder.Training, 0, 0))
	p, stop := r.Next()
	if stop != nil || p.Trial != "" || p.Shared.Name != "as asked" {
		t.Errorf("plan %+v, stop %+v", p, stop)
	}
}
