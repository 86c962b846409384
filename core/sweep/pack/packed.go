package pack

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/room"
	"github.com/launch-ml/launch/core/sweep"
	"github.com/launch-ml/launch/core/unit"
)

// A Machine is where the trials run.
type Machine interface {
	// Look returns the cards as they were last seen, and when that was; nil if nobody has looked for too long.
	Look() ([]gpu.Device, time.Time)
	Claims() []room.Held
	// Launches are the processes of the running trials' launches, by trial.
	Launches() map[int]int
}

// An Admission implements [sweep.Admission].
type Admission struct {
	History *sweep.History
	Machine Machine
	Cards   []gpu.Device // that the sweep may use
	Jobs    int          // how many trials may run at the same time; 0: as many as the cards take
	Policy  Policy
	Greedy  bool // the trials fill their cards (--fill), so that none shares one

	at    time.Time    // of the last look
	there []gpu.Device // of Cards, those that the last look has; nil before one
	peaks map[int]used // by trial
	seen  map[int]used // by trial: of its earlier starts
	// before is what others held of each card when no trial of the sweep was on it: what they hold later, where the driver
	// does not tell whose the memory is.
	before map[string]unit.Bytes
	stops  map[int]mayDoubt // decided, and not yet carried out
}

var _ sweep.Admission = (*Admission)(nil)

// used is the most that a start of a trial was seen to use.
type used struct {
	start int
	bytes unit.Bytes
}

// mayDoubt is when a stop was decided first, by the time of the look.
type mayDoubt struct {
	start int
	at    time.Time
}

// Admit implements [sweep.Admission].
func (a *Admission) Admit(waiting, running []*sweep.Row) (moves []sweep.Move) {
	if all, at := a.Machine.Look(); all != nil && at.After(a.at) {
		a.there, a.at = doneAgain(a.Cards, all), at
	}
	claims := a.Machine.Claims()
	now := time.Now()
	waiting = rested(waiting, now)
	s := state(a.History, waiting, running, a.Greedy, now)
	for i := range s.Waiting {
		s.Waiting[i].Seen = a.seen[s.Waiting[i].ID].bytes
	}
	for i := range s.Running {
		s.Running[i].Seen = a.seen[s.Running[i].ID].bytes
	}
	s.Policy = a.Policy
	a.measure(&s, running, claims)
	left := a.Jobs - len(running)
	stops := map[int]mayDoubt{}
	for _, d := range Place(s) {
		switch r := a.History.Row(d.Trial); {
		case d.Stop:
			// What a program frees as it ends may look like somebody else's for a moment: two looks have to agree.
			was, known := a.stops[d.Trial]
			if known = known && was.start == r.Starts; !known {
				was = mayDoubt{r.Starts, a.at}
			}
			stops[d.Trial] = was
			if known && a.at.After(was.at) {
				moves = append(moves, sweep.Move{Trial: d.Trial, Stop: true, Now: d.Now, Why: d.Why})
			}
		case a.Jobs == 0 || left > 0:
			left--
			moves = append(moves, sweep.Move{Trial: d.Trial, Card: a.card(d.Card)})
		}
	}
	a.stops = stops
	return moves
}

// rests is how long a trial that was put back waits before it starts again, the first time; then twice as long each
// time. What filled its card may come and go: it would be started and stopped over and over.
const (
	rests    = time.Second
	mostRest = time.Minute
)

// rested leaves out trials that were put back a moment ago.
func rested(waiting []*sweep.Row, now time.Time) (out []*sweep.Row) {
	for _, r := range waiting {
		times := r.Stops + r.Crowded
		rest := min(mostRest, rests<<min(max(0, times-1), 10))
		if times == 0 || r.State != sweep.Waiting || now.Sub(r.Over) >= rest {
			out = append(out, r)
		}
	}
	return out
}

// Wait describes what the sweep waits for if nothing runs and nothing can start.
func (a *Admission) Wait() string {
	text := "waiting for room on a card"
	for _, c := range a.Cards {
		if now := doneAgain([]gpu.Device{c}, a.cards()); len(now) > 0 {
			text += fmt.Sprintf("; card %d has %v free of %v", c.Index, now[0].Free(), c.Total)
		} else {
			text += fmt.Sprintf("; card %d is no longer there", c.Index)
		}
	}
	return text
}

// Gone reports whether the driver lists none of the cards any more.
func (a *Admission) Gone() bool { return len(a.cards()) == 0 }

// cards are those that the driver still lists: one that is lost would take all trials, and fail each at once.
func (a *Admission) cards() []gpu.Device {
	if a.there == nil {
		return a.Cards
	}
	return a.there
}

func (a *Admission) card(uuid string) *sweep.Card {
	for _, c := range a.Cards {
		if name(c) == uuid {
			return &sweep.Card{UUID: uuid, Index: c.Index}
		}
	}
	return nil
}

// name identifies a card; a driver may not have UUIDs.
func name(d gpu.Device) string { return cmp.Or(d.UUID, fmt.Sprint(d.Index)) }

// measure adds the cards, and what the running trials use of them.
func (a *Admission) measure(s *State, running []*sweep.Row, claims []room.Held) {
	launches := a.Machine.Launches()
	var own []int
	for _, r := range running {
		if pid := launches[r.Number]; pid != 0 {
			own = append(own, pid)
		}
	}
	by := map[int]unit.Bytes{}
	for _, d := range a.cards() {
		u := room.UseOf(d, claims, own)
		s.Cards = append(s.Cards, Card{ID: name(d), Total: d.Total, Others: a.others(d, u, running)})
		for launch, n := range u.Own {
			by[launch] += n
		}
	}
	peaks := map[int]used{}
	for i, r := range running {
		p := a.peaks[r.Number]
		if p.start != r.Starts {
			p = used{start: r.Starts}
		}
		p.bytes = max(p.bytes, by[launches[r.Number]])
		peaks[r.Number] = p
		s.Running[i].Used = p.bytes
		s.Running[i].Ramped = settled(claims, launches[r.Number])
	}
	for trial, p := range a.peaks { // of starts that are over
		if now, runs := peaks[trial]; (!runs || now.start != p.start) && p.bytes > a.seen[trial].bytes {
			if a.seen == nil {
				a.seen = map[int]used{}
			}
			a.seen[trial] = p
		}
	}
	a.peaks = peaks
}

// others is what others hold of a card. Where the driver does not tell whose the memory is, what came after a trial of
// the sweep is taken for its own: it would be stopped for its own growth otherwise, and started again, over and over.
func (a *Admission) others(d gpu.Device, u room.Use, running []*sweep.Row) unit.Bytes {
	if a.before == nil {
		a.before = map[string]unit.Bytes{}
	}
	id := name(d)
	before, known := a.before[id]
	on := slices.ContainsFunc(running, func(r *sweep.Row) bool { return r.Card != nil && r.Card.UUID == id })
	switch {
	case !on:
		a.before[id] = u.Others
	case u.Untold && known:
		a.before[id] = min(before, d.Used)
		return min(u.Others, a.before[id])
	}
	return u.Others
}

// settled reports whether a launch has lowered or raised its claims to what its job needs: the job has been through all
// its phases.
func settled(claims []room.Held, launch int) bool {
	return slices.ContainsFunc(claims, func(h room.Held) bool {
		return h.PID == launch && launch != 0 && h.Kind == room.Card("").Kind && h.Settled
	})
}

// doneAgain returns the cards as they are in a later look, without those that it lacks.
func doneAgain(cards, all []gpu.Device) []gpu.Device {
	out := []gpu.Device{}
	for _, c := range cards {
		for _, d := range all {
			if name(d) == name(c) && d.Index == c.Index {
				out = append(out, d)
			}
		}
	}
	return out
}
