package arch

import (
	"slices"

	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
)

// Trainings are the estimates of one step at several micro-batches, in their order, for the price of two.
//
// At every moment of a step memory is a line in the micro-batch, so the peak is the largest of many lines, which is
// convex. Where the peak is at the same moment for two micro-batches, that moment's line is the peak between them
// too: what is interpolated is exact. Where it is not, every micro-batch is priced by itself.
func Trainings(cfg StepConfig, batches ...int64) []mem.Estimate {
	at := func(b int64) mem.Estimate {
		c := cfg
		c.Batch = b
		return Training(c)
	}
	out := make([]mem.Estimate, len(batches))
	if len(batches) == 0 {
		return out
	}
	low, high := slices.Min(batches), slices.Max(batches)
	first, last := at(low), at(high)
	same := alike(first, last)
	for i, b := range batches {
		switch {
		case b == low:
			out[i] = first
		case b == high:
			out[i] = last
		case same:
			out[i] = between(first, last, b-low, high-low)
		default:
			out[i] = at(b)
		}
	}
	return out
}

// alike reports whether two estimates have the same lines, which name the moment of the peak, and the same requests.
func alike(a, b mem.Estimate) bool {
	return a.Unknown == b.Unknown &&
		slices.EqualFunc(a.Items, b.Items, func(x, y mem.Item) bool {
			return x.Kind == y.Kind && x.What == y.What && x.From == y.From
		}) &&
		slices.EqualFunc(a.Allocs, b.Allocs, func(x, y mem.Alloc) bool { return x.What == y.What })
}

// between is the estimate part/whole of the way from a to b.
func between(a, b mem.Estimate, part, whole int64) mem.Estimate {
	e := mem.Estimate{Items: slices.Clone(a.Items), Allocs: slices.Clone(a.Allocs), Unknown: a.Unknown}
	line := func(p, q unit.Bytes) unit.Bytes { return p + (q-p)/unit.Bytes(whole)*unit.Bytes(part) }
	for i := range e.Items {
		e.Items[i].Bytes = line(a.Items[i].Bytes, b.Items[i].Bytes)
	}
	for i := range e.Allocs {
		e.Allocs[i].Bytes = line(a.Allocs[i].Bytes, b.Allocs[i].Bytes)
	}
	return e
}
