package run

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/metric"
)

// Changed returns how the training of an attempt differs, by the program's own reports, from that of an earlier one:
// its learning rate at the same step; and from one with another division of the batch also its number of steps. What
// the program does not print is not compared. Larger differences of the steps end the attempt ([Run.Differs]).
func (r *Run) Changed(p *Plan, o *Outcome) (out []string) {
	if why := r.rescheduled(p, o); why != "" {
		out = append(out, why)
	}
	i := slices.IndexFunc(r.Attempts, func(a Attempt) bool {
		return a.Plan.Trial == "" && (a.Plan.Batch.Micro != p.Batch.Micro ||
			a.Plan.Batch.Accumulation != p.Batch.Accumulation)
	})
	if i < 0 || p.Trial != "" {
		return out
	}
	was := &r.Attempts[i]
	scales := r.scales(was, p, o)
	if why := ratesDiffer(was, p, o, scales); why != "" && len(out) == 0 {
		out = append(out, why)
	}
	if x, y := was.Outcome.Total, o.Total; x > 0 && y > 0 && x != y && scales[0] == 1 {
		out = append(out, fmt.Sprintf("it trains for %d steps, and was to train for %d in attempt %d", y, x,
			was.Plan.Attempt))
	}
	if x, y := was.Outcome.Updates, o.Updates; x != nil && y != nil && len(x.Before) == len(y.Before) {
		for i := range x.Before {
			if x.Before[i] != y.Before[i] {
				out = append(out, fmt.Sprintf("it reports %.0f optimizer steps, and reported %.0f in attempt %d", y.Before[i],
					x.Before[i], was.Plan.Attempt))
				break
			}
		}
	}
	if x, y := was.Outcome.Settings[job.GlobalBatch], o.Settings[job.GlobalBatch]; x != "" && y != "" &&
		!same(y, strings.ReplaceAll(x, ",", "")) {
		out = append(out, fmt.Sprintf("it reports a global batch of %s, and reported %s in attempt %d", y, x,
			was.Plan.Attempt))
	}
	return out
}

// rescheduled is how the learning rate of a resumed attempt differs from that of an attempt before it with the same
// division of the batch; "" if it does not. Such an attempt has broken off: of its last step it may not have printed
// all rates, so that step is not compared.
func (r *Run) rescheduled(p *Plan, o *Outcome) string {
	if p.Trial != "" || p.Resume == nil || o.Rates == nil || mainCourse(o.Courses) == nil {
		return ""
	}
	for _, a := range slices.Backward(r.Attempts) {
		was := a.Outcome.Rates
		if was == nil || was.Last == nil || a.Plan.Trial != "" || a.Plan.Batch.Micro != p.Batch.Micro ||
			a.Plan.Batch.Accumulation != p.Batch.Accumulation || ofEpochs(a.Outcome.Courses, o.Courses, p.Resume.At) {
			continue
		}
		for _, q := range slices.Concat(o.Rates.Early, o.Rates.Later) {
			if x, ok := was.At(q.Step); ok && q.Step < was.Last.Step && !near(x, q.Value) {
				return fmt.Sprintf("the learning rate at step %d is %g, and was %g in attempt %d", q.Step, q.Value, x,
					a.Plan.Attempt)
			}
		}
		if a.Plan.Resume == nil && beginsAgain(was, o.Rates) {
			q := o.Rates.Early[0]
			return fmt.Sprintf("the learning rate takes the values of the first steps again, %g at step %d: "+
				"the resume did not restore the schedule", q.Value, q.Step)
		}
	}
	return ""
}

// beginsAgain reports whether the first values after a resume are those from the beginning of the training, and not
// what they were when it broke off. Three that differ from each other are no accident.
func beginsAgain(was, now *metric.Track) bool {
	const enough = 3
	if len(was.Early) < enough || len(now.Early) < enough || now.Early[0].Step <= was.Early[enough-1].Step {
		return false
	}
	for i := range enough {
		x, y := was.Early[i], now.Early[i]
		if !near(x.Value, y.Value) || i > 0 && near(y.Value, now.Early[i-1].Value) ||
			y.Step-now.Early[0].Step != x.Step-was.Early[0].Step {
			return false
		}
	}
	return !near(was.Last.Value, now.Early[0].Value)
}

// inherited is how the training differs that saved the state of an attempt: what goes on from it differs as much.
func (r *Run) inherited(p *Plan) []string {
	if by := r.saver(p.Resume); by != nil {
		return by.Outcome.Changed
	}
	return nil
}

// saver is the attempt that saved a state; nil if that is none of this run's, or there is no state.
func (r *Run) saver(s *State) *Attempt {
	if s == nil {
		return nil
	}
	for i := range r.Attempts {
		if slices.ContainsFunc(r.Attempts[i].Outcome.States(), s.same) {
			return &r.Attempts[i]
		}
	}
	return nil
}

// doubled is how an attempt trains steps again upon a state that has them: the program saved the state as it broke off,
// after it had reported these steps, under a number before theirs; "" if that does not show. A program that always
// takes the step in which it breaks off for one that was not made does so after an error that came behind a step, as
// in a validation.
func (r *Run) doubled(p *Plan, o *Outcome) string {
	s, by := p.Resume, r.saver(p.Resume)
	if by == nil || by.Outcome.Ending == Succeeded || !s.Exact || s.Iteration <= 0 || r.Job.Signs.CountsMicro ||
		o.Resumption == nil || o.Resumption.State != Resumed || o.Resumption.Unit != "" || ofEpochs(s.At, o.Courses) {
		return ""
	}
	at, end := mainCourse(s.At), mainCourse(by.Outcome.Courses)
	if at == nil || end == nil || at.Last.Iteration != end.Last.Iteration || !at.Figures ||
		s.Iteration >= at.Last.Iteration || o.Resumption.First > at.Last.Iteration {
		return ""
	}
	again := fmt.Sprintf("step %d", at.Last.Iteration)
	if o.Resumption.First < at.Last.Iteration {
		again = fmt.Sprintf("steps %d to %d", o.Resumption.First, at.Last.Iteration)
	}
	return fmt.Sprintf("the program saved its state of step %d after it had reported %s, and then trained %s again: "+
		"the result has %s twice, and the learning rate changes too early", s.Iteration, again, again, again)
}

// ofEpochs reports whether the same step of two of these attempts may be one of two epochs: steps are counted anew in
// each, and they were not all in one.
func ofEpochs(all ...[]Course) bool {
	epochs, anew := map[int64]bool{}, false
	for _, courses := range all {
		c := mainCourse(courses)
		if c == nil {
			continue
		}
		if c.Falls || c.ofEpoch() && (c.First.Epoch == nil || c.Last.Epoch == nil) {
			return true
		}
		anew = anew || c.ofEpoch()
		for _, at := range []Place{c.First, c.Last} {
			if at.Epoch != nil {
				epochs[*at.Epoch] = true
			}
		}
	}
	return anew && len(epochs) > 1
}

// scales are how many counts of an earlier attempt one of this attempt may be. A count of optimizer steps stays what it
// is; one of forward passes has another length with another accumulation. Where the program may count either, its
// totals tell which; without them it may be both.
func (r *Run) scales(was *Attempt, p *Plan, o *Outcome) []float64 {
	passes := float64(max(1, was.Plan.Batch.Accumulation)) / float64(max(1, p.Batch.Accumulation))
	x, y := float64(was.Outcome.Total), float64(o.Total)
	switch {
	case r.Job.Signs.CountsMicro:
		return []float64{passes}
	case !r.Job.Signs.MayCountMicro || passes == 1:
		return []float64{1}
	case x == 0 || y == 0:
		return []float64{1, passes}
	case apart(x, y) || !apart(x/passes, y):
		return []float64{passes}
	}
	return []float64{1}
}

// ratesDiffer compares the learning rates: those before the first step, in their order; those at a step that both
// have; and, where there is no such step, the last one before with the first one after. Of these two only a change by
// the factor of the micro-batch, or by its root, shows anything: schedules change it as well. Where steps are counted
// anew in each epoch, those after a resume are of another epoch. scales is as [Run.scales] has it.
func ratesDiffer(a *Attempt, p *Plan, o *Outcome, scales []float64) string {
	was, now := a.Outcome.Rates, o.Rates
	if was == nil || now == nil {
		return ""
	}
	factor := 1.0
	if a.Plan.Batch.Micro > 0 {
		factor = float64(p.Batch.Micro) / float64(a.Plan.Batch.Micro)
	}
	resumed := p.Resume != nil || a.Plan.Resume != nil
	if len(was.Before) == len(now.Before) && !ofPasses(was.Before, now.Before, a.Plan.Batch, p.Batch) {
		for i, x := range was.Before {
			// after a resume it may be that of the state, which a schedule has brought there
			if y := now.Before[i]; !near(x, y) && (!resumed || near(factor*x, y) || near(math.Sqrt(factor)*x, y)) {
				return fmt.Sprintf("the learning rate is %g, and was %g in attempt %d", y, x, a.Plan.Attempt)
			}
		}
	}
	if resumed && ofEpochs(a.Outcome.Courses, o.Courses, coursesAt(p.Resume), coursesAt(a.Plan.Resume)) {
		return ""
	}
	points := slices.Concat(now.Early, now.Later)
	compared := false
	for _, q := range points {
		before := alike(was, q.Step, scales)
		if compared = compared || len(before) > 0; len(before) > 0 &&
			!slices.ContainsFunc(before, func(x float64) bool { return near(x, q.Value) }) {
			return fmt.Sprintf("the learning rate at step %d is %g, and was %g in attempt %d", q.Step, q.Value, before[0],
				a.Plan.Attempt)
		}
	}
	if compared || was.Last == nil || len(points) == 0 || factor == 1 {
		return ""
	}
	first := slices.MinFunc(points, func(p, q metric.Point) int { return int(p.Step - q.Step) })
	for _, f := range []float64{factor, math.Sqrt(factor)} {
		expected := f * was.Ahead(int64(float64(first.Step)*scales[0]))
		if f != 1 && math.Abs(first.Value-expected) <= 0.03*math.Abs(expected) {
			return fmt.Sprintf("the learning rate is %g at step %d, and was %g at step %d in attempt %d: it follows the "+
				"micro-batch",
				first.Value, first.Step, was.Last.Value, was.Last.Step, a.Plan.Attempt)
		}
	}
	return ""
}

// coursesAt are the counters of the attempt that saved a state, as they were then.
func coursesAt(s *State) []Course {
	if s == nil {
		return nil
	}
	return s.At
}

// alike are the values of an earlier attempt at what may be a step of this one.
func alike(was *metric.Track, step int64, scales []float64) (values []float64) {
	for _, scale := range scales {
		at := float64(step) * scale
		for _, n := range []float64{math.Ceil(at), math.Floor(at)} {
			if x, ok := was.At(int64(n)); ok {
				values = append(values, x)
			}
		}
	}
	return values
}

// ofPasses reports whether rates are printed at each forward pass, and are the same at each optimizer step: with twice
// the accumulation each is printed twice.
func ofPasses(was, now []float64, before, after job.Batch) bool {
	x, y := before.Accumulation, after.Accumulation
	if x < 1 || y <= x || y%x != 0 {
		return false
	}
	times := int(y / x)
	for i, y := range now {
		if !near(was[i/times], y) {
			return false
		}
	}
	return true
}

// near reports whether two printed numbers are the same but for their last digit.
func near(x, y float64) bool { return math.Abs(x-y) <= 0.002*max(math.Abs(x), math.Abs(y)) }
