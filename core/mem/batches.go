package mem

import (
	"slices"

	"github.com/launch-ml/launch/core/unit"
)

// AtBatches returns the estimates of one phase at several micro-batches, in their order, for the price of a few.
//
// At every moment of a phase memory is a line in the micro-batch, so the peak is the largest of many lines, which is
// convex. Where the peak is at the same moment for two micro-batches, that moment's line is the peak between them too:
// what is interpolated is exact. Between others it is looked for in halves.
func AtBatches(price func(micro int64) Estimate, batches ...int64) []Estimate {
	sorted := slices.Compact(slices.Sorted(slices.Values(batches)))
	prices := map[int64]Estimate{}
	at := func(n int64) Estimate {
		if e, ok := prices[n]; ok {
			return e
		}
		prices[n] = price(n)
		return prices[n]
	}
	var fill func(lo, hi int)
	fill = func(lo, hi int) {
		if hi-lo < 2 {
			return
		}
		first, last := at(sorted[lo]), at(sorted[hi])
		if alike(first, last) {
			for _, n := range sorted[lo+1 : hi] {
				prices[n] = between(first, last, n-sorted[lo], sorted[hi]-sorted[lo])
			}
			return
		}
		mid := (lo + hi) / 2
		at(sorted[mid])
		fill(lo, mid)
		fill(mid, hi)
	}
	fill(0, len(sorted)-1)
	out := make([]Estimate, len(batches))
	for i, n := range batches {
		out[i] = at(n)
	}
	return out
}

// alike reports whether two estimates have the same lines, which name the moment of the peak, and the same requests.
func alike(a, b Estimate) bool {
	return a.Unknown == b.Unknown &&
		slices.EqualFunc(a.Items, b.Items, func(x, y Item) bool {
			return x.Kind == y.Kind && x.What == y.What && x.From == y.From
		}) &&
		slices.EqualFunc(a.Allocs, b.Allocs, func(x, y Alloc) bool { return x.What == y.What })
}

// between is the estimate part/whole of the way from a to b.
func between(a, b Estimate, part, whole int64) Estimate {
	e := Estimate{Items: slices.Clone(a.Items), Allocs: slices.Clone(a.Allocs), Unknown: a.Unknown}
	line := func(p, q unit.Bytes) unit.Bytes { return p + (q-p)/unit.Bytes(whole)*unit.Bytes(part) }
	for i := range e.Items {
		e.Items[i].Bytes = line(a.Items[i].Bytes, b.Items[i].Bytes)
	}
	for i := range e.Allocs {
		e.Allocs[i].Bytes = line(a.Allocs[i].Bytes, b.Allocs[i].Bytes)
	}
	return e
}
