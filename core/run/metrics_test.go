package run

import (
	"testing"

	"github.com/launch-ml/launch/core/metric"
)

// An attempt that starts over has its own metrics alone; one that resumes has those up to its saved state, too.
func TestMetrics(t *testing.T) {
	attempt := func(resume *State, trial Trial, best float64, step int64) Attempt {
		p := &metric.Point{Value: best, Step: step}
		return Attempt{Plan: Plan{Resume: resume, Trial: trial},
			Outcome: Outcome{Metrics: metric.Set{"psnr": {Name: "psnr", Direction: metric.Maximise, Last: p, Best: p}}}}
	}
	first := attempt(nil, "", 30, 100)
	for name, tt := range map[string]struct {
		attempts []Attempt
		best     float64
	}{
		"starts over":         {[]Attempt{first, attempt(nil, "", 28, 50)}, 28},
		"resumes":             {[]Attempt{first, attempt(&State{Iteration: 100}, "", 28, 200)}, 30},
		"resumes before that": {[]Attempt{first, attempt(&State{Iteration: 50}, "", 28, 200)}, 28},
		"a short run":         {[]Attempt{attempt(nil, Timing, 40, 5), first}, 30},
	} {
		if got := Metrics(tt.attempts)["psnr"]; got.Best.Value != tt.best {
			t.Errorf("%s: %v", name, got.Best)
		}
	}
}
