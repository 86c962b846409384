package observe

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/unit"
)

const (
	// spanWidth is the width of a span at first. It doubles when there are too many.
	spanWidth = 50 * time.Millisecond
	// mostPhases is how many phases a recorder names. Their names are the program's, so there could be any number.
	mostPhases = 16
)

// A recorder keeps what an attempt shows over time: the memory that the job holds, its host memory, the time in each
// phase, and how busy the card is. All of it is bounded, whatever the attempt lasts. It has two readers: curve is what
// a report draws, and course is what advice is taken from. Its methods may be called from several goroutines.
type recorder struct {
	mu       sync.Mutex
	began    time.Time
	phases   []string // named by the program's lines, in the order of their first line
	held     series   // all that the job held, with its phases
	training series   // in training or where the phase is not known
	host     series
	since    []int // the phases that began since the last reading
	phase    string
	phaseAt  time.Time // the time in phase is counted up to here
	spent    map[string]time.Duration
	busy     float64 // the mean, of so many looks
	looks    int
	busyFrom time.Time
	busyFor  time.Duration
}

func newRecorder(now time.Time) *recorder {
	return &recorder{began: now, phaseAt: now, spent: map[string]time.Duration{},
		held: newSeries(), training: newSeries(), host: newSeries()}
}

// enter notes which phase runs from now on, "" before the first. A phase that is shorter than the time between two
// readings is on the curve, too.
func (r *recorder) enter(now time.Time, phase string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spent[r.phase] += max(0, now.Sub(r.phaseAt))
	r.phaseAt, r.phase = now, phase
	r.since = union(r.since, r.index(phase))
}

// pass notes a phase that has ended. Of some phases a program prints the end only.
func (r *recorder) pass(phase string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since = union(r.since, r.index(phase))
}

// add adds a reading of what the job holds.
func (r *recorder) add(now time.Time, held unit.Bytes) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := now.Sub(r.began)
	r.held.add(at, held, union(r.since, r.index(r.phase)))
	r.since = nil
	if r.phase == ladder.Training || r.phase == "" {
		r.training.add(at, held, nil)
	}
}

// addHost adds a reading of the job's host memory.
func (r *recorder) addHost(now time.Time, held unit.Bytes) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.host.add(now.Sub(r.began), held, nil)
}

// addBusy adds a look at how busy the card is, in percent; nil if that is not known. It counts in training only.
func (r *recorder) addBusy(now time.Time, percent *int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.phase != ladder.Training || percent == nil {
		return
	}
	if r.looks == 0 {
		r.busyFrom = now
	}
	r.looks++
	r.busy += (float64(*percent) - r.busy) / float64(r.looks)
	r.busyFor = now.Sub(r.busyFrom)
}

// index returns the phase as indices of the recorder's phases. mu is held.
func (r *recorder) index(phase string) []int {
	i := slices.Index(r.phases, phase)
	switch {
	case phase == "":
		return nil
	case i >= 0:
		return []int{i}
	case len(r.phases) >= mostPhases:
		return nil
	}
	r.phases = append(r.phases, phase)
	return []int{len(r.phases) - 1}
}

// curve returns the memory so far; nil if nothing was read.
func (r *recorder) curve() *Curve {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.held.spans) == 0 {
		return nil
	}
	c := &Curve{Version: CurveVersion, Began: r.began, Width: r.held.width, Phases: append([]string{}, r.phases...),
		Spans: slices.Clone(r.held.spans)}
	for i := range c.Spans {
		c.Spans[i].Phases = append([]int{}, c.Spans[i].Phases...)
	}
	return c
}

// A Course is what advice is taken from.
type Course struct {
	Held []Reading // by the job, in training or where the phase is not known
	// Host is the anonymous memory of all processes of the job, which no file backs and the kernel cannot drop.
	Host []Reading
	// Phases are those that have begun, also those of which the program prints the end only.
	Phases []string
	// Spent is the time in each phase, "" before the first.
	Spent map[string]time.Duration
	// Busy is the mean of how busy the card was in training, in percent, BusyLooks of how many looks, over BusyFor.
	Busy      float64
	BusyLooks int
	BusyFor   time.Duration
}

// A Reading is the memory that was held at a time after the start: the least within some time.
type Reading struct {
	After time.Duration
	Held  unit.Bytes
}

func (r *recorder) course() Course {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Course{Held: r.training.least(), Host: r.host.least(), Spent: maps.Clone(r.spent),
		Phases: slices.Clone(r.phases),
		Busy:   r.busy, BusyLooks: r.looks, BusyFor: r.busyFor}
}

// A series is a bounded number of spans of the same width.
type series struct {
	width time.Duration
	spans []Span
}

func newSeries() series { return series{width: spanWidth} }

func (s *series) add(at time.Duration, held unit.Bytes, phases []int) {
	at = max(0, at)
	one := Span{From: at, To: at, Most: held, MostAt: at, Least: held, LeastAt: at, Phases: phases}
	if n := len(s.spans); n > 0 && s.spans[n-1].From/s.width == at/s.width {
		s.spans[n-1].join(one)
		return
	}
	s.spans = append(s.spans, one)
	for len(s.spans) > CurveSpans {
		s.widen()
	}
}

// widen doubles the width of the spans.
func (s *series) widen() {
	s.width *= 2
	spans := s.spans[:0]
	for _, one := range s.spans {
		if n := len(spans); n > 0 && spans[n-1].From/s.width == one.From/s.width {
			spans[n-1].join(one)
			continue
		}
		spans = append(spans, one)
	}
	s.spans = spans
}

// least returns the least reading of each span.
func (s *series) least() []Reading {
	out := make([]Reading, 0, len(s.spans))
	for _, one := range s.spans {
		out = append(out, Reading{one.LeastAt, one.Least})
	}
	return out
}

// join adds a later span to s.
func (s *Span) join(later Span) {
	s.To = later.To
	if later.Most > s.Most {
		s.Most, s.MostAt = later.Most, later.MostAt
	}
	if later.Least < s.Least {
		s.Least, s.LeastAt = later.Least, later.LeastAt
	}
	s.Phases = union(s.Phases, later.Phases)
}

// union returns the indices of both, sorted. It changes neither.
func union(a, b []int) []int {
	for _, i := range b {
		if !slices.Contains(a, i) {
			a = append(slices.Clone(a), i)
		}
	}
	slices.Sort(a)
	return a
}
