package record

import (
	"cmp"
	"slices"

	"github.com/launch-ml/launch/core/mem"
)

// A point is the measurement at one size.
type point struct {
	x, residual float64 // the sum of all priced lines; what was measured beyond the selected ones
	grows       float64 // sum of the selected lines that grow
	share       float64 // of the residual that is constant, by the priors
	constants   float64 // sum of the selected lines that are guessed constants
	floor       bool    // only sampled
	failed      bool    // a lower bound: the phase failed there
	from        []Receipt
}

// A curve is what was measured beyond the selected lines, as a function of the sum of all priced lines.
type curve struct {
	points  []point
	slope   float64 // beyond the points
	descent float64 // the most that it may fall while that sum rises by 1
}

// newCurve draws a curve through the measurements on the most similar machines, which are at least as near as least. It
// returns nil if there are none. find returns a receipt's measurement, and in selects the lines that it covers.
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

// newPoint combines the receipts of one size. A failure counts only if nothing newer has passed and if it needed more than
// the price.
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
		if newest > grown*y {     // the program has changed outside its recipe
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

// bound drops failures that ask for no more than the curve through the other points.
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

// rise makes the total rise with the sum of the lines: it replaces two points that contradict this by their mean.
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

// incline finds the slope beyond the points. The priors divide the residual of a point into a constant part and a part that
// grows; several points correct this slope, the more the farther they lie apart.
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

// at returns the residual at a sum of lines and the points that it comes from, the nearest first.
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

// flat is the constant part of the residual: its value where the lines that grow are 0.
func (c *curve) flat() float64 {
	p := c.points[0]
	if len(c.points) == 1 && p.grows > 0 {
		return p.share * p.residual
	}
	return p.residual - c.slope*p.grows
}

// An offset is the difference between a constant and its prior, measured by other jobs.
type offset struct {
	bytes float64
	from  []Receipt
}

// newOffset returns the weighted median of the receipts' differences, nil if there are none. The weight is the share of the
// constant in what was measured: a small job shows the interpreter's memory, a large one hides it in its tensors.
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
