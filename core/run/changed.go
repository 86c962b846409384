package run

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/metric"
)

// Changed returns how the training of an attempt differs, by the program's own reports, from that of an earlier one
// with another division of the batch: its learning rate at the same step, or its number of steps. What the program does
// not print is not compared. Larger differences of the steps end the attempt ([Run.Differs]).
func (r *Run) Changed(p *Plan, o *Outcome) (out []string) {
	i := slices.IndexFunc(r.Attempts, func(a Attempt) bool {
		return a.Plan.Trial == "" && (a.Plan.Batch.Micro != p.Batch.Micro ||
			a.Plan.Batch.Accumulation != p.Batch.Accumulation)
	})
	if i < 0 || p.Trial != "" {
		return nil
	}
	was := &r.Attempts[i]
	if why := ratesDiffer(was, p, o); why != "" {
		out = append(out, why)
	}
	if x, y := was.Outcome.Total, o.Total; x > 0 && y > 0 && x != y && !r.Job.Signs.CountsMicro {
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

// ratesDiffer compares the learning rates: those before the first step, in their order; those at a step that both
// have; and, where there is no such step, the last one before with the first one after. Of these two only a change by
// the factor of the micro-batch, or by its root, shows anything: schedules change it as well.
func ratesDiffer(a *Attempt, p *Plan, o *Outcome) string {
	was, now := a.Outcome.Rates, o.Rates
	if was == nil || now == nil {
		return ""
	}
	if len(was.Before) == len(now.Before) && !ofPasses(was.Before, now.Before, a.Plan.Batch, p.Batch) {
		for i, x := range was.Before {
			if y := now.Before[i]; !near(x, y) {
				return fmt.Sprintf("the learning rate is %g, and was %g in attempt %d", y, x, a.Plan.Attempt)
			}
		}
	}
	points := slices.Concat(now.Early, now.Later)
	compared := false
	for _, q := range points {
		x, ok := was.At(q.Step)
		if ok && !near(x, q.Value) {
			return fmt.Sprintf("the learning rate at step %d is %g, and was %g in attempt %d", q.Step, q.Value, x,
				a.Plan.Attempt)
		}
		compared = compared || ok
	}
	if compared || was.Last == nil || len(points) == 0 || a.Plan.Batch.Micro < 1 {
		return ""
	}
	first := slices.MinFunc(points, func(p, q metric.Point) int { return int(p.Step - q.Step) })
	factor := float64(p.Batch.Micro) / float64(a.Plan.Batch.Micro)
	for _, f := range []float64{factor, math.Sqrt(factor)} {
		expected := f * was.Ahead(first.Step)
		if f != 1 && math.Abs(first.Value-expected) <= 0.03*math.Abs(expected) {
			return fmt.Sprintf("the learning rate is %g at step %d, and was %g at step %d in attempt %d: it follows the "+
				"micro-batch",
				first.Value, first.Step, was.Last.Value, was.Last.Step, a.Plan.Attempt)
		}
	}
	return ""
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
