package run

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
)

// eightBit is a job of unknown need whose optimizer has an 8-bit form, with states of its own, on the shared ladder.
func eightBit() *Run {
	unknown := mem.Estimate{Unknown: "no formula"}
	two := []mem.Estimate{unknown, unknown}
	other := rung("8-bit optimizer", ladder.Speed, "optim", "8bit", unknown)
	other.NewState, other.Estimates = true, nil
	shared := ladder.Ladder{Phase: ladder.Shared, Rungs: []ladder.Rung{ladder.AsAsked(), other}}
	training := ladder.Ladder{Phase: ladder.Training, Rungs: []ladder.Rung{ladder.AsAsked(two...)}}
	for _, micro := range []string{"2", "1"} {
		r := rung("micro-batch "+micro, ladder.Speed, job.MicroBatch, micro, unknown)
		r.Estimates = two
		training.Rungs = append(training.Rungs, r)
	}
	return &Run{
		Job: &job.Job{Resume: job.Resume{Always: nil}},
		Ladders: &ladder.Set{Shared: shared,
			Phases: []ladder.Ladder{training}}, Limits: Limits{Allow: ladder.Speed}, Room: 12 * g,
	}
}

// An attempt goes on only from a state of its own form, and else starts over.
func TestNewState(t *testing.T) {
	r := eightBit()
	var told []string
	for i := range 6 {
		p, stop := r.Next()
		if stop != nil {
			break
		}
		from := "starts over"
		if p.Resume != nil {
			from = p.Resume.Path
		}
		told = append(told, p.Changes()+": "+from)
		if over := strings.Contains(p.Why, "cannot be read with this change"); over != (i == 3) {
			t.Errorf("attempt %d: %s", i+1, p.Why)
		}
		out := oomIn(ladder.Training, 0, 0)
		out.Saved = &State{Path: string(rune('a' + i)), Rungs: r.NewState(p)}
		if i == 4 {
			out.Saved = nil
		}
		r.Attempts = append(r.Attempts, Attempt{*p, out})
	}
	want := "as asked: starts over|micro-batch 2: a|micro-batch 1: b|8-bit optimizer; micro-batch 1: starts over"
	if got := strings.Join(told, "|"); got != want {
		t.Errorf("\n%s\nwant\n%s", got, want)
	}
	last := r.Last().Plan
	if s := r.readable(&last); s == nil || s.Path != "d" {
		t.Errorf("after a state of the new form it goes on from %v", s)
	}
	first := r.Attempts[0].Plan
	if s := r.readable(&first); s != nil {
		t.Errorf("the old form goes on from %v, which was put aside", s)
	}
}
