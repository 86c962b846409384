package advice

import (
	"fmt"
	"slices"
	"time"

	"github.com/launch-ml/launch/core/job"
)

// Live finds, while a program runs, the advice that would come too late at its end: each once, as soon as it is
// certain.
type Live struct {
	told  map[string]bool
	since map[string]time.Duration // when what is not yet certain was seen first, since then without a break
}

const (
	// climbAgain is how much longer a curve has to be, and still climb, before that is certain: a judgement that is made
	// again and again finds a climb sooner or later.
	climbAgain = 1.25
	// crowdedTime is how long others have to leave too little room: a program that looks at the card once is no news.
	crowdedTime = 2 * time.Minute
)

// Look returns what is certain now and was not before. at is the time since the start.
func (l *Live) Look(s Seen, at time.Duration) (out []job.Advice) {
	if l.told == nil {
		l.told, l.since = map[string]bool{}, map[string]time.Duration{}
	}
	all := Give(s)
	l.forget(all)
	for _, a := range all {
		if !l.told[a.Name] && l.certain(a, s, at) {
			l.told[a.Name] = true
			out = append(out, a)
		}
	}
	if a := crowded(s); a != nil && !l.told[a.Name] && l.lasts(a.Name, true, at) >= crowdedTime {
		l.told[a.Name] = true
		out = append(out, *a)
	} else if a == nil {
		l.lasts(crowdedName, false, at)
	}
	slices.SortStableFunc(out, byWeight)
	for i := range out {
		out[i].Told = true
	}
	return out
}

// certain reports whether advice does not wait for the end.
func (l *Live) certain(a job.Advice, s Seen, at time.Duration) bool {
	switch a.Name {
	case job.NotFinite:
		return s.Text != nil && s.Text.unbroken(job.NotFinite)
	case smallShm, FullCard:
		return true
	case leakName, hostLeakName:
		if a.Weight != job.Fails { // it lasts longer than any training
			return false
		}
		if _, seen := l.since[a.Name]; !seen {
			l.since[a.Name] = at
		}
		return float64(at) >= climbAgain*float64(l.since[a.Name])
	}
	return false
}

// Pressing reports whether live advice is of memory that is about to run out, and whether that is the card's.
func Pressing(a job.Advice) (pressing, card bool) {
	return a.Weight == job.Fails && (a.Name == leakName || a.Name == hostLeakName), a.Name == leakName
}

// lasts returns how long something has been so, without a break.
func (l *Live) lasts(name string, is bool, at time.Duration) time.Duration {
	if !is {
		delete(l.since, name)
		return 0
	}
	if _, seen := l.since[name]; !seen {
		l.since[name] = at
	}
	return at - l.since[name]
}

// crowded compares what a phase that has not run yet needs with what other processes leave. A need that was larger than
// the room from the start was printed with the plan.
func crowded(s Seen) *job.Advice {
	for _, n := range s.Ahead {
		left := s.Card.Room
		if n.Room <= 0 || left <= 0 || n.Needs > n.Room || n.Needs <= left {
			continue
		}
		return &job.Advice{Name: crowdedName, Weight: job.Fails,
			What: fmt.Sprintf("%s has not run yet, and is estimated to need "+
				"%v; other processes on the card now leave %v", n.Phase, n.Needs, left),
			Evidence: []string{fmt.Sprintf("%v of %v, %v short", n.Needs, left, n.Needs-left)},
			Change:   "end those processes before it begins: launch gpus lists them"}
	}
	return nil
}

// forget makes a leak that was not yet certain start anew: Look found none this time.
func (l *Live) forget(all []job.Advice) {
	for _, name := range []string{leakName, hostLeakName} {
		if !slices.ContainsFunc(all, func(a job.Advice) bool { return a.Name == name && a.Weight == job.Fails }) {
			delete(l.since, name)
		}
	}
}
