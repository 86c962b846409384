package ui

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

// NotRecorded stands in place of the name of a run that could not be recorded.
const NotRecorded = "(not recorded)"

// Summary writes how the run ended: a success in one line, one after a recovery in three. What is amiss with the result
// comes before them, a line each, so that the last line is the ending, with the exit code and whose it is. All else is
// in `launch show`, or printed with Verbose.
func (p Printer) Summary(r *run.Run, stop *run.Stop, id string, code int, whose string) {
	last := r.Last()
	if last == nil {
		p.notBegun(r, stop, id, code, whose)
		return
	}
	succeeded := last.Outcome.Ending == run.Succeeded
	if p.Quiet && succeeded && last.Outcome.Doubtful == "" {
		return
	}
	p.writeKept()
	if !succeeded {
		p.line("%s", p.ending(r, last))
	}
	p.amiss(r, last, succeeded)
	p.beside(r, last, succeeded)
	if stop != nil && stop.Why != string(last.Outcome.Ending) {
		p.Stop(r, stop)
	}
	if !succeeded {
		p.line("run %s · exit code %d is %s", id, code, whose)
		return
	}
	p.recovered(r)
	where := "launch show " + id
	if id == NotRecorded {
		where = "not recorded"
	}
	p.line("%s · exit code %d is %s · %s", p.ending(r, last), code, whose, where)
}

// ending is how a run ended, in one line: how long it took, what it was, from where its attempts went on, and its peak.
func (p Printer) ending(r *run.Run, last *run.Attempt) string {
	took, all, counted := time.Duration(0), r.All(), tried(r.Attempts)
	for _, a := range all {
		took += a.Outcome.Took
	}
	s, made := fmt.Sprintf("%s in %s", p.endingOf(r), short(took)), len(tried(all))
	if trials := len(all) - made; made != 1 || trials > 0 {
		s += ", " + tries(made, trials)
	}
	s += ": " + named(r.Job)
	succeeded := last.Outcome.Ending == run.Succeeded
	if !succeeded || len(counted) == 1 { // else a line has them
		if changes := last.Plan.Changes(); changes != run.AsAsked {
			s += ", " + changes
		}
		if cost := costText(last); cost != "" {
			s += " (" + cost + ")"
		}
	}
	if succeeded {
		s += went(r.Job, counted)
	}
	if peak := last.Outcome.Peak; peak > 0 {
		s += " · measured peak " + peakText(last.Outcome.Ending, peak, last.Outcome.PeakIs) + with(last.Outcome.PeakWith)
		if made > 1 {
			s += fmt.Sprintf(" in attempt %d", last.Plan.Attempt)
		}
		// an estimate is of all that the job takes, which is more than its tensors
		is := last.Outcome.PeakIs
		if e := last.Plan.Need(); e > 0 && (is == run.Used || is == run.Data) {
			for _, c := range last.Plan.Choices {
				if c.Estimate.Total() == e {
					s += " (" + estimateText(c.Estimate) + ")"
					break
				}
			}
		}
	}
	return s
}

// estimateText is an estimate beside what was measured. One in proportion to another size is rough.
func estimateText(e mem.Estimate) string {
	if e.GuessAlone() {
		return fmt.Sprintf("rough estimate %v", e.Total())
	}
	return fmt.Sprintf("estimate %v", e.Total())
}

// named is what a job is called, in a few words: its own name, its network, or its script.
func named(j *job.Job) string {
	if j.Name != "" {
		return OneLine(fmt.Sprintf("%q", j.Name))
	}
	name := j.Arch
	if prog, err := j.Command.Prog(); name == "" && err == nil {
		name = prog.Script
	}
	return unit.Clip(OneLine(cmp.Or(name, j.Dialect, "the command")), 40)
}

// tried are the attempts of a run without its short runs.
func tried(all []run.Attempt) []run.Attempt {
	return slices.DeleteFunc(slices.Clone(all), func(a run.Attempt) bool { return a.Plan.Trial != "" })
}

// recovered writes, for a success that took several attempts, what the others died of and what was changed.
func (p Printer) recovered(r *run.Run) {
	all := tried(r.Attempts)
	if len(all) < 2 {
		return
	}
	var died []string
	for _, a := range all[:len(all)-1] {
		died = append(died, diedOf(&a))
	}
	p.line("%s %s", p.bold("what died:"), few(died, "; "))
	first, last := &all[0].Plan, &all[len(all)-1].Plan
	edits := between(first, last)
	if len(edits) == 0 {
		p.line("%s nothing: %s", p.bold("changed:"), last.Why)
		return
	}
	text := fmt.Sprintf("%s (%s)", p.fromTos(edits), cmp.Or(costText(&all[len(all)-1]), "cost: "+last.Cost.String()))
	if change, _ := batchChange(r.Job.Batch, last.Batch); change != "" {
		text += ", " + change
	}
	p.line("%s %s", p.bold("changed:"), text)
}

// costText is what an attempt cost, where that is more than was planned; else "".
func costText(a *run.Attempt) string {
	if len(a.Outcome.Changed) == 0 || a.Plan.Cost >= ladder.Recipe {
		return ""
	}
	return fmt.Sprintf("its cost was %v, not %v", ladder.Recipe, a.Plan.Cost)
}

// diedOf is how an attempt ended: in which phase, and what it asked for of what.
func diedOf(a *run.Attempt) string {
	out := &a.Outcome
	s := fmt.Sprintf("attempt %d", a.Plan.Attempt)
	if phase := out.Phase; phase != string(oom.Unknown) && !strings.Contains(out.Cause, phase) {
		s += " in " + phase
	}
	if out.Iteration > 0 {
		s += fmt.Sprintf(" at iteration %d", out.Iteration)
	}
	s += ": " + cmp.Or(out.Cause, string(out.Ending))
	if r := out.Report; r.Requested != nil && (r.Free == nil || r.Capacity == nil) && a.Plan.Room > 0 {
		s += fmt.Sprintf(" with a room of %v", a.Plan.Room)
	}
	return s
}

// between lists what the last plan changes from the first one. Each edit is of the job as asked, not of the plan
// before.
func between(first, last *run.Plan) (out []config.Edit) {
	sizes := map[string]int64{job.MicroBatch: first.Batch.Micro, job.Accumulation: first.Batch.Accumulation}
	same := func(e config.Edit) func(config.Edit) bool {
		return func(o config.Edit) bool { return o.Knob == e.Knob && o.At == e.At }
	}
	for _, e := range last.Edits {
		if i := slices.IndexFunc(first.Edits, same(e)); i >= 0 {
			if e.From = first.Edits[i].To; e.From == e.To && e.Remove == first.Edits[i].Remove {
				continue
			}
		} else if n := sizes[e.Knob]; e.From == "" && n > 0 { // the recipe has none, and so the program's own
			e.From = strconv.FormatInt(n, 10)
		}
		if e.From != e.To || e.Remove || e.Add { // a flag alone has no value
			out = append(out, e)
		}
	}
	for _, e := range first.Edits {
		if !slices.ContainsFunc(last.Edits, same(e)) {
			e.From, e.To, e.Add, e.Remove = e.To, e.From, false, e.Add
			out = append(out, e)
		}
	}
	return slices.DeleteFunc(out, func(e config.Edit) bool { return e.Knob == "resume" })
}

// fromTos are edits in one line; what several files have alike is one.
func (p Printer) fromTos(all []config.Edit) string {
	var each []string
	for _, e := range all {
		from, to := p.fromTo(e)
		if s := fmt.Sprintf("%s %s → %s", e.Knob, from, to); !slices.Contains(each, s) {
			each = append(each, s)
		}
	}
	return strings.Join(each, ", ")
}

// went is from where each attempt went on after the one before it, and how much it trained again.
func went(j *job.Job, all []run.Attempt) string {
	var each []string
	for i := range all {
		s := ""
		switch {
		case i > 0:
			s = wentOn(j, &all[i-1].Outcome, &all[i])
		case all[i].Plan.Resume != nil: // what came before it does not count any more
			s = fmt.Sprintf("resumed from %v%s", all[i].Plan.Resume, unchecked(&all[i].Outcome))
		default:
			continue
		}
		if len(all) > 2 {
			s = fmt.Sprintf("attempt %d %s", all[i].Plan.Attempt, s)
		}
		each = append(each, s)
	}
	if len(each) == 0 {
		return ""
	}
	return " · " + few(each, "; ")
}

// unchecked tells where nothing shows whether a program resumed.
func unchecked(out *run.Outcome) string {
	if after := out.Resumption; after == nil || after.State == run.NotChecked {
		return ", whether it resumed is not checked"
	}
	return ""
}

// wentOn is from where an attempt went on after an earlier one, by its own count, and how much it trained again.
func wentOn(j *job.Job, before *run.Outcome, a *run.Attempt) string {
	out := &a.Outcome
	after := out.Resumption
	switch {
	case out.WentOn != "", a.Plan.Resume == nil && after != nil && after.State == run.Resumed:
		return "went on from a state that the program found by itself"
	case after != nil && after.State == run.Restarted:
		return fmt.Sprintf("began again, though it was to resume from %v%s", a.Plan.Resume, again(j, before, 0))
	case a.Plan.Resume == nil:
		return "began again" + again(j, before, 0)
	}
	from := a.Plan.Resume.Steps()
	if after != nil && after.State == run.Resumed && after.Unit == "" && after.Saved > 0 {
		from = after.Saved
	}
	twice := again(j, before, from)
	if from == 0 {
		twice = unknownTwice
	}
	return fmt.Sprintf("went on from %v%s%s", a.Plan.Resume, twice, unchecked(out))
}

const unknownTwice = ", how much was trained twice is not known"

// again is how many iterations were trained twice, by an attempt and by one after it that began after iteration from;
// 0: from the beginning. The program's reports decide it.
func again(j *job.Job, before *run.Outcome, from int64) string {
	has := func(is func(run.Course) bool) bool { return slices.ContainsFunc(before.Courses, is) }
	n := before.Iteration - from
	if from == 0 && has(func(c run.Course) bool { return c.First.Iteration == 0 }) { // it counts from 0
		n++
	}
	switch {
	case before.Iteration == 0 && len(before.Courses) == 0 && j.Signs.Has(job.Progress):
		return ", no iteration had been reported"
	case before.Iteration == 0 && n == 0, n < 0, j.Signs.CountsMicro, has(func(c run.Course) bool { return c.Falls }):
		return unknownTwice
	case n == 0:
		return ", no reported iteration was trained twice"
	case has(func(c run.Course) bool { return c.Gap > 1 }): // only every n-th is reported
		return fmt.Sprintf(", about %s trained twice", Count(int(n), "iteration"))
	}
	return fmt.Sprintf(", %s trained twice", Count(int(n), "iteration"))
}

// amiss writes why the result is not what it seems: of two experiments, doubtful, of another training than was planned,
// of settings that nothing confirms, or not as the job's own checks want it.
func (p Printer) amiss(r *run.Run, last *run.Attempt, succeeded bool) {
	note := p.yellow("note:")
	for _, m := range r.Mixed {
		p.line("%s the result is %s", note, OneLine(m.String()))
	}
	p.asPlanned(r, last)
	if !succeeded { // a failed run has more important news
		return
	}
	if why := last.Outcome.Doubtful; why != "" {
		p.line("%s %s", note, why)
	}
	var open []string
	for _, o := range last.Unconfirmed(r.Job) {
		open = append(open, o.String())
	}
	if len(open) > 0 {
		p.line("%s not checked: whether the program used %s", note, few(open, ", "))
	}
	for _, it := range job.OpenChecks(run.Checklist(r.Job, r.All())) {
		if !p.Verbose { // which prints the whole list
			p.line("%s %s: %s", note, OneLine(it.Name), OneLine(ItemText(it)))
		}
	}
}

// beside writes what helps to understand a failure and, with Verbose, all that `launch show` has beside the result.
func (p Printer) beside(r *run.Run, last *run.Attempt, succeeded bool) {
	retried := len(last.Outcome.Retries) > 0 && (p.Verbose || !succeeded)
	if retried {
		p.line("%s %s", p.yellow("note:"), retriesText(last.Outcome.Retries))
	}
	p.advise(adviceOf(r.Attempts), retried)
	if p.Verbose {
		p.line("checklist:")
		p.items("  ", run.Checklist(r.Job, r.All()))
	}
	if in := last.Outcome.Inside; in != nil && (in.Hook.Why != "" || p.Verbose || !succeeded) {
		p.Inside(in.Hook)
	}
	if last.Outcome.Lied && !last.Outcome.Silent {
		p.line("%s the program exited 0 although it failed", p.yellow("note:"))
	}
}

// endingOf is how a run ended, in its colour.
func (p Printer) endingOf(r *run.Run) string {
	state, mixed := stateOf(&r.Last().Outcome), ""
	if len(r.Mixed) > 0 {
		mixed = p.yellow(", mixed")
	}
	switch state {
	case run.Doubtful:
		return p.yellow(state) + mixed
	case string(run.Succeeded):
		return p.green(state) + mixed
	default:
		return p.red(state) + mixed
	}
}

// asPlanned writes in what the last attempt was not the training that was planned, by the program's own reports.
func (p Printer) asPlanned(r *run.Run, last *run.Attempt) {
	if change, other := batchChange(r.Job.Batch, last.Plan.Batch); other {
		p.line("%s %s", p.yellow("note:"), change)
	}
	for _, m := range last.Misread() {
		p.line("%s the program reports %s %s, and launch read %s from the command: the global batch that launch printed "+
			"is wrong", p.yellow("note:"), m.Knob, m.Said, m.To)
	}
	for _, changed := range last.Outcome.Changed {
		p.line("%s another training than the run began: %s", p.yellow("note:"), changed)
	}
	if last.Outcome.WentOn != "" {
		p.line("%s %s", p.yellow("note:"), last.Outcome.WentOn)
	}
	if short := last.Outcome.Short; short != "" && short != last.Outcome.Doubtful {
		p.line("%s %s", p.yellow("note:"), short)
	}
}

// notBegun writes why a run was stopped before its first attempt: something has changed since its plan was printed.
func (p Printer) notBegun(r *run.Run, stop *run.Stop, id string, code int, whose string) {
	if stop != nil {
		p.writeKept()
		p.Stop(r, stop)
		p.line("run %s · exit code %d is %s", id, code, whose)
	}
}

// retriesText is how often the allocator had to ask again, in all phases.
func retriesText(by map[string]oom.Retries) string {
	var in []string
	for _, phase := range slices.Sorted(maps.Keys(by)) {
		in = append(in, by[phase].In(phase))
	}
	return "the card was full: the allocator retried " + strings.Join(in, "; ")
}

// peakText returns a measured peak with its kind: a lower bound after an out-of-memory.
func peakText(ended run.Ending, peak unit.Bytes, is string) string {
	if ended == run.OutOfMemory {
		return fmt.Sprintf("at least %v %s", peak, is)
	}
	return fmt.Sprintf("%v %s", peak, is)
}

// few joins the first three, and tells how many more there are.
func few(all []string, by string) string {
	const most = 3
	if n := len(all) - most; n > 0 {
		all = append(slices.Clone(all[:most]), fmt.Sprintf("and %d more", n))
	}
	return strings.Join(all, by)
}

// tries counts the attempts and the short runs before them: "2 attempts after 1 short run".
func tries(attempts, trials int) string {
	switch {
	case trials == 0:
		return Count(attempts, "attempt")
	case attempts == 0:
		return Count(trials, "short run")
	}
	return Count(attempts, "attempt") + " after " + Count(trials, "short run")
}
