package run

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// A Loss is a saved state that a run can no longer resume from.
type Loss struct {
	State State  `json:"state"`
	Why   string `json:"why"` // "changed since this run wrote it", after the name of its file
}

// States are the states that an attempt has left, the newest first.
func (o *Outcome) States() []State {
	if o.Saved == nil {
		return nil
	}
	return append([]State{*o.Saved}, o.Earlier...)
}

// A Keeper is an [Executor] that can find out whether a saved state is still the one that the run wrote.
type Keeper interface {
	// Changed returns why a state is not; "" if it is, or nothing is known of it.
	Changed(State) string
	// Lost reports what the run cannot resume from, before it resumes from another state.
	Lost(lost []Loss, from State)
}

// Lost returns the states from which the next attempt would resume, the newest first, if they had not changed. Of the
// states that one attempt could read it asks for the newest, and for older ones only until one has not changed.
func (r *Run) Lost(changed func(State) string) (lost []Loss) {
	found := map[string]bool{}
	ask := func(s State) {
		form := strings.Join(s.Rungs, "\x00")
		if found[form] {
			return
		}
		why := changed(s)
		if found[form] = why == ""; why != "" &&
			!slices.ContainsFunc(lost, func(l Loss) bool { return l.State.same(s) }) {
			lost = append(lost, Loss{s, why})
		}
	}
	if r.Left != nil {
		ask(*r.Left)
	}
	for i, a := range slices.Backward(r.Attempts) {
		for _, s := range a.Outcome.States() {
			if !r.replaced(&s, i) {
				ask(s)
			}
		}
		if a.Plan.Trial == "" && a.Plan.Resume == nil { // states from before it are no longer where they were
			break
		}
	}
	return lost
}

// same reports whether two states are the same file with the same content.
func (s State) same(t State) bool { return s.Path == t.Path && s.Digest == t.Digest }

// Forget removes states from what the run knows. Its record keeps them.
func (r *Run) Forget(lost []Loss) {
	gone := func(s State) bool {
		return slices.ContainsFunc(lost, func(l Loss) bool { return l.State.same(s) })
	}
	if r.Left != nil && gone(*r.Left) {
		r.Left = nil
	}
	r.Attempts = slices.Clone(r.Attempts)
	for i := range r.Attempts {
		out := &r.Attempts[i].Outcome
		left := slices.DeleteFunc(out.States(), gone)
		if out.Saved, out.Earlier = nil, nil; len(left) > 0 {
			out.Saved, out.Earlier = &left[0], left[1:]
		}
	}
}

// ForgetAll removes every state from before an attempt that starts over. The run must not go on from them: its training
// is another one since.
func (r *Run) ForgetAll() {
	r.Left = nil
	r.Attempts = slices.Clone(r.Attempts)
	for i := range r.Attempts {
		r.Attempts[i].Outcome.Saved, r.Attempts[i].Outcome.Earlier = nil, nil
	}
}

// AllLost is the reason of a stop where no state is left that a run could resume from.
func AllLost(lost []Loss) string {
	return "no saved state is left that this run could resume from: " + strings.Join(Losses(lost), "; ")
}

// Losses describe what was lost, one line for each reason.
func Losses(lost []Loss) (lines []string) {
	var whys []string
	names := map[string][]string{}
	for _, l := range lost {
		if len(names[l.Why]) == 0 {
			whys = append(whys, l.Why)
		}
		if name := filepath.Base(l.State.Path); !slices.Contains(names[l.Why], name) {
			names[l.Why] = append(names[l.Why], name)
		}
	}
	for _, why := range whys {
		lines = append(lines, Few(names[why])+" "+why)
	}
	return lines
}

// Few joins names, and counts those of a long list.
func Few(names []string) string {
	const few = 4
	if n := len(names); n > few+1 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), n-few)
	}
	return strings.Join(names, ", ")
}

// keep plans again if the state that the plan resumes from is no longer what the run wrote.
func (r *Run) keep(p *Plan, k Keeper) (*Plan, *Stop) {
	lost := r.Lost(k.Changed)
	if !slices.ContainsFunc(lost, func(l Loss) bool { return l.State.same(*p.Resume) }) {
		return p, nil
	}
	r.Forget(lost)
	from := r.state()
	if from == nil {
		return nil, &Stop{Why: AllLost(lost), Code: OwnTrouble}
	}
	k.Lost(lost, *from)
	return r.Next()
}
