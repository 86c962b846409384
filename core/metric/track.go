package metric

import "slices"

// A Track is what a program reported of a figure, by step: few enough values to be kept with each attempt, and chosen
// so that two attempts at the same steps have some in common. Those before the first step are kept apart.
type Track struct {
	Before []float64 `json:"before,omitempty"` // the first ones of the output, before any step
	Early  []Point   `json:"early,omitempty"`  // at the first steps that it reported
	Later  []Point   `json:"later,omitempty"`  // at the multiples of Every
	Every  int64     `json:"every,omitempty"`
	Last   *Point    `json:"last,omitempty"`
}

const (
	mostBefore = 8
	mostPoints = 64
)

// Add adds a value; at NoStep it is one before the first step. Of a step the last value counts.
func (t *Track) Add(p Point) {
	switch n := len(t.Early); {
	case p.Step == NoStep:
		if len(t.Before) < mostBefore && t.Last == nil {
			t.Before = append(t.Before, p.Value)
		}
		return
	case n > 0 && t.Early[n-1].Step == p.Step:
		t.Early[n-1] = p
	case n < mostPoints:
		t.Early = append(t.Early, p)
	}
	t.Last = &p
	if t.Every = max(1, t.Every); p.Step%t.Every != 0 {
		return
	}
	if n := len(t.Later); n > 0 && t.Later[n-1].Step == p.Step {
		t.Later[n-1] = p
		return
	}
	t.Later = append(t.Later, p)
	for len(t.Later) > mostPoints {
		t.Every *= 2
		t.Later = slices.DeleteFunc(t.Later, func(q Point) bool { return q.Step%t.Every != 0 })
	}
}

// At is the value at a step.
func (t *Track) At(step int64) (value float64, ok bool) {
	for _, points := range [][]Point{t.Early, t.Later} {
		if i := slices.IndexFunc(points, func(p Point) bool { return p.Step == step }); i >= 0 {
			return points[i].Value, true
		}
	}
	return 0, false
}

// Ahead is what the value would be at a step after the last, on the line through the last two that are known. It is a
// guess, and no further ahead than these two are apart.
func (t *Track) Ahead(step int64) float64 {
	if t.Last == nil {
		return 0
	}
	before := Point{Step: NoStep}
	for _, p := range slices.Concat(t.Early, t.Later) {
		if p.Step < t.Last.Step && p.Step > before.Step {
			before = p
		}
	}
	if ahead := step - t.Last.Step; before.Step != NoStep && ahead > 0 {
		apart := t.Last.Step - before.Step
		return t.Last.Value + (t.Last.Value-before.Value)*float64(min(ahead, apart))/float64(apart)
	}
	return t.Last.Value
}

// Clone is a copy of it.
func (t *Track) Clone() *Track {
	if t == nil {
		return nil
	}
	c := *t
	c.Before, c.Early, c.Later = slices.Clone(t.Before), slices.Clone(t.Early), slices.Clone(t.Later)
	return &c
}
