package run

import (
	"fmt"
	"slices"
	"time"

	"github.com/launch-ml/launch/core/job"
)

// Doubtful is the state of a run, and of a row of a sweep, whose program exited 0 and whose own reports contradict a
// success: [Outcome.Doubtful].
const Doubtful = "doubtful"

// What a program's own count shows of a resume.
const (
	Resumed    = "resumed"
	Restarted  = "restarted"   // it began again, or before the state that it was given
	NotChecked = "not checked" // nothing that it printed decides it
)

// A Resumption is what became of a resume: the program's own first step beside that of the saved state.
type Resumption struct {
	State string `json:"state"`
	// First is the first step that the program trained, and Saved the step of the state, both as the program counts
	// them. They are absent if it is not checked.
	First int64 `json:"first_step,omitempty"`
	Saved int64 `json:"saved_step,omitempty"`
	// Unit is what these count, if it is not steps: "epoch".
	Unit string `json:"unit,omitempty"`
	Why  string `json:"why,omitempty"` // why it is not checked, or that the program resumed by itself
}

// String describes a restart.
func (r *Resumption) String() string {
	switch {
	case r == nil || r.State == Resumed:
		return ""
	case r.State == NotChecked:
		return "not checked: " + r.Why
	case r.Unit != "":
		return fmt.Sprintf("it did not resume: its first %[1]s is %[2]d, the state is of %[1]s %[3]d", r.Unit,
			r.First, r.Saved)
	}
	return fmt.Sprintf("it did not resume: its first step is %d, the state is of step %d", r.First, r.Saved)
}

// Text describes what became of a resume, also of one that went on; "" if there was none.
func (r *Resumption) Text() string {
	switch {
	case r == nil:
		return ""
	case r.State == Resumed && r.Why != "":
		return r.Why
	case r.State == Resumed && r.Unit == "":
		return fmt.Sprintf("it resumed: its first step is %d, the state is of step %d", r.First, r.Saved)
	case r.State == Resumed:
		return "it resumed"
	}
	return r.String()
}

// restarted reports whether the program began again.
func (r *Resumption) restarted() bool { return r != nil && r.State == Restarted }

func notChecked(why string) Resumption { return Resumption{State: NotChecked, Why: why} }

// FollowedBy compares a state with what a program reports that was to resume from it. scale is how many of its counts
// now make one of those before: another number where it counts forward passes, and accumulates more of them.
//
// A restart is certain or is none: a count of an epoch, steps that are passed over, reports of every n-th step and a
// count in another unit decide nothing.
func (s *State) FollowedBy(now []Course, scale float64) Resumption {
	c := mainCourse(now)
	switch {
	case c == nil:
		return notChecked("no step was seen after the resume")
	case len(s.At) == 0:
		return notChecked("it is not known at which step the program saved the state")
	}
	out := notChecked("the program printed nothing before that could be compared")
	if s.At[0].Bar > 0 || now[0].Bar > 0 {
		return s.byBar(now, scale)
	}
	if a := s.beside(c, len(now)); a != nil {
		out = s.compare(a, c, scale)
	}
	for i := range now { // a bar may count what is left, and the log all steps
		if a := s.beside(&now[i], len(now)); a != nil && out.State != Resumed {
			if other := s.compare(a, &now[i], scale); other.State == Resumed {
				return other
			}
		}
	}
	return out
}

// byBar compares the bars that came first, before and after: those of the training. A bar that began later may be of an
// evaluation. A counter that is no bar shows a resume as ever.
func (s *State) byBar(now []Course, scale float64) Resumption {
	a, c := &s.At[0], &now[0]
	out := notChecked("the program counts in several bars")
	if (a.Bar > 0) == (c.Bar > 0) && a.Stream == c.Stream {
		out = s.compare(a, c, scale)
	}
	for i := range now {
		if c := &now[i]; c.Bar == 0 && out.State != Resumed {
			if a := s.beside(c, len(now)); a != nil && a.Bar == 0 {
				if other := s.compare(a, c, scale); other.State == Resumed || out.State == NotChecked {
					out = other
				}
			}
		}
	}
	return out
}

// to is to what a counter counts, 0 if that is not known.
func (c *Course) to() int64 { return max(c.Total, c.Bar) }

// beside returns the course of the saving attempt that is the same counter as c, which is one of n; nil if none is.
func (s *State) beside(c *Course, n int) *Course {
	for _, same := range []func(*Course) bool{
		func(a *Course) bool { return a.Stream == c.Stream && a.Total == c.Total },
		func(a *Course) bool { return a.Total == c.Total && a.Total > 0 },
	} {
		if i := slices.IndexFunc(s.At, func(a Course) bool { return same(&a) }); i >= 0 {
			return &s.At[i]
		}
	}
	if len(s.At) == 1 && n == 1 {
		return &s.At[0]
	}
	return nil
}

// compare compares one counter before and after a resume.
func (s *State) compare(a, c *Course, scale float64) Resumption {
	switch {
	case (s.Exact || a.Bar > 0) && a.to() > 0 && a.Last.Iteration >= a.to():
		return notChecked("the count had come to its end when the state was saved")
	case a.First.Epoch != nil && a.Last.Epoch != nil && c.First.Epoch != nil && !a.isEpoch() && (a.Falls || c.Falls ||
		*a.First.Epoch == *a.Last.Epoch):
		return s.byEpoch(a, c)
	case a.Falls || c.Falls:
		return notChecked("the program counts the steps of an epoch")
	}
	at, shown, ok := s.step(a)
	if !ok {
		return notChecked("it is not known at which step the program saved the state")
	}
	if scale > 0 {
		at = int64(float64(at) * scale)
	}
	if a.to() > 0 && c.to() > 0 && scale == 1 && c.to() != a.to() {
		if left := a.to() - at; c.to() >= left-1 && c.to() <= left+1 {
			return Resumption{State: Resumed, First: c.First.Iteration, Saved: shown} // it counts what is left
		}
		return notChecked(fmt.Sprintf("the program counts to %d now, and counted to %d", c.to(), a.to()))
	}
	return s.atStep(a, c, at, shown)
}

// ofEpoch reports whether a counter may be that of the steps of an epoch.
func (c *Course) ofEpoch() bool {
	return c != nil && (c.Falls || c.Total > 0 && c.Last.Iteration >= c.Total ||
		c.First.Epoch != nil && c.Last.Epoch != nil && !c.isEpoch() && *c.First.Epoch == *c.Last.Epoch)
}

// isEpoch reports whether a counter counts epochs.
func (c *Course) isEpoch() bool {
	return *c.First.Epoch == c.First.Iteration && *c.Last.Epoch == c.Last.Iteration
}

// step returns the step of a state as the program counts: at is the least that it can be, and shown what is printed.
func (s *State) step(a *Course) (at, shown int64, ok bool) {
	number := s.number()
	fits := number >= a.First.Iteration && number <= a.Last.Iteration+max(1, a.every())
	switch {
	case fits && s.Exact:
		return min(number, a.Last.Iteration), number, true
	case fits:
		return number, number, true
	}
	return a.Last.Iteration, a.Last.Iteration, s.Exact
}

// Steps is the step of a state as the program counts; 0 if it is not known.
func (s *State) Steps() int64 {
	if s.Iteration > 0 {
		return s.Iteration
	}
	for i := range s.At {
		if a := &s.At[i]; !a.Falls {
			if _, shown, ok := s.step(a); ok {
				return shown
			}
		}
	}
	return 0
}

// atStep compares the first step with the step of the state.
func (s *State) atStep(a, c *Course, at, shown int64) Resumption {
	first, fresh := c.First.Iteration, a.First.Iteration
	repeats := int64(1) // a state's name may count from 1 where the program counts from 0
	if s.Exact {
		repeats = 0
	}
	resumed := Resumption{State: Resumed, First: first, Saved: shown}
	switch {
	case first > at && (fresh <= at || first > fresh):
		return resumed
	case first > at:
		return notChecked(fmt.Sprintf("the first report is of step %d, as in a run from the beginning", first))
	case first >= at-repeats && first > fresh:
		return resumed // it reports the step of the state once more
	case first >= at-repeats:
		return notChecked(fmt.Sprintf("the first report is of step %d, that of the state and the first of all", first))
	case a.Figures && !c.Figures:
		return notChecked("the program has reported no trained step yet")
	case !c.Figures && !c.slow(max(at, shown), a.Step):
		return notChecked("the steps before that of the state may have been passed over")
	case s.number() != shown && first > fresh: // the two outputs of a program are read one after the other
		return notChecked("it is not known at which step the program saved the state")
	}
	return Resumption{State: Restarted, First: first, Saved: shown}
}

// leaves reports whether a program that counts what is left after this state counts to now, where it counted to
// before. count is what it has reported; nil if that is not known yet. One that goes on with its count does not
// count what is left.
func (s *State) leaves(before, now float64, count *Course) bool {
	is := func(step int64) bool {
		return step > 1 && before-float64(step)-now <= 1 && before-float64(step)-now >= -1 &&
			(count == nil || count.First.Iteration <= step)
	}
	if c := mainCourse(s.At); c != nil && s.Exact {
		return is(c.Last.Iteration) || is(s.number())
	}
	return is(s.number())
}

// byEpoch compares the epochs, where the count may be that of the steps of one.
func (s *State) byEpoch(a, c *Course) Resumption {
	first, saved := *c.First.Epoch, *a.Last.Epoch
	resumed := Resumption{State: Resumed, First: first, Saved: saved, Unit: "epoch"}
	switch {
	case first > saved, first == saved && c.First.Iteration > a.Last.Iteration:
		return resumed
	case first == saved && *a.First.Epoch < saved: // a restart would begin with an earlier one
		return resumed
	case first == saved && a.Gap == 1 && c.First.Iteration > a.First.Iteration && s.number() >= a.First.Iteration &&
		c.First.Iteration == s.number()+1: // it reports each step, and did not report those before again
		return Resumption{State: Resumed, First: c.First.Iteration, Saved: s.number()}
	case first == saved:
		return notChecked("the state is of the first epoch, which the program may have begun again")
	}
	return Resumption{State: Restarted, First: first, Saved: saved, Unit: "epoch"}
}

// slow reports whether the steps up to that of a state took as long as trained ones: was is the time of one before, and
// the steps after that of the state show it, too. Steps that are passed over take less than half of it.
func (c *Course) slow(at int64, was time.Duration) bool {
	if at-c.First.Iteration < 3 {
		return false
	}
	n := 0
	for n < len(c.marks) && c.marks[n].iteration <= at {
		n++
	}
	if n > 0 { // on a busy machine either may be slow
		if after := pace(c.marks[n-1:]); was == 0 || after > 0 && after < was {
			was = after
		}
	}
	return was > 0 && 2*pace(c.marks[:n]) >= was
}

// resumption compares an attempt's first step with the state that it was to resume from; nil if there is none.
func (r *Run) resumption(p *Plan, o *Outcome) *Resumption {
	if p.Resume == nil || p.Trial != "" {
		return nil
	}
	out := p.Resume.FollowedBy(o.Courses, p.Scale(r.Job.Signs))
	return &out
}

// wentOn is how the count of an attempt that was to start over shows that the program went on from a state that it
// found by itself; "" if it does not. Reports of every n-th step, and a bar that is seldom drawn, show nothing.
func (p *Plan) wentOn(o *Outcome) string {
	c := mainCourse(o.Courses)
	if p.Resume != nil || p.Trial != "" || p.Attempt < 2 || c == nil {
		return ""
	}
	const found = "; the program went on from a state that it found by itself"
	switch {
	case c.First.Epoch != nil && c.Last.Epoch != nil && !c.isEpoch():
		if c.First.Iteration <= 1 && *c.First.Epoch > 1 {
			return fmt.Sprintf("it did not start over: its first epoch is %d%s", *c.First.Epoch, found)
		}
	case c.Gap == 1 && c.First.Iteration > 3:
		return fmt.Sprintf("it did not start over: its first step is %d%s", c.First.Iteration, found)
	}
	return ""
}

// Scale is how many counts of a program in the plan make one of those when the state was saved from which it resumes.
func (p *Plan) Scale(signs job.Signs) float64 {
	if p.Resume == nil || !signs.CountsMicro || p.Resume.Accumulation < 1 || p.Batch.Accumulation < 1 {
		return 1
	}
	return float64(p.Batch.Accumulation) / float64(p.Resume.Accumulation)
}

// Descend notes in a state that an attempt has saved what was trained before the program's count, and on which plan.
// after is what became of the attempt's own resume; nil if it began from the beginning.
func (s *State) Descend(p *Plan, after *Resumption) {
	s.Zero = p.Resume != nil && p.Resume.Zero || mainCourse(s.At).fromZero()
	s.Accumulation, s.Before = p.Batch.Accumulation, trainedBefore(p, after)
}

// trainedBefore is how many steps were trained before the count of an attempt began: those of states after which the
// program began to count again.
func trainedBefore(p *Plan, after *Resumption) (n int64) {
	if p.Resume == nil {
		return 0
	}
	if n = p.Resume.Before; after.restarted() && after.Unit == "" {
		n += after.Saved
	}
	return n
}

// doubt notes why the success of an attempt is doubtful, "" if it is not: it did not resume, or ended before its last
// step without a reason or a line of success. It keeps what was noted before. astray is why it is another training.
func (o *Outcome) doubt(p *Plan, astray string) {
	why := o.unlike(p)
	if astray != "" && o.Ending == Succeeded {
		why = astray
	}
	if why != "" || o.Ending != Succeeded {
		o.Doubtful = why
	}
}

// unlike is what the reports of an attempt show that is unlike a success, and counts what was trained in all.
func (o *Outcome) unlike(p *Plan) string {
	steps := ""
	if n := trainedBefore(p, o.Resumption); n > 0 {
		if o.Trained = n + o.Iteration; mainCourse(o.Courses).fromZero() || p.Resume.Zero {
			o.Trained++
		}
		if o.Total > 0 {
			steps = fmt.Sprintf("%d steps were trained in all, of %d", o.Trained, o.Total)
		} else {
			steps = fmt.Sprintf("%d steps were trained in all", o.Trained)
		}
	}
	switch {
	case o.Ending != Succeeded:
		return ""
	case o.Resumption.restarted() && steps != "":
		return o.Resumption.String() + "; it counts its steps again, and " + steps
	case o.Resumption.restarted():
		return o.Resumption.String()
	case steps != "":
		return "an attempt before it did not resume: " + steps
	case o.Short != "" && o.Total > 0 && !o.Claimed && o.Early == "":
		return o.Short
	}
	return o.DoubtedBy()
}

// DoubtedBy is why a success is doubtful by the output alone: it ends with an out-of-memory or an error, and no line of
// success came.
func (o *Outcome) DoubtedBy() string {
	switch {
	case o.Ending != Succeeded || o.Claimed || o.Early != "":
		return ""
	case o.Doubt == "" && o.Broken != "":
		return "its output ends with an error: " + o.Broken
	case o.Doubt == "":
		return ""
	}
	return "its output ends with an out-of-memory: " + o.Doubt
}
