package kit

import (
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/oom"
)

// checkManifest holds the manifest against what launch does with it before it starts the plugin.
func (t *tester) checkManifest() {
	m := t.manifest
	t.held(manifestCheck)
	found := func(where, want, saw string) {
		t.find(Finding{Check: manifestCheck, Where: where, Want: want, Saw: saw})
	}
	for what, text := range map[string]string{"name": m.Name, "version": m.Version, "about": m.About} {
		if strings.TrimSpace(text) == "" {
			found(what, "a text", "none")
		}
	}
	if strings.ContainsAny(m.Name, "/ \t\n") {
		found("name", "one word, as in launch-plugin-NAME", strconv.Quote(m.Name))
	}
	if err := m.Check(); err != nil {
		found("", "a manifest that launch accepts", err.Error())
	}
	if len(m.Marks) == 0 {
		found("marks", "at least one mark", "none: launch would never ask the plugin")
	}
	for _, k := range m.Marks {
		if _, err := path.Match(k.Script, ""); err != nil {
			found("marks", "scripts that are names or globs", fmt.Sprintf("%q: %v", k.Script, err))
		}
		if asJSON(k) == "{}" {
			found("marks", "a mark that names a script, an option or a path", "a mark without any: every command bears it")
		}
	}
	t.survived(survives(&m), "the manifest")
	t.sentenceOf("", "the manifest's about", m.About)
}

// survived reports a document that launch would read differently.
func (t *tester) survived(saw, where string) {
	t.held(documentCheck)
	if saw != "" {
		t.find(Finding{Check: documentCheck, Where: where, Want: "the same document after it was written and read", Saw: saw})
	}
}

// survives holds a value against what launch reads of it.
func survives[T any](v *T) (saw string) {
	var read T
	sent, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	if err := json.Unmarshal(sent, &read); err != nil {
		return err.Error()
	}
	if got := asJSON(&read); got != string(sent) {
		return difference(string(sent), got)
	}
	return ""
}

// describe holds the job against what launch does with it, before anything is priced.
func (t *trial) describe() {
	j := t.job
	t.survived(survives(j), "the job")
	t.held(jobCheck)
	if err := j.Check(); err != nil {
		t.found(jobCheck, "", "a job that launch accepts", "%v", err)
	}
	if j.Exclusive != "" && !filepath.IsAbs(j.Exclusive) {
		t.found(jobCheck, "exclusive", "an absolute path of a folder", "%q", j.Exclusive)
	}
	for i, k := range j.Knobs {
		if slices.ContainsFunc(j.Knobs[:i], func(other job.Knob) bool { return other.Name == k.Name && other.At == k.At }) {
			t.found(jobCheck, k.Name, "each knob once", "two knobs %s at %v", k.Name, k.At)
		}
	}
	t.values()
	t.knobs()
	t.resumes()
	t.rehearses()
	t.words()
}

// values holds the job against what the author expects.
func (t *trial) values() {
	b, want := t.job.Batch, t.Expects
	for _, v := range []struct {
		name      string
		want, got int64
	}{{"micro-batch", want.Micro, b.Micro}, {"accumulation", want.Accumulation, b.Accumulation},
		{"ranks", want.Ranks, b.Ranks}} {
		if v.want == 0 {
			continue
		}
		t.held(valuesCheck)
		if v.got != v.want {
			t.found(valuesCheck, v.name, strconv.FormatInt(v.want, 10), "%d", v.got)
		}
	}
}

// document opens one of the job's documents; nil where an address leads to none.
func document(j *job.Job, name string) (config.Document, error) {
	switch name {
	case config.EnvDoc:
		return environment(j.Command.Env), nil
	case config.ArgvDoc:
		prog, err := command.Program(j.Command.Args, j.Command.Env, j.Command.Dir)
		if err != nil {
			return nil, err
		}
		return config.ParseArgv(prog.Args, j.Options)
	}
	i := slices.IndexFunc(j.Files, func(f job.File) bool { return f.Path == name })
	if i < 0 {
		return nil, fmt.Errorf("the job has no document %q", name)
	}
	switch f := j.Files[i]; {
	case f.Format == job.Binary:
		return nil, nil
	case f.Added && len(j.Merged) > 0: // edits go into a file that the user does not have
		return config.Parse("the merged recipe", j.Merged)
	case f.Added:
		return nil, nil
	default:
		return f.Open()
	}
}

// environment is the environment as a document.
type environment []string

func (e environment) Get(name string) (value string, ok bool) {
	for _, kv := range e {
		if n, v, is := strings.Cut(kv, "="); is && n == name {
			value, ok = v, true
		}
	}
	return value, ok
}

func (environment) Set(string, string) error { return nil }
func (environment) Bytes() []byte            { return nil }

// knobs reads the value of each knob at its address.
func (t *trial) knobs() {
	for _, k := range t.job.Knobs {
		if k.At == (config.Address{}) { // it is shown, and nothing can set it
			continue
		}
		t.held(knobsCheck)
		where := fmt.Sprintf("%s at %v", k.Name, k.At)
		doc, err := document(t.job, k.At.Doc)
		if err != nil {
			t.found(knobsCheck, where, "a document of the job", "%v", err)
			continue
		}
		if doc == nil {
			continue
		}
		text, ok := doc.Get(k.At.Path)
		if tree, is := doc.(config.Tree); is && !ok && tree.Root().At(k.At.Path).Exists() {
			continue // a map or a list, which has no text of its own
		}
		switch {
		case !ok && !k.Default && k.Dead == "":
			t.found(knobsCheck, where, fmt.Sprintf("%q there, or default for a setting that is absent", k.Value),
				"nothing is there")
		case ok && k.Default:
			t.found(knobsCheck, where, "no setting, as default means", "%q is there", text)
		case ok && !alike(text, k.Value):
			t.found(knobsCheck, where, fmt.Sprintf("%q, as in the document", text), "%q", k.Value)
		}
	}
}

// alike reports whether a value that is spelled so in a document is that value: 1e-4 is 0.0001, and "yes" may be true.
func alike(text, value string) bool {
	a, b := plain(text), plain(value)
	if a == b || a == "" {
		return true
	}
	x, err1 := strconv.ParseFloat(strings.ReplaceAll(a, "_", ""), 64)
	y, err2 := strconv.ParseFloat(strings.ReplaceAll(b, "_", ""), 64)
	if err1 == nil && err2 == nil {
		return x == y
	}
	if (err1 == nil) != (err2 == nil) {
		return false
	}
	return truths[a] != "" && truths[a] == truths[b]
}

// plain is a value without quotes and upper case.
func plain(s string) string { return strings.ToLower(strings.Trim(strings.TrimSpace(s), `"'`)) }

// truths are spellings of truth values.
var truths = map[string]string{"true": "y", "yes": "y", "on": "y", "false": "n", "no": "n", "off": "n",
	"none": "-", "null": "-", "~": "-"}

// resumes holds the edits of a resume against the documents.
func (t *trial) resumes() {
	r := t.job.Resume
	t.held(resumeCheck)
	for what, edits := range map[string][]config.Edit{"resume": r.Edits, "each attempt after the first": r.Always} {
		if _, err := t.job.Rewrite(edits, t.attempt()); err != nil {
			t.found(resumeCheck, what, "edits that can be made", "%v", err)
		}
	}
	fixed := slices.IndexFunc(r.Edits, func(e config.Edit) bool {
		return strings.ContainsAny(e.To, "/.") &&
			!strings.Contains(e.To, "{")
	})
	switch {
	case len(r.Edits) == 0 && r.None == "" && !r.Automatic:
		t.found(resumeCheck, "", "edits that resume, or the reason why a retry starts over", "neither")
	case fixed >= 0:
		want := job.SavedPath + " in the value: the newest saved state has another path each time"
		t.found(resumeCheck, r.Edits[fixed].At.String(), want, "%q", r.Edits[fixed].To)
	case len(r.Edits) > 0 && len(t.job.Signs.States) == 0 && !t.job.Signs.Has(job.SavedState):
		t.found(resumeCheck, "", "globs of the saved states, or a sign that names them", "neither: no state would be found")
	}
}

// rehearses holds the edits of a rehearsal against the documents.
func (t *trial) rehearses() {
	r := t.job.Rehearsal
	t.held(rehearsalCheck)
	if _, err := t.job.Rewrite(slices.Concat(r.Edits, r.Largest), t.attempt()); err != nil {
		t.found(rehearsalCheck, "", "edits that can be made", "%v", err)
	}
	inside := func(e config.Edit) bool {
		return strings.Contains(e.To, job.Scratch) || strings.Contains(e.To, job.ScratchName)
	}
	if len(r.Edits) > 0 && !r.Away && len(r.Leaves) == 0 && !slices.ContainsFunc(r.Edits, inside) {
		t.found(rehearsalCheck, "", "an edit whose value has "+job.Scratch+", or away, or leaves",
			"none: what a rehearsal writes replaces the user's files")
	}
}

// attempt is a folder of edited copies. Each attempt has another one: a plugin may keep what it has read of a path.
func (t *trial) attempt() string {
	t.attempts++
	return filepath.Join(t.command.Dir, attempts, strconv.Itoa(t.attempts))
}

// maxSentence bounds what a plugin may write at a time.
const maxSentence = 2000

// words looks at all that a person reads of a job.
func (t *trial) words() {
	j := t.job
	for what, list := range map[string][]string{"name": {j.Name, j.Arch, j.Dialect}, "warnings": j.Warnings,
		"truths":  j.Truths,
		"reasons": {j.Resume.None, j.Rehearsal.None, j.Rehearsal.Partial, j.Rehearsal.Unordered}} {
		for _, s := range list {
			t.sentence(what, s)
		}
	}
	for _, k := range j.Knobs {
		t.sentence("knobs", k.Name)
		t.sentence("knobs", k.Dead)
	}
}

func (t *trial) sentence(what, s string) { t.sentenceOf(t.Name, what, s) }

// sentenceOf looks at one sentence.
func (t *tester) sentenceOf(name, what, s string) {
	t.held(sentencesCheck)
	bad := strings.IndexFunc(s, func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\t' || r == unicode.ReplacementChar
	})
	saw := ""
	switch {
	case bad >= 0:
		saw = fmt.Sprintf("%q", s[max(0, bad-20):min(len(s), bad+20)])
	case len([]rune(s)) > maxSentence:
		saw = fmt.Sprintf("%d characters", len([]rune(s)))
	case strings.Contains(s, "Traceback (most recent call last)"), strings.Contains(s, "goroutine 1 ["):
		saw = "the trace of a program"
	}
	if saw != "" {
		t.find(Finding{Check: sentencesCheck, Case: name, Where: what, Want: "a plain sentence", Saw: saw})
	}
}

// groups are those that a sign's pattern must have.
var groups = map[job.SignKind]string{job.Progress: "iteration", job.Resumed: "iteration", job.Memory: "bytes",
	job.Setting: "value",
	job.Metric:  "value"}

// signs holds what a job reports about its program's output against what launch does with it: each mistake here is
// silent in a run.
func (t *trial) signs() {
	j := t.job
	t.held(signsCheck)
	if _, err := oom.NewDetector(j.Signs); err != nil {
		t.found(signsCheck, "", "patterns that compile", "%v", err)
		return
	}
	for _, s := range j.Signs.Lines {
		t.sign(s)
	}
	for _, c := range j.Signs.Checks {
		t.check(c)
	}
	for _, glob := range slices.Concat(j.Signs.States, j.Signs.Log, j.Signs.Recipes, j.Resume.Aside, j.Resume.InTheWay) {
		if _, err := filepath.Match(glob, ""); err != nil {
			t.found(signsCheck, glob, "a glob that can match a file", "%v", err)
		}
	}
	if p := j.Signs.StateIteration; p != "" {
		if re, err := regexp.Compile(p); err != nil || re.SubexpIndex("iteration") < 0 {
			t.found(signsCheck, "state_iteration", `the group "iteration"`, "%s (%v)", p, err)
		}
	}
}

// check checks one line of the checklist: a mistake in it is a run that could never be checked.
func (t *trial) check(c job.Check) {
	where := fmt.Sprintf("check %q", c.Name)
	re, err := regexp.Compile(c.Pattern)
	switch {
	case err != nil:
		t.found(signsCheck, where, "a pattern that compiles", "%v", err)
	case re.SubexpIndex("value") < 0:
		t.found(signsCheck, where, `the group "value"`, "the groups %q", re.SubexpNames()[1:])
	case re.MatchString(""):
		t.found(signsCheck, where, "a pattern that does not match an empty line", "it matches every line")
	case !slices.Contains(job.Rules, c.Rule):
		t.found(signsCheck, where, fmt.Sprintf("one of the rules %v", job.Rules), "%q", c.Rule)
	}
	t.sentence(where, c.Name)
	if c.Hint != "" {
		t.sentence(where, c.Hint)
	}
}

// sign checks one sign.
func (t *trial) sign(s job.Sign) {
	where := fmt.Sprintf("%s sign %q", s.Kind, s.Pattern)
	re, err := regexp.Compile(s.Pattern)
	if err != nil {
		t.found(signsCheck, where, "a pattern that compiles", "%v", err)
		return
	}
	if g := groups[s.Kind]; g != "" && re.SubexpIndex(g) < 0 {
		t.found(signsCheck, where, fmt.Sprintf("the group %q", g), "the groups %q", re.SubexpNames()[1:])
	}
	if re.MatchString("") {
		t.found(signsCheck, where, "a pattern that does not match an empty line", "it matches every line")
	}
	if s.Phase != "" && t.set.Ladder(s.Phase) == nil && s.Kind != job.OutOfMemory {
		t.found(signsCheck, where, "a phase that has a ladder", "the phase %q", s.Phase)
	}
	known := slices.ContainsFunc(t.job.Knobs, func(k job.Knob) bool { return k.Name == s.Knob }) ||
		slices.ContainsFunc(t.set.Invariants, func(in ladder.Invariant) bool { return in.Name == s.Knob })
	known = known || slices.Contains([]string{job.MicroBatch, job.Accumulation, job.GlobalBatch}, s.Knob) // not set here
	if s.Kind == job.Setting && !known {
		t.found(signsCheck, where, "the name of a knob or of an invariant", "%q", s.Knob)
	}
}
