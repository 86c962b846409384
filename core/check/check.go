// Package check decides what speaks against a command before it starts: its settings, its data, memory, disk, saved
// states, the machine and its Python. [Examine] is pure; [Look] reads folders and the disk, under a deadline, and
// changes nothing.
//
// Of the machine [LookAtMachine] reads, and [Machine.Examine] decides what is wrong, and which command mends it.
// That is all of launch doctor, which needs no command.
package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

// A State is the result of a check.
type State string

// The states. Only Problem counts.
const (
	OK      State = "ok"
	Note    State = "note"    // it runs, but something is worth knowing
	Problem State = "problem" // it stops, or does not what its settings promise
	Unknown State = "not known"
)

// A Line is the result of one check.
type Line struct {
	Check string `json:"check"`
	State State  `json:"state"`
	Found string `json:"found"`          // one sentence
	Mend  string `json:"mend,omitempty"` // the command or the setting that mends it; launch runs none
}

// Facts are what is known of a command.
type Facts struct {
	Missing  error  // why the command cannot be started
	Mistake  error  // in its settings or its recipe
	Why      string // why no plugin has recognised it
	Declare  string // the command that declares its settings; ""
	Title    string // of the job
	Job      *job.Job
	Plan     *run.Plan // nil: it is refused, and Stop is the reason
	Stop     *run.Stop
	Room     unit.Bytes // 0: no device was seen
	Warnings []string   // launch's own
	Read     Answers
	Earlier  *Earlier
	Machine  []Finding
	Host     bool // the job runs in host memory, so that cards do not matter
}

// Earlier is the last run of the same command.
type Earlier struct {
	Run       string
	Running   bool
	Succeeded bool
	Changed   bool       // the recipe has changed since
	Saved     *run.State // from which it would go on; nil: none
}

// Cannot reports whether a command cannot fit, by the facts.
func (f Facts) Cannot() bool { return f.Stop != nil && f.Stop.Code == run.CannotFit }

// Examine makes all checks, in a fixed order.
func Examine(f Facts) (out []Line) {
	for _, c := range []struct {
		name string
		of   func(Facts) []Line
	}{
		{"command", command}, {"settings", settings}, {"data", data}, {"memory", memory}, {"disk", disk},
		{"resume", resume}, {"python", machine("python", "torch")},
		{"machine", machine("driver", "cards", "memory", "cores", "shm", "limits", "allocator", "environment")},
	} {
		for _, l := range c.of(f) {
			l.Check = c.name
			out = append(out, l)
		}
	}
	return out
}

// Problems counts the lines that are problems.
func Problems(all []Line) (n int) {
	for _, l := range all {
		if l.State == Problem {
			n++
		}
	}
	return n
}

func one(state State, mend, format string, args ...any) []Line {
	return []Line{{State: state, Found: fmt.Sprintf(format, args...), Mend: mend}}
}

func command(f Facts) []Line {
	switch {
	case f.Missing != nil:
		return one(Problem, "", "%v", f.Missing)
	case f.Job != nil:
		return one(OK, "", "%s", f.Title)
	case f.Mistake != nil:
		return one(OK, "", "a plugin recognises it")
	}
	return one(Unknown, f.Declare, "launch does not recognise it (%s): it would run as typed, and its settings, its data "+
		"and its memory are not checked", f.Why)
}

// settings reports what the plugin has found in the recipe and the arguments.
func settings(f Facts) (out []Line) {
	if f.Mistake != nil {
		return one(Problem, "", "%v", f.Mistake)
	}
	if f.Job == nil {
		for _, w := range f.Warnings {
			out = append(out, one(Note, "", "%s", w)...)
		}
		return out
	}
	stops := f.Job.StopsAt()
	for _, w := range stops {
		out = append(out, one(Problem, "", "%s", w)...)
	}
	if len(out) == 0 {
		out = one(OK, "", "launch knows none at which the program would stop")
	}
	for _, w := range slices.Concat(f.Job.Warnings, f.Warnings) {
		if !slices.Contains(stops, w) {
			out = append(out, one(Note, "", "%s", w)...)
		}
	}
	for _, w := range f.Job.Truths {
		out = append(out, one(Note, "", "the documentation is wrong: %s", w)...)
	}
	for _, k := range f.Job.Knobs {
		if k.Dead != "" {
			out = append(out, one(Note, "remove "+nameOf(k.At), "nothing reads %s: %s", nameOf(k.At), k.Dead)...)
		}
	}
	return out
}

// nameOf names a setting as its user knows it: "x.yml: train.workers", "--workers".
func nameOf(at config.Address) string {
	if at.Doc == config.ArgvDoc || at.Doc == config.EnvDoc {
		return at.Path
	}
	return at.Doc + ": " + at.Path
}

func data(f Facts) (out []Line) {
	switch {
	case f.Job == nil:
		return nil
	case len(f.Job.Data) == 0:
		return one(Unknown, "", "launch knows no setting of this command that names data")
	}
	fine := 0
	for _, d := range f.Read.Data {
		at := nameOf(d.At)
		change := fmt.Sprintf("change %s, or put %s there", at, d.What)
		switch {
		case d.Err != nil:
			out = append(out, one(Unknown, "", "%s is %s: %v", at, d.Path, d.Err)...)
		case d.State == Missing:
			out = append(out, one(Problem, change, "%s is %s, which does not exist", at, d.Path)...)
		case d.State == Forbidden:
			out = append(out, one(Problem, "chmod -R u+rX "+d.Path, "%s is %s, which you may not read", at, d.Path)...)
		case d.State == Empty:
			out = append(out, one(Problem, change, "%s is %s, which is empty", at, d.Path)...)
		default:
			fine++
		}
	}
	if fine > 0 {
		names := "each file and folder of data"
		if fine < len(f.Read.Data) {
			names = fmt.Sprintf("%d other files and folders of data", fine)
		}
		found := fmt.Sprintf("%s that the settings name can be read and is not empty (%d)", names, fine)
		if fine < len(f.Read.Data) {
			found = names + " can be read and are not empty"
		}
		out = append(out, one(OK, "", "%s", found)...)
	}
	return out
}

// memory reports whether the job fits, as launch plan does.
func memory(f Facts) []Line {
	const plan = "launch plan -- COMMAND prints the estimate line by line"
	switch {
	case f.Job == nil:
		return nil
	case f.Stop != nil:
		mend := plan
		if b := f.Stop.Beyond; b != nil {
			mend = fmt.Sprintf("%s: %s (cost: %v)", b.Flag, b.Name, b.Cost)
		}
		why := f.Stop.Why
		if p := f.Stop.Refused; p != nil && p.Need() > 0 {
			why += fmt.Sprintf(": the smallest plan needs %v of %v", p.Need(), p.Room)
		}
		return one(Problem, mend, "it %s", strings.TrimPrefix(why, "it "))
	case f.Plan == nil:
		return one(Unknown, "", "there is no plan")
	case f.Room == 0:
		return one(Unknown, "--vram 12GiB checks for a card of that size", "launch sees no card whose size it knows")
	}
	if f.Plan.Need() == 0 {
		return one(Unknown, rehearse(f.Job), "%s; after an out-of-memory launch takes a setting that needs less",
			unknown(f.Plan))
	}
	what := fmt.Sprintf("needs %v of %v", f.Plan.Need(), f.Room)
	if changes := f.Plan.Changes(); changes != run.AsAsked {
		what += fmt.Sprintf(", with %s (cost: %v)", changes, f.Plan.Cost)
	}
	if f.Plan.Verdict() != ladder.Fits {
		return one(Unknown, rehearse(f.Job), "it may not fit: its estimate, which is partly rough, %s", what)
	}
	return one(OK, "", "it fits: it %s", what)
}

// unknown names the first phase without an estimate, and why it has none.
func unknown(p *run.Plan) string {
	for _, c := range p.Choices {
		if !c.Estimate.Known() {
			return fmt.Sprintf("the memory of %s is not known: %s", c.Phase, c.Estimate.Unknown)
		}
	}
	return "the plan has no estimate"
}

// rehearse is the flag that tries every phase, where the job can be shortened.
func rehearse(j *job.Job) string {
	if j.Rehearsal.None != "" || j.Rehearsal.Partial != "" {
		return ""
	}
	return "--rehearse tries every phase before the run"
}

// disk compares the free space with the saved states.
func disk(f Facts) []Line {
	d := f.Read.Disk
	switch {
	case f.Job == nil:
		return nil
	case d.Err != nil:
		return one(Unknown, "", "the free space of %s: %v", d.At, d.Err)
	case !d.Writable:
		return one(Problem, "chmod u+w "+d.At, "you may not write to %s, where the program saves its states", d.At)
	}
	size, known := StateSize(f.Plan)
	n := f.Job.States
	switch {
	case !known:
		return one(Unknown, "", "%v are free in %s; the size of a saved state is not known", d.Free, d.At)
	case size > d.Free:
		return one(Problem, "free some, or save elsewhere", "%v are free in %s, and one saved state takes about %v", d.Free,
			d.At, size)
	case n < 1:
		return one(Unknown, "", "%v are free in %s; a saved state takes about %v, and how many there will be is not known",
			d.Free, d.At, size)
	case size > d.Free/unit.Bytes(n):
		return one(Problem, "save more rarely, free some, or save elsewhere", "%v are free in %s, and %d saved states take "+
			"about %v each", d.Free, d.At, n, size)
	}
	return one(OK, "", "%v are free in %s, and %s about %v", d.Free, d.At, takes(n), unit.Bytes(n)*size)
}

func takes(states int64) string {
	if states == 1 {
		return "one saved state takes"
	}
	return fmt.Sprintf("%d saved states take", states)
}

// StateSize is about how large a saved state is: parameters, their average, buffers and optimizer states, as they are
// in memory. known is false where the estimate of the training is not.
func StateSize(p *run.Plan) (size unit.Bytes, known bool) {
	if p == nil {
		return 0, false
	}
	c := p.Choice(ladder.Training)
	if c == nil || !c.Estimate.Known() {
		return 0, false
	}
	for _, it := range c.Estimate.Items {
		if it.Kind == mem.Parameters || it.Kind == mem.Buffers || it.Kind == mem.Optimizer {
			size += it.Bytes
		}
	}
	return size, size > 0
}

// resume reports what the command would go on from.
func resume(f Facts) []Line {
	if f.Job == nil {
		return nil
	}
	if why := f.Job.Resume.None; why != "" {
		return one(Note, "", "after a failure it starts over: %s", why)
	}
	e := f.Earlier
	if e != nil && e.Running {
		return one(Note, "launch runs", "run %s of the same command is running", e.Run)
	}
	if e == nil || e.Saved == nil {
		after := ""
		if e != nil && e.Succeeded {
			after = fmt.Sprintf("; run %s of the same command has succeeded", e.Run)
		}
		return one(OK, "", "it starts from the beginning, and after a failure it resumes from its newest saved state%s",
			after)
	}
	switch {
	case e.Succeeded:
		return one(OK, "", "it starts from the beginning; run %s of the same command has succeeded", e.Run)
	case e.Changed:
		return one(Note, "launch resume "+e.Run+" continues it with its own recipe",
			"it starts from the beginning: the recipe has changed since run %s, whose newest saved state is %v", e.Run, e.Saved)
	}
	return one(Note, "launch --continue -- COMMAND", "it starts from the beginning: run %s of the same command has a "+
		"saved state of %v", e.Run, e.Saved)
}

// machine passes on what the doctor found of these. Of python and torch everything counts, of the others what is wrong.
func machine(names ...string) func(Facts) []Line {
	return func(f Facts) (out []Line) {
		all := slices.Contains(names, "python")
		if f.Missing != nil {
			return nil
		}
		for _, d := range f.Machine {
			onCard := d.Check == "driver" || d.Check == "cards"
			if !slices.Contains(names, d.Check) || !all && d.State != Wrong || f.Host && onCard {
				continue
			}
			out = append(out, Line{State: stateOf(d.State), Found: sentence(d), Mend: strings.Join(d.Mend, "; ")})
		}
		return out
	}
}

func sentence(d Finding) string {
	if d.Why == "" {
		return d.Found
	}
	return d.Found + ": " + d.Why
}

// stateOf is the doctor's state in the words of this package.
func stateOf(s MachineState) State {
	switch s {
	case Right:
		return OK
	case Wrong:
		return Problem
	case Unseen:
		return Unknown
	}
	return Note
}
