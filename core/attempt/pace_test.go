package attempt

import (
	"math"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/job"
)

// A bar is read when the next one is drawn over it, and the last one at once: that must not make a program fast.
func TestPace(t *testing.T) {
	batch := job.Batch{Micro: 32, Accumulation: 2, Ranks: 1}
	start := time.Unix(0, 0)
	for name, tt := range map[string]struct {
		at    []float64 // seconds; report i is of iteration i+1, or -1 for a new epoch
		micro bool
		want  float64
	}{
		"a bar of four, two seconds each": {[]float64{4, 6, 8, 8.001}, false, 32},
		"counted in micro-batches":        {[]float64{4, 6, 8, 8.001}, true, 16},
		"a line each":                     {[]float64{2, 4, 6, 8, 10}, false, 32},
		"two epochs":                      {[]float64{4, 6, 8, 8.001, -1, 14, 16, 18, 18.001}, false, 32},
		"two reports say nothing":         {[]float64{4, 4.001}, false, 0},
		"one says nothing":                {[]float64{4}, false, 0},
	} {
		var p pace
		iteration := int64(0)
		for _, s := range tt.at {
			if s < 0 {
				iteration = 0
				continue
			}
			iteration++
			p.report(iteration, start.Add(time.Duration(s*float64(time.Second))))
		}
		if got := p.rate(batch, tt.micro); math.Abs(got-tt.want) > 1e-6 {
			t.Errorf("%s: %v samples a second, want %v", name, got, tt.want)
		}
	}
}

// A log file has what the terminal has, later and in pieces: its lines are no steps of their own.
func TestPaceOfStreams(t *testing.T) {
	batch := job.Batch{Micro: 32, Accumulation: 1, Ranks: 1}
	start := time.Unix(0, 0)
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	var p paces
	for i := int64(1); i <= 8; i++ {
		p.see("terminal", i, at(2*float64(i)))
		if i%4 == 0 {
			for j := i - 3; j <= i; j++ {
				p.see("train.log", j, at(2*float64(i)+0.1))
			}
		}
	}
	if got := p.rate(batch, false); got != 16 {
		t.Errorf("the terminal and its log: %v samples a second, want 16", got)
	}
	// A bar that starts again in each epoch, and a log that counts the training's steps.
	p = paces{}
	for i := int64(0); i < 12; i++ {
		p.see("terminal", i%4+1, at(float64(i)/2))
		p.see("train.log", i+1, at(2*float64(i)))
	}
	if got := p.rate(batch, false); got != 16 {
		t.Errorf("a bar and a log: %v samples a second, want 16", got)
	}
	p = paces{}
	p.see("terminal", 1, at(1))
	if got := p.rate(batch, false); got != 0 {
		t.Errorf("one report: %v samples a second, want 0", got)
	}
}
