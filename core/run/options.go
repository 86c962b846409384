package run

import (
	"cmp"
	"errors"
	"slices"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
)

// An Option is a rung on which a run that ran out of memory could go on.
type Option struct {
	Phase    string         `json:"phase"` // whose ladder it is on: of a phase, shared, or the host's
	Name     string         `json:"name"`
	Cost     ladder.Cost    `json:"cost"`
	Estimate mem.Estimate   `json:"estimate"` // of the phase that failed, or the room, corrected by what the run has measured
	Room     unit.Bytes     `json:"room_bytes"`
	Verdict  ladder.Verdict `json:"-"`
	Edits    []config.Edit  `json:"edits"` // from the job as asked
	Allowed  bool           `json:"allowed"`
}

// Options are the rungs below those of the last attempt that give back what ran out in it, the mildest first: of the
// phase's own ladder and of the shared one, or of the host's. They are priced as [Run.Next] would, in the room of that
// attempt; it may have skipped some, and its choice among several is its own. There are none after another ending.
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

// option adds a rung of the failed phase, under one of the shared ladder, if the job's invariants let it stand there.
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
	o.Verdict = ladder.Judge(o.Estimate, r.room())
	o.Allowed = o.Cost <= r.Limits.Allow
	return append(out, o)
}

// hostOptions are the rungs of the host's ladder that need less of the room that ran out.
func (r *Run) hostOptions(last *Attempt, room string) (out []Option) {
	h := r.Ladders.Host
	if h == nil || last.Plan.Host == nil {
		return nil
	}
	if n := last.Plan.Host.Need(room); n != nil { // the rooms as they were then
		switch room {
		case ladder.HostMemory:
			r.Rooms.Memory = n.Room
		case ladder.SharedMemory:
			r.Rooms.Shm = n.Room
		}
	}
	micro := last.Plan.Batch.Micro
	for i := last.Plan.Host.Rung + 1; i < len(h.Rungs); i++ {
		c := r.hostAt(i, micro)
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

// Again makes a run that has stopped ready to go on, as its user wants it to: under a higher cost, or once what stopped it
// is mended. An attempt that was interrupted or failed by itself says nothing of what fits: it is set apart, and the newest
// state there is, is what the next one goes on from. allow is the user's new word; below what was said before it changes
// nothing. The error says why there is nothing to go on with.
func (r *Run) Again(allow ladder.Cost) error {
	if last := r.Last(); last != nil && last.Plan.Trial == "" {
		switch {
		case last.Outcome.Ending == Succeeded:
			return errors.New("it succeeded")
		case last.Outcome.Untaken != "":
			return errors.New("the program did not take its settings: " + last.Outcome.Untaken)
		}
	}
	r.Limits.Allow = max(r.Limits.Allow, allow)
	r.Left = r.state()
	r.Attempts = slices.DeleteFunc(slices.Clone(r.Attempts), func(a Attempt) bool {
		gone := a.Outcome.Ending == Interrupted || a.Outcome.Ending == Failed && a.Plan.Trial == ""
		if gone && a.Plan.Trial == "" {
			r.Cut = r.Cut.Further(Progress{a.Outcome.Iteration, a.Outcome.Total, a.Outcome.Claimed})
		}
		return gone
	})
	return nil
}

// Saved is the newest state that the run has left, which its next attempt would go on from; nil where there is none, or the
// program cannot.
func (r *Run) Saved() *State {
	if r.Job.Resume.None != "" {
		return nil
	}
	return r.state()
}
