package run

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/metric"
)

// What an attempt trains otherwise than the one before it is found in what both have printed.
func TestChanged(t *testing.T) {
	rates := func(before []float64, points ...metric.Point) *metric.Track {
		out := &metric.Track{}
		for _, v := range before {
			out.Add(metric.Point{Value: v, Step: metric.NoStep})
		}
		for _, p := range points {
			out.Add(p)
		}
		return out
	}
	at := func(v float64, step int64) metric.Point { return metric.Point{Value: v, Step: step} }
	for name, tt := range map[string]struct {
		was, now Outcome
		micro    int64
		want     string
	}{
		"the rate as the settings have it": {Outcome{Rates: rates([]float64{0.1})}, Outcome{Rates: rates([]float64{0.05})}, 8,
			"the learning rate is 0.05, and was 0.1 in attempt 1"},
		"the same rate": {Outcome{Rates: rates([]float64{0.1})}, Outcome{Rates: rates([]float64{0.1})}, 8, ""},
		"the second of two": {Outcome{Rates: rates([]float64{1, 0.1})}, Outcome{Rates: rates([]float64{1, 0.05})}, 8,
			"is 0.05, and was 0.1"},
		"at each pass": {Outcome{Rates: rates([]float64{1, 2, 3, 4})}, Outcome{Rates: rates([]float64{1, 1, 2, 2})}, 8, ""},
		"at each pass, others": {Outcome{Rates: rates([]float64{1, 2, 3, 4})}, Outcome{Rates: rates([]float64{1, 1, 3, 3})},
			8, "is 1, and was 2"},
		"at the same step": {Outcome{Rates: rates(nil, at(0.1, 10), at(0.09, 20))}, Outcome{Rates: rates(nil, at(0.08, 20))},
			8,
			"the learning rate at step 20 is 0.08, and was 0.09 in attempt 1"},
		"the same at a step": {Outcome{Rates: rates(nil, at(0.1, 10), at(0.09, 20))}, Outcome{Rates: rates(nil, at(0.09,
			20), at(0.01, 30))}, 8, ""},
		"half, at half": {Outcome{Rates: rates(nil, at(0.1, 1), at(0.1, 2))}, Outcome{Rates: rates(nil, at(0.05, 3))},
			8, "it follows the micro-batch"},
		"by a root": {Outcome{Rates: rates(nil, at(0.1, 2))}, Outcome{Rates: rates(nil, at(0.0707, 3))}, 8,
			"it follows the micro-batch"},
		"half of a schedule": {Outcome{Rates: rates(nil, at(0.09, 1), at(0.08, 2))}, Outcome{Rates: rates(nil, at(0.035,
			3))}, 8, "it follows the micro-batch"},
		"a schedule": {Outcome{Rates: rates(nil, at(0.09, 1), at(0.08, 2))}, Outcome{Rates: rates(nil, at(0.07,
			3))}, 8, ""},
		"a longer training": {Outcome{Total: 101}, Outcome{Total: 100}, 8,
			"it trains for 100 steps, and was to train for 101 in attempt 1"},
		"other updates": {Outcome{Updates: rates([]float64{200})}, Outcome{Updates: rates([]float64{100})}, 8,
			"it reports 100 optimizer steps, and reported 200"},
		"another batch": {Outcome{Settings: map[string]string{job.GlobalBatch: "1,024"}},
			Outcome{Settings: map[string]string{job.GlobalBatch: "512"}}, 8, "a global batch of 512, and reported 1,024"},
		"nothing is printed":  {Outcome{}, Outcome{Total: 5, Rates: rates([]float64{0.1})}, 8, ""},
		"the batch as before": {Outcome{Rates: rates([]float64{0.1})}, Outcome{Rates: rates([]float64{0.05})}, 16, ""},
	} {
		r := Run{Job: &job.Job{}, Attempts: []Attempt{{Plan{Attempt: 1, Batch: job.Batch{Micro: 16, Accumulation: 1}},
			tt.was}}}
		p := Plan{Attempt: 2, Batch: job.Batch{Micro: tt.micro, Accumulation: 16 / tt.micro}}
		got := strings.Join(r.Changed(&p, &tt.now), "; ")
		if !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
