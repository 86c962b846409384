package run

import (
	"fmt"
	"path/filepath"
	"time"
)

// LastWords are a state that a process has saved after an out-of-memory had ended it, or between two steps because
// launch asked for it; or the reason why there is none. Its parameters and optimizer states were those of the last
// finished step.
type LastWords struct {
	Step int64  `json:"step,omitempty"` // the optimizer steps that the state has
	Unit string `json:"unit,omitempty"` // "epoch": Step counts those; absent: optimizer steps
	Path string `json:"path,omitempty"` // absent: there is no state
	Kept bool   `json:"kept,omitempty"` // the program itself had saved that step before
	Why  string `json:"why,omitempty"`  // why there is none
	// Skips: it was a validation that ran out of memory, and a run that resumes from the state does not make it.
	Skips bool          `json:"skips_validation,omitempty"`
	Took  time.Duration `json:"took_ns,omitempty"`
	Asked bool          `json:"asked,omitempty"` // launch had asked for it; nothing had failed
}

// String is a clause about them. Whether a step is lost depends on what the next attempt resumes from: a state may be
// for its own micro-batch only.
func (w *LastWords) String() string {
	when := "after the out-of-memory"
	switch {
	case w.Asked && w.Kept:
		when = "by the program itself"
	case w.Asked:
		when = "between two steps, as launch asked"
	case w.Kept:
		when = "before the out-of-memory"
	}
	if w.Path == "" {
		return fmt.Sprintf("no state was saved %s: %s", when, w.Why)
	}
	of := fmt.Sprintf("the last finished step, %d,", w.Step)
	if w.Unit != "" {
		of = fmt.Sprintf("the state after %s %d", w.Unit, w.Step)
	}
	said := fmt.Sprintf("%s was saved %s: %s", of, when, filepath.Base(w.Path))
	if w.Skips {
		said += "; a run that resumes from it may not make the validation again that ran out of memory"
	}
	return said
}
