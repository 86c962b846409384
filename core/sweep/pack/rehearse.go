package pack

import (
	"slices"
	"time"
)

// rehearse finds how many trials should share a card in the tail of a sweep, where what a card gets done is not all
// that counts: a trial that shares ends later. It plays the rest of the sweep to its end for every number from 1 to
// most, by the lengths that are known. Sharing has to end the sweep 5 % earlier. Exclusive placement is one of the
// rehearsed ways, so that what is predicted is never longer than that, and gets no longer from one decision to the
// next.
func (b *board) rehearse(waiting []Trial, most int) int {
	best, bestEnd := 1, time.Duration(0)
	for k := 1; k <= most && k <= len(waiting)+1; k++ {
		if end := b.copied().play(slices.Clone(waiting), k); k == 1 || gain*float64(end) < float64(bestEnd) {
			best, bestEnd = k, end
		}
	}
	return best
}

func (b *board) copied() *board {
	c := *b
	c.rehearsed = true
	c.cards = slices.Clone(b.cards)
	for i := range c.cards {
		c.cards[i].own = slices.Clone(c.cards[i].own)
	}
	return &c
}

// play runs everything to its end, and returns when that is.
func (b *board) play(waiting []Trial, most int) (now time.Duration) {
	for {
		for {
			i, c := b.pick(waiting, nil, most)
			if i < 0 {
				break
			}
			b.start(&waiting[i], c)
			waiting = slices.Delete(waiting, i, i+1)
		}
		next, on := time.Duration(0), -1
		for i := range b.cards {
			c := &b.cards[i]
			for _, p := range c.own {
				if d := time.Duration(float64(p.left) / Speed(b.slowdown, len(c.own))); on < 0 || d < next {
					next, on = d, i
				}
			}
		}
		if on < 0 {
			return now
		}
		now += next
		for i := range b.cards {
			b.cards[i].advance(next, b.slowdown, i == on)
		}
	}
}

// advance lets the trials of a card run for d, and takes away those that end: at least one if ends is true, whatever
// rounding has left of it.
func (c *slot) advance(d time.Duration, slowdown float64, ends bool) {
	done := time.Duration(float64(d) * Speed(slowdown, len(c.own)))
	first := -1
	for i := range c.own {
		c.own[i].left -= done
		if first < 0 || c.own[i].left < c.own[first].left {
			first = i
		}
	}
	if ends {
		c.own[first].left = 0
	}
	c.own = slices.DeleteFunc(c.own, func(p place) bool {
		if p.left <= 0 {
			c.free += p.claim
		}
		return p.left <= 0
	})
	if len(c.own) == 0 {
		c.held = false
	}
	c.closed = slices.ContainsFunc(c.own, func(p place) bool { return p.closing })
}
