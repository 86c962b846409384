package observe

import (
	"encoding/json"
	"fmt"
	"slices"
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

// CurveSpans is how many spans a curve has at most. Each has two points, so a curve has 2,000.
const CurveSpans = 1000

// Thin returns the curve with at most n spans, with the same largest and smallest readings.
func (c *Curve) Thin(n int) *Curve {
	all := series{c.Width, slices.Clone(c.Spans)}
	for len(all.spans) > max(1, n) {
		all.widen()
	}
	out := *c
	out.Width, out.Spans = all.width, all.spans
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
