// Package ladder holds the ways to run a job, priced: rungs above the job as asked use more of the card, rungs below
// use less.
//
// Fitting a job before it starts, filling the card and going on after an out-of-memory are one motion on one ladder.
// A ladder is data: a plugin makes it, launch prints, checks and climbs it.
package ladder

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/mem"
)

// The ladders that have a meaning of their own; any other phase is named by its plugin.
const (
	Shared     = "shared" // knobs that touch several phases
	Training   = "training"
	Validation = "validation"
)

// A Rung is one way to run a phase: a whole alternative, a set of edits from the job as asked, not cumulative.
type Rung struct {
	Name  string        `json:"name"` // "micro-batch 8 × accumulation 2"
	Edits []config.Edit `json:"edits,omitempty"`
	Cost  Cost          `json:"cost"`
	// Why is the reason of a cost that its name does not show: what the change does beside saving memory, and where the
	// program's source has it.
	Why string `json:"why,omitempty"`
	// Slowdown is the expected time relative to the job as asked; 1 where nobody knows.
	Slowdown float64 `json:"slowdown,omitempty"`
	// Values are the knobs that the rung sets, as whole numbers, for the invariants to be checked on.
	Values map[string]int64 `json:"values,omitempty"`
	// NewState: a state that was saved without this rung cannot be read with it, nor the other way round: an attempt
	// that changes it starts over.
	NewState bool `json:"new_state,omitempty"`
	// Estimates prices the phase at this rung, once for each rung of the shared ladder. Empty on the shared ladder.
	Estimates []mem.Estimate `json:"estimates,omitempty"`
}

// A Ladder is the rungs of one phase from the one that needs most to the one that needs least. Rungs[Asked] is the job
// as asked.
type Ladder struct {
	Phase string `json:"phase"`
	Asked int    `json:"asked"`
	Rungs []Rung `json:"rungs"`
}

// A Set is all ladders of a job. A knob belongs to exactly one of them.
type Set struct {
	Shared     Ladder           `json:"shared"`
	Phases     []Ladder         `json:"phases"`
	Values     map[string]int64 `json:"values,omitempty"` // the knobs as asked, for the invariants
	Invariants []Invariant      `json:"invariants,omitempty"`
	// Host is the ladder of the host's memory; nil where the plugin knows nothing of it.
	Host *HostLadder `json:"host,omitempty"`
	// Absent is what the ladders would be with a package that is not installed; nil for nothing.
	Absent *Absent `json:"absent,omitempty"`
}

// Absent are the ladders that a job would have with one package more. No rung of them is taken: where a run is refused,
// launch names the first with which it would fit.
type Absent struct {
	Package string `json:"package"` // as pip installs it: "bitsandbytes"
	Set     *Set   `json:"set"`
}

// check reports the first way in which a is not what the ladders would be.
func (a *Absent) check() error {
	switch {
	case a == nil:
		return nil
	case !packageName(a.Package):
		return fmt.Errorf("%.100q is no name of a package", a.Package)
	case a.Set == nil || a.Set.Absent != nil:
		return fmt.Errorf("the ladders with %s are none, or have others in them", a.Package)
	}
	if err := a.Set.Check(); err != nil {
		return fmt.Errorf("with %s: %w", a.Package, err)
	}
	return nil
}

// packageName reports whether a name is one of a distribution: letters, digits, and what may stand between them.
func packageName(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return s != "" && len(s) <= 100 && strings.Trim(s, letters+"._-") == "" && strings.Contains(letters, s[:1])
}

// An Invariant is what every plan must keep: the product of the Factors equals Equals, or divides the value of
// Divides. It holds for plans that cost less than Until, and for every plan where Until is [None].
type Invariant struct {
	Name    string   `json:"name"` // "global batch"
	Factors []string `json:"factors"`
	Equals  int64    `json:"equals,omitempty"`
	Divides string   `json:"divides,omitempty"`
	Until   Cost     `json:"until"`
}

// Binds reports whether the invariant is to hold for a plan of that cost.
func (in Invariant) Binds(c Cost) bool { return in.Until == None || c < in.Until }

// Holds reports whether the invariant holds for values; knobs that values lack make it hold.
func (in Invariant) Holds(values map[string]int64) bool {
	product := int64(1)
	for _, f := range in.Factors {
		v, ok := values[f]
		if !ok {
			return true
		}
		product *= v
	}
	if in.Divides != "" {
		whole, ok := values[in.Divides]
		return !ok || product > 0 && whole%product == 0
	}
	return product == in.Equals
}

// Descend puts the rungs below the job as asked in their order, by cost, then by expected slowdown, and drops a rung
// that needs no less than one before it. Rungs without an estimate are kept where they are within their cost.
// shared is the index of the shared rung that is asked for.
func Descend(asked Rung, below []Rung, shared int) []Rung {
	below = slices.Clone(below)
	slices.SortStableFunc(below, func(a, b Rung) int {
		return cmp.Or(cmp.Compare(a.Cost, b.Cost), cmp.Compare(a.Slowdown, b.Slowdown))
	})
	rungs := []Rung{asked}
	least := asked
	for _, r := range below {
		here, there := r.price(shared), least.price(shared)
		if here.Known() && there.Known() && here.Total() >= there.Total() {
			continue
		}
		rungs = append(rungs, r)
		if here.Known() {
			least = r
		}
	}
	return rungs
}

func (r Rung) price(shared int) mem.Estimate {
	if shared < len(r.Estimates) {
		return r.Estimates[shared]
	}
	return mem.Estimate{Unknown: "not priced"}
}

// At returns the rung's estimate under the given rung of the shared ladder.
func (r Rung) At(shared int) mem.Estimate { return r.price(shared) }

// Ladder returns the ladder of a phase, or nil.
func (s *Set) Ladder(phase string) *Ladder {
	if phase == Shared {
		return &s.Shared
	}
	for i := range s.Phases {
		if s.Phases[i].Phase == phase {
			return &s.Phases[i]
		}
	}
	return nil
}

// Check reports the first way in which s is not a set of ladders: plugins are other people's programs.
func (s *Set) Check() error {
	if err := s.bounds(); err != nil {
		return err
	}
	if len(s.Shared.Rungs) == 0 {
		return fmt.Errorf("the shared ladder has no rung: it needs at least the job as asked")
	}
	owner := map[string]string{}
	for _, l := range append([]Ladder{s.Shared}, s.Phases...) {
		if err := l.check(len(s.Shared.Rungs), s.Shared.Asked); err != nil {
			return fmt.Errorf("%s ladder: %w", l.Phase, err)
		}
		for _, r := range l.Rungs {
			for _, e := range r.Edits {
				if other, taken := owner[e.Knob]; taken && other != l.Phase {
					return fmt.Errorf("knob %q is on the %s ladder and on the %s ladder", e.Knob, other, l.Phase)
				}
				owner[e.Knob] = l.Phase
			}
			values := overlay(s.Values, r.Values)
			for _, in := range s.Invariants {
				if in.Binds(r.Cost) && !in.Holds(values) {
					return fmt.Errorf("%s ladder: rung %q breaks the invariant %q", l.Phase, r.Name, in.Name)
				}
			}
		}
	}
	if len(s.Phases) == 0 {
		return fmt.Errorf("no phase has a ladder")
	}
	if s.Host != nil {
		if err := s.Host.check(s); err != nil {
			return fmt.Errorf("%s ladder: %w", Host, err)
		}
	}
	return s.Absent.check()
}

func (l Ladder) check(shared, sharedAsked int) error {
	if l.Asked < 0 || l.Asked >= len(l.Rungs) {
		return fmt.Errorf("rung %d is said to be the job as asked, of %d rungs", l.Asked, len(l.Rungs))
	}
	if asked := l.Rungs[l.Asked]; len(asked.Edits) > 0 || asked.Cost != None {
		return fmt.Errorf("rung %q is said to be the job as asked and edits it", asked.Name)
	}
	for i, r := range l.Rungs {
		if r.Cost < None || r.Cost > Model {
			return fmt.Errorf("rung %q has no cost that exists", r.Name)
		}
		if l.Phase != Shared && len(r.Estimates) != shared {
			return fmt.Errorf("rung %q has %d estimates for %d shared rungs", r.Name, len(r.Estimates), shared)
		}
		for _, e := range r.Edits { // whose cost is what a person reads, and the rung's what --allow goes by
			if e.Cost == "" {
				continue
			}
			if c, err := ParseCost(e.Cost); err != nil || c > r.Cost {
				return fmt.Errorf("rung %q costs %s, and its edit of %q says %q", r.Name, r.Cost, e.Knob, e.Cost)
			}
		}
		for _, e := range r.Estimates {
			for _, it := range e.Items {
				if err := it.Check(); err != nil {
					return fmt.Errorf("rung %q: %w", r.Name, err)
				}
			}
		}
		if i <= l.Asked {
			continue
		}
		above := l.Rungs[i-1]
		if r.Cost < above.Cost {
			return fmt.Errorf("rung %q costs less than %q above it", r.Name, above.Name)
		}
		if l.Phase == Shared {
			continue
		}
		here, there := r.price(sharedAsked), above.price(sharedAsked)
		if here.Known() && there.Known() && here.Total() >= there.Total() {
			return fmt.Errorf("rung %q needs %v, no less than %q above it", r.Name, here.Total(), above.Name)
		}
	}
	return nil
}

func overlay(base map[string]int64, over ...map[string]int64) map[string]int64 {
	out := map[string]int64{}
	for _, m := range append([]map[string]int64{base}, over...) {
		maps.Copy(out, m)
	}
	return out
}

// Broken returns the invariants that a plan of that cost would break with these values.
func (s *Set) Broken(values map[string]int64, c Cost) (names []string) {
	for _, in := range s.Invariants {
		if in.Binds(c) && !in.Holds(values) {
			names = append(names, in.Name)
		}
	}
	return names
}

// ValuesAt returns the knobs' values when every phase stands on the given rung and the shared ladder on shared.
func (s *Set) ValuesAt(shared int, rungs map[string]int) map[string]int64 {
	out := overlay(s.Values, s.Shared.Rungs[shared].Values)
	for _, l := range s.Phases {
		if i, ok := rungs[l.Phase]; ok {
			out = overlay(out, l.Rungs[i].Values)
		}
	}
	return out
}
