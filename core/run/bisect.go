package run

import (
	"cmp"
	"math"
	"slices"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/oom"
)

// bisect chooses a smaller micro-batch for a phase that has no formula. pick is the first rung that may fit. If it only divides the batch in another way, the next rung is the largest that is foreseen to fit by two sizes
// that did. Otherwise it is the middle rung between the largest size that fitted and the smallest that did not, or half of
// the latter if none is known to fit; or a larger one, if that fits even in proportion to what was measured.
//
// So every out-of-memory halves the rungs that are left, or the size.
func (r *Run) bisect(l ladder.Ladder, q ladder.Query, pick ladder.Pick) ladder.Pick {
	if r.formula(l, q.Shared) || pick.Rung <= l.Asked || r.micro(l, pick.Rung) == 0 {
		return pick
	}
	all := r.divisions(l, q)
	var fits, limit int64 // the largest that was measured or is foreseen to fit, and that fits in proportion
	tooLarge := int64(math.MaxInt64)
	for _, d := range all {
		if d.failed {
			tooLarge = min(tooLarge, d.micro)
		}
	}
	for _, d := range all {
		if d.micro < tooLarge && d.Verdict == ladder.Fits {
			if limit = max(limit, d.micro); !d.guess {
				fits = max(fits, d.micro)
			}
		}
	}
	open := slices.DeleteFunc(slices.Clone(all), func(d division) bool {
		return l.Rungs[d.Rung].Cost != l.Rungs[pick.Rung].Cost || d.micro >= tooLarge || d.micro <= fits
	})
	switch {
	case len(open) == 0:
		return pick
	case fits > 0:
		limit = max(limit, open[len(open)/2].micro)
	default:
		limit = max(limit, tooLarge/2)
	}
	for _, d := range open {
		if d.micro <= limit {
			return d.Pick
		}
	}
	return open[len(open)-1].Pick
}

// untried reports whether a phase without a formula is to run as asked although a smaller rung fits: if that rung is the
// only size that was ever measured, and the job as asked never failed. That it does not fit is then a guess in proportion,
// and with a size that was measured already nothing better would ever be learned.
func (r *Run) untried(l ladder.Ladder, q ladder.Query, pick ladder.Pick) bool {
	if r.formula(l, q.Shared) || q.From != l.Asked || pick.Rung <= l.Asked {
		return false
	}
	measured := func(e mem.Estimate) bool { return e.Known() && !guessed(e) }
	asked := q.Correct(l.Rungs[l.Asked].At(q.Shared))
	if !guessed(asked) || asked.Vouched() > q.Room || !measured(pick.Estimate) {
		return false
	}
	return !slices.ContainsFunc(r.divisions(l, q), func(d division) bool { return d.Rung != pick.Rung && measured(d.Estimate) })
}

// guessed reports whether an estimate has lines that neither a rule nor a measurement vouches for.
func guessed(e mem.Estimate) bool { return e.Known() && e.Vouched() < e.Total() }

// A division is a rung that only divides the batch in another way.
type division struct {
	ladder.Pick
	micro  int64
	failed bool // in this run or in an earlier one, or it is foreseen not to fit
	guess  bool // by a single measured size
}

// divisions lists these rungs from the largest micro-batch on, with their corrected estimates.
func (r *Run) divisions(l ladder.Ladder, q ladder.Query) (out []division) {
	for i, rung := range l.Rungs {
		d := division{micro: r.micro(l, i)}
		if d.micro == 0 || rung.Cost > q.Allow {
			continue
		}
		e := q.Correct(rung.At(q.Shared))
		d.Pick = ladder.Pick{Rung: i, Estimate: e, Verdict: ladder.Judge(e, q.Room)}
		d.guess = guessed(e)
		d.failed = d.Verdict > ladder.Unknown && e.Vouched() > q.Room || slices.ContainsFunc(r.Attempts, func(a Attempt) bool {
			c := a.Plan.Choice(l.Phase)
			return c != nil && c.Rung == i && a.Plan.Shared.Rung == q.Shared && r.ranOut(a, l.Phase) &&
				a.Outcome.Report.Kind != oom.GPUContention
		})
		out = append(out, d)
	}
	slices.SortStableFunc(out, func(a, b division) int { return cmp.Compare(b.micro, a.micro) })
	return out
}

// formula reports whether the plugin priced a phase.
func (r *Run) formula(l ladder.Ladder, shared int) bool {
	if r.Priced != nil {
		if p := r.Priced.Ladder(l.Phase); p != nil {
			l = *p
		}
	}
	return l.Rungs[l.Asked].At(shared).Known()
}

// micro is the micro-batch of a rung that changes nothing else of a phase; 0 if it is unknown, or if the rung does.
func (r *Run) micro(l ladder.Ladder, i int) int64 {
	for _, e := range l.Rungs[i].Edits {
		if e.Knob != job.MicroBatch && e.Knob != job.Accumulation {
			return 0
		}
	}
	if n, ok := l.Rungs[i].Values[job.MicroBatch]; ok {
		return n
	}
	return r.Ladders.Values[job.MicroBatch]
}
