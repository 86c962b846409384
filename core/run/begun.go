package run

import (
	"fmt"
	"slices"
)

// A program may find its newest state by itself, though nothing tells launch so. Then an attempt that starts over goes
// on from what was there, and its own count shows it.

// begun joins the course of a counter over the attempts that began from the beginning: its first report of all, and how
// far it came. ok is false if none is known, or if it is the count of an epoch.
func (r *Run) begun(c *Course) (out Course, ok bool) {
	take := func(all []Course) {
		a := (&State{At: all}).beside(c, len(all))
		switch {
		case a == nil || a.Falls:
		case !ok:
			out, ok = *a, true
		default:
			if a.First.Iteration < out.First.Iteration {
				out.First = a.First
			}
			if a.Last.Iteration > out.Last.Iteration {
				out.Last = a.Last
			}
			out.Gap = max(out.Gap, a.Gap)
		}
	}
	for _, all := range r.Begun {
		take(all)
	}
	for i := range r.Attempts {
		if a := &r.Attempts[i]; a.Plan.Trial == "" && a.Plan.Resume == nil {
			take(a.Outcome.Courses)
		}
	}
	return out, ok
}

// byItself returns how an attempt that was to start over has gone on from a state that the program found by itself; nil
// if it did not. That is certain or is none: its first step lies where the attempts before it were.
func (r *Run) byItself(p *Plan, o *Outcome) *Resumption {
	c := mainCourse(o.Courses)
	if p.Trial != "" || p.Resume != nil || c == nil || c.Falls || r.Job.Signs.CountsMicro {
		return nil
	}
	a, ok := r.begun(c)
	first, every := c.First.Iteration, max(2, a.every(), c.every())
	if c.Gap == 0 {
		every = max(2, a.every())
	}
	if !ok || first <= a.First.Iteration+every || first > a.Last.Iteration+every || 2*first <= a.Last.Iteration {
		return nil
	}
	return &Resumption{State: Resumed, First: first, Saved: first - 1,
		Why: fmt.Sprintf("it resumed from a state that the program found by itself: its first step is %d", first)}
}

// astray is why a run that was told to start over is not the training that it was to be; "" if it is. Its states carry
// that on.
func (r *Run) astray(p *Plan, o *Outcome) string {
	switch {
	case p.Resume != nil:
		return p.Resume.Astray
	case !r.Over:
		return ""
	case o.Resumption == nil:
		return o.WentOn
	}
	return fmt.Sprintf("it did not start over: its first step is %d, so the program went on from a state of before, "+
		"which it found by itself", o.Resumption.First)
}

// leave keeps the courses of attempts that no longer count.
func (r *Run) leave(p *Plan, all []Course) {
	if p.Trial == "" && p.Resume == nil && len(all) > 0 {
		r.Begun = append(slices.Clone(r.Begun), all)
	}
}
