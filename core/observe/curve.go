package observe

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/launch-ml/launch/core/unit"
)

// CurveVersion is the version of [Curve]. A reader refuses newer ones.
const CurveVersion = 1

// A Curve is the memory that a job held during one attempt, over time. It has at most [CurveSpans] spans, whatever the
// attempt lasts, and never loses the largest or the smallest reading.
type Curve struct {
	Version int       `json:"version"`
	Began   time.Time `json:"began"` // the time from which the spans count
	Is      string    `json:"is"`    // the quantity, as mem.Measurement names it
	From    string    `json:"from"`  // its source
	// Doubted: part of the memory may belong to other processes.
	Doubted bool `json:"doubted,omitempty"`
	// Width is the length of a span: the readings in it are one span of the curve.
	Width  time.Duration `json:"width_ns"`
	Phases []string      `json:"phases"` // that the program's lines named, in the order of their first line
	Spans  []Span        `json:"spans"`
}

// A Span is what was read during a time as long as the curve's width. There is none for a time without a reading.
type Span struct {
	From    time.Duration `json:"from_ns"` // of its first reading
	To      time.Duration `json:"to_ns"`   // of its last reading
	Most    unit.Bytes    `json:"most_bytes"`
	MostAt  time.Duration `json:"most_at_ns"`
	Least   unit.Bytes    `json:"least_bytes"`
	LeastAt time.Duration `json:"least_at_ns"`
	// Phases are those that were running, as indices of the curve's; none before the program's first line.
	Phases []int `json:"phases"`
}

const (
	// CurveSpans is how many spans a curve has at most. Each has two points, so a curve has 2,000.
	CurveSpans = 1000
	// curveWidth is the width of a span at first. It doubles when there are too many.
	curveWidth = 50 * time.Millisecond
	// curvePhases is how many phases a curve names. Their names are the program's, so there could be any number.
	curvePhases = 16
)

// A recorder makes a curve.
type recorder struct {
	mu    sync.Mutex
	curve Curve
	since []int // the phases that began since the last reading
}

func newRecorder(now time.Time) *recorder {
	return &recorder{curve: Curve{Version: CurveVersion, Began: now, Width: curveWidth}}
}

// add adds a reading. phase is the running one; "" before the first.
func (r *recorder) add(now time.Time, held unit.Bytes, phase string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := max(0, now.Sub(r.curve.Began))
	s := Span{From: at, To: at, Most: held, MostAt: at, Least: held, LeastAt: at, Phases: union(r.since, r.index(phase))}
	r.since = nil
	if n := len(r.curve.Spans); n > 0 && r.curve.Spans[n-1].From/r.curve.Width == at/r.curve.Width {
		r.curve.Spans[n-1].join(s)
		return
	}
	r.curve.Spans = append(r.curve.Spans, s)
	for len(r.curve.Spans) > CurveSpans {
		r.curve.widen()
	}
}

// enter notes that a phase runs. A phase that is shorter than the time between two readings is on the curve, too.
func (r *recorder) enter(phase string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since = union(r.since, r.index(phase))
}

// index returns the phase as indices of the curve's phases.
func (r *recorder) index(phase string) []int {
	i := slices.Index(r.curve.Phases, phase)
	switch {
	case phase == "":
		return nil
	case i >= 0:
		return []int{i}
	case len(r.curve.Phases) >= curvePhases:
		return nil
	}
	r.curve.Phases = append(r.curve.Phases, phase)
	return []int{len(r.curve.Phases) - 1}
}

// snapshot returns the curve so far; nil if nothing was read.
func (r *recorder) snapshot(is, from string, doubted bool) *Curve {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.curve.Spans) == 0 {
		return nil
	}
	c := r.curve
	c.Is, c.From, c.Doubted = is, from, doubted
	c.Phases = append([]string{}, c.Phases...)
	c.Spans = slices.Clone(c.Spans)
	for i := range c.Spans {
		c.Spans[i].Phases = append([]int{}, c.Spans[i].Phases...)
	}
	return &c
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

// widen doubles the width of the spans.
func (c *Curve) widen() {
	c.Width *= 2
	spans := c.Spans[:0]
	for _, s := range c.Spans {
		if n := len(spans); n > 0 && spans[n-1].From/c.Width == s.From/c.Width {
			spans[n-1].join(s)
			continue
		}
		spans = append(spans, s)
	}
	c.Spans = spans
}

// Thin returns the curve with at most n spans, with the same largest and smallest readings.
func (c *Curve) Thin(n int) *Curve {
	out := *c
	out.Spans = slices.Clone(c.Spans)
	for len(out.Spans) > max(1, n) {
		out.widen()
	}
	return &out
}

// ParseCurve reads a curve as JSON. Its error names what is wrong with it.
func ParseCurve(text []byte) (*Curve, error) {
	var c Curve
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, fmt.Errorf("reading the memory over time: %w", err)
	}
	if c.Version > CurveVersion {
		return nil, fmt.Errorf("the memory over time was recorded by a newer launch (version %d, this one reads %d)",
			c.Version, CurveVersion)
	}
	if c.Width <= 0 || len(c.Spans) > CurveSpans {
		return nil, fmt.Errorf("the memory over time has %d spans of %v", len(c.Spans), c.Width)
	}
	before := time.Duration(0)
	for _, s := range c.Spans {
		outside := func(i int) bool { return i < 0 || i >= len(c.Phases) }
		outOf := func(at time.Duration) bool { return at < s.From || at > s.To }
		if s.From < before || s.To < s.From || s.Most < s.Least || outOf(s.MostAt) || outOf(s.LeastAt) ||
			slices.ContainsFunc(s.Phases, outside) {
			return nil, fmt.Errorf("the memory over time has a span that cannot be: from %v to %v", s.From, s.To)
		}
		before = s.To
	}
	return &c, nil
}
