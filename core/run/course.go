package run

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/oom"
)

// A Place is where a training is, by one report of its program.
type Place struct {
	Iteration int64 `json:"iteration"`
	// Epoch is the one that the same line names; absent if it names none.
	Epoch *int64 `json:"epoch,omitempty"`
}

// A Course is what one counter of a program has reported: those of one stream that count to the same total.
type Course struct {
	Stream string `json:"stream,omitempty"`
	Total  int64  `json:"total,omitempty"` // 0: it prints none
	// Bar is to what a progress bar counts of which Total is not read: that of an evaluation may look the same.
	Bar   int64 `json:"bar,omitempty"`
	First Place `json:"first"` // the first report of a step that was trained
	Last  Place `json:"last"`
	// Gap is the most that lay between two reports; 0 if there was only one.
	Gap int64 `json:"gap,omitempty"`
	// Falls: the count began again within an attempt, so that it is that of an epoch.
	Falls bool `json:"falls,omitempty"`
	// Figures: its reports have what only a trained step has, such as a loss.
	Figures bool `json:"figures,omitempty"`
	// Step is the time from one step to the next; 0: not known.
	Step  time.Duration `json:"step_ns,omitempty"`
	marks []mark
}

// A mark is when a report came.
type mark struct {
	iteration int64
	at        time.Time
}

// Courses keeps the courses of an attempt. The zero value is ready.
type Courses struct {
	all   []Course
	saved []savedAt
	early string
}

// savedAt are the courses when a state was reported as saved.
type savedAt struct {
	path      string
	iteration int64
	courses   []Course
}

// Bounds of what is kept.
const (
	maxCourses = 8
	maxSaved   = 32
	maxMarks   = 64
)

var (
	// untrained are words of a line about steps that are not trained now: those of a state that is read, and those that
	// a program passes over on its way to it.
	untrained = lazy.MustCompile(`(?i)\bskip|\bfast.?forward|\bresum(?:e|ing)|\bload(?:ed|ing)?\b|\brestor|\breplay|` +
		`\bcatch(?:ing)? up|\balready\b`)
	// outOf is a count of evaluations without improvement, and switched a setting: neither ends a training.
	outOf    = lazy.MustCompile(`(?i)counter\W{1,3}(\d+) (?:out )?of (\d+)`)
	switched = lazy.MustCompile(`(?i)[:=]\s*(?:true|false|none|null|\d+)\b`)
	// reached is a limit that ended a training, whatever its value is; ill is why one broke off, which
	// is no reason to be content.
	reached = lazy.MustCompile(`(?i)\breached\b`)
	ill     = lazy.MustCompile(`(?i)\bnan\b|\binf(?:inite|inity)?\b|\b(?:not|non)[ -]?finite\b|\bdiverg|` +
		`\berror\b|\bexception\b|\bfail(?:ed|ure)\b`)
	epochOf = lazy.MustCompile(`(?i)\bepochs?\b["']?[\s:=#\[(]{0,4}(\d+)`)
)

// See takes an event of the program's output. at is when it came.
func (c *Courses) See(e oom.Event, at time.Time) {
	switch e.Kind {
	case job.Progress:
		if e.Iteration >= 0 {
			c.early = ""
			c.step(e, at)
		}
	case job.SavedState:
		c.save(e)
	case oom.StoppedEarly:
		text := e.Line.Text
		m := outOf.FindStringSubmatch(text)
		reason := m != nil && m[1] == m[2] || m == nil && (!switched.MatchString(text) || reached.MatchString(text))
		if reason && !ill.MatchString(text) {
			c.early = strings.TrimSpace(text)
		}
	}
}

// Early is the line in which the program printed, after its last step, that it ends before the last one; "" for none.
func (c *Courses) Early() string { return c.early }

// step takes a report of progress.
func (c *Courses) step(e oom.Event, at time.Time) {
	trained := e.Figures()
	if !trained && (e.Iteration == 0 || untrained.MatchString(e.Line.Text)) {
		return // a bar shows 0 before training begins
	}
	bar := barOf(e)
	i := slices.IndexFunc(c.all, func(o Course) bool {
		return o.Stream == e.Line.Stream && o.Total == e.Total && o.Bar == bar
	})
	here := Place{Iteration: e.Iteration}
	if m := epochOf.FindStringSubmatch(e.Line.Text); m != nil {
		if n, err := strconv.ParseInt(m[1], 10, 64); err == nil {
			here.Epoch = &n
		}
	}
	if i < 0 {
		if len(c.all) < maxCourses {
			c.all = append(c.all, Course{Stream: e.Line.Stream, Total: e.Total, Bar: bar, First: here, Last: here,
				Figures: trained,
				marks:   []mark{{e.Iteration, at}}})
		}
		return
	}
	c.all[i].add(here, trained, at)
}

// ofBar is the count of a progress bar, "3/10 [".
var ofBar = lazy.MustCompile(`\b(\d+)/(\d+) \[`)

// barOf is to what the bar of a report counts, if its sign does not read that; else 0.
func barOf(e oom.Event) int64 {
	if e.Total > 0 {
		return 0
	}
	m := ofBar.FindStringSubmatch(e.Line.Text)
	if m == nil || m[1] != strconv.FormatInt(e.Iteration, 10) {
		return 0
	}
	n, _ := strconv.ParseInt(m[2], 10, 64)
	return n
}

// add takes a further report. What came before the first one with figures was not trained, such as steps that are
// passed over, or shows nothing.
func (c *Course) add(here Place, trained bool, at time.Time) {
	switch n := here.Iteration - c.Last.Iteration; {
	case trained && !c.Figures:
		c.First, c.Figures, c.Gap, c.marks = here, true, max(0, n), nil
	case n < 0:
		c.Falls = true
	default:
		c.Gap = max(c.Gap, n)
	}
	c.Last = here
	if c.Falls {
		return
	}
	c.marks = append(c.marks, mark{here.Iteration, at})
	if len(c.marks) > maxMarks { // every other one, and the first and last
		kept := c.marks[:0]
		for i, m := range c.marks {
			if i%2 == 0 || i == len(c.marks)-1 {
				kept = append(kept, m)
			}
		}
		c.marks = kept
	}
	c.Step = pace(c.marks)
}

// pace is the time of a step between the first mark and the last; 0 if there are no two steps.
func pace(marks []mark) time.Duration {
	if len(marks) < 2 {
		return 0
	}
	from, to := marks[0], marks[len(marks)-1]
	if to.iteration <= from.iteration {
		return 0
	}
	return to.at.Sub(from.at) / time.Duration(to.iteration-from.iteration)
}

// save notes how far the program was when it reported a saved state. A log file is read only at the end: what it
// reports is compared with itself alone.
func (c *Courses) save(e oom.Event) {
	log := e.Line.Stream == oom.Log
	at := slices.DeleteFunc(slices.Clone(c.all), func(o Course) bool { return (o.Stream == oom.Log) != log })
	c.saved = append(c.saved, savedAt{e.Path, e.Iteration, at})
	if len(c.saved) > maxSaved {
		c.saved = slices.Delete(c.saved, 0, 1)
	}
}

// All returns the courses so far.
func (c *Courses) All() []Course { return slices.Clone(c.all) }

// Placed notes in a state where the program was when it saved it or, if it did not report that, at the end of the
// attempt.
func (c *Courses) Placed(s *State) {
	if s == nil {
		return
	}
	s.At, s.Exact = c.All(), false
	for i, at := range slices.Backward(c.saved) {
		switch {
		case at.path != "" && !samePath(at.path, s.Path), at.path == "" && at.iteration > 0 && s.Iteration > 0 &&
			at.iteration != s.Iteration, at.path == "" && at.iteration <= 0 && i != len(c.saved)-1:
			continue
		}
		s.At, s.Exact = slices.Clone(at.courses), true
		return
	}
}

// samePath reports whether a program that printed one path can mean the file at the other, which may be absolute.
func samePath(printed, path string) bool {
	printed, path = filepath.Clean(printed), filepath.Clean(path)
	return printed == path || strings.HasSuffix(path, string(filepath.Separator)+strings.TrimPrefix(printed, "./"))
}

// main is the course of the training itself: the one that counts furthest. nil if there is none.
func mainCourse(all []Course) *Course {
	var best *Course
	for i := range all {
		c := &all[i]
		if best == nil || c.Total > best.Total || c.Total == best.Total && c.Last.Iteration > best.Last.Iteration {
			best = c
		}
	}
	return best
}

// every is the most steps that the counter lets pass between two reports, as far as was seen; 0 without any report.
func (c *Course) every() int64 {
	switch {
	case c == nil:
		return 0
	case c.Gap == 0: // one report alone: the next comes as far on, at the most
		return c.First.Iteration
	}
	return c.Gap
}

// fromZero reports whether the first step of all is called 0.
func (c *Course) fromZero() bool { return c != nil && c.First.Iteration == 0 }

// tooFew reports whether a training ended before its last step: it would have reported a further one. every is the
// number of steps between two reports, if the plugin knows it. zero: the first step is called 0.
func tooFew(iteration, steps, every int64, zero bool, c *Course) bool {
	next, last := max(1, every, c.every()), steps
	if zero || c.fromZero() {
		last--
	}
	return 10*iteration < 9*steps && iteration+next <= last
}
