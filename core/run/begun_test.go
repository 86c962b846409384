package run

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/job"
)

// An attempt that is told to start over, and whose program goes on with a state that it finds by itself, is known by
// its first step; one that starts over, or whose count never began at 1, is not taken for one.
func TestByItself(t *testing.T) {
	course := func(first, last, gap int64) []Course {
		return []Course{{Total: 100, First: Place{Iteration: first}, Last: Place{Iteration: last}, Gap: gap}}
	}
	for name, c := range map[string]struct {
		before, now []Course
		over        bool
		itself      bool
		astray      string
	}{
		"goes on":                 {course(1, 40, 1), course(31, 100, 1), true, true, "its first step is 31"},
		"the same after a retry":  {course(1, 40, 1), course(31, 100, 1), false, true, ""},
		"starts over":             {course(1, 40, 1), course(1, 100, 1), true, false, ""},
		"every tenth step":        {course(10, 40, 10), course(10, 100, 10), true, false, ""},
		"a count that goes on":    {course(901, 940, 1), course(901, 1000, 1), true, false, ""},
		"the log begins later":    {course(1, 90, 1), course(20, 100, 1), true, false, ""},
		"beyond what was trained": {course(1, 40, 1), course(60, 100, 1), true, false, ""},
		"nothing known of before": {nil, course(31, 100, 1), true, false, ""},
	} {
		r := &Run{Job: &job.Job{}, Over: c.over}
		if c.before != nil {
			r.Begun = [][]Course{c.before}
		}
		o := &Outcome{Ending: Succeeded, Courses: c.now}
		r.weigh(&Plan{}, o)
		if (o.Resumption != nil) != c.itself || (o.Doubtful != "") != (c.astray != "") ||
			!strings.Contains(o.Doubtful, c.astray) {
			t.Errorf("%s: %q, %q", name, o.Resumption.Text(), o.Doubtful)
		}
	}
}

// A program that leaves its loop at a signal prints its last line all the same. It was stopped, unless no step was
// left.
func TestStoppedInItsLoop(t *testing.T) {
	signs := job.Signs{Lines: []job.Sign{{Kind: job.Progress}}}
	for name, c := range map[string]struct {
		last, total int64
		asked       string
		early       string
		want        Ending
	}{
		"stopped":               {9, 40, "launch stop: the program was stopped", "", Interrupted},
		"stopped at its end":    {40, 40, "stopped by SIGTERM, which was sent to launch", "", Succeeded},
		"nobody asked":          {9, 40, "", "", Succeeded},
		"it had stopped before": {9, 40, "interrupted by the user", "early stopping", Succeeded},
		"no total":              {9, 0, "interrupted by the user", "", Succeeded},
	} {
		o := &Outcome{Ending: Succeeded, Claimed: true, Stepped: true, Iteration: c.last, Total: c.total, Asked: c.asked,
			Early: c.early, Courses: []Course{{Total: c.total, First: Place{Iteration: 1}, Last: Place{Iteration: c.last},
				Gap: 1}}}
		(&Run{Job: &job.Job{Signs: signs}}).weigh(&Plan{}, o)
		if o.Ending != c.want || o.Ending == Interrupted && o.Cause != c.asked {
			t.Errorf("%s: %v %q", name, o.Ending, o.Cause)
		}
	}
}
