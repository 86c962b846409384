package pack

// Place decides what to stop and what to start now. The same state gives the same decisions, stops first.
//
// Its caller calls it whenever a trial comes, grows, reaches its peak or ends, and when the use of a card by others
// changes. It puts a trial that was stopped back into Waiting when it is gone, with Stops raised; one that ran out of
// memory with AtLeast, and with Failed if it was not alone. Whether a trial has failed for good is the caller's
// decision, too. If nothing runs and nothing is started, everything that waits needs other people to leave.
func Place(s State) []Decision {
	b := newBoard(s)
	out := b.stops(s.Running)
	most := min(sharing(b.slowdown, s.Policy.Most), 2+s.Slowed.n) // more than two share after that was measured
	if len(s.Waiting) == 0 || !b.open(most) {
		return out
	}
	b.survey(s.Waiting)
	b.forPassed(s.Waiting, most)
	if most > 1 && len(s.Waiting) <= rollouts*len(s.Cards) {
		most, b.rehearsed = b.rehearse(s.Waiting, most), true
	}
	var started []bool
	for {
		i, c := b.pick(s.Waiting, started, most)
		if i < 0 {
			return out
		}
		if started == nil {
			started = make([]bool, len(s.Waiting))
		}
		started[i] = true
		b.start(&s.Waiting[i], c)
		out = append(out, Decision{Trial: s.Waiting[i].ID, Card: b.cards[c].id})
	}
}
