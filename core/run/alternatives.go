package run

import (
	"fmt"

	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
)

// An Alternative is a rung that a plan does not take, and why.
type Alternative struct {
	Phase string      `json:"phase"` // its ladder: a phase, or "shared"
	Name  string      `json:"rung"`
	Cost  ladder.Cost `json:"cost"`
	// Estimate is what the phase needs on this rung; of a shared rung, what the largest phase as asked needs.
	Estimate mem.Estimate   `json:"-"`
	Verdict  ladder.Verdict `json:"-"`                  // unknown without a device
	Slowdown float64        `json:"slowdown,omitempty"` // expected time relative to the job as asked; 0: nobody knows
	Why      string         `json:"why"`
	// Because is the reason of its cost, where it has one: [ladder.Rung.Why].
	Because string `json:"cost_because,omitempty"`
	// Near: it is the first rung above or below the one that is taken, so that a person wants to see it.
	Near bool `json:"-"`
}

// Alternatives returns the rungs that a plan does not take, in the order of the ladders: those of each phase, then the
// shared ones. The job as asked is none of them.
func (r *Run) Alternatives(p *Plan) (out []Alternative) {
	for _, c := range p.Choices {
		l := r.Ladders.Ladder(c.Phase)
		for i, rung := range l.Rungs {
			if i == c.Rung || i == l.Asked {
				continue
			}
			e := r.correct(c.Phase, p.Shared.Rung, rung.At(p.Shared.Rung))
			a := Alternative{Phase: c.Phase, Name: rung.Name, Cost: rung.Cost, Because: rung.Why, Estimate: e,
				Verdict: r.judge(e), Slowdown: rung.Slowdown, Near: i == c.Rung-1 || i == c.Rung+1}
			a.Why = r.untaken(a, l.Asked-i, c.Rung-i, c)
			out = append(out, a)
		}
	}
	shared := r.Ladders.Shared
	for s, rung := range shared.Rungs {
		if s == p.Shared.Rung || s == shared.Asked {
			continue
		}
		a := Alternative{Phase: ladder.Shared, Name: rung.Name, Cost: rung.Cost, Because: rung.Why, Slowdown: rung.Slowdown,
			Near: true}
		a.Estimate, a.Verdict = r.alone(s)
		a.Why = r.untaken(a, shared.Asked-s, p.Shared.Rung-s, p.Shared)
		out = append(out, a)
	}
	return out
}

// judge is [ladder.Told] in the room of the run; without a device nothing is known.
func (r *Run) judge(e mem.Estimate) ladder.Verdict {
	if r.Room == 0 {
		return ladder.Unknown
	}
	return ladder.Told(e, r.Room)
}

// alone returns the estimate and the verdict of the largest phase if shared rung s were the only change.
func (r *Run) alone(s int) (most mem.Estimate, worst ladder.Verdict) {
	for i, l := range r.Ladders.Phases {
		e := r.correct(l.Phase, s, l.Rungs[l.Asked].At(s))
		v := r.judge(e)
		if i == 0 || v > worst || v == worst && e.Total() > most.Total() {
			most, worst = e, v
		}
	}
	return most, worst
}

// untaken returns why a rung is not taken. aboveAsked and aboveTaken count how many rungs it is above the job as asked
// and above the rung that is taken.
func (r *Run) untaken(a Alternative, aboveAsked, aboveTaken int, taken Choice) string {
	need := "its need is not known"
	if a.Estimate.Known() && r.Room > 0 {
		need = map[ladder.Verdict]string{ladder.Fits: "", ladder.May: "may not fit", ladder.Not: "cannot fit"}[a.Verdict]
	}
	flag := fmt.Sprintf("--allow %s allows it", a.Cost)
	switch {
	case a.Cost > r.Limits.Allow && need != "":
		return need + "; " + flag
	case a.Cost > r.Limits.Allow:
		return flag
	case r.Room == 0:
		return "without a device nothing is changed"
	case r.Limits.AsAsked && len(r.Attempts) == 0:
		return "--as-asked changes nothing before an out-of-memory"
	case aboveAsked > 0 && !r.Limits.Fill && need == "":
		return "it uses more of the card; --fill takes it"
	case aboveAsked > 0 && need == "" && a.Phase == ladder.Shared:
		return "not every phase fits with it"
	case need != "" && (aboveTaken > 0 || taken.Verdict == ladder.Fits && a.Verdict != ladder.Unknown):
		return need
	case aboveTaken > 0:
		return "no measurement shows that it fits"
	case taken.Verdict == ladder.Fits && a.Phase == ladder.Shared:
		return "not needed"
	case taken.Verdict == ladder.Fits:
		return "not needed: what is planned fits"
	case need != "":
		return need
	case a.Cost > taken.Cost:
		return fmt.Sprintf("it costs %s, and only a rough part of the estimate keeps what is planned from fitting", a.Cost)
	}
	return "not needed before an out-of-memory"
}
