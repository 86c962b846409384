package pack

import (
	"slices"
	"time"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/sweep"
)

// most is how many trials a forecast follows to their start.
const most = 1000

// Forecast notes in the quotes on which card each trial would begin, if all of them took the time that is expected, and
// nobody else used the cards more than now.
func Forecast(p Policy, greedy bool, cards []gpu.Device, jobs int, trials []sweep.Trial, quotes []sweep.Quote) {
	h := &sweep.History{}
	h.Apply(sweep.Event{Kind: sweep.Priced, Quotes: quotes})
	h.Apply(sweep.Event{Kind: sweep.Listed, Trials: trials})
	s := state(h, h.Rows, nil, greedy, time.Now())
	s.Policy = p
	index := map[string]string{}
	for _, c := range cards {
		s.Cards = append(s.Cards, Card{ID: name(c), Total: c.Total, Others: c.Used})
		index[name(c)] = (&sweep.Card{UUID: c.UUID, Index: c.Index}).String()
	}
	for range most {
		started := false
		for _, d := range Place(s) {
			i := slices.IndexFunc(s.Waiting, func(t Trial) bool { return t.ID == d.Trial })
			if d.Stop || i < 0 || jobs > 0 && len(s.Running) >= jobs {
				continue
			}
			t := s.Waiting[i]
			s.Waiting = slices.Delete(s.Waiting, i, i+1)
			s.Running = append(s.Running, Running{Trial: t, Card: d.Card, Started: d.Trial, Left: t.Length})
			started = true
			if t.ID <= len(quotes) {
				quotes[t.ID-1].Card = index[d.Card]
			}
		}
		if len(s.Running) == 0 || len(s.Waiting) == 0 && !started {
			return
		}
		first := 0 // the next to end
		for i, r := range s.Running {
			if r.Left < s.Running[first].Left {
				first = i
			}
		}
		passed := s.Running[first].Left
		s.Running = slices.Delete(s.Running, first, first+1)
		for i := range s.Running {
			s.Running[i].Left -= passed
		}
	}
}
