package record

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

// A tookAt is what the same program took at one micro-batch.
type tookAt struct {
	micro   float64
	took    float64   // 0 if no receipt of it passed
	passed  []Receipt // newest first
	least   float64   // 0 if no receipt of it failed
	refused []Receipt // newest first
}

// line estimates a phase without a formula by what the same program took: at this micro-batch, on the line through
// several others, or in proportion to the only other. Memory is taken to grow with the micro-batch. Where one that is
// no larger failed with more than that, the need is unknown, with a lower bound.
func (l *lessons) line(e mem.Estimate, of ReceiptKey) mem.Estimate {
	micro, counts := number(of.Settings[job.MicroBatch])
	sizes := l.sizes(e, of, counts)
	it, through, below := between(sizes, micro, e)
	y := sum(e, always) + float64(it.Bytes)
	if len(through) == 0 {
		y = 0
	}
	f := largestFailure(sizes, micro)
	out := e
	out.Items, out.Learned = slices.Clone(e.Items), nil
	it.Kind, it.What = mem.Correction, of.Phase
	switch {
	case f.least > y:
		what := "these settings"
		if f.micro != micro {
			what = fmt.Sprintf("micro-batch %g", f.micro)
		}
		out.Unknown = fmt.Sprintf("%s ran out of memory in %s, and need an unknown amount more", what, runNames(f.refused))
		it.Bytes, it.Guess = unit.Bytes(math.Round(f.least-sum(e, always))), false
		it.From, through = "more than the room in "+runNames(f.refused), f.refused
	case y > 0 && it.Guess && f.least > 0: // that it failed is no guess
		out.Unknown = ""
		rest := it
		it.Bytes, it.Guess = unit.Bytes(math.Round(f.least-sum(e, always))), false
		it.From = "more than the room in " + runNames(f.refused)
		rest.Bytes -= it.Bytes
		out.Add(rest)
		through = slices.Concat(through, f.refused)
	case y > 0:
		out.Unknown, out.Below = "", below
	default:
		return e
	}
	learned(&out, through)
	out.Add(it)
	return out
}

// sizes returns what the program took at each micro-batch, the smallest first. counts is false if the micro-batch is
// not known. Of two receipts that contradict each other, the newer one counts.
func (l *lessons) sizes(e mem.Estimate, of ReceiptKey, counts bool) (out []tookAt) {
	all := map[float64][]Receipt{}
	for _, r := range l.program {
		n, ok := number(r.Job.Settings[job.MicroBatch])
		if _, _, found := total(r, e); found && ok == counts && alikeBut(r.Job.Settings, of.Settings) {
			all[n] = append(all[n], r)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(all)) {
		s := tookAt{micro: n}
		s.took, s.passed = passed(all[n], e)
		s.least, s.refused = failed(all[n], e)
		out = append(out, s)
	}
	for i := range out {
		settle(&out[i], &out[i], e)
	}
	for i := range out {
		for k := i + 1; k < len(out); k++ {
			settle(&out[i], &out[k], e)
		}
	}
	return out
}

// settle makes a micro-batch that failed agree with one that passed and is no smaller.
func settle(f, p *tookAt, e mem.Estimate) {
	if f.least == 0 || p.took == 0 || p.took >= f.least {
		return
	}
	_, bound, _ := total(p.passed[0], e)
	switch newer := p.passed[0].Time.After(f.refused[0].Time); {
	case bound == mem.Sampled && grown*p.took >= f.least: // its peak was between two samples
		p.took = f.least
	case newer:
		f.least, f.refused = 0, nil
	default:
		p.took, p.passed = 0, nil
	}
}

// largestFailure returns the size that is no larger and failed with most; the zero size if there is none.
func largestFailure(sizes []tookAt, micro float64) (f tookAt) {
	for _, s := range sizes {
		if s.micro <= micro && s.least > 0 && s.least >= f.least {
			f = s
		}
	}
	return f
}

// between returns the line of an estimate, and the receipts that it comes from; none if no micro-batch passed. below is
// [mem.Estimate.Below].
func between(sizes []tookAt, micro float64, e mem.Estimate) (it mem.Item, through []Receipt, below unit.Bytes) {
	var xs, ys []float64
	sizes = slices.DeleteFunc(slices.Clone(sizes), func(s tookAt) bool { return s.took == 0 })
	for _, s := range sizes {
		xs, ys, through = append(xs, s.micro), append(ys, s.took), append(through, s.passed...)
	}
	above, here := slices.BinarySearch(xs, micro)
	var y float64
	switch {
	case here:
		y, through = ys[above], sizes[above].passed
		it.From = "no formula; measured at these settings in " + runNames(through)
	case len(xs) > 1:
		switch above {
		case 0:
			y = min(onLine(xs, ys, micro), ys[0])
		case len(xs):
			y = max(onLine(xs, ys, micro), slices.Max(ys))
		default:
			xs, ys = xs[above-1:above+1], ys[above-1:above+1]
			y = max(onLine(xs, ys, micro), ys[0])
			through = slices.Concat(sizes[above-1].passed, sizes[above].passed)
		}
		slices.SortFunc(through, newestFirst)
		it.From = fmt.Sprintf("no formula; a straight line through %d micro-batches, measured in %s", len(xs),
			runNames(through))
		it.Guess = micro > 2*slices.Max(xs) || micro < slices.Min(xs)/2
	case len(xs) == 1:
		grows, _ := growth(e, always)
		base := min(sum(e, always)-grows, ys[0])
		y, it.Guess = base+(ys[0]-base)*micro/xs[0], true
		it.From = "no formula; in proportion to the micro-batch of " + runNames(through)
		if micro < xs[0] {
			below = unit.Bytes(ys[0])
		}
	}
	it.Bytes = unit.Bytes(math.Round(min(y, mostBytes) - sum(e, always)))
	return it, through, below
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
	slices.SortFunc(from, newestFirst)
	return least, from
}

func newestFirst(a, b Receipt) int { return b.Time.Compare(a.Time) }

// total is all that a receipt's phase took, if that was measured. If only live tensors were, e gives the rest. A
// phase that failed took at least the largest amount that is known.
func total(r Receipt, e mem.Estimate) (float64, mem.Bound, bool) {
	for _, is := range []string{mem.Data, mem.Used} {
		if m, ok := r.find(is); ok && m.Bound != mem.AtMost {
			all := float64(m.Bytes)
			if live, ok := r.find(mem.Allocated); ok && m.Bound == mem.AtLeast && live.Bound == mem.AtLeast {
				all = max(all, float64(live.Bytes)+sum(e, noTensor))
			}
			return all, m.Bound, true
		}
	}
	if m, ok := r.find(mem.Allocated); ok && m.Bound != mem.AtMost {
		return float64(m.Bytes) + sum(e, noTensor), m.Bound, true
	}
	return 0, "", false
}

// onLine is the value at x of the least-squares line through the points. The line always rises: memory does not fall
// as the micro-batch grows, even if two measurements suggest so.
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
