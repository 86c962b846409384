package attempt

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/overlay"
	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/run"
)

// hook makes the program's Python processes load edited copies of its source, and report their memory. If the copies
// cannot be served, the attempt must not run: that is an error. If only the report is impossible, the record gets the
// reason.
func (x *Executor) hook(a *attempt, sources []overlay.File) (err error) {
	var parts []overlay.Part
	witnessed := false
	asked := x.Inside || x.Job != nil && x.Job.Inside
	if asked || x.Job != nil && x.Job.Batch.Ranks > 1 && !x.Job.Batch.Replicas { // which ranks fail, see crew
		a.unasked = !asked
		if a.unheard = unreachable(a); a.unheard == "" {
			witnessed = true
			parts = append(parts, overlay.WitnessPart())
		}
	}
	dir := a.dir
	var shieldEnv []string
	if x.Job != nil && dir != "" && a.trial == "" && unreachable(a) == "" {
		if part, env, over, ok := x.shieldOf(dir); ok {
			parts, shieldEnv, a.over = append(parts, part), []string{env}, over
		}
	}
	if x.LastWords > 0 && x.Job != nil && a.trial == "" && unreachable(a) == "" {
		a.wholeEpochs = x.Job.LastWords == job.WholeEpochs
		part, known := overlay.LastWordsPart(x.Job.LastWords, x.LastWords)
		if a.words = known; known {
			parts = append(parts, part)
		}
	}
	if len(sources) == 0 && len(parts) == 0 {
		return nil
	}
	// such a folder cannot be an entry of PYTHONPATH
	if strings.ContainsRune(dir, filepath.ListSeparator) || !utf8.ValidString(dir) {
		if dir, err = private.Temp("launch-"); err == nil {
			a.hookDir = dir
		}
	}
	if err == nil {
		a.overlay, err = overlay.Install(dir, sources, a.command.Env, parts...)
	}
	if err != nil {
		a.unheard, a.over, a.words = err.Error(), "", false
		if len(sources) > 0 {
			return err
		}
		return nil
	}
	a.command.Env = withEnv(a.command.Env, append(a.overlay.Env, shieldEnv...))
	if witnessed {
		a.witness = overlay.WitnessOf(a.overlay)
	}
	return nil
}

// unreachable returns why no hook can run in the program, as far as its command shows, or "".
func unreachable(a *attempt) string {
	prog, err := a.command.Prog()
	if err != nil { // an unknown command may well start a Python
		return ""
	}
	return overlay.Refused(prog)
}

// inside returns what the hook reported of a program that ended at that time; nil if no hook was wanted.
func (a *attempt) inside(ended time.Time) *oom.Inside {
	switch {
	case a.witness != nil:
		return a.witness.Inside(ended)
	case a.unheard != "" && !a.unasked:
		return overlay.Unheard(a.unheard)
	}
	return nil
}

// lastWords adds to an outcome what the program's processes reported of theirs. A state counts only if it was found
// to be complete and this run's. It was saved at the end, whatever the program has printed of earlier ones of its name.
func (a *attempt) lastWords(out *run.Outcome, courses []run.Course) {
	if a.wholeEpochs && out.Ending == run.OutOfMemory {
		out.LastWords = &run.LastWords{Why: "its states are of whole epochs"}
	}
	w := a.said(out.Ending)
	if w == nil {
		return
	}
	if w.Path != "" && (out.Saved == nil || !sameFile(out.Saved.Path, w.Path)) {
		w = &run.LastWords{Why: w.Path + " is not complete, or not the newest state of this run", Asked: w.Asked}
	}
	if w.Path != "" && !w.Kept && !w.Asked {
		out.Saved.At, out.Saved.Exact = courses, false
	}
	if w.Asked || out.Ending == run.OutOfMemory { // of another failure it is what the program itself saves
		out.LastWords = w
	}
}

// said is what the program's processes reported of their last words or, where they came to none, of the state that was
// asked for last; nil if nothing. All of them must have ended.
func (a *attempt) said(ending run.Ending) *run.LastWords {
	if !a.words {
		return nil
	}
	report := a.overlay.Report()
	report.Clear()
	w := report.LastWords()
	if ending != run.OutOfMemory && (w == nil || w.Path == "") { // it may be of a library that could not be followed
		w = report.Answer()
	}
	return (*run.LastWords)(w)
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	y, wrong := os.Stat(b)
	return err == nil && wrong == nil && os.SameFile(x, y)
}

// withEnv returns env with the entries of set ("NAME=value") in place of those with the same names.
func withEnv(env, set []string) []string {
	out := slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.ContainsFunc(set, func(s string) bool { return strings.HasPrefix(s, name+"=") })
	})
	return append(out, set...)
}
