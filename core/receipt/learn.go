package receipt

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
)

// What receipts teach, in three sentences. Of the same phase of the same architecture, what was measured beyond the
// priced lines is a curve over their sum: through every size that was measured, straight between two, and beyond them on
// a slope that the priors share out between what is constant and what grows. Of other jobs on the same card and driver, or on a CPU of the same project with the same
// interpreter and torch, only the constant carries over: the context, or the interpreter and torch. Without a formula, measurements at several
// micro-batches are a line in the micro-batch.
//
// The curve never falls, so a ladder stays in its order; at a size that was measured it is the measurement, so the second run is
// planned as the first one was seen. One wild receipt does not get far: of several at one size the median counts, the
// slope is bounded, a constant keeps a quarter of itself at least, and a peak that was only sampled never lowers an
// estimate below the lines that are counted.

// How far priors are trusted. A line that is a guess and constant may be off by half of itself. Counted lines that grow
// were off by 4.9 % at the worst against recorded steps (docs/accuracy.md), guessed ones by all of themselves.
const (
	constantPrior = 0.5
	growthPrior   = 0.05
	noise         = 0.005 // of a measurement against itself, repeated
	leastConstant = 0.25  // what a constant keeps of itself
	nearby        = 0.25  // a size within a quarter of a measured one is not extrapolated
	perSize       = 5     // receipts of one size that count: the newest
)

// lessons are what receipts teach of one phase of a job on a machine.
type lessons struct {
	whole, tensors, rest *curve    // of the total, of live tensors on a card, and of what is beyond these
	constant             *offset   // from other jobs, where the phase itself has no curve of it
	context              *offset   // from out-of-memory messages, which tell it from all else
	program              []Receipt // of the same program: for a phase without a formula
}

// learn reads receipts for a phase of a job on a machine. priced returns today's price of the phase at settings, if
// they are among its rungs: where that is not what a receipt was predicted, the formula has changed since, and the measurement
// counts against today's; where it cannot be priced anew, and others show such a change, the receipt does not count.
func learn(receipts []Receipt, of Key, on Machine, priced func(Key) (mem.Estimate, bool)) *lessons {
	l := &lessons{}
	var own, unpriced, others []Receipt
	changed := false
	for _, r := range believed(receipts, of) {
		if r.Machine.near(on) == foreign || on.Kind == "cpu" && r.Job.otherPython(of) { // on a CPU what is imported is measured, too
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
		return func(r Receipt) (mem.Measurement, bool) { return r.Find(quantity) }
	}
	if on.Kind == "cpu" {
		l.whole = newCurve(own, on, sameAll, 0.9, is(mem.Data), always)
		l.constant = newOffset(others, on, is(mem.Data), always)
		return l
	}
	l.whole = newCurve(own, on, sameCard, 0.9, needed, always)
	l.tensors = newCurve(own, on, otherCard, 0.8, is(mem.Allocated), tensor)
	l.rest = newCurve(own, on, sameCard, 0.1, beyondTensors, beyond)
	l.constant = newOffset(others, on, beyondTensors, beyond)
	l.context = newOffset(receipts, on, beyondReserved, func(it mem.Item) bool { return it.Kind == mem.Context })
	return l
}

// grown is how much more than the median the newest measurement of a size has to be for it to count instead.
const grown = 1.1

// strange is how many times the price an imported receipt may be off and still be believed.
const strange = 8

// believed are the receipts that count: where this machine has seen the phase itself, or for a constant any other job,
// nothing that was imported does. What is imported never lowers an estimate below its counted lines, and counts for
// nothing where it is far from any price.
func believed(receipts []Receipt, of Key) (out []Receipt) {
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

// measured finds in a receipt what a curve is drawn through.
type measured func(Receipt) (mem.Measurement, bool)

// always, tensor and beyond are the lines that a measurement is of.
func always(mem.Item) bool { return true }
func tensor(it mem.Item) bool {
	return it.Kind != mem.Context && it.Kind != mem.Slack && it.Kind != mem.Runtime && it.Kind != mem.Others
}
func beyond(it mem.Item) bool  { return !tensor(it) }
func counted(it mem.Item) bool { return tensor(it) && !it.Guess }

// full is the share of a card from which on what an allocator caches is given back again.
const full = 0.9

// needed is what the driver saw of a phase, without what the allocator merely cached by the prediction. On a card that was
// nearly full it had given some of that back, nobody knows how much.
func needed(r Receipt) (mem.Measurement, bool) {
	m, ok := r.Find(mem.Used)
	cached := onlyCached(r.Predicted)
	if ok && cached > 0 && m.Bound != mem.AtLeast { // where it failed nothing was cached any more
		if float64(m.Bytes) > full*float64(r.Machine.Total) {
			m.Bound = mem.AtMost
		}
		m.Bytes = max(0, m.Bytes-cached)
	}
	return m, ok
}

// onlyCached is what the allocator comes to hold beyond what the phase needs of it.
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

// beyondTensors is what a card holds for a job beside its live tensors.
func beyondTensors(r Receipt) (mem.Measurement, bool) {
	used, ok := needed(r)
	live, also := r.Find(mem.Allocated)
	if !ok || !also || used.Bound == mem.AtLeast || used.Bound == mem.AtMost || live.Bound == mem.AtLeast || live.Bound == mem.AtMost || used.Bytes <= live.Bytes {
		return mem.Measurement{}, false
	}
	return mem.Measurement{Is: "beyond tensors", Bytes: used.Bytes - live.Bytes, Bound: used.Bound, From: used.From}, true
}

// beyondReserved is what a card holds for a process beside what its allocator has reserved: the context. An
// out-of-memory message has both figures of the same moment.
func beyondReserved(r Receipt) (mem.Measurement, bool) {
	used, ok := r.Find(mem.Used)
	reserved, also := r.Find(mem.Reserved)
	if !ok || !also || used.Bound != reserved.Bound || used.Bytes <= reserved.Bytes {
		return mem.Measurement{}, false
	}
	return mem.Measurement{Is: "context", Bytes: used.Bytes - reserved.Bytes, From: used.From}, true
}

// constants is the sum of the guessed lines that no size changes, and growth how far those that grow may be off.
func constants(e mem.Estimate, in func(mem.Item) bool) (sum float64) {
	for _, it := range e.Items {
		if in(it) && it.Guess && (it.Kind == mem.Context || it.Kind == mem.Runtime) {
			sum += float64(it.Bytes)
		}
	}
	return sum
}

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

// apply returns an estimate of the phase as the receipts correct it: its own lines, those that a measurement replaces,
// and a correction. e is what was priced for of.
func (l *lessons) apply(e mem.Estimate, of Key) mem.Estimate {
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
			replace(&out, mem.Context, l.rest.flat(), l.rest.points[0].from) // where nothing said it better
			r, from := l.rest.at(x)
			add(&out, mem.Slack, "beyond live tensors", r-since(out, e, beyond), from, x, beyond)
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

// correct makes the lines of a scope amount to what the curve says.
func correct(e *mem.Estimate, c *curve, x float64, priced mem.Estimate, in func(mem.Item) bool, phase string) {
	r, from := c.at(x)
	if from[0].floor && !from[0].failed { // what lay between two looks may have been more
		r = max(r, float64(priced.Certain())-sum(priced, in))
	}
	if in(mem.Item{Kind: mem.Runtime}) {
		replace(e, mem.Context, c.flat(), c.points[0].from)
		replace(e, mem.Runtime, c.flat(), c.points[0].from)
	}
	add(e, mem.Correction, phase, r-since(*e, priced, in), from, x, in)
}

// since is by how much the lines of a scope, corrections included, have changed.
func since(e, priced mem.Estimate, in func(mem.Item) bool) float64 {
	return sum(e, in) - sum(priced, in)
}

// replace changes a guessed constant by an offset, and says whose it is.
func replace(e *mem.Estimate, k mem.Kind, by float64, from []Receipt) {
	for i := range e.Items {
		it := &e.Items[i]
		if it.Kind != k || !it.Guess {
			continue
		}
		it.Bytes += unit.Bytes(math.Round(max(by, (leastConstant-1)*float64(it.Bytes))))
		it.Guess, it.From = false, "learned from "+names(from)
		learned(e, from)
		return
	}
}

// add appends a correction with where it comes from. It is a guess where nothing near was measured; where something was,
// the sum of the lines in scope is vouched for, and none of them is a guess.
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
		it.From = "these settings ran out of memory in " + names(rs)
	case near.x == x:
		it.From = "measured at this size in " + names(rs)
	case len(from) > 1:
		it.From = "between what was measured in " + names(rs)
	default:
		it.From = fmt.Sprintf("from a size %.2g times this, measured in %s", near.x/max(1, x), names(rs))
		it.Guess = math.Abs(near.x-x) > nearby*x
	}
	for i := range e.Items {
		if !it.Guess && in(e.Items[i]) {
			e.Items[i].Guess = false
		}
	}
	e.Add(it)
}

// learned enters receipts, each once.
func learned(e *mem.Estimate, rs []Receipt) {
	for _, r := range rs {
		if id := r.ID(); !slices.Contains(e.Learned, id) {
			e.Learned = append(e.Learned, id)
		}
	}
}

// names says which runs receipts are of, in one line.
func names(rs []Receipt) string {
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
