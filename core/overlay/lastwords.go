package overlay

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Last words are a saved state: when an out-of-memory ends a process, the parameters and the optimizer's states in it
// are still those of the last finished step, so the process saves them before it ends (lastwords.py). The same way
// serves a request to save.

//go:embed lastwords.py
var lastWords []byte

// families are texts that know one library: where a step of its training begins, and how it saves a whole state.
//
//go:embed words/*.py
var families embed.FS

// LastWordsPart is what [Install] has to be given for processes to have last words. library names the text for them
// ([job.Job.LastWords]); known reports whether there is one. limit is how long the saving may take.
func LastWordsPart(library string, limit time.Duration) (part Part, known bool) {
	text, err := families.ReadFile("words/" + library + ".py")
	if err != nil {
		return Part{}, false
	}
	// a string of ASCII is quoted in Go as in Python
	return Part{Name: "lastwords.py", Text: fmt.Appendf(nil, "%s%s\n\nFAMILY = %+q\nLIMIT = %g\n", lastWords, shared,
		text, limit.Seconds())}, true
}

// SavesOnRequest reports whether the text for a library sees the steps of its training begin, between which a process
// can save on request.
func SavesOnRequest(library string) bool {
	text, err := families.ReadFile("words/" + library + ".py")
	return err == nil && !bytes.Contains(text, []byte("\nSEEN = {}\n")) && !bytes.Contains(text, []byte("\nASKED = False"))
}

// saveRequest is the name of the file that asks a process to save, in the folder of lastwords.py.
const saveRequest = "save-request"

// unfinishedWords is how the name of a folder begins that lastwords.py makes, and removes when it has moved the state
// out of it.
const unfinishedWords = ".launch-last-words-"

// LastWords is what became of a process's last words.
type LastWords struct {
	Step int64  // optimizer steps that the state has
	Unit string // "epoch": Step counts those; "": optimizer steps
	Path string // the state; "" if there is none
	Kept bool   // the program itself had saved that step before
	Why  string // why there is none
	// Skips: a validation had failed, which a run that resumes from the state does not make
	Skips bool
	Took  time.Duration // to save it
	Asked bool          // it was asked for, and the program did not fail
}

// LastWords returns what the processes reported of their last words; nil if none came to that. A folder that a process
// has left behind, because it was killed while it saved, is removed.
func (r Report) LastWords() *LastWords { return r.said(false) }

// Answer is what became of the state that was asked for last, after the program's end; nil if no process has answered.
func (r Report) Answer() *LastWords { return r.said(true) }

// answers are those to [Overlay.AskToSave], in their order.
func (r Report) answers() (out []words) {
	for _, w := range r.words {
		if w.Asked != 0 && w.Writing == "" {
			out = append(out, w)
		}
	}
	return out
}

// Interrupted is why there is no state of a process that was ended while it saved.
const Interrupted = "the process was ended while it saved"

func (r Report) said(asked bool) *LastWords {
	var said *LastWords
	for _, w := range r.words {
		switch {
		case (w.Asked != 0) != asked:
		case w.Writing != "":
			said = cmp.Or(said, &LastWords{Why: Interrupted, Asked: asked})
		case said == nil || w.Path != "" || said.Path == "":
			said = &LastWords{Step: w.Step, Unit: w.Unit, Path: w.Path, Kept: w.Kept != 0, Why: w.Why, Skips: w.Skips != 0,
				Took: time.Duration(w.MS) * time.Millisecond, Asked: asked}
		}
	}
	return said
}

// Clear removes the folders that processes have left behind because they were killed while they saved. All of them must
// have ended.
func (r Report) Clear() {
	for _, w := range r.words {
		if strings.HasPrefix(filepath.Base(w.Writing), unfinishedWords) {
			_ = os.RemoveAll(w.Writing) // nothing reads it
		}
	}
}

// AskToSave asks the process that trains to save its state between two steps, as its last words would be. A process
// that does not train yet does so after its first step. answer returns the state, or why there is none; nil as long
// as no process has answered.
func (o *Overlay) AskToSave() (answer func() *LastWords, err error) {
	before := len(o.Report().answers())
	answer = func() *LastWords {
		all := o.Report().answers()
		if len(all) <= before {
			return nil
		}
		w := all[len(all)-1]
		return &LastWords{Step: w.Step, Path: w.Path, Kept: w.Kept != 0, Why: w.Why, Asked: true}
	}
	return answer, os.WriteFile(filepath.Join(filepath.Dir(o.report), saveRequest), nil, 0o600)
}

// Retries is how often the allocator of a process has emptied its cache to try a refused request again, since its first
// steps.
func (r Report) Retries() int64 { return r.retries }

// words is a line of lastwords.py: the folder in which a state is being written, the state, or why there is none.
type words struct {
	Writing, Path, Why, Unit string
	Step, MS                 int64
	Kept, Skips, Asked       int
}
