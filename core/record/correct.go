package record

import (
	"fmt"
	"slices"

	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
)

// Learn returns the ladders with estimates corrected by the receipts, and whether any was. A phase with a formula stays
// as
// priced if its corrections would break the order of the ladder. The ladders that it is given do not change.
func (s Subject) Learn(set *ladder.Set, receipts []Receipt) (*ladder.Set, bool) {
	if len(receipts) == 0 || s.machine.Kind == "" {
		return set, false
	}
	out, corrected := *set, false
	out.Phases = slices.Clone(set.Phases)
	for n, l := range set.Phases {
		learned := false
		out.Phases[n].Rungs, learned = s.correct(set, l, receipts)
		// without a formula the order of the rungs is no order of needs, so what was measured may not fall down the ladder
		if formula := l.Rungs[l.Asked].At(set.Shared.Asked).Known(); !learned || formula && out.Check() != nil {
			out.Phases[n] = l
			continue
		}
		corrected = true
	}
	if !corrected {
		return set, false
	}
	return &out, true
}

// correct returns the rungs of one phase with corrected estimates, and whether any was corrected.
func (s Subject) correct(set *ladder.Set, l ladder.Ladder, receipts []Receipt) (rungs []ladder.Rung, learned bool) {
	prices := map[string]mem.Estimate{}
	keys := make([][]ReceiptKey, len(l.Rungs))
	for i, r := range l.Rungs {
		for shared, e := range r.Estimates {
			k := s.key(set, l.Phase, shared, i)
			keys[i] = append(keys[i], k)
			prices[fmt.Sprint(k.Settings)] = e // a map is printed in the order of its keys
		}
	}
	lessons := learn(receipts, s.key(set, l.Phase, set.Shared.Asked, l.Asked), s.machine,
		func(k ReceiptKey) (mem.Estimate, bool) {
			e, ok := prices[fmt.Sprint(k.Settings)]
			return e, ok && k.Program == s.program
		})
	rungs = slices.Clone(l.Rungs)
	for i := range rungs {
		r := &rungs[i]
		r.Estimates = slices.Clone(r.Estimates)
		for shared := range r.Estimates {
			r.Estimates[shared] = lessons.apply(r.Estimates[shared], keys[i][shared])
			learned = learned || len(r.Estimates[shared].Learned) > 0
		}
	}
	return rungs, learned
}
