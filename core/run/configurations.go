package run

import (
	"cmp"
	"slices"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
)

// A Configuration is one way to run a phase: a rung of its ladder or of the shared one as the only change, or the plan.
type Configuration struct {
	Name         string
	Shared, Rung int // of the shared ladder and of the phase's
	Batch        job.Batch
	Cost         ladder.Cost
	Allowed      bool
	Asked, Taken bool // it is the job as asked; the plan takes it
	Estimate     mem.Estimate
	Verdict      ladder.Verdict
}

// Configurations returns the ways to run a phase, the one that needs most first. p is the plan; nil if there is none.
func (r *Run) Configurations(phase string, p *Plan) (out []Configuration) {
	l, shared := r.Ladders.Ladder(phase), r.Ladders.Shared
	taken := [2]int{-1, -1}
	if p != nil && p.Choice(phase) != nil {
		taken = [2]int{p.Shared.Rung, p.Choice(phase).Rung}
	}
	at := func(s, i int) {
		e := r.correct(phase, s, l.Rungs[i].At(s))
		c := Configuration{Name: AsAsked, Shared: s, Rung: i, Cost: max(shared.Rungs[s].Cost, l.Rungs[i].Cost),
			Asked: s == shared.Asked && i == l.Asked, Taken: taken == [2]int{s, i}, Estimate: e,
			Batch: batch(r.Job.Batch, r.Ladders.ValuesAt(s, map[string]int{phase: i}))}
		c.Allowed, c.Verdict = c.Cost <= r.Limits.Allow, r.judge(e)
		switch {
		case s != shared.Asked && i != l.Asked:
			c.Name = shared.Rungs[s].Name + "; " + l.Rungs[i].Name
		case s != shared.Asked:
			c.Name = shared.Rungs[s].Name
		case i != l.Asked:
			c.Name = l.Rungs[i].Name
		}
		out = append(out, c)
	}
	for i := range l.Rungs {
		at(shared.Asked, i)
	}
	for s := range shared.Rungs {
		if s != shared.Asked {
			at(s, l.Asked)
		}
	}
	if !slices.ContainsFunc(out, func(c Configuration) bool { return c.Taken }) && taken[0] >= 0 {
		at(taken[0], taken[1])
	}
	unknown := func(c Configuration) bool { return !c.Estimate.Known() }
	if !slices.ContainsFunc(out, unknown) {
		slices.SortStableFunc(out, func(a, b Configuration) int {
			return cmp.Compare(b.Estimate.Total(), a.Estimate.Total())
		})
	}
	return out
}
