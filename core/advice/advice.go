// Package advice finds in what a program printed, and in what was observed of its memory and its card, what its user
// should change: each once a run, ranked, with its evidence and the exact change.
//
// Of a program that has failed it explains the report of core/oom (explain.go), and lists what would have helped
// (remedy.go), in the words of the frameworks and versions that the text shows (clues.go).
//
// All of it is data: a sign is a pattern, the least number of lines that match, and a window of lines for these; a
// bound is a share or a slope, over a time. The package knows no project and acts on nothing: it reads a text and
// values.
package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/unit"
)

var weights = []job.Weight{job.Fails, job.Slow, job.Tidy}

// Seen is what an attempt showed. What is zero or nil was not seen.
type Seen struct {
	Text *Text // of its output; nil if that was not kept
	// Spent is the time in each phase, Training the name of the one that is worth it.
	Spent    map[string]time.Duration
	Training string
	// Card and Host are the memory that was held, over time: of the card while training, and of the host.
	Card, Host Curve
	Busy       Busy
	// Retries are requests that the card refused and the allocator tried again, and by how much the largest was short.
	Retries int
	Short   unit.Bytes
	Cores   int
	// Workers is how the recipe names the number of its loader workers: "x.yml: train.workers (4)"; "" if unknown.
	Workers string
	Unread  []Setting
	Ahead   []Need
	// Diverged are metrics whose last value is no finite number.
	Diverged []string
}

// A Curve is an amount of memory over time, and the room that it has.
type Curve struct {
	Points []Point
	Room   unit.Bytes // 0: not known
}

// A Point is the memory that was held at a time after the start.
type Point struct {
	After time.Duration
	Held  unit.Bytes
}

// Busy is how much of the time the card ran a kernel, as the driver samples it, while the program trained.
type Busy struct {
	Percent float64 // the mean
	Looks   int     // that it is the mean of
	For     time.Duration
}

// A Setting is one that the running code does not read.
type Setting struct{ Where, Why string }

// A Need is what a phase that has not run yet needs of the card, and what it would have.
type Need struct {
	Phase       string
	Needs, Room unit.Bytes
}

// Give returns the advice for what was seen, the weightiest first; nil for none.
func Give(s Seen) []job.Advice {
	var out []job.Advice
	if s.Text != nil {
		out = s.Text.advice()
	}
	for _, of := range []func(Seen) *job.Advice{diverged, climbing, hostClimbing, full, ahead, validating, idle, unread} {
		if a := of(s); a != nil && !slices.ContainsFunc(out, func(b job.Advice) bool { return b.Name == a.Name }) {
			out = append(out, *a)
		}
	}
	for i := range out {
		place(&out[i], s)
	}
	slices.SortStableFunc(out, byWeight)
	return out
}

// byWeight orders advice, the weightiest first.
func byWeight(a, b job.Advice) int {
	return cmp.Compare(slices.Index(weights, a.Weight), slices.Index(weights, b.Weight))
}

// Once joins the advice of several attempts: each name once, as the last attempt has it.
func Once(attempts ...[]job.Advice) (out []job.Advice) {
	for _, all := range slices.Backward(attempts) {
		for _, a := range all {
			if i := slices.IndexFunc(out, func(b job.Advice) bool { return b.Name == a.Name }); i < 0 {
				out = append(out, a)
			} else {
				out[i].Told = out[i].Told || a.Told
			}
		}
	}
	slices.SortStableFunc(out, byWeight)
	return out
}

// place names the setting and the cores in a change.
func place(a *job.Advice, s Seen) {
	workers := s.Workers
	if workers == "" {
		workers = "the number of loader workers"
	}
	cores := "the cores"
	if s.Cores > 0 {
		cores = fmt.Sprintf("the %d cores", s.Cores)
	}
	a.Change = strings.NewReplacer("{workers}", workers, "{cores}", cores).Replace(a.Change)
}

func diverged(s Seen) *job.Advice {
	if len(s.Diverged) == 0 {
		return nil
	}
	return &job.Advice{Name: job.NotFinite, Weight: job.Fails, What: "the last value of " + strings.Join(s.Diverged,
		", ") +
		" is no finite number: training goes on without a result", Evidence: []string{}, Change: finite}
}

func full(s Seen) *job.Advice {
	if s.Retries == 0 {
		return nil
	}
	times := fmt.Sprintf("%d requests were refused and tried again", s.Retries)
	if s.Retries == 1 {
		times = "one request was refused and tried again"
	}
	if s.Short > 0 {
		times += fmt.Sprintf(", %v short", s.Short)
	}
	return &job.Advice{Name: FullCard, Weight: job.Slow,
		What: "the card was full: the allocator emptied its cache, which takes " +
			"time, and the next larger request fails", Evidence: []string{times},
		Change: "launch plan -- COMMAND lists milder changes; launch --allow speed -- COMMAND takes one"}
}

func ahead(s Seen) *job.Advice {
	for _, n := range s.Ahead {
		if n.Needs > n.Room && n.Room > 0 {
			return &job.Advice{Name: "ahead", Weight: job.Fails,
				What: fmt.Sprintf("%s has not run yet, and is estimated to need more "+
					"than the card has", n.Phase), Evidence: []string{fmt.Sprintf("%v of %v", n.Needs, n.Room)},
				Change: "launch --rehearse -- COMMAND runs every phase once before the training"}
		}
	}
	return nil
}

func unread(s Seen) *job.Advice {
	if len(s.Unread) == 0 {
		return nil
	}
	a := &job.Advice{Name: "unread", Weight: job.Tidy, What: "settings that the running code does not read",
		Evidence: []string{},
		Change:   "remove them: they suggest what does not happen"}
	for _, u := range s.Unread {
		a.Evidence = append(a.Evidence, u.Where+": "+u.Why)
	}
	return a
}
