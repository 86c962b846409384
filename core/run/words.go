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
	Path string `json:"path,omitempty"` // absent: there is no state
	Kept bool   `json:"kept,omitempty"` // the program itself had saved that step before
	Why  string `json:"why,omitempty"`  // why there is none
	// Skips: it was a validation that ran out of memory, and a run that resumes from the state does not make it.
	Skips bool          `json:"skips_validation,omitempty"`
	Took  time.Duration `json:"took_ns,omitempty"`
}

// String is a sentence about them.
func (w *LastWords) String() string {
	switch {
	case w.Path == "":
		return "no state was saved after the out-of-memory: " + w.Why
	}
	said := fmt.Sprintf("no step is lost: the last finished step, %d, was saved after the out-of-memory, as %s", w.Step,
		filepath.Base(w.Path))
	if w.Kept {
		said = fmt.Sprintf("no step is lost: %s has the last finished step, %d", filepath.Base(w.Path), w.Step)
	}
	if w.Skips {
		said += "; the validation after it is not made"
	}
	return said
}
