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
