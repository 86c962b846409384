package job

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/metric"
)

// What was reached at the end of a training is judged here: each check of a plugin is a pattern, a bound and
// a window over what the program printed. What was not printed could not be checked, and is never met.
//
// [CheckValues.Add] holds a bounded amount of a figure, whatever is printed. [Judge] is pure: it decides by these
// values. No project is known here.

// A CheckState is the result of a check.
type CheckState string

// The states.
const (
	Met        CheckState = "met"
	NotMet     CheckState = "not met"
	NotChecked CheckState = "not checked" // launch could not find out
)

// A CheckResult is one line of the list, with its result.
type CheckResult struct {
	Name  string     `json:"name"` // what is true if it is met
	State CheckState `json:"state"`
	Seen  string     `json:"seen"` // what was seen, or why it could not be checked
	// Evidence is the line of the program that Seen rests on; "" if there is none.
	Evidence string `json:"evidence,omitempty"`
	Hint     string `json:"hint,omitempty"` // what to look at; only if it is not met
	// Declared: the project declares it. The others are launch's own.
	Declared bool `json:"declared,omitempty"`
	// Elsewhere: another line at the end of a run reports the same already.
	Elsewhere bool `json:"-"`
}

// A CheckPoint is one value as it was printed.
type CheckPoint struct {
	Value string `json:"value"` // NaN is no number in JSON
	Step  int64  `json:"step"`  // metric.NoStep if unknown
	Line  string `json:"line"`
}

// number is the value of a point; NaN if it is none.
func (p CheckPoint) number() float64 {
	v, err := metric.Parse(p.Value)
	if err != nil {
		return math.NaN()
	}
	return v
}

func (p CheckPoint) finite() bool { return !math.IsNaN(p.number()) && !math.IsInf(p.number(), 0) }

// at is a value and its step, for a sentence.
func (p CheckPoint) at() string {
	if p.Step == metric.NoStep {
		return p.Value
	}
	return p.Value + " at step " + strconv.FormatInt(p.Step, 10)
}

// NoNumber is the end of [CheckResult.Seen] where a value is NaN or infinite.
const NoNumber = ", which is no finite number"

// A CheckSeries is what is kept of one figure.
type CheckSeries struct {
	Name  string     `json:"name,omitempty"` // of the group "series"
	Count int        `json:"count"`
	First CheckPoint `json:"first"`
	// Other is the first value that differs from First, and Bad the first that breaks the rule.
	Other *CheckPoint `json:"other,omitempty"`
	Bad   *CheckPoint `json:"bad,omitempty"`
	// Last are the last values: as many as the window has, else one.
	Last []CheckPoint `json:"last"`
}

// CheckValues are what is kept of the figures of a check.
type CheckValues struct {
	Series []CheckSeries `json:"series,omitempty"`
	Early  int           `json:"early,omitempty"` // values that came before the check counts them
	// LeftOut: there are more series than are kept, or longer names. What they show is not known.
	LeftOut bool `json:"left_out,omitempty"`
}

// Bounds of what is kept.
const (
	maxSeries     = 16
	maxLine       = 300 // bytes of a line
	maxValue      = 40
	maxSeriesName = 200 // of a series
)

// Add takes a value of a check. Series beyond the bound are left out, and values that are no number where they have to
// move: a figure that becomes NaN does not.
func (v *CheckValues) Add(c Check, series string, p CheckPoint) {
	if c.Rule == Moving && !p.finite() {
		return
	}
	if c.After > 0 && p.Step < c.After {
		v.Early++
		return
	}
	if v := p.number(); len(p.Value) > maxValue && !math.IsNaN(v) {
		p.Value = strconv.FormatFloat(v, 'g', -1, 64) // as exact, and it stays a number
	}
	p.Line, p.Value = clip(p.Line, maxLine), clip(p.Value, maxValue)
	if len(series) > maxSeriesName { // the beginning of a name would be that of another series, too
		v.LeftOut = true
		return
	}
	i := slices.IndexFunc(v.Series, func(s CheckSeries) bool { return s.Name == series })
	if i < 0 {
		if len(v.Series) == maxSeries {
			v.LeftOut = true
			return
		}
		i = len(v.Series)
		v.Series = append(v.Series, CheckSeries{Name: series, First: p})
	}
	v.Series[i].add(c, p)
}

func (s *CheckSeries) add(c Check, p CheckPoint) {
	s.Count++
	if s.Other == nil && differ(s.First, p) {
		s.Other = &p
	}
	if s.Bad == nil && breaks(c, p) {
		s.Bad = &p
	}
	s.Last = append(s.Last, p)
	if n := len(s.Last) - max(1, c.Last); n > 0 {
		s.Last = slices.Delete(s.Last, 0, n)
	}
}

// Continued returns the values of a training that went on: earlier are those of the attempts before.
func (v CheckValues) Continued(c Check, earlier CheckValues) CheckValues {
	out := earlier.Clone()
	out.Early, out.LeftOut = out.Early+v.Early, out.LeftOut || v.LeftOut
	for _, s := range v.Series {
		i := slices.IndexFunc(out.Series, func(o CheckSeries) bool { return o.Name == s.Name })
		if i < 0 {
			if len(out.Series) < maxSeries {
				out.Series = append(out.Series, s.clone())
			} else {
				out.LeftOut = true
			}
			continue
		}
		o := &out.Series[i]
		o.Count += s.Count
		if o.Bad == nil {
			o.Bad = s.Bad
		}
		for _, p := range []*CheckPoint{&s.First, s.Other} {
			if o.Other == nil && p != nil && differ(o.First, *p) {
				o.Other = p
			}
		}
		o.Last = slices.Concat(o.Last, s.Last)
		o.Last = o.Last[max(0, len(o.Last)-max(1, c.Last)):]
	}
	return out
}

// Clone returns values that share nothing with v.
func (v CheckValues) Clone() CheckValues {
	v.Series = slices.Clone(v.Series)
	for i := range v.Series {
		v.Series[i] = v.Series[i].clone()
	}
	return v
}

func (s CheckSeries) clone() CheckSeries {
	s.Last = slices.Clone(s.Last)
	return s
}

// breaks reports whether one value breaks the rule.
func breaks(c Check, p CheckPoint) bool {
	v := p.number()
	return !p.finite() || c.Rule == Within && (c.Min != nil && v < *c.Min || c.Max != nil && v > *c.Max)
}

// differ reports whether two values do. One that stays NaN does not move.
func differ(p, q CheckPoint) bool {
	a, b := p.number(), q.number()
	return a != b && !(math.IsNaN(a) && math.IsNaN(b))
}

// Judge decides a check by its values.
func Judge(c Check, v CheckValues) CheckResult {
	out := CheckResult{Name: c.Name, Declared: true, State: NotChecked}
	if !slices.Contains(Rules, c.Rule) {
		out.Seen = fmt.Sprintf("this launch does not know the rule %q", c.Rule)
		return out
	}
	counted := 0
	for _, s := range v.Series {
		counted = max(counted, s.Count)
	}
	switch few := c.Fewest(); {
	case counted == 0 && v.Early > 0:
		out.Seen = fmt.Sprintf("the program printed no value from step %d on", c.After)
		return out
	case counted == 0:
		out.Seen = "the program printed no value that shows it"
		return out
	case counted < few:
		out.Seen = fmt.Sprintf("the program printed %d of the %d values that it takes", counted, few)
		out.Evidence = v.Series[0].Last[0].Line
		return out
	}
	if c.Rule == Moving {
		moves(&out, c, v)
	} else {
		holds(&out, c, v)
	}
	if v.LeftOut && (out.State == Met) == (c.Rule != Moving) { // one that was left out may show the opposite
		out.State, out.Evidence = NotChecked, ""
		out.Seen = fmt.Sprintf("the program prints more figures of it than the %d that launch keeps", maxSeries)
	}
	if out.State == NotMet {
		out.Hint = c.Hint
	}
	return out
}

// moves decides whether one of the series moves.
func moves(out *CheckResult, c Check, v CheckValues) {
	still := make([]string, 0, len(v.Series))
	for _, s := range v.Series {
		if s.Count < c.Fewest() {
			continue
		}
		from, to := s.moved(c)
		if to != nil {
			out.State, out.Seen = Met, s.named()+from.at()+", then "+to.at()
			out.Evidence = to.Line
			return
		}
		last := s.Last[len(s.Last)-1]
		still, out.Evidence = append(still, s.named()+last.Value), last.Line
	}
	out.State, out.Seen = NotMet, "it stayed the same: "+strings.Join(still, ", ")
	if c.Last > 0 {
		out.Seen = fmt.Sprintf("the last %d values are the same: %s", c.Last, strings.Join(still, ", "))
	}
}

// moved returns two values of the window that differ; to is nil if there are none.
func (s CheckSeries) moved(c Check) (from CheckPoint, to *CheckPoint) {
	if c.Last == 0 {
		return s.First, s.Other
	}
	for i := range s.Last {
		if differ(s.Last[0], s.Last[i]) {
			return s.Last[0], &s.Last[i]
		}
	}
	return CheckPoint{}, nil
}

// holds decides whether every value is as the rule has it.
func holds(out *CheckResult, c Check, v CheckValues) {
	for _, s := range v.Series {
		bad := s.Bad
		if c.Last > 0 {
			i := slices.IndexFunc(s.Last, func(p CheckPoint) bool { return breaks(c, p) })
			if bad = nil; i >= 0 {
				bad = &s.Last[i]
			}
		}
		last := s.Last[len(s.Last)-1]
		if bad != nil {
			out.State, out.Evidence = NotMet, bad.Line
			out.Seen = s.named() + bad.at() + NoNumber
			if bad.finite() {
				out.Seen = s.named() + bad.at() + ", which is not " + bounds(c)
			}
			return
		}
		out.State, out.Evidence, out.Seen = Met, last.Line, s.named()+last.at()
	}
}

// bounds are those of a check, for a sentence.
func bounds(c Check) string {
	number := func(f *float64) string { return strconv.FormatFloat(*f, 'g', -1, 64) }
	switch {
	case c.Min == nil:
		return "at most " + number(c.Max)
	case c.Max == nil:
		return "at least " + number(c.Min)
	}
	return "from " + number(c.Min) + " to " + number(c.Max)
}

func (s CheckSeries) named() string {
	if s.Name == "" {
		return ""
	}
	return s.Name + " "
}

func clip(s string, most int) string {
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// OpenChecks lists the items that the end of a run reports: those that are not met, and those that the project
// declares and that could not be checked.
func OpenChecks(all []CheckResult) (out []CheckResult) {
	for _, it := range all {
		if !it.Elsewhere && (it.State == NotMet || it.State == NotChecked && it.Declared) {
			out = append(out, it)
		}
	}
	return out
}
