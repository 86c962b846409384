package run

import (
	"fmt"
	"time"

	"github.com/launch-ml/launch/core/ladder"
)

// A Pressure is what an attempt showed of a card, or of host memory, that was nearly full while it trained, and what
// launch made of that: --on-pressure.
type Pressure struct {
	// Why is what was seen: "the card refused 3 requests, which the allocator tried again".
	Why string `json:"why"`
	// Iteration is the last that was reported when it was seen first, and After the time since the program's start.
	Iteration int64         `json:"iteration,omitempty"`
	After     time.Duration `json:"after_ns"`
	// Way: launch has a way to have this program save its state on request.
	Way bool `json:"way,omitempty"`
	// Saved is how often the program saved its state because of it.
	Saved int `json:"saved,omitempty"`
	// Down: it was stopped there, and the run goes on one rung lower.
	Down bool `json:"down,omitempty"`
}

// String is a clause about it.
func (p *Pressure) String() string {
	said := "memory ran short"
	if p.Iteration > 0 {
		said += fmt.Sprintf(" at iteration %d", p.Iteration)
	}
	switch said += ": " + p.Why; {
	case p.Down:
		return said + "; the program saved its state and was stopped, to go on one rung lower"
	case p.Saved == 1:
		return said + "; the program saved its state"
	case p.Saved > 1:
		return said + fmt.Sprintf("; the program saved its state %d times", p.Saved)
	}
	return said
}

// Down reports whether launch stopped the attempt because of memory that ran short, to go on one rung lower.
func (out *Outcome) Down() bool { return out.Pressure != nil && out.Pressure.Down }

// Missed returns a clause for an attempt that ran out of memory and lost steps: what a save at the first sign of
// pressure would have kept; "" if it would have kept nothing.
func (out *Outcome) Missed() string {
	p := out.Pressure
	if p == nil || !p.Way || p.Saved > 0 || out.Ending != OutOfMemory || p.Iteration <= 0 ||
		out.LastWords != nil && out.LastWords.Path != "" || out.Saved != nil && out.Saved.Iteration >= p.Iteration {
		return ""
	}
	return fmt.Sprintf("%s at iteration %d, %v before: with --on-pressure=save the program would have saved its state "+
		"then, and with --on-pressure=step-down the run would have gone on one rung lower", p.Why, p.Iteration,
		(out.Took - p.After).Round(time.Second))
}

// Below returns the plan of the run after one that launch stops because memory runs short, after the program has saved
// its state; nil if no allowed rung below can go on from that state.
func (r *Run) Below(p *Plan) *Plan {
	if r.Job.Resume.None != "" || p.Trial != "" {
		return nil
	}
	there := *r
	there.Left = nil
	out := Outcome{Ending: Interrupted, Phase: ladder.Training, Pressure: &Pressure{Down: true},
		Saved: &State{Path: "state", Rungs: r.NewState(p)}}
	there.Attempts = append(r.Attempts[:len(r.Attempts):len(r.Attempts)], Attempt{*p, out})
	below := there.afterPressure(there.Last())
	if below.stands(p) || below.Resume == nil {
		return nil
	}
	return below
}

// afterPressure plans the attempt after one that was stopped because memory ran short: the next rung that is expected
// to fit or, where there is none, the same again.
func (r *Run) afterPressure(last *Attempt) *Plan {
	p := r.choose(last)
	if p == nil || p.Verdict() == ladder.Not {
		p = r.standAt(&last.Plan, "")
	}
	p.Why = last.Outcome.Pressure.Why + "; the state was saved before memory ran out"
	r.goOn(p)
	return p
}
