package room

import (
	"cmp"
	"slices"
	"time"

	"github.com/launch-ml/launch/core/unit"
)

// A Need is what a job wants of its cards.
type Need struct {
	Cards int // how many
	// On returns what the job would take of each card, if it had this much room there.
	On func(room unit.Bytes) Share
}

// A Share is what a job would take of one card.
type Share struct {
	Bytes unit.Bytes // 0: not known; then the job gets a card without claims
	Never bool       // it would not start there
	// Rank orders plans by how far they are from the job as asked: 0 is as asked.
	Rank int
}

// Unknown is the need of a command that no plugin knows.
var Unknown = Need{Cards: 1, On: func(unit.Bytes) Share { return Share{} }}

// A Choice is where a job goes.
type Choice struct {
	At     []int   // the offers that it takes; none: it waits, or is refused
	Shares []Share // what it is expected to take of each of them
	Fits   bool    // its plan for an empty card fits there now
	Never  bool    // it would start on none of the cards, not even alone
	Want   Share   // what it waits for
	Among  []int   // the offers that it could take if they were empty
}

// Choose picks the cards of a job. It takes the plans that are nearest to the job as asked on cards that it would have
// alone, and of the cards where such a plan fits now, those with the least room, so that the larger ones stay for
// larger jobs. If there are too few, a patient job waits. Another one takes what is free, with the most room first.
func Choose(offers []Offer, n Need, patient bool) (c Choice) {
	shares := make([]Share, len(offers))
	for i, o := range offers {
		shares[i] = n.On(o.Empty)
	}
	c.Among = among(shares, n.Cards)
	if len(c.Among) < n.Cards {
		c.Never = true
		if len(offers) < n.Cards || len(offers) == 0 {
			return c
		}
		for i := range offers { // whoever prints why it does not start does so for the best of them
			c.Among = append(c.Among, i)
		}
		slices.Sort(c.Among)
		c.Among = slices.Compact(c.Among)
	}
	c.Want = shares[slices.MinFunc(c.Among, func(a, b int) int { return cmp.Compare(shares[a].Bytes, shares[b].Bytes) })]
	order := slices.Clone(c.Among)
	fits := func(i int) bool { return !shares[i].Never && fit(offers[i], shares[i]) }
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case fits(a) != fits(b):
			return cmp.Compare(truth(fits(b)), truth(fits(a)))
		case fits(a) && shares[a].Bytes > 0:
			return cmp.Compare(offers[a].Free, offers[b].Free)
		case offers[a].Open != offers[b].Open:
			return cmp.Compare(truth(offers[a].Open), truth(offers[b].Open))
		}
		return cmp.Compare(offers[b].Free, offers[a].Free)
	})
	order = order[:n.Cards]
	c.Fits = !slices.ContainsFunc(order, func(i int) bool { return !fits(i) })
	unknown := slices.ContainsFunc(order, func(i int) bool { return shares[i].Bytes == 0 && !shares[i].Never })
	if !c.Fits && !c.Never && (patient || unknown) {
		return c
	}
	c.At = order
	for _, i := range order {
		c.Shares = append(c.Shares, shares[i])
	}
	return c
}

// among lists the cards with the plans nearest to the job as asked; more, if those are too few.
func among(shares []Share, cards int) (out []int) {
	ranks := []int{}
	for _, s := range shares {
		if !s.Never {
			ranks = append(ranks, s.Rank)
		}
	}
	slices.Sort(ranks)
	if len(ranks) < cards || len(ranks) == 0 {
		return nil
	}
	worst := ranks[max(1, cards)-1]
	for i, s := range shares {
		if !s.Never && s.Rank <= worst {
			out = append(out, i)
		}
	}
	return out
}

// mostlyFree is the part of a card, of 4, that has to be free for a job whose need is not known. A desktop takes less
// than the rest.
const mostlyFree = 3

// fit reports whether a share of a card is there now.
func fit(o Offer, s Share) bool {
	if s.Bytes == 0 {
		return o.Claims == 0 && 4*o.Free >= mostlyFree*o.Empty
	}
	return !o.Open && s.Bytes <= o.Free
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}

// patience is how long a waiting launch may be overtaken by smaller ones. After that it has a card, the one with the
// most room of those that it could take, on which a later launch starts only if there is room for both.
const patience = time.Minute

// keep takes from the offers what is kept for launches that have waited too long, the first of them first. Only those
// count that began to wait before since.
func keep(offers []Offer, held []Held, since, now time.Time) []Offer {
	offers = slices.Clone(offers)
	waiting := slices.DeleteFunc(slices.Clone(held), func(h Held) bool {
		return !h.Waiting || !h.Refuses() || h.Own() || !h.Since.Before(since) || now.Sub(h.Since) < patience
	})
	slices.SortStableFunc(waiting, func(a, b Held) int { return a.Since.Compare(b.Since) })
	for _, w := range waiting {
		best := -1
		for i, o := range offers {
			if could(w, o) && (best < 0 || o.Free > offers[best].Free) {
				best = i
			}
		}
		if best >= 0 {
			o := &offers[best]
			o.Free = max(0, o.Free-w.Bytes)
			o.Claims++
			o.Open = o.Open || w.Open
		}
	}
	return offers
}

// could reports whether a waiting launch could take a card, or host memory.
func could(w Held, o Offer) bool {
	if w.Kind == HostMemory.Kind {
		return o.Device.UUID == "" && w.Bytes <= o.Empty
	}
	return slices.Contains(w.Among, o.Device.UUID) && w.Bytes <= o.Empty
}
