package receipt

import (
	"fmt"
	"slices"

	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
)

// Learn returns the ladders as the receipts correct them, and whether they do. A phase of which that would break the
// ladder's order stays as it was priced.
func (b Subject) Learn(set *ladder.Set, receipts []Receipt) (*ladder.Set, bool) {
	if len(receipts) == 0 || b.machine.Kind == "" {
		return set, false
	}
	out, corrected := *set, false
	out.Phases = slices.Clone(set.Phases)
	for n, l := range set.Phases {
		type priced struct {
			key Key
			e   mem.Estimate
		}
		rungs := map[string]priced{}
		keys := make([][]Key, len(l.Rungs))
		for i, r := range l.Rungs {
			for s, e := range r.Estimates {
				k := b.key(set, l.Phase, s, i)
				keys[i] = append(keys[i], k)
				rungs[fmt.Sprint(k.Settings)] = priced{k, e} // a map prints in order
			}
		}
		lessons := learn(receipts, b.key(set, l.Phase, set.Shared.Asked, l.Asked), b.machine, func(k Key) (mem.Estimate, bool) {
			p, ok := rungs[fmt.Sprint(k.Settings)]
			return p.e, ok && p.key.Program == k.Program
		})
		out.Phases[n].Rungs = slices.Clone(l.Rungs)
		learned := false
		for i := range l.Rungs {
			r := &out.Phases[n].Rungs[i]
			r.Estimates = slices.Clone(r.Estimates)
			for s := range r.Estimates {
				r.Estimates[s] = lessons.apply(r.Estimates[s], keys[i][s])
				learned = learned || len(r.Estimates[s].Learned) > 0
			}
		}
		if !learned || out.Check() != nil {
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
