package run

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/metric"
)

// A count of forward passes grows with the accumulation, and nothing else is trained.
func TestChangedPasses(t *testing.T) {
	track := func(points ...metric.Point) *metric.Track {
		out := &metric.Track{}
		for _, p := range points {
			out.Add(p)
		}
		return out
	}
	at := func(v float64, step int64) metric.Point { return metric.Point{Value: v, Step: step} }
	epoch := func(n int64) []Course {
		return []Course{{Total: 4, First: Place{Iteration: 0, Epoch: &n}, Last: Place{Iteration: 3, Epoch: &n}}}
	}
	for name, tt := range map[string]struct {
		may           bool
		was, now      Outcome
		resume        *State
		changed, ends string
	}{
		"passes": {true, Outcome{Total: 4}, Outcome{Total: 8}, nil, "", ""},
		"steps":  {true, Outcome{Total: 400}, Outcome{Total: 400}, nil, "", ""},
		"fewer steps": {true, Outcome{Total: 400}, Outcome{Total: 200}, nil, "",
			"the program trains for 50 steps now, but trained for 200"},
		"a program that groups nothing": {false, Outcome{Total: 4}, Outcome{Total: 8}, nil, "it trains for 8 steps",
			"the program trains for 8 steps now, but trained for 4"},
		"the rate of a pass": {true, Outcome{Total: 40, Rates: track(at(0.4, 10), at(0.3, 20))},
			Outcome{Total: 80, Rates: track(at(0.4, 20), at(0.3, 40))}, nil, "", ""},
		"another rate of a pass": {true, Outcome{Total: 40, Rates: track(at(0.4, 10), at(0.3, 20))},
			Outcome{Total: 80, Rates: track(at(0.2, 20), at(0.15, 40))}, nil, "at step 20 is 0.2, and was 0.4", ""},
		"the rate of a step": {true, Outcome{Total: 40, Rates: track(at(0.4, 10), at(0.3, 20))},
			Outcome{Total: 40, Rates: track(at(0.4, 10), at(0.3, 20))}, nil, "", ""},
		"a rate of either": {true, Outcome{Rates: track(at(0.4, 10), at(0.3, 20))},
			Outcome{Rates: track(at(0.4, 20), at(0.3, 40))}, nil, "", ""},
		"a rate of neither": {true, Outcome{Rates: track(at(0.4, 10), at(0.3, 20))},
			Outcome{Rates: track(at(0.1, 20))}, nil, "at step 20 is 0.1", ""},
		"the rate of the next epoch": {false, Outcome{Total: 4, Rates: track(at(0.4, 1), at(0.3, 3)), Courses: epoch(0)},
			Outcome{Total: 4, Rates: track(at(0.2, 1), at(0.1, 3)), Courses: epoch(1)}, &State{}, "", ""},
		"an epoch without its number": {false, Outcome{Total: 4, Rates: track(at(0.4, 1), at(0.3, 2))},
			Outcome{Total: 4, Rates: track(at(0.2, 1), at(0.1, 2))},
			&State{At: []Course{{Total: 4, Falls: true}}}, "", ""},
		"the rate that a state has": {false, Outcome{Rates: &metric.Track{Before: []float64{0.4}}},
			Outcome{Rates: &metric.Track{Before: []float64{0.3}}}, &State{}, "", ""},
		"half of it after a resume": {false, Outcome{Rates: &metric.Track{Before: []float64{0.4}}},
			Outcome{Rates: &metric.Track{Before: []float64{0.2}}}, &State{}, "the learning rate is 0.2, and was 0.4", ""},
		"another rate of the same epoch": {false, Outcome{Total: 4, Rates: track(at(0.4, 1), at(0.3, 3)), Courses: epoch(0)},
			Outcome{Total: 4, Rates: track(at(0.2, 1), at(0.1, 3)), Courses: epoch(0)}, nil, "at step 1 is 0.2", ""},
	} {
		r := Run{Job: &job.Job{Signs: job.Signs{MayCountMicro: tt.may}}, Attempts: []Attempt{{Plan{Attempt: 1,
			Batch: job.Batch{Micro: 16, Accumulation: 2}}, tt.was}}}
		p := Plan{Attempt: 2, Batch: job.Batch{Micro: 8, Accumulation: 4}, Resume: tt.resume}
		if got := strings.Join(r.Changed(&p, &tt.now), "; "); !strings.Contains(got, tt.changed) ||
			(got == "") != (tt.changed == "") {
			t.Errorf("%s: %q, want %q", name, got, tt.changed)
		}
		if got := r.Differs(&p, &tt.now); !strings.Contains(got, tt.ends) || (got == "") != (tt.ends == "") {
			t.Errorf("%s: it ends: %q, want %q", name, got, tt.ends)
		}
	}
}

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

// After a resume with the same batch, a schedule goes on from where it was.
func TestRescheduled(t *testing.T) {
	track := func(first int64, values ...float64) *metric.Track {
		out := &metric.Track{}
		for i, v := range values {
			out.Add(metric.Point{Value: v, Step: first + int64(i)})
		}
		return out
	}
	epoch := func(n int64, from, to int64) []Course {
		return []Course{{First: Place{Iteration: from, Epoch: &n}, Last: Place{Iteration: to, Epoch: &n}}}
	}
	steps := func(from, to int64) []Course { return []Course{{First: Place{from, nil}, Last: Place{to, nil}}} }
	warm := []float64{0.1, 0.2, 0.3, 0.4, 0.4, 0.4}
	for name, tt := range map[string]struct {
		was       []Course
		now       *metric.Track
		courses   []Course
		from, why string
	}{
		"as before":           {steps(1, 6), track(4, 0.4, 0.4, 0.4, 0.3), steps(4, 7), "x", ""},
		"another at a step":   {steps(1, 6), track(4, 0.1, 0.2, 0.3), steps(4, 6), "x", "at step 4 is 0.1, and was 0.4"},
		"the last step alone": {steps(1, 6), track(6, 0.1, 0.1), steps(6, 7), "x", ""},
		"in one epoch":        {epoch(0, 1, 6), track(4, 0.1, 0.2), epoch(0, 4, 5), "x", "at step 4 is 0.1"},
		"in the next epoch":   {epoch(0, 1, 6), track(4, 0.1, 0.2), epoch(1, 4, 5), "x", ""},
		"an epoch without its number": {[]Course{{Total: 6, First: Place{1, nil}, Last: Place{6, nil}}}, track(4, 0.1, 0.2),
			[]Course{{Total: 6, First: Place{4, nil}, Last: Place{5, nil}}}, "x", ""},
		"from the beginning again": {steps(1, 6), track(7, 0.1, 0.2, 0.3), steps(7, 9), "x",
			"takes the values of the first steps again, 0.1 at step 7"},
		"a falling one":      {steps(1, 6), track(7, 0.3, 0.2, 0.1), steps(7, 9), "x", ""},
		"two are too few":    {steps(1, 6), track(7, 0.1, 0.2), steps(7, 8), "x", ""},
		"while nothing runs": {steps(1, 6), track(4, 0.1), nil, "x", ""},
		"no resume":          {steps(1, 6), track(1, 0.2, 0.2), steps(1, 2), "", ""},
	} {
		r := Run{Job: &job.Job{}, Attempts: []Attempt{{Plan{Attempt: 1}, Outcome{Rates: track(1, warm...), Courses: tt.was}}}}
		p := Plan{Attempt: 2}
		if tt.from != "" {
			p.Resume = &State{Path: tt.from}
		}
		got := strings.Join(r.Changed(&p, &Outcome{Rates: tt.now, Courses: tt.courses}), "; ")
		if !strings.Contains(got, tt.why) || (got == "") != (tt.why == "") {
			t.Errorf("%s: %q, want %q", name, got, tt.why)
		}
	}
}

// A state that a program saves as it breaks off may have more training than its number says.
func TestDoubled(t *testing.T) {
	at := func(first, last int64) []Course {
		return []Course{{First: Place{first, nil}, Last: Place{last, nil}, Figures: true}}
	}
	saved := State{Path: "9.state", Iteration: 9, Exact: true, At: at(1, 10)}
	exact := State{Path: "10.state", Iteration: 10, Exact: true, At: at(1, 10)}
	before := State{Path: "9.state", Iteration: 9, Exact: true, At: at(1, 9)}
	asked := saved
	asked.At = []Course{{First: Place{1, nil}, Last: Place{10,
		nil}}} // its lines have no loss: they may come before the step
	guessed := saved
	guessed.Exact = false
	for name, tt := range map[string]struct {
		state  State
		ending Ending
		last   int64 // that it reported in all
		first  int64 // of the attempt that resumes
		want   string
	}{
		"after a validation": {saved, OutOfMemory, 10, 10, "had reported step 10, and then trained step 10 again"},
		"several": {State{Path: "7.state", Iteration: 7, Exact: true, At: at(1, 10)}, Failed, 10,
			8, "steps 8 to 10"},
		"it goes on behind it":        {saved, OutOfMemory, 10, 11, ""},
		"saved in time":               {exact, OutOfMemory, 10, 11, ""},
		"before the last step":        {before, OutOfMemory, 10, 10, ""},
		"in the background":           {saved, OutOfMemory, 14, 10, ""},
		"of a success":                {saved, Succeeded, 10, 10, ""},
		"without a loss":              {asked, OutOfMemory, 10, 10, ""},
		"when it was is not known":    {guessed, OutOfMemory, 10, 10, ""},
		"a state of no attempt of it": {State{Path: "other"}, OutOfMemory, 10, 10, ""},
	} {
		s := tt.state
		r := Run{Job: &job.Job{}, Attempts: []Attempt{{Plan{Attempt: 1}, Outcome{Ending: tt.ending, Saved: &saved,
			Earlier: []State{s}, Courses: at(1, tt.last)}}}}
		if s.Path == "other" {
			r.Attempts[0].Outcome.Earlier = nil
		}
		o := Outcome{Ending: Succeeded, Courses: at(tt.first, tt.first+5), Iteration: tt.first + 5}
		r.weigh(&Plan{Attempt: 2, Resume: &s}, &o)
		if got := strings.Join(o.Changed, "; "); !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s: %q, want %q (%v)", name, got, tt.want, o.Resumption)
		}
		if tt.want == "" {
			continue
		}
		r.End(Attempt{Plan{Attempt: 2, Resume: &s}, Outcome{Ending: OutOfMemory, Changed: o.Changed,
			Saved:   &State{Path: "12.state", Digest: "d", Iteration: 12, Exact: true, At: at(tt.first, 12)},
			Courses: at(tt.first, 14)}})
		o = Outcome{Ending: Succeeded, Courses: at(13, 20), Iteration: 20}
		r.weigh(&Plan{Attempt: 3, Resume: &State{Path: "12.state", Digest: "d", Iteration: 12, Exact: true,
			At: at(tt.first, 12)}}, &o)
		if got := strings.Join(o.Changed, "; "); !strings.Contains(got, tt.want) {
			t.Errorf("%s: what goes on from it: %q", name, got)
		}
	}
}
