package sweep

import (
	"cmp"
	"fmt"
	"slices"
)

// Halving is successive halving (Jamieson and Talwalkar, AISTATS 2016): all trials run to the first length, the best of
// them to the second, and so on. The share that goes on is the ratio of the two lengths, so that each rung costs the
// same. A rung begins when the one before it has ended.
//
// A trial that needs more memory than there is takes no place. On the first rung another row of a random space
// takes it; on a later one, the next best of the rung below.
type Halving struct {
	Metric string
	Rungs  Rungs
	Places int          // on the first rung
	Rows   []Assignment // in order; those after Places replace infeasible ones
}

// NewHalving returns the searcher of a space.
func NewHalving(s Search, space Space) (*Halving, error) {
	rows, err := space.Assignments()
	if err != nil {
		return nil, err
	}
	h := &Halving{Metric: s.Metric, Rungs: *s.Halve, Places: len(rows), Rows: rows}
	if space.Random > 0 { // the same seed begins with the same rows
		space.Random = min(2*space.Random, mostValues)
		if more, err := space.Assignments(); err == nil && len(more) > len(rows) {
			h.Rows = more
		}
	}
	return h, nil
}

// Next implements [Searcher].
func (s *Halving) Next(h *History) (next []Trial, done bool) {
	idle := len(h.Running()) == 0 && len(h.Waiting()) == 0
	places, sources := s.Places, s.firsts(len(s.on(h, 0)))
	for rung := range s.Rungs.Lengths {
		on := s.on(h, rung)
		open, infeasible := 0, 0
		for _, r := range on {
			switch r.Score(s.Metric).Verdict {
			case Infeasible:
				infeasible++
			case Open:
				if open++; idle { // it will not run again by itself
					infeasible, open = infeasible+1, open-1
				}
			}
		}
		want := places - (len(on) - infeasible)
		next = s.promote(h, rung, left(sources, on), want)
		if len(next) > 0 || open > 0 {
			return next, false
		}
		best := s.best(on)
		if rung+1 == len(s.Rungs.Lengths) || len(best) == 0 {
			return nil, true
		}
		counted := len(on) - infeasible
		places = min(len(best), max(1, int(float64(counted)*s.Rungs.length(rung)/s.Rungs.length(rung+1)+1e-9)))
		sources = best
	}
	return nil, true
}

// firsts are the rows of the space after the first n, which are listed already.
func (s *Halving) firsts(n int) (rows []*Row) {
	for _, a := range s.Rows[min(n, len(s.Rows)):] {
		rows = append(rows, &Row{Trial: Trial{Assignment: a}})
	}
	return rows
}

// left are the sources that no row of a rung continues.
func left(sources, on []*Row) []*Row {
	return slices.DeleteFunc(slices.Clone(sources), func(from *Row) bool {
		first := cmp.Or(from.First, from.Number)
		return first > 0 && slices.ContainsFunc(on, func(r *Row) bool { return r.First == first })
	})
}

// on lists the rows of a rung, in the order in which they were listed.
func (s *Halving) on(h *History, rung int) (rows []*Row) {
	for _, r := range h.Rows {
		if r.Rung == rung {
			rows = append(rows, r)
		}
	}
	return rows
}

// best lists the rows that have a value, the best first. Of equal ones the first comes first.
func (s *Halving) best(rows []*Row) []*Row {
	scored := slices.DeleteFunc(slices.Clone(rows), func(r *Row) bool { return r.Score(s.Metric).Verdict != Scored })
	slices.SortStableFunc(scored, func(a, b *Row) int {
		x, y := a.Score(s.Metric), b.Score(s.Metric)
		switch {
		case x.Direction.Better(x.Value, y.Value):
			return -1
		case x.Direction.Better(y.Value, x.Value):
			return 1
		}
		return 0
	})
	return scored
}

// promote lists trials of a rung, made of the next sources.
func (s *Halving) promote(h *History, rung int, sources []*Row, want int) (next []Trial) {
	for _, from := range sources[:max(0, min(want, len(sources)))] {
		t := Trial{Number: len(h.Rows) + len(next) + 1, Rung: rung, First: from.First}
		if rung > 0 && t.First == 0 {
			t.First = from.Number
		}
		a := slices.DeleteFunc(slices.Clone(from.Assignment), func(x Setting) bool { return x.Key == s.Rungs.Key })
		t.Assignment = append(a, Setting{s.Rungs.Key, s.Rungs.Lengths[rung]})
		next = append(next, t)
	}
	return next
}

// Describe names the rungs in one line, for a person.
func (s *Halving) Describe() string {
	return fmt.Sprintf("successive halving: %d trials with %s=%s, the best go on to %v", s.Places, s.Rungs.Key,
		s.Rungs.Lengths[0],
		s.Rungs.Lengths[1:])
}
