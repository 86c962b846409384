package run

import (
	"slices"

	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/unit"
)

// An Absent is a rung that would fit if a package were installed.
type Absent struct {
	Package string      `json:"package"` // as pip installs it
	Name    string      `json:"rung"`
	Cost    ladder.Cost `json:"cost"`
	// Needs is the estimate of the largest phase.
	Needs unit.Bytes `json:"needs"`
}

// absent returns the mildest rung of a package that is not installed with which every phase would fit; nil if there is
// none, or if receipts have corrected the ladders, which they have not those with the package.
func (r *Run) absent() *Absent {
	a := r.Ladders.Absent
	if a == nil || r.Priced != nil {
		return nil
	}
	there := *r
	there.Ladders = a.Set
	for c := r.Limits.Allow; c <= ladder.Model; c++ {
		there.Limits.Allow = c
		p := there.choose(nil)
		if p == nil || p.Verdict() != ladder.Fits {
			continue
		}
		same := func(have ladder.Rung) bool { return have.Name == p.Shared.Name }
		if slices.ContainsFunc(r.Ladders.Shared.Rungs, same) {
			continue // it needs no package, but another --allow
		}
		out := &Absent{Package: a.Package, Name: p.onDevice(), Cost: p.Cost}
		for _, choice := range p.Choices {
			out.Needs = max(out.Needs, choice.Estimate.Total())
		}
		return out
	}
	return nil
}
