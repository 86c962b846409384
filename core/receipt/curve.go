package receipt

import (
	"cmp"
	"slices"

	"github.com/launch-ml/launch/core/mem"
)

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
func newCurve(rs []Receipt, on Machine, least int, descent float64, find measured, in func(mem.Item) bool) *curve {
	sizes := map[float64][]Receipt{}
	nearest := least
	for _, r := range rs {
		if _, ok := find(r); ok {
			nearest = max(nearest, r.Machine.near(on))
		}
	}
	for _, r := range rs {
		if m, ok := find(r); ok && r.Machine.near(on) >= nearest && m.Bound != mem.AtMost {
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
func newPoint(x float64, rs []Receipt, find measured, in func(mem.Item) bool) (point, bool) {
	slices.SortFunc(rs, newestFirst)
	e := rs[0].Predicted
	p := point{x: x, constants: constants(e, in)}
	var off float64
	p.grows, off = growth(e, in)
	p.share = square(constantPrior*p.constants) / max(1, square(constantPrior*p.constants)+square(off))
	var least float64
	var failed []Receipt
	var passed []float64
	for _, r := range rs {
		m, _ := find(r)
		switch {
		case m.Bound == mem.AtLeast && len(passed) == 0:
			least, failed = max(least, float64(m.Bytes)), append(failed, r)
		case m.Bound != mem.AtLeast && len(passed) < perSize:
			passed, p.from = append(passed, float64(m.Bytes)), append(p.from, r)
			p.floor = p.floor || m.Bound == mem.Sampled
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
	if least > max(y, sum(e, in)) {
		p.failed, p.from = true, failed
		y = least
	}
	p.residual = y - sum(e, in)
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

// newOffset is the median of what the receipts of the same card and driver, or of the same project and interpreter, say, each weighing as much as the constant is of
// what it measured: a small job tells the interpreter from its tensors, a large one does not.
func newOffset(rs []Receipt, on Machine, find measured, in func(mem.Item) bool) *offset {
	type vote struct{ bytes, weight float64 }
	var votes []vote
	o := &offset{}
	all := 0.0
	for _, r := range rs {
		m, ok := find(r)
		if !ok || r.Machine.near(on) != sameAll || !r.Predicted.Known() || m.Bound == mem.AtLeast || m.Bound == mem.AtMost {
			continue
		}
		p, ok := newPoint(0, []Receipt{r}, find, in)
		if !ok || p.share == 0 {
			continue
		}
		residual := float64(m.Bytes) - sum(r.Predicted, in)
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
