package attempt

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/states"
)

// A Standing is what has become of the saved states of a recorded run since its last attempt ended.
type Standing struct {
	Lost  []run.Loss // states that are no longer what the run wrote, the newest first
	From  *run.State // the newest that still is; nil if there is none
	Newer []string   // states that others have written since and that would be taken for the run's
}

// Stand finds out what has become of a run's states. It looks at the disk and changes nothing.
func Stand(h *record.History) (s Standing) {
	r := h.Run()
	if r.Job.Resume.None != "" {
		return s
	}
	s.Lost = r.Lost(func(s run.State) string { return states.Changed(s.Path, s.Digest) })
	r.Forget(s.Lost)
	s.From = r.Saved()
	if _, cut := h.CutOff(); cut { // what its last attempt has left was not recorded yet
		return s
	}
	ended := slices.DeleteFunc(h.Run().Attempts, func(a run.Attempt) bool { return a.Plan.Trial != "" })
	if len(ended) == 0 {
		return s
	}
	var known []run.State
	for _, a := range ended {
		known = append(known, a.Outcome.States()...)
	}
	// where the program itself chooses, it may choose any
	chooses := r.Job.Resume.Automatic || !byPath(r.Job.Resume)
	folder := Dir(h.Dir, ended[len(ended)-1].Plan.Attempt)
	s.Newer = states.Newer(states.NewRoots(r.Job), r.Job.Signs.States, folder, known, chooses)
	for i, path := range s.Newer {
		if rel, err := filepath.Rel(r.Job.Command.Dir, path); err == nil && filepath.IsLocal(rel) {
			s.Newer[i] = rel
		}
	}
	return s
}

// Now returns the standing of a run that was taken up and would resume from a state; nil if there is none. If that
// is one which an attempt has left whose launch was killed, the older ones do not matter.
func (s Standing) Now(from *run.State) Standing {
	if from != nil && (s.From == nil || from.Path != s.From.Path || from.Digest != s.From.Digest) {
		s.Lost = nil
	}
	s.From = from
	return s
}

// A StatesError is why a run cannot resume: its saved states are no longer its own, or not only.
type StatesError struct {
	Run string
	Standing
}

// Decide returns nil if a run can resume from s.From, or has no state to resume from; else a [*StatesError].
func (s Standing) Decide(id string) error {
	if len(s.Newer) > 0 || s.From == nil && len(s.Lost) > 0 {
		return &StatesError{id, s}
	}
	return nil
}

func (e *StatesError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "run %s cannot resume: ", e.Run)
	if e.From == nil && len(e.Lost) > 0 {
		b.WriteString(run.AllLost(e.Lost))
	}
	if len(e.Newer) > 0 {
		if e.From == nil && len(e.Lost) > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "since its last attempt another program has written saved states in its folder: %s",
			run.Few(e.Newer))
		if e.From != nil {
			fmt.Fprintf(&b, ". Move them away, and it resumes from %s", filepath.Base(e.From.Path))
		}
	}
	fmt.Fprintf(&b, "; launch resume %s --from-start starts it over", e.Run)
	return b.String()
}

// Lines report, before anything runs, which states launch passes over.
func (s Standing) Lines() (lines []string) {
	if s.From == nil {
		return nil
	}
	for _, line := range run.Losses(s.Lost) {
		lines = append(lines, fmt.Sprintf("%s: launch resumes from %s, which this run wrote before that", line,
			filepath.Base(s.From.Path)))
	}
	return lines
}
