package kit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/plugin"
)

// A trial is one case under test.
type trial struct {
	*tester
	Case
	command job.Command // in the copy of the case's folder
	known   plugin.Recognized
	job     *job.Job
	set     *ladder.Set

	attempts int // so far
}

func (t *trial) found(check, where, want, saw string, args ...any) {
	t.find(Finding{Check: check, Case: t.Name, Where: where, Want: want, Saw: fmt.Sprintf(saw, args...)})
}

// run tests one case. The error is about the test itself.
func (t *tester) run(c Case) error {
	if c.Device.Kind == "" {
		c.Device = Card
	}
	copied, err := t.copied(c.Command)
	if err != nil {
		return err
	}
	before, err := tree(copied.Dir)
	if err != nil {
		return err
	}
	x := &trial{tester: t, Case: c, command: copied}
	if x.recognise() {
		x.marked()
		x.environ()
		x.describe()
		if x.priced() {
			x.checkSet()
			x.same()
			x.rungs()
			x.feeds()
			x.grows()
		}
		os.RemoveAll(filepath.Join(copied.Dir, attempts))
		if now, err := tree(copied.Dir); err == nil {
			t.held(writesCheck)
			if what := changed(before, withoutTimes(before, now)); what != "" {
				x.found(writesCheck, "", "the folder as it was before the questions", "%s", what)
			}
		}
		if !t.Quick {
			return x.garbage()
		}
	}
	return nil
}

// withoutTimes returns now, with the times of before for what has the same contents: the kit itself edits Python
// source in its place, and puts it back.
func withoutTimes(before, now map[string]string) map[string]string {
	mode := func(s string) string {
		f := strings.SplitN(s, " ", 3)
		return strings.Join(f[:min(len(f), 2)],
			" ")
	} // and size
	sum := func(s string) string { return s[strings.LastIndexByte(s, ' ')+1:] }
	for path, was := range before {
		if is := now[path]; mode(is) == mode(was) && sum(is) == sum(was) {
			now[path] = was
		}
	}
	return now
}

// recognise asks about the command, and holds the outcome against what the author expects. It reports whether there
// is a job to test.
func (t *trial) recognise() bool {
	r, j, err := t.recognize(&t.command)
	is := outcome(r, err)
	about := ""
	if err != nil {
		about = err.Error()
	} else {
		about = summary(j)
	}
	if t.Expects.Declined && is != declined && is != failed && !t.bears() {
		is, about = declined, "it bears no mark of the manifest"
	}
	t.mu.Lock()
	t.report.Cases = append(t.report.Cases, Result{t.Name, is, about})
	t.mu.Unlock()
	t.held(recognisedCheck)
	t.held(deadlineCheck)
	want := t.Expects.outcome()
	switch {
	case errors.Is(err, errHung):
		t.found(deadlineCheck, "", "an answer", "%v", err)
	case is != want:
		t.found(recognisedCheck, "", "the command "+want, "%s: %s", is, about)
	case is == refused && !strings.Contains(about, t.Expects.Wrong):
		t.found(recognisedCheck, "", fmt.Sprintf("an error with %q", t.Expects.Wrong), "%q", about)
	}
	if err != nil {
		t.sentence("error", about)
		if is == leftAlone || is == refused {
			t.marked()
		}
		return false
	}
	t.known, t.job = r, j
	return is == want && is == recognised
}

// outcome is what the author expects of the question.
func (e Expects) outcome() string {
	switch {
	case e.Declined:
		return declined
	case e.Caution:
		return leftAlone
	case e.Wrong != "":
		return refused
	}
	return recognised
}

// unpriced adds to the case's line why the command as it is has no estimate, so that nothing of its price was tested.
func (t *trial) unpriced() {
	if t.set == nil || t.set.Check() != nil {
		return
	}
	for _, l := range t.set.Phases {
		if e := l.Rungs[l.Asked].At(t.set.Shared.Asked); !e.Known() {
			t.mu.Lock()
			c := &t.report.Cases[len(t.report.Cases)-1]
			c.About += "; no estimate of " + l.Phase + ": " + e.Unknown
			t.mu.Unlock()
			return
		}
	}
}

// summary is a job in one line.
func summary(j *job.Job) string {
	s := fmt.Sprintf("micro-batch %d, accumulation %d, ranks %d", j.Batch.Micro, j.Batch.Accumulation, j.Batch.Ranks)
	if j.Arch != "" {
		s = j.Arch + ", " + s
	}
	return s
}

// marked holds the manifest against the command: launch asks no plugin that has no matching mark.
func (t *trial) marked() {
	t.held(marksCheck)
	words := strings.Join(t.command.Args, " ")
	prog, err := command.Program(t.command.Args, t.command.Env, t.command.Dir)
	if err != nil {
		t.found(marksCheck, words, "a command that runs a Python program", "%v", err)
		return
	}
	if !t.marks(prog) {
		t.found(marksCheck, words, "a mark that matches", "none of %s matches", asJSON(t.manifest.Marks))
	}
}

// bears reports whether launch would ask the plugin about the command.
func (t *trial) bears() bool {
	prog, err := command.Program(t.command.Args, t.command.Env, t.command.Dir)
	return err == nil && t.marks(prog)
}

func (t *trial) marks(prog command.Prog) bool {
	seen := plugin.See(prog, t.command.Env)
	return slices.ContainsFunc(t.manifest.Marks, func(m plugin.Mark) bool { return m.Matches(seen) })
}

// environ looks for variables that the plugin reads and does not list: those that the case sets; and, of a plugin in
// this process, any other one.
func (t *trial) environ() {
	told := t.told(t.command).Env
	for _, name := range t.Sets {
		t.held(environCheck)
		if !slices.ContainsFunc(told, func(kv string) bool { return strings.HasPrefix(kv, name+"=") }) {
			t.found(environCheck, name, "a manifest that lists the variables of the case", "the plugin is not told of %s", name)
		}
	}
	c := t.command
	r, err := ask(t.tester, func(ctx context.Context, p plugin.Plugin) (plugin.Recognized,
		error) {
		return p.Recognize(ctx, c)
	})
	if err != nil || r == nil || r.Job() == nil {
		return
	}
	t.held(environCheck)
	if a, b := bare(r.Job()), bare(t.job); a != b {
		t.found(environCheck, "", "the same job whether or not the plugin is told of variables that its manifest lacks",
			"%s", difference(b, a))
	}
}

// digits are what may differ between two warnings: a warning may name the space that is left on a disk.
var digits = lazy.MustCompile(`[0-9]+(\.[0-9]+)?`)

// bare is a job's document without its command.
func bare(j *job.Job) string {
	other := *j
	other.Command, other.Plugin, other.Warnings = job.Command{}, "", slices.Clone(j.Warnings)
	for i, w := range other.Warnings {
		other.Warnings[i] = digits.ReplaceAllString(w, "0")
	}
	return asJSON(&other)
}

// asJSON is the document of a value.
func asJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// difference shows two documents where they begin to differ.
func difference(a, b string) string {
	if a == b {
		return "no difference"
	}
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	cut := func(s string) string {
		s = s[max(0, i-30):min(len(s), i+50)]
		return strings.ToValidUTF8(s, "")
	}
	return fmt.Sprintf("first …%s…, then …%s…", cut(a), cut(b))
}

// priced asks for the ladders as asked.
func (t *trial) priced() bool {
	t.held(laddersCheck)
	set, err := t.price(t.known, t.Device)
	switch {
	case errors.Is(err, errHung):
		t.found(deadlineCheck, "the ladders", "an answer", "%v", err)
	case err != nil:
		t.found(laddersCheck, "", "ladders for "+t.Device.Kind, "%v", err)
		t.sentence("error", err.Error())
	}
	t.set = set
	t.unpriced()
	return err == nil
}

// again is how often the same is asked at once.
const again = 4

// same asks the same again: one after the other, several at once, and of a plugin that was started anew.
func (t *trial) same() {
	t.held(sameCheck)
	wantJob, wantSet := bare(t.job), asJSON(t.set)
	compare := func(how string) {
		c := t.command
		r, j, err := t.recognize(&c)
		if err != nil {
			t.found(sameCheck, how, "the job that it recognised before", "%v", err)
			return
		}
		if got := bare(j); got != wantJob {
			t.found(sameCheck, how, "the job that it recognised before", "%s", difference(wantJob, got))
		}
		set, err := t.price(r, t.Device)
		if err != nil {
			t.found(sameCheck, how, "the ladders of before", "%v", err)
		} else if got := asJSON(set); got != wantSet {
			t.found(sameCheck, how, "the ladders of before", "%s", difference(wantSet, got))
		}
	}
	compare("asked again")
	if set, err := t.price(t.known, t.Device); err != nil || asJSON(set) != wantSet {
		t.found(sameCheck, "asked for the ladders again", "the ladders of before", "%v %s", err,
			difference(wantSet, asJSON(set)))
	}
	var all sync.WaitGroup
	for range again {
		all.Go(func() { compare(fmt.Sprintf("asked from %d threads", again)) })
	}
	all.Wait()
	t.close()
	compare("asked after a new start")
	if r, j, err := t.recognize(&t.command); err == nil { // the answers of before belong to a process that has ended
		t.known, t.job = r, j
	}
}
