package receipt

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
)

// line estimates a phase without a formula by what the same program took: at this micro-batch, on the line through several
// others, or in proportion to the only other.
func (l *lessons) line(e mem.Estimate, of Key) mem.Estimate {
	micro, counts := number(of.Settings[job.MicroBatch])
	sizes := map[float64][]Receipt{}
	for _, r := range l.program {
		n, ok := number(r.Job.Settings[job.MicroBatch])
		if _, _, found := total(r, e); found && ok == counts && alikeBut(r.Job.Settings, of.Settings) {
			sizes[n] = append(sizes[n], r)
		}
	}
	var xs, ys []float64
	var through []Receipt
	for _, n := range slices.Sorted(maps.Keys(sizes)) {
		if y, from := passed(sizes[n], e); y > 0 {
			xs, ys, through = append(xs, n), append(ys, y), append(through, from...)
		}
	}
	slices.SortFunc(through, newestFirst)
	it := mem.Item{Kind: mem.Correction, What: of.Phase}
	var y float64
	here := slices.Index(xs, micro)
	least, refused := failed(sizes[micro], e)
	switch {
	case here >= 0:
		y, through = passed(sizes[micro], e)
		it.From = "no formula; measured at these settings in " + names(through)
	case len(xs) > 1:
		y = onLine(xs, ys, micro)
		it.From = fmt.Sprintf("no formula; a straight line through %d micro-batches, measured in %s", len(xs),
			names(through))
		it.Guess = micro > 2*slices.Max(xs) || micro < slices.Min(xs)/2
	case len(xs) == 1:
		grows, _ := growth(e, always)
		base := min(sum(e, always)-grows, ys[0])
		y, it.Guess = base+(ys[0]-base)*micro/xs[0], true
		it.From = "no formula; in proportion to the micro-batch of " + names(through)
	}
	if len(xs) == 0 && least > 0 {
		out := e
		out.Items, out.Learned = slices.Clone(e.Items), nil
		out.Unknown = fmt.Sprintf("these settings ran out of memory in %s, and need an unknown amount more",
			names(refused))
		it.Bytes, it.From = unit.Bytes(math.Round(least-sum(e, always))), "more than the room in "+names(refused)
		learned(&out, refused)
		out.Add(it)
		return out
	}
	if here < 0 && least > y {
		y, through, it.Guess = least, refused, false
		it.From = "no formula; these settings ran out of memory in " + names(refused)
	}
	if y == 0 {
		return e
	}
	out := e
	out.Items, out.Learned, out.Unknown = slices.Clone(e.Items), nil, ""
	it.Bytes = unit.Bytes(math.Round(y - sum(e, always)))
	learned(&out, through)
	out.Add(it)
	return out
}

// passed is the median of the newest receipts that did not fail, and these receipts; 0 if all failed.
func passed(rs []Receipt, e mem.Estimate) (float64, []Receipt) {
	var ys []float64
	var from []Receipt
	slices.SortFunc(rs, newestFirst)
	for _, r := range rs {
		if y, bound, _ := total(r, e); bound != mem.AtLeast && len(ys) < perSize {
			ys, from = append(ys, y), append(from, r)
		}
	}
	if len(ys) == 0 {
		return 0, nil
	}
	slices.Sort(ys)
	return ys[len(ys)/2], from
}

// failed is the largest amount at which receipts failed, and the receipts that failed.
func failed(rs []Receipt, e mem.Estimate) (least float64, from []Receipt) {
	for _, r := range rs {
		if y, bound, _ := total(r, e); bound == mem.AtLeast {
			least, from = max(least, y), append(from, r)
		}
	}
	return least, from
}

func newestFirst(a, b Receipt) int { return b.Time.Compare(a.Time) }

// total is all that a receipt's phase took, if that was measured. If only live tensors were, e gives the rest.
func total(r Receipt, e mem.Estimate) (float64, mem.Bound, bool) {
	for _, is := range []string{mem.Data, mem.Used} {
		if m, ok := r.find(is); ok && m.Bound != mem.AtMost {
			return float64(m.Bytes), m.Bound, true
		}
	}
	if m, ok := r.find(mem.Allocated); ok && m.Bound != mem.AtMost {
		return float64(m.Bytes) + sum(e, beyond), m.Bound, true
	}
	return 0, "", false
}

// onLine is the value at x of the least-squares line through the points. The line always rises: memory does not fall as the
// micro-batch grows, even if two measurements suggest so.
func onLine(xs, ys []float64, x float64) float64 {
	var mx, my, n float64
	for i := range xs {
		mx, my, n = mx+xs[i], my+ys[i], n+1
	}
	mx, my = mx/n, my/n
	var cov, spread float64
	for i := range xs {
		cov += (xs[i] - mx) * (ys[i] - my)
		spread += square(xs[i] - mx)
	}
	slope := max(1, cov/spread)
	return max(1+x, my+slope*(x-mx))
}

// alikeBut reports whether settings differ at most in micro-batch and accumulation.
func alikeBut(a, b map[string]string) bool {
	count := func(m map[string]string) (n int) {
		for k := range m {
			if k != job.MicroBatch && k != job.Accumulation {
				n++
			}
		}
		return n
	}
	for k, v := range a {
		if w, ok := b[k]; k != job.MicroBatch && k != job.Accumulation && (!ok || w != v) {
			return false
		}
	}
	return count(a) == count(b)
}

func number(s string) (float64, bool) {
	n, err := strconv.ParseFloat(s, 64)
	return n, err == nil && n > 0
}

// square is x².
func square(x float64) float64 { return x * x }
