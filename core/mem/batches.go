package mem

import (
	"runtime"
	"slices"
	"sync"

	"github.com/launch-ml/launch/core/unit"
)

// AtBatches returns the estimates of one phase at several micro-batches, in their order, for the price of a few.
//
// Every tensor of a phase is a line in the micro-batch. Where the smallest and the largest are one program, what lies
// between them is replayed with sizes between theirs, exactly. Where they are not, memory is a line at every moment, so
// the peak is the largest of many lines, which is convex: where it is at the same moment for two micro-batches, that
// moment's line is the peak between them too, and between others it is looked for in halves.
func AtBatches(price func(micro int64) Tensors, batches ...int64) []Tensors {
	sorted := slices.Compact(slices.Sorted(slices.Values(batches)))
	prices := map[int64]Tensors{}
	at := func(n int64) Tensors {
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
		line := first.requests == nil && first.alike(last.Estimate)
		for _, n := range sorted[lo+1 : hi] {
			part, whole := n-sorted[lo], sorted[hi]-sorted[lo]
			if e, ok := first.replayed(last, part, whole); ok {
				prices[n] = e
			} else if line {
				prices[n] = Tensors{Estimate: first.between(last.Estimate, part, whole)}
			}
		}
		if _, done := prices[sorted[lo+1]]; done {
			return
		}
		mid := (lo + hi) / 2
		if sorted[lo] == 1 { // a dimension of one has no stride of its own, and so its program is often not the others'
			mid = lo + 1
			first.done() // nothing lies between the two
		}
		at(sorted[mid])
		fill(lo, mid)
		fill(mid, hi)
	}
	fill(0, len(sorted)-1)
	out := make([]Tensors, len(batches))
	for i, n := range batches {
		out[i] = at(n)
	}
	for i := range out {
		out[i].done()
		out[i].Items = slices.Clone(out[i].Items) // the same size twice is two estimates, each to be changed
	}
	return out
}

// Together runs tasks, as many at a time as there are processors, and waits for all of them. Pricing all at once would take
// no less time, and the memory of all. A task's panic is the caller's, once all others have run.
func Together(tasks []func()) {
	var wg sync.WaitGroup
	next, failed := make(chan func()), make(chan any, len(tasks))
	for range min(len(tasks), runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for task := range next {
				func() {
					defer func() {
						if r := recover(); r != nil {
							failed <- r
						}
					}()
					task()
				}()
			}
		})
	}
	for _, task := range tasks {
		next <- task
	}
	close(next)
	wg.Wait()
	select {
	case r := <-failed:
		panic(r)
	default:
	}
}

// Alike groups 0..n-1 by key, in order; each group is priced once.
func Alike[K comparable](n int, key func(i int) K) (groups [][]int) {
	at := map[K]int{}
	for i := range n {
		k := key(i)
		g, ok := at[k]
		if !ok {
			g, groups = len(groups), append(groups, nil)
			at[k] = g
		}
		groups[g] = append(groups[g], i)
	}
	return groups
}

// done says that what lies between the estimate's peak and another has been asked.
func (e Tensors) done() {
	if r := e.requests; r != nil {
		r.peak.Done()
	}
}

// alike reports whether two estimates have the same lines, which name the moment of the peak, and the same requests.
func (e Estimate) alike(o Estimate) bool {
	return sameLines(e, o, len(e.Items), len(e.Items), 0) &&
		slices.EqualFunc(e.Allocs, o.Allocs, func(x, y Alloc) bool { return x.What == y.What })
}

// sameLines reports whether all lines are the same but for their sizes, those from first to last left out. a has more of
// them than b by more.
func sameLines(a, b Estimate, first, last, more int) bool {
	same := func(x, y []Item) bool {
		return slices.EqualFunc(x, y, func(x, y Item) bool { return x.Kind == y.Kind && x.What == y.What && x.From == y.From })
	}
	return a.Unknown == b.Unknown && len(a.Items)-len(b.Items) == more && same(a.Items[:first], b.Items[:first]) && same(a.Items[last:], b.Items[last-more:])
}

// line is the size part/whole of the way from p to q.
func line(p, q unit.Bytes, part, whole int64) unit.Bytes {
	return p + (q-p)*unit.Bytes(part)/unit.Bytes(whole)
}

// between is the estimate part/whole of the way from e to o.
func (e Estimate) between(o Estimate, part, whole int64) Estimate {
	out := Estimate{Items: slices.Clone(e.Items), Allocs: slices.Clone(e.Allocs), Unknown: e.Unknown}
	for i := range out.Items {
		out.Items[i].Bytes = line(e.Items[i].Bytes, o.Items[i].Bytes, part, whole)
	}
	for i := range out.Allocs {
		out.Allocs[i].Bytes = line(e.Allocs[i].Bytes, o.Allocs[i].Bytes, part, whole)
	}
	return out
}

// Resized is the estimate where what one line of Python makes has part/whole of its size, as [nn.Peak.Resized] has it; its
// other lines stay as they are. ok is false where there is no such line in its requests.
func (e Tensors) Resized(python string, part, whole int64) (out Tensors, ok bool) {
	r := e.requests
	if r == nil {
		return Tensors{}, false
	}
	peak, ok := r.peak.Resized(python, part, whole)
	if !ok {
		return Tensors{}, false
	}
	out.Items, out.Unknown = slices.Clone(e.Items[:r.first]), e.Unknown
	out.addPeak(peak, r.inputs, r.keeper)
	out.Items = append(out.Items, e.Items[r.last:]...)
	return out, true
}

// replayed is the same with the peak replayed. ok is false where e and o are not of one program.
func (e Tensors) replayed(o Tensors, part, whole int64) (out Tensors, ok bool) {
	a, b := e.requests, o.requests
	if a == nil || b == nil || a.first != b.first || a.last-b.last != len(e.Items)-len(o.Items) || !sameLines(e.Estimate, o.Estimate, a.first, a.last, a.last-b.last) {
		return Tensors{}, false
	}
	peak, ok := a.peak.Between(b.peak, part, whole)
	if !ok {
		return Tensors{}, false
	}
	out.Unknown = e.Unknown
	keep := func(from, to, behind int) {
		for i := from; i < to; i++ {
			it := e.Items[i]
			it.Bytes = line(it.Bytes, o.Items[i-behind].Bytes, part, whole)
			out.Items = append(out.Items, it)
		}
	}
	keep(0, a.first, 0)
	out.addPeak(peak, a.inputs, a.keeper)
	keep(a.last, len(e.Items), a.last-b.last)
	return out, true
}
