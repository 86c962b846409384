package ladder

import (
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
)

// A Verdict is what an estimate says of a room. The order is from best to worst.
type Verdict int

const (
	Fits    Verdict = iota // all lines together are no more than the room
	Unknown                // there is no estimate
	May                    // only the lines that are counted, not guessed, are no more than the room
	Not                    // the counted lines alone exceed the room
)

func (v Verdict) String() string {
	return [...]string{"fits", "unknown", "may not fit", "cannot fit"}[v]
}

// Judge compares an estimate with a room.
func Judge(e mem.Estimate, room unit.Bytes) Verdict {
	switch {
	case e.Certain() > room: // also where the estimate is not complete: it is then a lower bound
		return Not
	case !e.Known() && e.Least() > room: // it failed with less before, which is no proof
		return May
	case !e.Known():
		return Unknown
	case e.Total() <= room:
		return Fits
	}
	return May
}

// Told is the verdict that people and scripts are given: that of [Judge], but nothing fits by a guess alone, unless a
// larger size was measured to fit.
func Told(e mem.Estimate, room unit.Bytes) Verdict {
	v := Judge(e, room)
	if v == Fits && e.GuessAlone() && (e.Below == 0 || e.Below > room) {
		return May
	}
	return v
}

// A Query asks for a rung.
type Query struct {
	From     int // the first rung to consider
	Shared   int // the rung of the shared ladder
	Room     unit.Bytes
	Allow    Cost
	Correct  func(mem.Estimate) mem.Estimate // what was learned from measurements; nil for nothing
	Measured bool                            // whether this phase has been measured by an attempt
}

// A Pick is the rung that answers a query.
type Pick struct {
	Rung     int
	Estimate mem.Estimate // corrected
	Verdict  Verdict
}

// Fit returns the first rung that fits. An estimate is no proof, so where none fits:
//
//   - before anything was measured, a rung costlier than [Speed] is taken only if what is vouched for of the cheaper
//     ones exceeds the room: nobody's results are changed on a guess;
//   - otherwise the smallest rung whose counted lines fit gets its chance ([May]);
//   - the smallest rung allowed is returned with [Not] where even its counted lines exceed the room.
//
// Rungs above the job as asked are taken only if they fit. ok is false when there is no rung from q.From on that
// q.Allow permits.
func (l Ladder) Fit(q Query) (p Pick, ok bool) {
	var may *Pick
	for i := q.From; i < len(l.Rungs); i++ {
		r := l.Rungs[i]
		if r.Cost > q.Allow {
			continue
		}
		e := r.price(q.Shared)
		if q.Correct != nil {
			e = q.Correct(e)
		}
		here := Pick{Rung: i, Estimate: e, Verdict: Judge(e, q.Room)}
		if i < l.Asked {
			if here.Verdict == Fits {
				return here, true
			}
			continue
		}
		if may != nil && !q.Measured && r.Cost > Speed && r.Cost > l.Rungs[may.Rung].Cost && may.Estimate.Vouched() <= q.Room {
			return *may, true
		}
		switch here.Verdict {
		case Fits, Unknown:
			return here, true
		case May:
			may = &here
		case Not:
			p = here
		}
		ok = true
	}
	if may != nil {
		return *may, true
	}
	return p, ok
}
