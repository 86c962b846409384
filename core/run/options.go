package run

import (
	"cmp"
	"errors"
	"slices"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/unit"
)

// An Option is a rung on which a run that ran out of memory could continue.
type Option struct {
	Phase    string         `json:"phase"` // its ladder: a phase, shared, or host memory
	Name     string         `json:"name"`
	Cost     ladder.Cost    `json:"cost"`
	Estimate mem.Estimate   `json:"estimate"` // of the failed phase or room, corrected by what the run has measured
	Room     unit.Bytes     `json:"room_bytes"`
	Verdict  ladder.Verdict `json:"-"`
	Edits    []config.Edit  `json:"edits"` // from the job as asked
	Allowed  bool           `json:"allowed"`
}

// Options returns the rungs below those of the last attempt that free the kind of memory that ran out, the mildest
// first. They are of the phase's own ladder and the shared one, or of the ladder for host memory, priced as by
// [Run.Next] in the room of that attempt. Next may skip some of them. There are none if the attempt did not run out of
// memory.
func (r *Run) Options() (out []Option) {
	last := r.Last()
	if last == nil || last.Outcome.Ending != OutOfMemory {
		return nil
	}
	then := *r
	then.Room = last.Plan.Room
	if room := r.hostRoom(last.Outcome.Report); room != "" {
		return then.hostOptions(last, room)
	}
	if !r.mends(last.Outcome.Report) {
		return nil
	}
	phase := r.phaseOf(last.Outcome)
	l := r.Ladders.Ladder(phase)
	c := last.Plan.Choice(phase)
	if l == nil || c == nil {
		return nil
	}
	for i := c.Rung + 1; i < len(l.Rungs); i++ {
		out = then.option(out, last, phase, l, last.Plan.Shared.Rung, i)
	}
	for s := last.Plan.Shared.Rung + 1; s < len(r.Ladders.Shared.Rungs); s++ {
		out = then.option(out, last, phase, l, s, c.Rung)
	}
	slices.SortStableFunc(out, func(a, b Option) int { return cmp.Compare(a.Cost, b.Cost) })
	return out
}

// option adds a rung of the failed phase, with a rung of the shared ladder, if the job's invariants allow both
// together.
func (r *Run) option(out []Option, last *Attempt, phase string, l *ladder.Ladder, s, i int) []Option {
	shared, rung := r.Ladders.Shared.Rungs[s], l.Rungs[i]
	o := Option{Phase: phase, Name: rung.Name, Cost: rung.Cost, Edits: rung.Edits, Room: r.Room}
	if s != last.Plan.Shared.Rung {
		o.Phase, o.Name, o.Cost, o.Edits = ladder.Shared, shared.Name, shared.Cost, shared.Edits
	}
	rungs := map[string]int{}
	for _, c := range last.Plan.Choices {
		rungs[c.Phase] = c.Rung
	}
	rungs[phase] = i
	if len(r.Ladders.Broken(r.Ladders.ValuesAt(s, rungs), max(rung.Cost, shared.Cost))) > 0 {
		return out
	}
	o.Estimate = r.correct(phase, s, rung.At(s))
	o.Verdict = ladder.Told(o.Estimate, r.room())
	o.Allowed = o.Cost <= r.Limits.Allow
	return append(out, o)
}

// hostOptions returns the rungs of the ladder for host memory that need less of the room that ran out.
func (r *Run) hostOptions(last *Attempt, room string) (out []Option) {
	h := r.Ladders.Host
	if h == nil || last.Plan.Host == nil {
		return nil
	}
	if n := last.Plan.Host.Need(room); n != nil { // the rooms at that time
		switch room {
		case ladder.HostMemory:
			r.Rooms.Memory = n.Room
		case ladder.SharedMemory:
			r.Rooms.Shm = n.Room
		}
	}
	micro := last.Plan.Batch.Micro
	for i := last.Plan.Host.Rung + 1; i < len(h.Rungs); i++ {
		c := r.hostAt(i, micro, 0) // the room has the card's part off
		n := c.Need(room)
		if n == nil || !r.helps(h, i, last.Plan.Host.Rung, room, micro) {
			continue
		}
		o := Option{Phase: ladder.Host, Name: c.Name, Estimate: n.Estimate, Verdict: n.Verdict, Edits: h.Rungs[i].Edits, Allowed: true}
		if n.Room != nil {
			o.Room = n.Room.Free
		}
		out = append(out, o)
	}
	return out
}

// Again prepares a stopped run to continue, at a higher cost or after the user has fixed what stopped it. Attempts that
// were interrupted, failed for another reason than memory, or shared the card when they ran out of it, prove nothing
// about what fits: Again removes them, but the next attempt resumes from the newest state. One that ran out of memory
// after a notice that the machine is taken away still proves that it did not fit. allow is the cost that is allowed
// from now on. The error is why the run cannot continue.
func (r *Run) Again(allow ladder.Cost) error {
	if last := r.Last(); last != nil && last.Plan.Trial == "" {
		switch {
		case last.Outcome.Ending == Succeeded:
			return errors.New("it succeeded")
		case last.Outcome.Untaken != "":
			return errors.New("the program did not take its settings: " + last.Outcome.Untaken)
		}
	}
	r.Limits.Allow = allow
	r.Left, r.Numbered = r.state(), r.number()-1
	r.Attempts = slices.DeleteFunc(slices.Clone(r.Attempts), func(a Attempt) bool {
		gone := a.Outcome.Ending == Interrupted || a.Outcome.Beside || a.Outcome.Ending == Failed && a.Plan.Trial == "" ||
			a.Outcome.Ending == OutOfMemory && a.Outcome.Report.Kind == oom.GPUContention
		if gone && a.Plan.Trial == "" {
			r.Cut = r.Cut.Further(Progress{a.Outcome.Iteration, a.Outcome.Total, a.Outcome.Claimed})
			r.leave(&a.Plan, a.Outcome.Courses)
		}
		return gone
	})
	for i := range r.Attempts {
		r.Attempts[i].Outcome.Left = "" // what ended it then does not end the next attempt
	}
	return nil
}

// All returns every attempt of the run since it began, in order: what it took and what it reached is of all of them.
func (r *Run) All() []Attempt {
	all := slices.Concat(r.Gone, r.Attempts)
	slices.SortStableFunc(all, func(a, b Attempt) int { return cmp.Compare(a.Plan.Attempt, b.Plan.Attempt) })
	return all
}

// Saved returns the newest state of the run, from which its next attempt would resume; nil if there is none, or the
// program cannot resume.
func (r *Run) Saved() *State {
	if r.Job.Resume.None != "" {
		return nil
	}
	return r.state()
}
