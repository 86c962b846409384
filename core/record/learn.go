package record

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
)

// How receipts correct an estimate:
//
//   - Receipts of the same phase of the same architecture give a curve. It is drawn over the sum of the priced lines, and its
//     value is what was measured beyond these lines. It passes through every measured size and is straight between two. Beyond
//     them its slope follows the priors, which divide the difference into a constant part and a part that grows.
//   - Receipts of other jobs give the constant only. On a card that is the context, for the same card and driver. On a CPU it
//     is Python and torch, for the same project, interpreter and torch.
//   - Without a formula, the estimate is a line in the micro-batch through what the same program took at others.
//
// The total never falls as the priced lines rise, so a ladder keeps its order. At a measured size it is the measurement, so the
// second run is planned as the first one was measured. A single wrong receipt has little effect: the median of a size
// counts, the slope is bounded, a constant keeps at least a quarter of itself, and a sampled peak never lowers an estimate
// below its counted lines.

// How far priors are trusted. A guessed constant may be off by half of itself. Counted lines that grow were off by 4.9 % at
// most against recorded steps (docs/accuracy.md); guessed ones may be off by all of themselves.
const (
	constantPrior = 0.5
	growthPrior   = 0.05
	noise         = 0.005 // of a repeated measurement
	leastConstant = 0.25  // share of itself that a constant keeps
	nearby        = 0.25  // a size within a quarter of a measured one is not extrapolated
	perSize       = 5     // newest receipts of one size that count
)

// lessons are the corrections that receipts give for one phase of a job on a machine.
type lessons struct {
	whole, tensors, rest *curve    // of the total, of live tensors on a card, and of what is beyond these
	constant             *offset   // from other jobs, for a phase without a curve of it
	context              *offset   // from out-of-memory messages, which report it separately
	program              []Receipt // of the same program, for a phase without a formula
}

// learn derives the lessons for a phase of a job on a machine. priced returns the present price of the phase at settings that
// are among its rungs. A measurement counts against the present price. If that differs from the prediction of any receipt, the
// formula has changed since, and receipts that cannot be priced again do not count.
func learn(receipts []Receipt, of ReceiptKey, on Machine, priced func(ReceiptKey) (mem.Estimate, bool)) *lessons {
	l := &lessons{}
	var own, unpriced, others []Receipt
	changed := false
	for _, r := range believed(receipts, of) {
		if r.Machine.near(on) == foreign || on.Kind == "cpu" && r.Job.otherPython(of) { // on a CPU imports are measured too
			continue
		}
		if !r.Job.arch(of) {
			if on.Kind != "cpu" || r.Job.imports(of) {
				others = append(others, r)
			}
			continue
		}
		if r.Job.Program == of.Program && r.Machine.near(on) == sameAll {
			l.program = append(l.program, r)
		}
		e, ok := priced(r.Job)
		switch {
		case ok && e.Known():
			changed = changed || r.Predicted.Known() && sum(e, counted) != sum(r.Predicted, counted)
			r.Predicted = e
			own = append(own, r)
		case !ok && r.Predicted.Known():
			unpriced = append(unpriced, r)
		}
	}
	if !changed {
		own = append(own, unpriced...)
	}
	is := func(quantity string) measured {
		return func(r Receipt) (mem.Measurement, bool) { return r.find(quantity) }
	}
	if on.Kind == "cpu" {
		l.whole = newCurve(own, on, sameAll, 0.9, is(mem.Data), always)
		l.constant = newOffset(others, on, is(mem.Data), always)
		return l
	}
	l.whole = newCurve(own, on, sameCard, 0.9, needed, always)
	l.tensors = newCurve(own, on, otherCard, 0.8, liveTensors, tensor)
	l.rest = newCurve(own, on, sameCard, 0.1, beyondTensors, noTensor)
	l.constant = newOffset(others, on, beyondTensors, noTensor)
	l.context = newOffset(receipts, on, beyondReserved, func(it mem.Item) bool { return it.Kind == mem.Context })
	return l
}

// grown is the ratio to the median of its size from which the newest measurement counts instead.
const grown = 1.1

// strange is the largest factor by which an imported receipt may differ from its price and still count.
const strange = 8

// believed returns the receipts that count. An imported one counts only if this machine has no receipt of the phase itself
// (for a constant: of any other job) and if it is not far from its price. Its exact peaks count as sampled, so that it never lowers an
// estimate below the counted lines.
func believed(receipts []Receipt, of ReceiptKey) (out []Receipt) {
	var ownPhase, ownOther bool
	for _, r := range receipts {
		ownPhase = ownPhase || !r.Imported && r.Job.arch(of)
		ownOther = ownOther || !r.Imported && !r.Job.arch(of)
	}
	for _, r := range receipts {
		if !r.Imported {
			out = append(out, r)
			continue
		}
		if same := r.Job.arch(of); same && ownPhase || !same && ownOther || !r.Predicted.Known() {
			continue
		}
		price := r.Predicted.Total()
		r.Measured = slices.Clone(r.Measured)
		plausible := true
		for i, m := range r.Measured {
			plausible = plausible && m.Bytes < strange*price+unit.GiB && m.Bytes > price/strange
			if m.Bound == mem.Exact {
				r.Measured[i].Bound = mem.Sampled
			}
		}
		if plausible {
			out = append(out, r)
		}
	}
	return out
}

// A measured function finds the measurement for a curve in a receipt.
type measured func(Receipt) (mem.Measurement, bool)

// always, tensor and noTensor select the lines that a measurement covers; counted selects those that follow from
// shapes.
func always(mem.Item) bool { return true }
func tensor(it mem.Item) bool {
	return it.Kind != mem.Context && it.Kind != mem.Slack && it.Kind != mem.Runtime && it.Kind != mem.Others
}
func noTensor(it mem.Item) bool { return !tensor(it) }
func counted(it mem.Item) bool  { return tensor(it) && !it.Guess }

// full is the share of a card above which the allocator returns what it has cached.
const full = 0.9

// needed is the driver's figure for a phase without what the allocator only cached, by the prediction. On a card that was
// nearly full the allocator had returned an unknown part of that, so the figure is an upper bound.
func needed(r Receipt) (mem.Measurement, bool) {
	m, ok := r.find(mem.Used)
	cached := onlyCached(r.Predicted)
	if ok && cached > 0 && m.Bound != mem.AtLeast { // a failed allocator has emptied its cache
		if float64(m.Bytes) > full*float64(r.Machine.Total) {
			m.Bound = mem.AtMost
		}
		m.Bytes = max(0, m.Bytes-cached)
	}
	return m, ok
}

// onlyCached is what the allocator reserves beyond the need of the phase.
func onlyCached(e mem.Estimate) unit.Bytes {
	need := unit.Bytes(0)
	for _, it := range e.Items {
		if it.Kind == mem.Slack || it.Kind.Counted() {
			need += it.Bytes
		}
	}
	if e.Reserved <= need {
		return 0
	}
	return e.Reserved - need
}

// liveTensors is the peak of live tensors. One that holds cuDNN's trials is no need: what the allocator held beside it
// bounds the need, and corrects an estimate that is above that, as a sample does.
func liveTensors(r Receipt) (mem.Measurement, bool) {
	m, ok := r.find(mem.Allocated)
	if pool, also := r.find(mem.Reserved); ok && m.With != "" && also && pool.With == "" {
		m.Bytes = min(m.Bytes, pool.Bytes)
		if r.Predicted.Known() && float64(m.Bytes) < sum(r.Predicted, tensor) {
			m.Bound = mem.Sampled
		}
	}
	return m, ok
}

// beyondTensors is what a job holds on a card besides its live tensors.
func beyondTensors(r Receipt) (mem.Measurement, bool) {
	used, ok := needed(r)
	live, also := r.find(mem.Allocated)
	if !ok || !also || used.Bound == mem.AtLeast || used.Bound == mem.AtMost || live.Bound == mem.AtLeast || live.Bound == mem.AtMost || used.Bytes <= live.Bytes {
		return mem.Measurement{}, false
	}
	return mem.Measurement{Is: "beyond tensors", Bytes: used.Bytes - live.Bytes, Bound: used.Bound, From: used.From}, true
}

// beyondReserved is what a process holds on a card besides the memory that its allocator has reserved: the context. An
// out-of-memory message has both figures from the same moment.
func beyondReserved(r Receipt) (mem.Measurement, bool) {
	used, ok := r.find(mem.Used)
	reserved, also := r.find(mem.Reserved)
	if !ok || !also || used.Bound != reserved.Bound || used.Bound == mem.AtMost || used.Bytes <= reserved.Bytes {
		return mem.Measurement{}, false
	}
	return mem.Measurement{Is: "context", Bytes: used.Bytes - reserved.Bytes, From: used.From}, true
}

// constants is the sum of the guessed lines that do not depend on the size.
func constants(e mem.Estimate, in func(mem.Item) bool) (sum float64) {
	for _, it := range e.Items {
		if in(it) && it.Guess && (it.Kind == mem.Context || it.Kind == mem.Runtime) {
			sum += float64(it.Bytes)
		}
	}
	return sum
}

// growth is the sum of the lines that grow with the size, and how far they may be off.
func growth(e mem.Estimate, in func(mem.Item) bool) (grows, off float64) {
	for _, it := range e.Items {
		switch {
		case !in(it) || !it.Kind.Grows():
		case it.Guess:
			grows, off = grows+float64(it.Bytes), off+float64(it.Bytes)
		default:
			grows, off = grows+float64(it.Bytes), off+growthPrior*float64(it.Bytes)
		}
	}
	return grows, off
}

func sum(e mem.Estimate, in func(mem.Item) bool) (sum float64) {
	for _, it := range e.Items {
		if in(it) {
			sum += float64(it.Bytes)
		}
	}
	return sum
}

// apply returns the corrected estimate of the phase: its lines, some replaced by a measurement, and a correction. e is the
// price for of.
func (l *lessons) apply(e mem.Estimate, of ReceiptKey) mem.Estimate {
	if !e.Known() {
		return l.line(e, of)
	}
	out := e
	out.Items, out.Learned = slices.Clone(e.Items), nil
	x := float64(e.Total())
	if l.context != nil {
		replace(&out, mem.Context, l.context.bytes, l.context.from)
	}
	switch {
	case l.tensors != nil:
		correct(&out, l.tensors, x, e, tensor, of.Phase)
		if l.rest != nil {
			replace(&out, mem.Context, l.rest.flat(), l.rest.points[0].from) // unless a message gave it
			r, from := l.rest.at(x)
			add(&out, mem.Slack, "beyond live tensors", r-since(out, e, noTensor), from, x, noTensor)
		} else if l.constant != nil {
			replace(&out, mem.Context, l.constant.bytes, l.constant.from)
		}
	case l.whole != nil:
		correct(&out, l.whole, x, e, always, of.Phase)
	case l.constant != nil:
		replace(&out, mem.Context, l.constant.bytes, l.constant.from)
		replace(&out, mem.Runtime, l.constant.bytes, l.constant.from)
	}
	return out
}

// correct adds what makes the lines that in selects sum up to the curve's value. x is the sum of all priced lines.
func correct(e *mem.Estimate, c *curve, x float64, priced mem.Estimate, in func(mem.Item) bool, phase string) {
	r, from := c.at(x)
	if from[0].floor && !from[0].failed { // a peak between two samples may have been higher
		r = max(r, float64(priced.Certain())-sum(priced, in))
	}
	if in(mem.Item{Kind: mem.Runtime}) {
		replace(e, mem.Context, c.flat(), c.points[0].from)
		replace(e, mem.Runtime, c.flat(), c.points[0].from)
	}
	add(e, mem.Correction, phase, r-since(*e, priced, in), from, x, in)
}

// since is the change of the lines that in selects, including corrections.
func since(e, priced mem.Estimate, in func(mem.Item) bool) float64 {
	return sum(e, in) - sum(priced, in)
}

// replace changes a guessed constant by an offset and enters its source.
func replace(e *mem.Estimate, k mem.Kind, by float64, from []Receipt) {
	for i := range e.Items {
		it := &e.Items[i]
		if it.Kind != k || !it.Guess {
			continue
		}
		it.Bytes += unit.Bytes(math.Round(max(by, (leastConstant-1)*float64(it.Bytes))))
		it.Guess, it.From = false, "learned from "+runNames(from)
		learned(e, from)
		return
	}
}

// add appends a correction with its source. The correction is a guess if no size nearby was measured. Otherwise the sum of the
// lines that in selects is measured, and none of these lines is a guess any more.
func add(e *mem.Estimate, k mem.Kind, what string, bytes float64, from []point, x float64, in func(mem.Item) bool) {
	it := mem.Item{Kind: k, What: what, Bytes: unit.Bytes(math.Round(bytes))}
	if k != mem.Correction && bytes < 0 {
		it.Kind = mem.Correction
	}
	var rs []Receipt
	for _, p := range from {
		rs = append(rs, p.from...)
	}
	learned(e, rs)
	switch near := from[0]; {
	case near.failed && near.x == x:
		it.From = "these settings ran out of memory in " + runNames(rs)
	case near.x == x:
		it.From = "measured at this size in " + runNames(rs)
	case len(from) > 1:
		it.From = "between what was measured in " + runNames(rs)
	default:
		it.From = fmt.Sprintf("from a size %.2g times this one, which was measured in %s", near.x/max(1, x), runNames(rs))
		it.Guess = math.Abs(near.x-x) > nearby*x
	}
	for i := range e.Items {
		if !it.Guess && in(e.Items[i]) {
			e.Items[i].Guess = false
		}
	}
	e.Add(it)
}

// learned adds the names of receipts to the estimate, each once.
func learned(e *mem.Estimate, rs []Receipt) {
	for _, r := range rs {
		if id := r.id(); !slices.Contains(e.Learned, id) {
			e.Learned = append(e.Learned, id)
		}
	}
}

// runNames lists the runs of receipts in one line.
func runNames(rs []Receipt) string {
	var runs []string
	for _, r := range rs {
		name := fmt.Sprintf("run %s of %s", r.Run, r.Time.Format("2006-01-02"))
		if !slices.Contains(runs, name) {
			runs = append(runs, name)
		}
	}
	if n := len(runs); n > 2 {
		return fmt.Sprintf("%s, %s and %d more", runs[0], runs[1], n-2)
	}
	return strings.Join(runs, " and ")
}
