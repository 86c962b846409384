package attempt

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/states"
)

// A Cut is what an attempt has left whose launch was killed.
type Cut struct {
	states.Found
	Made     []string      // files that the next attempt would overwrite or stop at
	Reported *run.Progress // nil if there is no such attempt
	// Courses are its reports of progress, by counter.
	Courses []run.Course
}

// CutShort finds what an attempt has left whose launch was killed; nothing if every attempt has ended. The notes that
// launch kept while it ran show which files are its own. locks is the folder of launch's locks. over is the latest time
// at which launch can have died: after it, other programs may have written into the run's folders.
func CutShort(h *record.History, j *job.Job, locks string, over time.Time) (c Cut) {
	began, ok := h.CutOff()
	if !ok || began.Plan == nil || began.Plan.Trial != "" {
		return c
	}
	folder := Dir(h.Dir, began.Plan.Attempt)
	log := outputIn(folder)
	e := states.Evidence{Printed: printed(log, j, j.Command.Dir), Told: told(log, j, j.Command.Dir),
		Alone: j.Batch.Ranks == 1}
	d, err := oom.NewDetector(j.Signs)
	if err != nil {
		return c
	}
	var courses run.Courses
	d.OnEvent = func(e oom.Event) { courses.See(e, time.Time{}) } // when they came is not known
	if out, err := record.OpenOutput(log); err == nil {
		_, _ = io.Copy(d, out) // what can be read of it counts
		out.Close()
		d.End()
		e.Stepped = record.OutputTime(log) // it was still running when it printed last
	}
	if !over.IsZero() {
		if e.Until = over; e.Stepped.After(over) {
			e.Until = e.Stepped
		}
		e.Until = e.Until.Add(dying)
	}
	state := d.State()
	c.Reported = &run.Progress{Iteration: max(0, state.Iteration), Total: state.Total, Succeeded: state.Succeeded && state.Stepped(j.Signs)}
	roots, globs := states.NewRoots(j), slices.Concat(j.Signs.States, j.Resume.Aside, j.Resume.InTheWay)
	notes, seen, err := states.ReadNotes(folder)
	if err != nil { // an older launch kept no notes: then the times of the files count, in a folder that it had locked
		notes.Before = states.List(roots, globs).Until(began.Time)
		if j.Exclusive != "" {
			notes.Held = []string{j.Exclusive}
		}
	}
	e.Wrote, e.Foreign, e.Order, e.Rewritten = seen.Wrote, seen.Foreign, seen.Order, seen.Rewritten
	e.Held = slices.DeleteFunc(notes.Held, func(f string) bool { return seen.Crowded(f) || seen.Disturbed(f) })
	if !state.Stepped(j.Signs) {
		e.Stepped = time.Time{}
	}
	for folder, who := range notes.Marked {
		if states.Undisturbed(locks, folder, who) && !seen.Crowded(folder) && !seen.Disturbed(folder) &&
			(state.Stepped(j.Signs) || !j.Signs.Has(job.Progress)) {
			e.Held = append(e.Held, folder)
		}
	}
	if max(0, state.Iteration) >= j.Signs.StateAfter {
		c.Found = states.Newest(roots, j.Signs, notes.Before, e)
		if c.State == nil {
			c.State, _ = deeper(roots, j, log, j.Command.Dir)
		}
		courses.Placed(c.State)
		c.Identify()
	}
	c.Courses = courses.All()
	c.Made = states.Made(movables{roots}, slices.Concat(j.Resume.Aside, j.Resume.InTheWay), notes.Before, e)
	return c
}

// dying is how long a program may write after launch was killed.
const dying = 10 * time.Second

// Dir is the folder of an attempt. If launch was killed and the attempt made again, it is the last folder of that
// number.
func Dir(run string, n int) string {
	dir := filepath.Join(run, fmt.Sprintf("attempt-%d", n))
	for again := 2; ; again++ {
		next := fmt.Sprintf("%s.%d", filepath.Join(run, fmt.Sprintf("attempt-%d", n)), again)
		if _, err := os.Stat(next); err != nil {
			return dir
		}
		dir = next
	}
}

// TakeUp prepares a recorded run for its next attempt, and returns what its attempts have left, also one whose launch
// was killed. strange lists files that are newer than that attempt, but that nothing shows to be this run's.
func TakeUp(h *record.History, r *run.Run, life record.Life, locks string) (past Past, strange []string) {
	all := h.Tried() // those that failed, or were interrupted, have left files as well
	for _, a := range all {
		if a.Plan.Trial == "" && past.Began.IsZero() {
			past.Began = a.Outcome.Began
		}
		past.Made = append(past.Made, notReplaced(a.Outcome.Made, all)...)
		past.Spans = append(past.Spans, SpanOf(&a.Outcome))
	}
	r.Gone = gone(all, r.Attempts)
	began, cut := h.CutOff()
	if !cut {
		return past, nil
	}
	if past.Began.IsZero() {
		past.Began = began.Time
	}
	past.Spans = append(past.Spans, states.Span{Began: began.Time, Ended: time.Now()})
	left := CutShort(h, r.Job, locks, life.Over())
	if left.Reported != nil {
		r.Cut = r.Cut.Further(*left.Reported)
	}
	if n := len(r.Gone) - 1; n >= 0 && r.Gone[n].Plan.Attempt == began.Plan.Attempt {
		out := &r.Gone[n].Outcome
		out.Began, out.Took = began.Time, max(0, life.Over().Sub(began.Time))
		if left.Reported != nil {
			out.Iteration, out.Total = left.Reported.Iteration, left.Reported.Total
		}
	}
	r.Lose(slices.Concat(left.Torn, left.Strange))
	if left.State != nil {
		r.Left = left.State
		r.Left.Rungs = r.NewState(began.Plan)
		var after *run.Resumption
		if from := began.Plan.Resume; from != nil {
			now := from.FollowedBy(left.Courses, began.Plan.Scale(r.Job.Signs))
			after = &now
		}
		r.Left.Descend(began.Plan, after)
	}
	if began.Plan.Resume == nil && len(left.Courses) > 0 {
		r.Begun = append(slices.Clone(r.Begun), left.Courses)
	}
	past.Made = append(past.Made, left.Made...)
	return past, left.Strange
}

// gone are the attempts of a record that are not among those which still count. One without an end was cut off.
func gone(all, count []run.Attempt) (out []run.Attempt) {
	for _, a := range all {
		if slices.ContainsFunc(count, func(c run.Attempt) bool { return c.Plan.Attempt == a.Plan.Attempt }) {
			continue
		}
		if a.Outcome.Ending == "" {
			a.Outcome.Ending, a.Outcome.Cause = run.Interrupted, "its launch was killed"
		}
		out = append(out, a)
	}
	return out
}

// notReplaced leaves out the saved states that somebody else has overwritten since: they are not the run's to move.
func notReplaced(paths []string, all []run.Attempt) (out []string) {
	for _, path := range paths {
		known, own := false, false
		for _, a := range all {
			for _, s := range a.Outcome.States() {
				if s.Path == path && s.Digest != "" {
					now, _ := states.Digest(path)
					known, own = true, own || now == s.Digest
				}
			}
		}
		if !known || own {
			out = append(out, path)
		}
	}
	return out
}
