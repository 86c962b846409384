package run

import (
	"cmp"
	"math"
	"slices"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
)

// resplit chooses the micro-batch of a phase that has no formula. pick is the first rung that may fit.
func (r *Run) resplit(l ladder.Ladder, q ladder.Query, pick ladder.Pick, last *Attempt) ladder.Pick {
	if r.formula(l, q.Shared) || pick.Rung <= l.Asked || r.micro(l, pick.Rung) == 0 {
		return pick
	}
	all := r.divisions(l, q)
	all = slices.DeleteFunc(all, func(d division) bool { return d.Rung < q.From && !d.failed })
	if i := other(all, l.Asked, pick.Rung, last != nil && q.Measured, r.misled(l.Phase)); i >= 0 && all[i].Rung >= q.From {
		return all[i].Pick
	}
	return pick
}

// resplitShared is resplit where the micro-batch is on the shared ladder. plan is on the first rung that may fit.
func (r *Run) resplitShared(plan *Plan, last *Attempt) *Plan {
	l := r.Ladders.Shared
	priced := !slices.ContainsFunc(r.Ladders.Phases, func(p ladder.Ladder) bool { return !r.formula(p, l.Asked) })
	if plan == nil || priced || plan.Shared.Rung <= l.Asked || r.micro(l, plan.Shared.Rung) == 0 {
		return plan
	}
	var all []division
	plans := map[int]*Plan{}
	for s := range l.Rungs {
		d := division{Pick: ladder.Pick{Rung: s, Verdict: ladder.Unknown}, micro: r.micro(l, s), cost: l.Rungs[s].Cost}
		if d.micro == 0 || d.cost > r.Limits.Allow {
			continue
		}
		d.failed = slices.ContainsFunc(r.Attempts, func(a Attempt) bool {
			return a.Plan.Shared.Rung == s && r.ranOut(a, r.phaseOf(a.Outcome))
		})
		if p, ok := r.standOn(s, last); ok && (last == nil || s >= last.Plan.Shared.Rung) {
			plans[s], d.Verdict, d.known = p, p.Verdict(), true
			for _, c := range p.Choices {
				d.known = d.known && c.Estimate.Known()
				d.guess = d.guess || guessed(c.Estimate)
				d.failed = d.failed || c.Estimate.Vouched() > r.room()
			}
		}
		if last == nil || s >= last.Plan.Shared.Rung || d.failed {
			all = append(all, d)
		}
	}
	descend(all)
	measured := last != nil && r.ranOut(*last, r.phaseOf(last.Outcome))
	misled := measured && r.misled(r.phaseOf(last.Outcome))
	if i := other(all, l.Asked, plan.Shared.Rung, measured, misled); i >= 0 && plans[all[i].Rung] != nil {
		return plans[all[i].Rung]
	}
	return plan
}

// other returns the division to take instead of the rung pick, the first that may fit; -1 for that rung. A first
// attempt takes what is known to fit, and risks nothing for a size in between.
func other(all []division, asked, pick int, measured, misled bool) int {
	at := func(rung int) int { return slices.IndexFunc(all, func(d division) bool { return d.Rung == rung }) }
	p, a := at(pick), at(asked)
	switch {
	case p < 0:
		return -1
	case measured || all[p].Verdict == ladder.Unknown:
		return next(all, p, misled)
	case a >= 0 && untried(all, a, p):
		return a
	}
	return -1
}

// next chooses among rungs that only divide the batch in another way, listed from the largest micro-batch on: the
// largest that is foreseen to fit by two sizes that did. Otherwise it is the middle rung between the largest size
// that fitted and the smallest that did not, or half of the latter if none is known to fit; or a larger one, if that
// fits even in proportion to what was measured. So every out-of-memory halves the rungs that are left, or the size.
// misled: what is foreseen does not hold for this run, and the size is halved whatever it is. first is the first rung
// that may fit; next returns -1 if it is to be taken.
func next(all []division, first int, misled bool) int {
	var fits, limit int64 // the largest that was measured or is foreseen to fit, and that fits in proportion
	tooLarge := int64(math.MaxInt64)
	for _, d := range all {
		if d.failed {
			tooLarge = min(tooLarge, d.micro)
		}
	}
	for _, d := range all {
		if d.micro < tooLarge && d.Verdict == ladder.Fits && !misled {
			if limit = max(limit, d.micro); !d.guess {
				fits = max(fits, d.micro)
			}
		}
	}
	var open []int
	for i, d := range all {
		if d.cost == all[first].cost && d.micro < tooLarge && d.micro > fits {
			open = append(open, i)
		}
	}
	switch {
	case len(open) == 0:
		return -1
	case fits > 0:
		limit = max(limit, all[open[len(open)/2]].micro)
	default:
		limit = max(limit, tooLarge/2)
	}
	for _, i := range open {
		if all[i].micro <= limit {
			return i
		}
	}
	return open[len(open)-1]
}

// misled reports whether a phase ran out of memory four times in this run: what is foreseen was wrong again and again,
// and need not be better about the next size.
func (r *Run) misled(phase string) bool {
	n := 0
	for _, a := range r.Attempts {
		if r.ranOut(a, phase) {
			n++
		}
	}
	return n >= 4
}

// untried reports whether a job without a formula is to run as asked although a smaller rung fits: if that rung is
// the only size that was ever measured, and the job as asked never failed. That it does not fit is then a guess in
// proportion, and with a size that was measured already nothing better would ever be learned.
func untried(all []division, asked, pick int) bool {
	measured := func(d division) bool { return d.known && !d.guess }
	if all[asked].failed || !all[asked].guess || !measured(all[pick]) {
		return false
	}
	return !slices.ContainsFunc(all, func(d division) bool { return d.Rung != all[pick].Rung && measured(d) })
}

// guessed reports whether an estimate has lines that neither a rule nor a measurement vouches for.
func guessed(e mem.Estimate) bool { return e.Known() && e.Vouched() < e.Total() }

// A division is a rung that only divides the batch in another way.
type division struct {
	ladder.Pick
	micro  int64
	cost   ladder.Cost
	failed bool // in this run or in an earlier one, or it is foreseen not to fit
	known  bool
	guess  bool // by a single measured size
}

// divisions lists these rungs from the largest micro-batch on, with their corrected estimates.
func (r *Run) divisions(l ladder.Ladder, q ladder.Query) (out []division) {
	for i, rung := range l.Rungs {
		d := division{micro: r.micro(l, i), cost: rung.Cost}
		if d.micro == 0 || rung.Cost > q.Allow {
			continue
		}
		e := q.Correct(rung.At(q.Shared))
		d.Pick = ladder.Pick{Rung: i, Estimate: e, Verdict: ladder.Judge(e, q.Room)}
		d.known, d.guess = e.Known(), guessed(e)
		d.failed = d.Verdict > ladder.Unknown && e.Vouched() > q.Room ||
			slices.ContainsFunc(r.Attempts, func(a Attempt) bool {
				c := a.Plan.Choice(l.Phase)
				return c != nil && c.Rung == i && a.Plan.Shared.Rung == q.Shared && r.ranOut(a, l.Phase)
			})
		out = append(out, d)
	}
	descend(out)
	return out
}

func descend(all []division) {
	slices.SortStableFunc(all, func(a, b division) int { return cmp.Compare(b.micro, a.micro) })
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
