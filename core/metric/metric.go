// Package metric has the figures by which trainings are compared: a validation's PSNR, a loss, an accuracy.
package metric

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A Direction is which values of a metric are better.
type Direction string

// The directions.
const (
	Minimise Direction = "minimise"
	Maximise Direction = "maximise"
)

// ParseDirection reads a direction. The American spellings and the short forms of other tools count, too.
func ParseDirection(text string) (Direction, error) {
	switch strings.ToLower(text) {
	case "minimise", "minimize", "min":
		return Minimise, nil
	case "maximise", "maximize", "max":
		return Maximise, nil
	}
	return "", fmt.Errorf("%q is neither minimise nor maximise", text)
}

// Better reports whether a is better than b.
func (d Direction) Better(a, b float64) bool {
	if d == Minimise {
		return a < b
	}
	return a > b
}

// NoStep is the step of a value whose step is unknown.
const NoStep = -1

// A Point is a value and the step at which it was reported.
type Point struct {
	Value float64 `json:"value"`
	Step  int64   `json:"step"` // NoStep if unknown
}

// A Metric is what a program reported of one figure.
type Metric struct {
	Name      string    `json:"name"`
	Direction Direction `json:"direction"`
	// Last is the last value; nil if that was not a finite number.
	Last *Point `json:"last,omitempty"`
	// Best is the best finite value; nil if there was none.
	Best *Point `json:"best,omitempty"`
	// Diverged: the last value was NaN or infinite, which JSON cannot hold.
	Diverged bool `json:"diverged,omitempty"`
}

// Number is a pattern of a value as programs print it, for signs.
const Number = `[-+]?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|(?i:nan|inf))`

// Parse reads a value as a program prints it. Commas may group its digits, and one may follow it. A number that is too
// large is infinite.
func Parse(text string) (float64, error) {
	text = strings.TrimRight(text, ",")
	if isNaN(text) {
		return math.NaN(), nil
	}
	if grouped(text) {
		text = strings.ReplaceAll(text, ",", "")
	}
	v, err := strconv.ParseFloat(text, 64)
	if math.IsInf(v, 0) {
		err = nil
	}
	return v, err
}

// isNaN knows NaN as C prints it: the sign, and what follows in parentheses, are the machine's.
func isNaN(text string) bool {
	name, _, _ := strings.Cut(strings.TrimLeft(text, "+-"), "(")
	return strings.EqualFold(name, "nan")
}

// grouped reports whether the commas of a number group its digits. One that stands for a point does not: such a number
// is not known.
func grouped(text string) bool {
	parts := strings.Split(strings.TrimLeft(text, "+-"), ",")
	for i, p := range parts {
		digits := len(p) - len(strings.TrimLeft(p, "0123456789"))
		switch last := i == len(parts)-1; {
		case i == 0 && (digits == 0 || digits > 3 || p[0] == '0'):
			return false
		case last && digits != 3, !last && digits != len(p), i > 0 && !last && digits != 2 && digits != 3:
			return false
		}
	}
	return len(parts) > 1
}

// Add adds a reported value.
func (m *Metric) Add(p Point) {
	if math.IsNaN(p.Value) || math.IsInf(p.Value, 0) {
		m.Last, m.Diverged = nil, true
		return
	}
	m.Last, m.Diverged = &p, false
	if m.Best == nil || m.Direction.Better(p.Value, m.Best.Value) {
		m.Best = &p
	}
}

// A Set is the metrics of a training, by name.
type Set map[string]Metric

// Add adds a reported value to a metric, which it makes if there is none.
func (s *Set) Add(name string, d Direction, p Point) {
	if *s == nil {
		*s = Set{}
	}
	m, ok := (*s)[name]
	if !ok {
		m = Metric{Name: name, Direction: d}
	}
	m.Add(p)
	(*s)[name] = m
}

// Names are the names in order.
func (s Set) Names() []string { return slices.Sorted(maps.Keys(s)) }

// Continued returns the metrics of a training that went on: earlier had reached the step from which it was resumed.
// What was best before that is the training's own, if it was reported up to there; what came later was lost.
func (s Set) Continued(earlier Set, from int64) Set {
	out := maps.Clone(s)
	for name, before := range earlier {
		if before.Best == nil || before.Best.Step > from {
			continue // an unknown step is NoStep: it counts
		}
		m, ok := out[name]
		switch {
		case !ok:
			m = Metric{Name: name, Direction: before.Direction, Best: before.Best}
			if before.Last != nil && before.Last.Step <= from {
				m.Last = before.Last
			}
		case m.Best == nil || before.Direction.Better(before.Best.Value, m.Best.Value):
			m.Best = before.Best
		}
		if out == nil {
			out = Set{}
		}
		out[name] = m
	}
	return out
}
