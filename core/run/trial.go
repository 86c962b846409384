package run

import (
	"fmt"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
)

// A Trial is the kind of an attempt that is a short run of the program, separate from the experiment. It leaves nothing
// behind.
type Trial string

const (
	Rehearsal Trial = "rehearsal" // through every phase, to see whether it fits
	Timing    Trial = "timing"    // a few steps, to see how fast it is
)

// flat is the smallest gain in speed, as a factor, for which a larger rung is worth its memory.
const flat = 1.03

// timings is the largest number of sizes to time.
const timings = 3

// tried makes the run's first plan a trial, if the user asked for one and the program can be shortened.
func (r *Run) tried(p *Plan) *Plan {
	switch {
	case r.Job.Rehearsal.None != "" || p.Resume != nil:
		return p
	case r.Limits.Fast:
		base := *r
		base.Limits.Fill = false
		if q, stop := base.first(); stop == nil && !q.stands(p) { // else there are no two rungs to compare
			return r.short(q, Timing)
		}
	}
	if r.rehearses() {
		return r.short(p, Rehearsal)
	}
	return p
}

// rehearses reports whether the run should and can be rehearsed.
func (r *Run) rehearses() bool {
	return r.Limits.Rehearse && r.Job.Rehearsal.None == "" && r.Job.Rehearsal.Partial == ""
}

// short makes a plan a trial.
func (r *Run) short(p *Plan, t Trial) *Plan {
	p.Trial, p.Resume = t, nil
	for _, e := range r.Job.Rehearsal.Edits {
		taken := func(rung config.Edit) bool { return rung.At == e.At } // the rung is what the trial is about
		if strings.Contains(e.To, job.Scratch) || !slices.ContainsFunc(p.Edits, taken) {
			p.Edits = append(p.Edits, e)
		}
	}
	if t == Rehearsal {
		r.order(p)
	}
	return p
}

// order has a rehearsal begin with the largest batch, where a setting does that. Not if the rehearsal before failed
// with it: the program may not take the setting.
func (r *Run) order(p *Plan) {
	all := r.Job.Rehearsal.Largest
	if len(all) == 0 {
		if why := r.Job.Rehearsal.Unordered; why != "" {
			p.Order = "launch cannot order the batches by their size: " + why
		}
		return
	}
	refused := func(a Attempt) bool { return a.ordered(r.Job) && a.Outcome.Ending == Failed }
	if slices.ContainsFunc(r.Attempts, refused) {
		p.Order = "the batches come in the program's own order: the rehearsal with the largest batch first failed for " +
			"another reason than memory"
		return
	}
	var by []string
	for _, e := range all {
		if !slices.ContainsFunc(p.Edits, func(o config.Edit) bool { return o.At == e.At }) {
			p.Edits, by = append(p.Edits, e), append(by, e.At.Path+"="+e.To)
		}
	}
	p.Order = "the largest batch comes first, in the rehearsal alone: " + strings.Join(by, ", ")
}

// ordered reports whether an attempt was a rehearsal that began with the largest batch.
func (a *Attempt) ordered(j *job.Job) bool {
	return a.Plan.Trial == Rehearsal && slices.ContainsFunc(a.Plan.Edits, func(e config.Edit) bool {
		return slices.ContainsFunc(j.Rehearsal.Largest, func(l config.Edit) bool { return l.At == e.At && l.To == e.To })
	})
}

// afterTrial plans the attempt after a trial.
func (r *Run) afterTrial(last *Attempt) (*Plan, *Stop) {
	out := &last.Outcome
	if out.Ending == Interrupted || out.Untaken != "" {
		return r.afterFailure(last)
	}
	if last.Plan.Trial == Timing {
		return r.afterTiming(last)
	}
	if out.Ending == OutOfMemory {
		p, stop := r.afterFailure(last)
		if p != nil {
			r.short(p, Rehearsal)
		}
		return p, stop
	}
	p := r.standAt(&last.Plan, "as rehearsed")
	if out.Ending != Succeeded && last.ordered(r.Job) {
		p.Why = "the rehearsal with the largest batch first failed for another reason than memory"
		return r.short(p, Rehearsal), nil
	}
	if out.Ending != Succeeded {
		p.Why = "not rehearsed: the rehearsal failed for another reason than memory (" + out.Cause + ")"
	}
	r.goOn(p)
	return p, nil
}

// afterTiming times the next larger rung as long as the speed rises, and then takes the fastest.
func (r *Run) afterTiming(last *Attempt) (*Plan, *Stop) {
	var timed []*Attempt
	for i := range r.Attempts {
		if r.Attempts[i].Plan.Trial == Timing {
			timed = append(timed, &r.Attempts[i])
		}
	}
	best := slices.MaxFunc(timed, func(a, b *Attempt) int {
		switch {
		case a.Outcome.Rate > b.Outcome.Rate*flat:
			return 1
		case b.Outcome.Rate > a.Outcome.Rate*flat:
			return -1
		}
		return 0 // equally fast: the first one needs the least memory
	})
	if last.Outcome.Rate > 0 && best == last && len(timed) < timings {
		if p := r.larger(&last.Plan); p != nil {
			return r.short(p, Timing), nil
		}
	}
	if timed[0].Outcome.Ending == OutOfMemory {
		return r.afterFailure(timed[0])
	}
	base, rated := timed[0].Outcome.Rate, 0
	for _, a := range timed {
		if a.Outcome.Rate > 0 {
			rated++
		}
	}
	why := "too few steps to measure the speed: no change for speed"
	switch {
	case base == 0:
		best = timed[0]
	case rated > 1:
		why = fmt.Sprintf("the fastest of %d that were timed: %.4g samples a second, %.2f times the first", rated,
			best.Outcome.Rate, best.Outcome.Rate/base)
	case last.Outcome.Ending == OutOfMemory:
		why = "the next larger setting ran out of memory"
	}
	p := r.standAt(&best.Plan, why)
	if r.rehearses() {
		return r.short(p, Rehearsal), nil
	}
	r.goOn(p)
	return p, nil
}

// larger returns the plan on the next fill rung above p that fits, or nil.
func (r *Run) larger(p *Plan) *Plan {
	try := func(s int, rungs map[string]int) *Plan {
		q := r.standOnRungs(s, rungs)
		if q == nil || q.Verdict() != ladder.Fits {
			return nil
		}
		return q
	}
	rungs := p.rungs()
	for s := min(p.Shared.Rung, r.Ladders.Shared.Asked) - 1; s >= 0; s-- {
		if r.Ladders.Shared.Rungs[s].Cost <= r.Limits.Allow {
			if q := try(s, rungs); q != nil {
				return q
			}
		}
	}
	for _, l := range r.Ladders.Phases {
		for i := min(rungs[l.Phase], l.Asked) - 1; i >= 0; i-- {
			if l.Rungs[i].Cost > r.Limits.Allow {
				continue
			}
			higher := p.rungs()
			higher[l.Phase] = i
			if q := try(p.Shared.Rung, higher); q != nil {
				return q
			}
		}
	}
	return nil
}

// standAt returns a plan on the same rungs as p.
func (r *Run) standAt(p *Plan, why string) *Plan {
	q := r.standOnRungs(p.Shared.Rung, p.rungs())
	q.Why = why
	return q
}

// standOnRungs returns the plan on exactly these rungs, or nil if it would break an invariant.
func (r *Run) standOnRungs(s int, rungs map[string]int) *Plan {
	picks := map[string]ladder.Pick{}
	for _, l := range r.Ladders.Phases {
		e := r.correct(l.Phase, s, l.Rungs[rungs[l.Phase]].At(s))
		picks[l.Phase] = ladder.Pick{Rung: rungs[l.Phase], Estimate: e, Verdict: ladder.Judge(e, r.room())}
	}
	p := r.plan(s, picks)
	if len(r.Ladders.Broken(r.Ladders.ValuesAt(s, rungs), p.Cost)) > 0 {
		return nil
	}
	return p
}

// rungs returns the rung of each phase.
func (p *Plan) rungs() map[string]int {
	out := map[string]int{}
	for _, c := range p.Choices {
		out[c.Phase] = c.Rung
	}
	return out
}
