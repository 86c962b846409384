package run

import (
	"fmt"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/job"
)

// Checklist goes through what a run should have reached, by what its attempts have recorded: launch's own lines first,
// then the plugin's. nil if no attempt at the run itself has ended.
func Checklist(j *job.Job, attempts []Attempt) []job.CheckResult {
	attempts = slices.DeleteFunc(slices.Clone(attempts), func(a Attempt) bool {
		return a.Plan.Trial != "" || a.Outcome.Ending == ""
	})
	if len(attempts) == 0 {
		return nil
	}
	last := &attempts[len(attempts)-1]
	out := []job.CheckResult{last.complete(j), last.memory(), last.settings(j)}
	if it, ok := resumes(attempts); ok {
		out = append(out, it)
	}
	for i, c := range j.Signs.Checks {
		it := job.Judge(c, checkedOf(c, i, attempts))
		// an advice at the end of the run reports the same
		it.Elsewhere = it.State == job.NotMet && strings.HasSuffix(it.Seen, job.NoNumber) &&
			slices.ContainsFunc(last.Outcome.Advice, func(a job.Advice) bool { return a.Name == job.NotFinite })
		out = append(out, it)
	}
	return out
}

// checkedOf joins the values of a check over the attempts. One that starts over forgets those before it.
func checkedOf(c job.Check, i int, attempts []Attempt) (all job.CheckValues) {
	for _, a := range attempts {
		var own job.CheckValues
		if i < len(a.Outcome.Checked) {
			own = a.Outcome.Checked[i]
		}
		if a.Plan.Resume == nil {
			all = own
		} else {
			all = own.Continued(c, all)
		}
	}
	return all
}

// complete decides whether the training reached its last iteration.
func (a *Attempt) complete(j *job.Job) job.CheckResult {
	it := job.CheckResult{Name: "the training reached its last iteration", State: job.NotChecked}
	out := &a.Outcome
	steps := out.Total
	if j.Steps > 0 {
		steps = j.Steps
	}
	at := fmt.Sprintf("iteration %d", out.Iteration)
	if steps > 0 {
		at += fmt.Sprintf(" of %d", steps)
	}
	switch {
	case out.Ending != Succeeded:
		it.State, it.Seen, it.Elsewhere = job.NotMet, fmt.Sprintf("it ended as %s at %s", out.Ending, at), true
	case out.Short != "" && out.Early != "":
		it.Seen, it.Evidence = "it ended at "+at+", and printed why", out.Early
	case out.Short != "":
		it.State, it.Seen, it.Elsewhere = job.NotMet, out.Short, true
	case out.Claimed:
		it.State, it.Seen = job.Met, "the program printed its success line, after "+at
	case !j.Signs.Has(job.Progress) || out.Iteration == 0:
		it.Seen = "the program printed no iteration"
	case steps == 0:
		it.Seen = "it is not known how many there are; the last was " + at
	case out.Iteration+max(1, j.Signs.Every) >= steps && !j.Signs.CountsMicro:
		it.State, it.Seen = job.Met, at
	default:
		it.Seen = "the last one that it printed was " + at
	}
	return it
}

// resumes decides whether every attempt that was to resume did so; ok is false if none was. What one from the beginning
// follows does not count.
func resumes(attempts []Attempt) (it job.CheckResult, ok bool) {
	it = job.CheckResult{Name: "each resume went on from its state", State: job.Met, Elsewhere: true}
	for i := range attempts {
		a := &attempts[i]
		after := a.Outcome.Resumption
		switch {
		case a.Plan.Resume == nil:
			it.State, it.Seen, ok = job.Met, "", false
			continue
		case after == nil: // recorded by an older launch
			after = &Resumption{State: NotChecked, Why: "it was not looked at"}
		}
		ok = true
		where := fmt.Sprintf("attempt %d: ", a.Plan.Attempt)
		switch {
		case after.State == Restarted:
			it.State, it.Seen = job.NotMet, where+after.String()
			return it, true
		case after.State == NotChecked:
			it.State, it.Seen = job.NotChecked, where+after.Why
		case it.State == job.Met:
			it.Seen = where + after.Text()
		}
	}
	return it, ok
}

// memory decides whether an out-of-memory is left.
func (a *Attempt) memory() job.CheckResult {
	it := job.CheckResult{Name: "no out-of-memory is left", State: job.Met, Seen: "the last attempt had none"}
	switch out := &a.Outcome; {
	case out.Ending == OutOfMemory:
		it.State, it.Seen, it.Elsewhere = job.NotMet, "the last attempt ended with one", true
	case out.Survived != "":
		it.State, it.Evidence = job.NotMet, strings.TrimSpace(out.Survived)
		it.Seen = "the program went on after a failure, perhaps with other settings than launch planned"
	case out.Ending == Interrupted || out.Ending == Failed:
		it.State, it.Seen = job.NotChecked, "the run did not come to its end"
	}
	return it
}

// settings decides whether the program used the settings of its plan.
func (a *Attempt) settings(j *job.Job) job.CheckResult {
	it := job.CheckResult{Name: "the program used the planned settings", State: job.Met, Elsewhere: true}
	open := append(a.Unconfirmed(j), a.Misread()...)
	var differ, silent []string
	for _, o := range open {
		if o.Said != "" {
			differ = append(differ, o.String())
		} else {
			silent = append(silent, o.String())
		}
	}
	passed := a.unprinted(j)
	switch edited := len(j.With(a.Plan.Edits)); {
	case a.Outcome.Untaken != "":
		it.State, it.Seen = job.NotMet, a.Outcome.Untaken
	case len(differ) > 0:
		it.State, it.Seen = job.NotMet, "launch planned "+strings.Join(differ, ", ")
	case len(silent) > 0:
		it.State, it.Seen = job.NotChecked, "nothing that the program printed or saved confirms "+strings.Join(silent,
			", ")
	case len(passed) > 0:
		it.State, it.Seen = job.NotChecked, "launch passed "+strings.Join(passed, ", ")+
			"; nothing that the program printed or saved shows that it used that"
	case edited == 0 && !a.reports():
		it.State, it.Seen = job.NotChecked, "launch changed none, and the program printed none"
	case edited == 0:
		it.Seen = "launch changed none, and the program reports no other value"
	default:
		it.Seen = fmt.Sprintf("the program confirms each of the %d that were set", edited)
	}
	return it
}
