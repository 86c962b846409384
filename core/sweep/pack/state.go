package pack

import (
	"time"

	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/sweep"
	"github.com/launch-ml/launch/core/unit"
)

// state is what the history of a sweep tells of its trials. What the driver tells is missing.
func state(h *sweep.History, waiting, running []*sweep.Row, greedy bool, now time.Time) State {
	step := pace(h.Rows)
	trial := func(r *sweep.Row) Trial {
		t := Trial{ID: r.Number, AtLeast: r.AtLeast, Stops: r.Stops, Failed: r.Shared}
		if !greedy {
			t.Need = need(r)
		}
		if q := r.Quote; q != nil {
			t.Saves = q.Resumes
			t.Length = time.Duration(float64(q.Steps) * max(1, q.Slow) * float64(step))
		}
		if step == 0 && t.Length == 0 && r.Quote != nil { // only the order counts, until a trial has ended
			t.Length = time.Duration(r.Quote.Steps) * time.Second
		}
		return t
	}
	s := State{Peaks: peaks(h.Rows), Slowed: slowed(h.Rows)}
	for _, r := range waiting {
		s.Waiting = append(s.Waiting, trial(r))
	}
	passedOn(h.Rows, waiting, s.Waiting)
	for _, r := range running {
		on := Running{Trial: trial(r), Started: r.Order, Stopping: r.Stopping()}
		if r.Card != nil {
			on.Card = r.Card.UUID
		}
		if step > 0 && on.Length > 0 {
			on.Left = max(time.Second, on.Length-now.Sub(r.Begun))
		}
		s.Running = append(s.Running, on)
	}
	return s
}

// need is what a trial takes of a card as asked; 0: not known. If no card is that large, the trial gets the largest one
// to itself, and its launch decides.
func need(r *sweep.Row) unit.Bytes {
	if q := r.Quote; q != nil && q.Plugin != "" && q.Needs > 0 {
		return q.Asked
	}
	return 0
}

// pace is the mean time of a step of the trials that ran from their beginning to their end; 0: not known.
func pace(rows []*sweep.Row) time.Duration {
	took, steps := time.Duration(0), int64(0)
	for _, r := range rows {
		if res := r.Result; res != nil && r.State == sweep.Succeeded && r.Resume == "" && res.Length > 0 && res.Took > 0 {
			took += res.Took
			steps += res.Length
		}
	}
	if steps == 0 {
		return 0
	}
	return took / time.Duration(steps)
}

// peaks compares the estimates with what was measured. A trial that changed its settings was estimated with others.
func peaks(rows []*sweep.Row) (p Peaks) {
	for _, r := range rows {
		switch res := r.Result; {
		case r.AtLeast > 0 && r.State != sweep.Succeeded:
			p.Add(need(r), r.AtLeast)
		case res != nil && res.PeakIs == run.Used && r.State == sweep.Succeeded && !res.Down():
			p.Add(need(r), res.Peak)
		}
	}
	return p
}

// passedOn counts, for each waiting trial, the later ones that were started since it began to wait.
func passedOn(rows, waiting []*sweep.Row, trials []Trial) {
	later := make([]int, len(rows)+1) // of the rows from i on, how many were started
	for i := len(rows) - 1; i >= 0; i-- {
		later[i] = later[i+1]
		if rows[i].Starts > 0 {
			later[i]++
		}
	}
	for i, r := range waiting {
		if r.Starts == 0 {
			trials[i].Passed = later[r.Number]
			continue
		}
		for _, o := range rows[r.Number:] {
			if o.Order > r.Order {
				trials[i].Passed++
			}
		}
	}
}

// slowed compares the speeds of trials that were alone on their card for nearly all of their time with those of alike
// trials that shared it with as many others for nearly all of theirs.
func slowed(rows []*sweep.Row) (s Slowed) {
	type kind struct {
		asked  unit.Bytes
		global int64
		steps  int64
	}
	alone := map[kind][]float64{}
	type measured struct {
		kind
		rate float64
		on   int
	}
	var shared []measured
	stays := map[string][]sweep.Stay{} // by card
	for _, r := range rows {
		for _, st := range r.Stays {
			stays[st.Card] = append(stays[st.Card], st)
		}
	}
	for _, r := range rows {
		res := r.Result
		if res == nil || r.Card == nil || r.State != sweep.Succeeded || res.Rate <= 0 || res.Down() ||
			need(r) == 0 || len(r.Stays) == 0 {
			continue
		}
		k := kind{need(r), r.Quote.Global, r.Quote.Steps}
		switch n := beside(r.Stays[len(r.Stays)-1], stays[r.Card.UUID]); {
		case n == 1:
			alone[k] = append(alone[k], res.Rate)
		case n > 1:
			shared = append(shared, measured{k, res.Rate, n})
		}
	}
	for _, m := range shared {
		if rates := alone[m.kind]; len(rates) > 0 {
			sum := 0.0
			for _, rate := range rates {
				sum += rate
			}
			s.Add(1, m.on, sum/float64(len(rates))/m.rate)
		}
	}
	return s
}

// nearly is the share of its time for which as many trials have to be on a trial's card.
const nearly = 0.8

// beside is how many trials were on a trial's card for nearly all of its time, with itself; 0 if the number changed.
func beside(own sweep.Stay, all []sweep.Stay) int {
	took := own.To.Sub(own.From)
	if took <= 0 {
		return 0
	}
	n, part := 0, time.Duration(0) // its own stay is in all
	for _, o := range all {
		from, to := o.From, o.To
		if to.IsZero() || to.After(own.To) {
			to = own.To
		}
		if from.Before(own.From) {
			from = own.From
		}
		switch both := to.Sub(from); {
		case float64(both) >= nearly*float64(took):
			n++
		case both > 0:
			part += both
		}
	}
	if float64(part) > (1-nearly)*float64(took) {
		return 0
	}
	return n
}
