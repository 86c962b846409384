package pack

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/launch-ml/launch/core/unit"
)

// A board is the cards while decisions are made.
type board struct {
	cards     []slot
	slowdown  float64
	factor    float64 // of uncertain estimates
	rehearsed bool    // how many may share was found by rehearsing, which needs no guard

	// What waits, from survey.
	smallest unit.Bytes    // the least that a waiting trial needs; 0 if one's need is unknown
	typical  time.Duration // of a trial whose length is unknown
	work     time.Duration // of all that waits or runs
	scarce   unit.Bytes    // trials that need more than this go first: few cards can run them. 0 if there is no such class
	alone    int           // how many of the trials that need a card to themselves go first
}

// A slot is one card.
type slot struct {
	id       string
	total    unit.Bytes
	others   unit.Bytes
	headroom unit.Bytes // stays free
	grow     unit.Bytes // what other people's processes may still grow by
	free     unit.Bytes
	own      []place
	closed   bool // a trial on it has it to itself
	held     bool // a trial waits for the card to empty
	occupied bool // other people use it
}

// A place is a trial on a card.
type place struct {
	left    time.Duration // alone on the card
	length  time.Duration
	claim   unit.Bytes
	closing bool // it has the card to itself
}

func newBoard(s State) *board {
	b := &board{
		cards:    make([]slot, len(s.Cards)),
		slowdown: s.Slowed.Factor(s.Policy.Slowdown),
		factor:   s.Peaks.Factor(),
	}
	headroom := cmp.Or(s.Policy.Headroom, DefaultHeadroom)
	at := make(map[string]int, len(s.Cards))
	for i, c := range s.Cards {
		at[c.ID] = i
		grow := scale(c.Others, othersGrow)
		b.cards[i] = slot{
			id: c.ID, total: c.Total, others: c.Others, headroom: headroom, grow: grow,
			free:     c.Total - headroom - c.Others - grow,
			occupied: c.Others > scale(c.Total, idle),
		}
	}
	for _, r := range s.Running {
		if r.Need > 0 && !r.Certain { // it need not have ended to be a warning
			b.factor = max(b.factor, float64(r.Used)/float64(r.Need))
		}
	}
	for _, r := range s.Running {
		i, known := at[r.Card]
		if !known {
			continue // it is on a card that the sweep no longer uses
		}
		claim, ok := b.holds(&r)
		c := &b.cards[i]
		c.own = append(c.own, place{left: max(0, r.Left), length: r.Length, claim: claim, closing: !ok})
		c.free -= claim
		c.closed = c.closed || !ok
	}
	return b
}

func scale(b unit.Bytes, by float64) unit.Bytes { return unit.Bytes(float64(b) * by) }

// need is what a trial has to find free on an empty card, by its estimate and what it ran out of memory with. 0 is
// unknown.
func (b *board) need(t *Trial) unit.Bytes {
	return max(t.Need, scale(t.AtLeast, again))
}

// claim is what a trial is counted with as soon as it shares a card; false if it shares none.
func (b *board) claim(t *Trial) (unit.Bytes, bool) {
	n := t.Need
	if !t.Certain {
		n = scale(n, b.factor)
	}
	return max(n, scale(t.AtLeast, again)), t.Need > 0 && t.Stops < stopsAlone && !t.Failed
}

// holds is what a running trial is counted with: its measured peak once it has reached it, before that at least its
// claim.
func (b *board) holds(r *Running) (unit.Bytes, bool) {
	n, shares := b.claim(&r.Trial)
	if r.Ramped && r.Used > 0 {
		return scale(r.Used, grown), shares
	}
	if r.Used > n {
		n = scale(r.Used, surprised)
	}
	return n, shares
}

// expected is what a running trial is expected to come to. Its estimate is believed unless other people use the card:
// then an uncertain one counts as if nothing had been measured.
func (b *board) expected(r *Running, occupied bool) unit.Bytes {
	switch {
	case r.Ramped && r.Used > 0:
		return r.Used
	case r.Used > r.Need:
		return scale(r.Used, surprised)
	case !r.Certain && occupied:
		n := scale(r.Need, max(b.factor, 1+doubt))
		if r.Seen > 0 { // what it used itself tells more than how wrong the estimates of others were
			n = min(n, max(r.Need, scale(r.Seen, surprised)))
		}
		return n
	}
	return r.Need
}

// stops asks trials to stop where a card fills: the youngest of those that can save, or the youngest if none can. The
// last trial on a card runs on unless it can save and other people's processes, more than a desktop, need the memory:
// exclusive placement would have put it there, too.
func (b *board) stops(running []Running) (out []Decision) {
	for i := range b.cards {
		c := &b.cards[i]
		if len(c.own) == 0 {
			continue
		}
		var on []*Running
		sum, used := c.others, c.others
		for j := range running {
			if r := &running[j]; r.Card == c.id && !r.Stopping {
				on = append(on, r)
				sum += b.expected(r, c.occupied)
				used += r.Used
			}
		}
		limit := c.total - c.grow - c.headroom/2
		if sum <= limit {
			continue
		}
		slices.SortFunc(on, func(a, z *Running) int { // the first to stop first
			if a.Saves != z.Saves {
				if a.Saves {
					return -1
				}
				return 1
			}
			return z.Started - a.Started
		})
		for ; len(on) > 0 && sum > limit; on = on[1:] {
			r := on[0]
			if len(on) == 1 && !(r.Saves && c.occupied && c.others+b.expected(r, false) > limit) {
				break
			}
			out = append(out, Decision{
				Trial: r.ID, Card: c.id, Stop: true,
				Now: c.others > 0 && (!r.Ramped || used+c.grow > c.total),
				Why: fmt.Sprintf("the card fills: %v of %v, other processes hold %v", sum, c.total, c.others),
			})
			sum -= b.expected(r, c.occupied)
			used -= r.Used
			c.held = true
		}
	}
	return out
}

// open is true if a card may take a further trial at all.
func (b *board) open(most int) bool {
	return slices.ContainsFunc(b.cards, func(c slot) bool { return c.takes(len(c.own)+1, most) })
}

// takes is true if the card may take a trial as its k-th.
func (c *slot) takes(k, most int) bool {
	return len(c.own) == k-1 && k <= most && !c.closed && !c.held && c.free > 0 && (k == 1 || !c.occupied)
}

// empty is the room on the card without trials of this sweep.
func (c *slot) empty() unit.Bytes { return c.total - c.headroom - c.others - c.grow }

// survey looks at all that waits, in one pass: there may be ten thousand.
func (b *board) survey(waiting []Trial) {
	caps := make([]unit.Bytes, len(b.cards)) // the rooms of the cards when they are empty, ascending
	for i := range b.cards {
		caps[i] = b.cards[i].empty()
	}
	slices.Sort(caps)
	above := make([]class, len(caps)) // what needs more than the card with that room, and not more than the next
	var known, alone class
	var unknown int
	for i := range waiting {
		t := &waiting[i]
		n := b.need(t)
		_, ok := b.claim(t)
		if t.Length > 0 {
			known.add(t.Length)
		} else {
			unknown++
		}
		if !ok {
			alone.add(t.Length)
		}
		if i == 0 || n < b.smallest {
			b.smallest = n
		}
		for j := len(caps) - 1; j >= 0; j-- {
			if n > caps[j] {
				above[j].add(t.Length)
				break
			}
		}
	}
	left := b.typify(known)
	all := known.time + time.Duration(unknown)*b.typical
	b.work = all + left
	b.scarcity(caps, above, all)
	if alone.n > 0 {
		b.forAlone(alone.work(b.typical), all)
	}
}

// A class sums up trials. Those of unknown length are counted, and get a typical one later.
type class struct {
	n, unknown int
	time       time.Duration
}

func (c *class) add(length time.Duration) {
	c.n++
	if c.time += length; length <= 0 {
		c.unknown++
	}
}

func (c class) work(typical time.Duration) time.Duration {
	return c.time + time.Duration(c.unknown)*typical
}

// typify gives trials of unknown length a typical one: the mean of those that are known. It returns the work that is
// left of what runs.
func (b *board) typify(known class) (left time.Duration) {
	for i := range b.cards {
		for _, p := range b.cards[i].own {
			if p.length > 0 {
				known.add(p.length)
			}
		}
	}
	b.typical = time.Hour // where nothing is known any length will do: all are alike
	if known.n > 0 {
		b.typical = known.time / time.Duration(known.n)
	}
	for i := range b.cards {
		for j := range b.cards[i].own {
			p := &b.cards[i].own[j]
			if p.left <= 0 {
				p.left = b.typical / 2
			}
			left += p.left
		}
	}
	return left
}

// scarcity finds the trials that only few cards can run, and that would still run there when all others have ended.
func (b *board) scarcity(caps []unit.Bytes, above []class, all time.Duration) {
	var w time.Duration
	for j := len(caps) - 2; j >= 0; j-- { // what needs more than the largest card, none is better for
		w += above[j].work(b.typical)
		cards := len(caps) - 1 - j
		if caps[j+1] > caps[j] && w > 0 && float64(w)*float64(len(caps)) >= 0.9*float64(all)*float64(cards) {
			b.scarce = caps[j]
		}
	}
}

// forAlone lets trials that need a card to themselves go first, on as many cards as is their share of the work, and
// keeps that many from being shared any longer: else all such trials would be left to the end.
func (b *board) forAlone(alone, all time.Duration) {
	b.alone = max(1, int(float64(alone)/float64(all)*float64(len(b.cards))+0.5))
	empty := 0
	for i := range b.cards {
		switch c := &b.cards[i]; {
		case c.closed:
			b.alone--
		case len(c.own) == 0:
			empty++
		}
	}
	for n := b.alone - empty; n > 0; n-- {
		b.hold(0)
	}
}

// hold keeps a card with at least that room from being shared any longer: the one that will be empty first. Where the
// room that is needed is unknown, that is 0 and the largest card is held.
func (b *board) hold(room unit.Bytes) {
	var best *slot
	for i := range b.cards {
		c := &b.cards[i]
		if len(c.own) == 0 || c.closed || c.held || c.occupied || c.empty() < room {
			continue
		}
		if best == nil || room == 0 && c.total > best.total ||
			(room > 0 || c.total == best.total) && c.longest() < best.longest() {
			best = c
		}
	}
	if best != nil {
		best.held = true
	}
}

// forPassed holds a card for the first trial that too many later ones have passed, if it fits nowhere now.
func (b *board) forPassed(waiting []Trial, most int) {
	for i := range waiting {
		t := &waiting[i]
		if t.Passed < patience {
			continue
		}
		for k := 1; k <= most; k++ {
			if b.fit(t, k, most) >= 0 {
				return
			}
		}
		b.hold(b.need(t))
		return
	}
}

func (c *slot) longest() (l time.Duration) {
	for _, p := range c.own {
		l = max(l, p.left)
	}
	return l
}

func (b *board) length(t *Trial) time.Duration {
	if t.Length > 0 {
		return t.Length
	}
	return b.typical
}

// pick finds the next trial to start and its card: an empty card before a shared one, and the card that leaves the
// least room unused. It returns -1 if nothing can start.
func (b *board) pick(waiting []Trial, started []bool, most int) (trial, card int) {
	for k := 1; k <= most; k++ {
		room, any := unit.Bytes(0), false
		for i := range b.cards {
			if c := &b.cards[i]; c.takes(k, most) {
				room, any = max(room, c.free), true
			}
		}
		if !any || k > 1 && room < b.smallest {
			continue
		}
		best := -1
		for i := range waiting {
			t := &waiting[i]
			if started != nil && started[i] || best >= 0 && !b.before(t, &waiting[best], k) {
				continue
			}
			if n := b.need(t); n > room && !b.oversize(n) {
				continue
			}
			if c := b.fit(t, k, most); c >= 0 {
				best, card = i, c
			}
		}
		if best >= 0 {
			return best, card
		}
	}
	return -1, -1
}

// oversize is true if no card has that room even after other people have left. The trial gets the largest card to
// itself: launch itself decides there whether it starts, and with which settings.
func (b *board) oversize(n unit.Bytes) bool {
	for i := range b.cards {
		c := &b.cards[i]
		room := c.total - c.headroom
		if !c.occupied { // a desktop stays
			room = c.empty()
		}
		if n <= room {
			return false
		}
	}
	return true
}

// before is true if t goes before u.
func (b *board) before(t, u *Trial, k int) bool {
	if p, q := t.Passed >= patience, u.Passed >= patience; p != q {
		return p
	}
	if k == 1 && b.alone > 0 {
		_, p := b.claim(t)
		if _, q := b.claim(u); p != q {
			return q
		}
	}
	if b.scarce > 0 {
		if p, q := b.need(t) > b.scarce, b.need(u) > b.scarce; p != q {
			return p
		}
	}
	return b.length(t) > b.length(u)
}

// fit is the card for a trial as the k-th on it, -1 if there is none: the one that it fills best.
func (b *board) fit(t *Trial, k, most int) int {
	n := b.need(t)
	claim, shares := b.claim(t)
	if k > 1 && !shares {
		return -1
	}
	over := b.oversize(n)
	best := -1
	for i := range b.cards {
		c := &b.cards[i]
		switch {
		case !c.takes(k, most):
		case over:
			if k == 1 && c.total == b.largest() && !c.occupied && (best < 0 || c.free > b.cards[best].free) {
				best = i
			}
		case t.Need <= 0: // alone on the largest card
			if n <= c.free && !c.occupied && (best < 0 || c.free > b.cards[best].free) {
				best = i
			}
		case k == 1 && n > c.free || k > 1 && (claim > c.free || !b.harmless(t, c, k, most)):
		case best < 0 || c.free < b.cards[best].free:
			best = i
		}
	}
	return best
}

func (b *board) largest() (l unit.Bytes) {
	for i := range b.cards {
		l = max(l, b.cards[i].total)
	}
	return l
}

// harmless is true if no trial on the shared card is expected to end after the whole sweep would have: a trial that is
// longer than all the rest stays alone.
func (b *board) harmless(t *Trial, c *slot, k, most int) bool {
	if b.rehearsed {
		return true
	}
	end := float64(b.work) / (float64(len(b.cards)) * float64(most) * Speed(b.slowdown, most))
	return float64(max(b.length(t), c.longest()))/Speed(b.slowdown, k) <= end
}

// start puts a trial on a card.
func (b *board) start(t *Trial, card int) {
	c := &b.cards[card]
	n, shares := b.claim(t)
	shares = shares && !b.oversize(b.need(t))
	c.own = append(c.own, place{left: b.length(t), claim: n, closing: !shares})
	c.free -= n
	c.closed = c.closed || !shares
	if !shares {
		b.alone--
	}
}
