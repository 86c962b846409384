package mem

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/unit"
)

// What receipts teach, in three sentences. Of the same phase of the same architecture, what was measured beyond the
// priced lines is a curve over their sum: through every size that was measured, straight between two, and beyond them on
// a slope that the priors share out between what is constant and what grows. Of other jobs on the same card and driver, or on a CPU with the same torch,
// only the constant carries over: the context, or the interpreter and torch. Without a formula, measurements at several
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

// Lessons are what receipts teach of one phase of a job on a machine.
type Lessons struct {
	whole, tensors, rest *curve    // of the total, of live tensors on a card, and of what is beyond these
	constant             *offset   // from other jobs, where the phase itself has no curve of it
	context              *offset   // from out-of-memory messages, which tell it from all else
	program              []Receipt // of the same program: for a phase without a formula
}

// Learn reads receipts for a phase of a job on a machine. priced returns today's price of the phase at settings, if
// they are among its rungs: where that is not what a receipt was predicted, the formula has changed since, and the measurement
// counts against today's; where it cannot be priced anew, and others show such a change, the receipt does not count.
func Learn(receipts []Receipt, of Key, on Machine, priced func(Key) (Estimate, bool)) *Lessons {
	l := &Lessons{}
	var own, unpriced, others []Receipt
	changed := false
	for _, r := range believed(receipts, of) {
		if r.Machine.near(on) == foreign {
			continue
		}
		if !r.Job.arch(of) {
			others = append(others, r)
			continue
		}
		if r.Job.Program == of.Program && r.Machine.near(on) == sameAll {
			l.program = append(l.program, r)
		}
		e, ok := priced(r.Job)
		switch {
		case ok && e.Known():
			changed = changed || r.Predicted.Known() && e.sum(counted) != r.Predicted.sum(counted)
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
		return func(r Receipt) (Measurement, bool) { return r.Find(quantity) }
	}
	if on.Kind == "cpu" {
		l.whole = newCurve(own, on, sameAll, 0.9, is(Data), always)
		l.constant = newOffset(others, on, is(Data), always)
		return l
	}
	l.whole = newCurve(own, on, sameCard, 0.9, needed, always)
	l.tensors = newCurve(own, on, otherCard, 0.8, is(Allocated), tensor)
	l.rest = newCurve(own, on, sameCard, 0.1, beyondTensors, beyond)
	l.constant = newOffset(others, on, beyondTensors, beyond)
	l.context = newOffset(receipts, on, beyondReserved, func(it Item) bool { return it.Kind == Context })
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
			if m.Bound == Exact {
				r.Measured[i].Bound = Sampled
			}
		}
		if plausible {
			out = append(out, r)
		}
	}
	return out
}

// measured finds in a receipt what a curve is drawn through.
type measured func(Receipt) (Measurement, bool)

// always, tensor and beyond are the lines that a measurement is of.
func always(Item) bool { return true }
func tensor(it Item) bool {
	return it.Kind != Context && it.Kind != Slack && it.Kind != Runtime
}
func beyond(it Item) bool  { return !tensor(it) }
func counted(it Item) bool { return tensor(it) && !it.Guess }

// full is the share of a card from which on what an allocator caches is given back again.
const full = 0.9

// needed is what the driver saw of a phase, without what the allocator merely cached by the prediction. On a card that was
// nearly full it had given some of that back, nobody knows how much.
func needed(r Receipt) (Measurement, bool) {
	m, ok := r.Find(Used)
	cached := r.Predicted.cached()
	if ok && cached > 0 && m.Bound != AtLeast { // where it failed nothing was cached any more
		if float64(m.Bytes) > full*float64(r.Machine.Total) {
			m.Bound = AtMost
		}
		m.Bytes = max(0, m.Bytes-cached)
	}
	return m, ok
}

// cached is what the allocator comes to hold beyond what the phase needs of it.
func (e Estimate) cached() unit.Bytes {
	need := unit.Bytes(0)
	for _, it := range e.Items {
		if it.Kind == Slack || slices.Contains(certain, it.Kind) {
			need += it.Bytes
		}
	}
	if e.Reserved <= need {
		return 0
	}
	return e.Reserved - need
}

// beyondTensors is what a card holds for a job beside its live tensors.
func beyondTensors(r Receipt) (Measurement, bool) {
	used, ok := needed(r)
	live, also := r.Find(Allocated)
	if !ok || !also || used.Bound == AtLeast || used.Bound == AtMost || live.Bound == AtLeast || live.Bound == AtMost || used.Bytes <= live.Bytes {
		return Measurement{}, false
	}
	return Measurement{Is: "beyond tensors", Bytes: used.Bytes - live.Bytes, Bound: used.Bound, From: used.From}, true
}

// beyondReserved is what a card holds for a process beside what its allocator has reserved: the context. An
// out-of-memory message has both figures of the same moment.
func beyondReserved(r Receipt) (Measurement, bool) {
	used, ok := r.Find(Used)
	reserved, also := r.Find(Reserved)
	if !ok || !also || used.Bound != reserved.Bound || used.Bytes <= reserved.Bytes {
		return Measurement{}, false
	}
	return Measurement{Is: "context", Bytes: used.Bytes - reserved.Bytes, From: used.From}, true
}

// constants is the sum of the guessed lines that no size changes, and growth how far those that grow may be off.
func (e Estimate) constants(in func(Item) bool) (sum float64) {
	for _, it := range e.Items {
		if in(it) && it.Guess && (it.Kind == Context || it.Kind == Runtime) {
			sum += float64(it.Bytes)
		}
	}
	return sum
}

func (e Estimate) growth(in func(Item) bool) (grows, off float64) {
	for _, it := range e.Items {
		switch {
		case !in(it) || !slices.Contains(growing, it.Kind):
		case it.Guess:
			grows, off = grows+float64(it.Bytes), off+float64(it.Bytes)
		default:
			grows, off = grows+float64(it.Bytes), off+growthPrior*float64(it.Bytes)
		}
	}
	return grows, off
}

func (e Estimate) sum(in func(Item) bool) (sum float64) {
	for _, it := range e.Items {
		if in(it) {
			sum += float64(it.Bytes)
		}
	}
	return sum
}

// A point is what was measured at one size.
type point struct {
	x, residual float64 // the priced lines' sum, over which it is drawn, and what was measured beyond the lines in scope
	grows       float64 // of the lines in scope
	share       float64 // of the residual that is constant, by the priors
	constants   float64
	floor       bool // only sampled
	failed      bool // at least so much
	from        []Receipt
}

// A curve is what was measured beyond the priced lines of a scope, over the sum of all lines.
type curve struct {
	points  []point
	slope   float64 // beyond the points
	descent float64 // how steeply it may fall, of a total that rises by 1
}

// newCurve draws one through what was measured on the nearest machines there are, and none farther than least. It is nil
// where nothing was.
func newCurve(rs []Receipt, on Machine, least int, descent float64, find measured, in func(Item) bool) *curve {
	sizes := map[float64][]Receipt{}
	nearest := least
	for _, r := range rs {
		if _, ok := find(r); ok {
			nearest = max(nearest, r.Machine.near(on))
		}
	}
	for _, r := range rs {
		if m, ok := find(r); ok && r.Machine.near(on) >= nearest && m.Bound != AtMost {
			x := r.Predicted.Total()
			sizes[float64(x)] = append(sizes[float64(x)], r)
		}
	}
	c := &curve{descent: descent}
	for x, at := range sizes {
		if p, ok := newPoint(x, at, find, in); ok {
			c.points = append(c.points, p)
		}
	}
	slices.SortFunc(c.points, func(a, b point) int { return cmp.Compare(a.x, b.x) })
	c.bound()
	c.rise()
	if len(c.points) == 0 {
		return nil
	}
	c.incline()
	return c
}

// newPoint weighs the receipts of one size. What failed counts where nothing newer has passed, and only if it needed
// more than was priced.
func newPoint(x float64, rs []Receipt, find measured, in func(Item) bool) (point, bool) {
	slices.SortFunc(rs, newestFirst)
	e := rs[0].Predicted
	p := point{x: x, constants: e.constants(in)}
	var off float64
	p.grows, off = e.growth(in)
	p.share = square(constantPrior*p.constants) / max(1, square(constantPrior*p.constants)+square(off))
	var least float64
	var failed []Receipt
	var passed []float64
	for _, r := range rs {
		m, _ := find(r)
		switch {
		case m.Bound == AtLeast && len(passed) == 0:
			least, failed = max(least, float64(m.Bytes)), append(failed, r)
		case m.Bound != AtLeast && len(passed) < perSize:
			passed, p.from = append(passed, float64(m.Bytes)), append(p.from, r)
			p.floor = p.floor || m.Bound == Sampled
		}
	}
	y := 0.0
	if len(passed) > 0 {
		newest := passed[0]
		slices.Sort(passed)
		y = passed[len(passed)/2] // of two the larger
		if newest > grown*y {     // the program has changed in what no digest of its recipe sees
			y = newest
		}
	}
	if least > max(y, e.sum(in)) {
		p.failed, p.from = true, failed
		y = least
	}
	p.residual = y - e.sum(in)
	return p, y > 0
}

// bound drops the points of failures that say no more than the others do.
func (c *curve) bound() {
	passed := &curve{descent: c.descent, points: slices.DeleteFunc(slices.Clone(c.points), func(p point) bool { return p.failed })}
	if len(passed.points) == 0 {
		return
	}
	passed.rise()
	passed.incline()
	c.points = slices.DeleteFunc(c.points, func(p point) bool {
		r, _ := passed.at(p.x)
		return p.failed && p.residual <= r
	})
}

// rise makes the curve's total rise with the sum of the lines: where two points contradict that, their mean stands for both.
func (c *curve) rise() {
	for i := 1; i < len(c.points); {
		p, q := &c.points[i-1], &c.points[i]
		if q.residual-p.residual >= -c.descent*(q.x-p.x) {
			i++
			continue
		}
		p.residual = (p.residual + q.residual) / 2
		q.residual = p.residual
		i = max(1, i-1)
	}
}

// incline finds the slope beyond the points: one point's residual is shared out by the priors; several correct that, as
// far as they lie apart.
func (c *curve) incline() {
	var x, r, prior, n, largest float64
	for _, p := range c.points {
		n++
		x, r, largest = x+p.x, r+p.residual, max(largest, p.x)
		if p.grows > 0 {
			prior += (1 - p.share) * p.residual / p.grows
		}
	}
	x, r, prior = x/n, r/n, prior/n
	var off, spread float64
	for _, p := range c.points {
		dx := p.x - x
		off += dx * (p.residual - r - prior*dx)
		spread += dx * dx
	}
	c.slope = prior + off/max(1, spread+square(noise/growthPrior*largest))
	c.slope = min(max(c.slope, -c.descent/2), 1)
}

// at is the residual at a sum of lines, with the points that it comes from, the nearest first.
func (c *curve) at(x float64) (residual float64, from []point) {
	ps := c.points
	i, exact := slices.BinarySearchFunc(ps, x, func(p point, x float64) int { return cmp.Compare(p.x, x) })
	switch {
	case exact:
		return ps[i].residual, ps[i : i+1]
	case i == 0:
		return ps[0].residual + c.slope*(x-ps[0].x), ps[:1]
	case i == len(ps):
		return ps[i-1].residual + c.slope*(x-ps[i-1].x), ps[i-1:]
	}
	p, q := ps[i-1], ps[i]
	from = []point{p, q}
	if q.x-x < x-p.x {
		from = []point{q, p}
	}
	return p.residual + (q.residual-p.residual)*(x-p.x)/(q.x-p.x), from
}

// flat is the part of the residual that no size changes: where the lines that grow would be nothing.
func (c *curve) flat() float64 {
	p := c.points[0]
	if len(c.points) == 1 && p.grows > 0 {
		return p.share * p.residual
	}
	return p.residual - c.slope*p.grows
}

// An offset is how far a machine's constant is from its prior, by other jobs.
type offset struct {
	bytes float64
	from  []Receipt
}

// newOffset is the median of what the receipts of the same card and driver, or the same torch, say, each weighing as much as the constant is of
// what it measured: a small job tells the interpreter from its tensors, a large one does not.
func newOffset(rs []Receipt, on Machine, find measured, in func(Item) bool) *offset {
	type vote struct{ bytes, weight float64 }
	var votes []vote
	o := &offset{}
	all := 0.0
	for _, r := range rs {
		m, ok := find(r)
		if !ok || r.Machine.near(on) != sameAll || !r.Predicted.Known() || m.Bound == AtLeast || m.Bound == AtMost {
			continue
		}
		p, ok := newPoint(0, []Receipt{r}, find, in)
		if !ok || p.share == 0 {
			continue
		}
		residual := float64(m.Bytes) - r.Predicted.sum(in)
		votes, o.from = append(votes, vote{p.share * residual, p.share}), append(o.from, r)
		all += p.share
	}
	if len(votes) == 0 {
		return nil
	}
	slices.SortFunc(votes, func(a, b vote) int { return cmp.Compare(a.bytes, b.bytes) })
	for half := all / 2; len(votes) > 0; votes = votes[1:] {
		if o.bytes = votes[0].bytes; half < votes[0].weight {
			break
		}
		half -= votes[0].weight
	}
	slices.SortFunc(o.from, newestFirst)
	return o
}

// Apply returns an estimate of the phase as the receipts correct it: its own lines, those that a measurement replaces,
// and a correction. e is what was priced for of.
func (l *Lessons) Apply(e Estimate, of Key) Estimate {
	if !e.Known() {
		return l.line(e, of)
	}
	out := e
	out.Items, out.Learned = slices.Clone(e.Items), nil
	x := float64(e.Total())
	if l.context != nil {
		out.replace(Context, l.context.bytes, l.context.from)
	}
	switch {
	case l.tensors != nil:
		out.correct(l.tensors, x, e, tensor, of.Phase)
		if l.rest != nil {
			out.replace(Context, l.rest.flat(), l.rest.points[0].from) // where nothing said it better
			r, from := l.rest.at(x)
			out.add(Slack, "beyond live tensors", r-out.since(e, beyond), from, x, beyond)
		} else if l.constant != nil {
			out.replace(Context, l.constant.bytes, l.constant.from)
		}
	case l.whole != nil:
		out.correct(l.whole, x, e, always, of.Phase)
	case l.constant != nil:
		out.replace(Context, l.constant.bytes, l.constant.from)
		out.replace(Runtime, l.constant.bytes, l.constant.from)
	}
	return out
}

// correct makes the lines of a scope amount to what the curve says.
func (e *Estimate) correct(c *curve, x float64, priced Estimate, in func(Item) bool, phase string) {
	r, from := c.at(x)
	if from[0].floor && !from[0].failed { // what lay between two looks may have been more
		r = max(r, float64(priced.Certain())-priced.sum(in))
	}
	if in(Item{Kind: Runtime}) {
		e.replace(Context, c.flat(), c.points[0].from)
		e.replace(Runtime, c.flat(), c.points[0].from)
	}
	e.add(Correction, phase, r-e.since(priced, in), from, x, in)
}

// since is by how much the lines of a scope, corrections included, have changed.
func (e Estimate) since(priced Estimate, in func(Item) bool) float64 {
	return e.sum(in) - priced.sum(in)
}

// replace changes a guessed constant by an offset, and says whose it is.
func (e *Estimate) replace(k Kind, by float64, from []Receipt) {
	for i := range e.Items {
		it := &e.Items[i]
		if it.Kind != k || !it.Guess {
			continue
		}
		it.Bytes += unit.Bytes(math.Round(max(by, (leastConstant-1)*float64(it.Bytes))))
		it.Guess, it.From = false, "learned from "+names(from)
		e.learned(from)
		return
	}
}

// add appends a correction with where it comes from. It is a guess where nothing near was measured; where something was,
// the sum of the lines in scope is vouched for, and none of them is a guess.
func (e *Estimate) add(k Kind, what string, bytes float64, from []point, x float64, in func(Item) bool) {
	it := Item{Kind: k, What: what, Bytes: unit.Bytes(math.Round(bytes))}
	if k != Correction && bytes < 0 {
		it.Kind = Correction
	}
	var rs []Receipt
	for _, p := range from {
		rs = append(rs, p.from...)
	}
	e.learned(rs)
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
func (e *Estimate) learned(rs []Receipt) {
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

// The knobs that move a phase along its line: core/job's names.
const (
	microBatch   = "micro-batch"
	accumulation = "accumulation"
)

// line estimates a phase that has no formula from what the same program took: at this micro-batch, on the line through
// others, or in proportion to the only one.
func (l *Lessons) line(e Estimate, of Key) Estimate {
	micro, counts := number(of.Settings[microBatch])
	sizes := map[float64][]Receipt{}
	for _, r := range l.program {
		n, ok := number(r.Job.Settings[microBatch])
		if _, _, found := total(r, e); found && ok == counts && alikeBut(r.Job.Settings, of.Settings) {
			sizes[n] = append(sizes[n], r)
		}
	}
	var xs, ys []float64
	var through []Receipt
	for n, rs := range sizes {
		if y, from := passed(rs, e); y > 0 {
			xs, ys, through = append(xs, n), append(ys, y), append(through, from...)
		}
	}
	slices.SortFunc(through, newestFirst)
	it := Item{Kind: Correction, What: of.Phase}
	var y float64
	here := slices.Index(xs, micro)
	least, refused := failed(sizes[micro], e)
	switch {
	case here >= 0:
		y, through = passed(sizes[micro], e)
		it.From = "no formula; measured at these settings in " + names(through)
	case len(xs) > 1:
		y = onLine(xs, ys, micro)
		it.From = fmt.Sprintf("no formula; a line through %d micro-batches, measured in %s", len(xs), names(through))
		it.Guess = micro > 2*slices.Max(xs) || micro < slices.Min(xs)/2
	case len(xs) == 1:
		grows, _ := e.growth(always)
		base := min(e.sum(always)-grows, ys[0])
		y, it.Guess = base+(ys[0]-base)*micro/xs[0], true
		it.From = "no formula; in proportion to the micro-batch of " + names(through)
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
	it.Bytes = unit.Bytes(math.Round(y - e.sum(always)))
	out.learned(through)
	out.Add(it)
	return out
}

// passed is the median of what the newest receipts took that did not fail; 0 where there is none.
func passed(rs []Receipt, e Estimate) (float64, []Receipt) {
	var ys []float64
	var from []Receipt
	slices.SortFunc(rs, newestFirst)
	for _, r := range rs {
		if y, bound, _ := total(r, e); bound != AtLeast && len(ys) < perSize {
			ys, from = append(ys, y), append(from, r)
		}
	}
	if len(ys) == 0 {
		return 0, nil
	}
	slices.Sort(ys)
	return ys[len(ys)/2], from
}

// failed is the most that receipts were refused.
func failed(rs []Receipt, e Estimate) (least float64, from []Receipt) {
	for _, r := range rs {
		if y, bound, _ := total(r, e); bound == AtLeast {
			least, from = max(least, y), append(from, r)
		}
	}
	return least, from
}

func newestFirst(a, b Receipt) int { return b.Time.Compare(a.Time) }

// total is all that a receipt's phase took, where that was measured. Of live tensors alone the rest is e's own.
func total(r Receipt, e Estimate) (float64, Bound, bool) {
	for _, is := range []string{Data, Used} {
		if m, ok := r.Find(is); ok && m.Bound != AtMost {
			return float64(m.Bytes), m.Bound, true
		}
	}
	if m, ok := r.Find(Allocated); ok && m.Bound != AtMost {
		return float64(m.Bytes) + e.sum(beyond), m.Bound, true
	}
	return 0, "", false
}

// onLine is the line of least squares at x. It rises: memory does not fall with the micro-batch, whatever two
// measurements say.
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

// alikeBut reports whether settings are the same but for how the global batch is cut.
func alikeBut(a, b map[string]string) bool {
	count := func(m map[string]string) (n int) {
		for k := range m {
			if k != microBatch && k != accumulation {
				n++
			}
		}
		return n
	}
	for k, v := range a {
		if w, ok := b[k]; k != microBatch && k != accumulation && (!ok || w != v) {
			return false
		}
	}
	return count(a) == count(b)
}

func number(s string) (float64, bool) {
	n, err := strconv.ParseFloat(s, 64)
	return n, err == nil && n > 0
}

func square(x float64) float64 { return x * x }
