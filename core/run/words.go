package run

import (
	"fmt"
	"path/filepath"
	"time"
)

// LastWords are a state that a process has saved after an out-of-memory had ended it, or the reason why there is
// none. Its parameters and optimizer states were still those of the last finished step.
type LastWords struct {
	Step int64  `json:"step,omitempty"` // the optimizer steps that the state has
	Unit string `json:"unit,omitempty"` // "epoch": Step counts those; absent: optimizer steps
	Path string `json:"path,omitempty"` // absent: there is no state
	Kept bool   `json:"kept,omitempty"` // the program itself had saved that step before
	Why  string `json:"why,omitempty"`  // why there is none
	// Skips: it was a validation that ran out of memory, and a run that resumes from the state does not make it.
	Skips bool          `json:"skips_validation,omitempty"`
	Took  time.Duration `json:"took_ns,omitempty"`
}

// String is a clause about them. Whether a step is lost depends on what the next attempt resumes from: a state may be
// for its own micro-batch only.
func (w *LastWords) String() string {
	of := fmt.Sprintf("the last finished step, %d,", w.Step)
	if w.Unit != "" {
		of = fmt.Sprintf("the state after %s %d", w.Unit, w.Step)
	}
	said := of + " was saved after the out-of-memory: " + filepath.Base(w.Path)
	switch {
	case w.Path == "":
		return "no state was saved after the out-of-memory: " + w.Why
	case w.Kept:
		said = of + " was saved before the out-of-memory: " + filepath.Base(w.Path)
	}
	if w.Skips {
		said += "; a run that resumes from it may not make the validation again that ran out of memory"
	}
	return said
}
