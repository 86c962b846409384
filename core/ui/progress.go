package ui

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/advice"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

// Starting writes one line with what an attempt changes: after a failed attempt, the remedy. first is set for the first attempt
// after trials.
func (p Printer) Starting(plan *run.Plan, first bool) {
	p = p.kept()
	what := plan.Changes()
	switch plan.Trial {
	case run.Rehearsal:
		p.line("rehearsal: %s, every phase once; its files are removed afterwards", p.bold(what))
		if plan.Order != "" {
			p.line("rehearsal: %s", plan.Order)
		}
		return
	case run.Timing:
		p.line("timing: %s, a few steps; their files are removed afterwards", p.bold(what))
		return
	}
	switch {
	case plan.Attempt == 1: // the plan itself was just shown
		return
	case first:
		p.line("the run itself: %s (%s)", p.bold(what), plan.Why)
		return
	case plan.Resume != nil:
		what += fmt.Sprintf(", resumes from %v", plan.Resume)
	default:
		what += ", starts over"
	}
	why := ""
	if plan.Host != nil && plan.Host.Why != "" {
		why = " (" + plan.Host.Why + ")"
	}
	p.line("attempt %d: %s%s", plan.Attempt, p.bold(what), why)
	if why := plan.CostsBecause(); why != "" {
		p.line("%s its cost is %v: %s", p.yellow("note:"), plan.Cost, why)
	}
}

// Ended writes one line with the cause of an attempt's end. The summary reports a success.
func (p Printer) Ended(a *run.Attempt) {
	p = p.kept()
	out := a.Outcome
	switch {
	case out.Ending != run.Succeeded:
	case a.Plan.Trial == run.Timing && out.Rate > 0:
		p.line("timed: %.4g samples per second", out.Rate)
		return
	case a.Plan.Trial == run.Rehearsal:
		p.line("rehearsed in %s: %s", short(out.Took), p.green("every phase fits"))
		return
	default:
		return
	}
	where := ""
	if out.Iteration > 0 {
		where = fmt.Sprintf(" at iteration %d", out.Iteration)
	}
	p.line("%s%s after %s: %s", p.red(string(out.Ending)), where, short(out.Took), out.Cause)
	p.passedOver("", &out)
}

// passedOver writes which saved states a resume does not read, and why.
func (p Printer) passedOver(indent string, out *run.Outcome) {
	for _, s := range []struct {
		paths []string
		why   string
	}{
		{out.Strange, "it is newer than this attempt, but nothing shows that this run wrote it"},
		{out.Torn, "it is incomplete"},
	} {
		if len(s.paths) == 0 {
			continue
		}
		more := ""
		if n := len(s.paths) - 1; n > 0 {
			more = fmt.Sprintf(", and %d more", n)
		}
		p.line("%s%s launch does not resume from %s%s: %s", indent, p.yellow("note:"), s.paths[0], more, s.why)
	}
}

// Summary writes how the run ended, and whose exit code follows.
func (p Printer) Summary(r *run.Run, stop *run.Stop, id string, code int, whose string) {
	last := r.Last()
	if last == nil {
		p.notBegun(r, stop, id, code, whose)
		return
	}
	ended := last.Outcome.Ending
	doubtful := last.Outcome.Doubtful != "" && ended == run.Succeeded
	if p.Quiet && ended == run.Succeeded && !doubtful {
		return
	}
	p.writeKept()
	took, trials := time.Duration(0), 0
	for _, a := range r.Attempts {
		took += a.Outcome.Took
		if a.Plan.Trial != "" {
			trials++
		}
	}
	s := fmt.Sprintf("%s in %s, %s", p.endingOf(r), short(took), tries(len(r.Attempts)-trials, trials))
	if changes := last.Plan.Changes(); changes != "as asked" {
		s += ": " + changes
	}
	if len(last.Outcome.Changed) > 0 && last.Plan.Cost < ladder.Recipe {
		s += fmt.Sprintf(" (its cost was %v, not %v)", ladder.Recipe, last.Plan.Cost)
	}
	if peak := last.Outcome.Peak; peak > 0 {
		s += " · measured peak " + peakText(ended, peak, last.Outcome.PeakIs) + with(last.Outcome.PeakWith)
		if e := largest(&last.Plan); e > 0 && last.Outcome.PeakIs == run.Used {
			s += fmt.Sprintf(" (estimate %v)", e)
		}
	}
	if after := last.Outcome.Resumption; after != nil && after.State == run.NotChecked && ended == run.Succeeded {
		s += " · whether it resumed is not checked"
	}
	p.line("%s", s)
	p.doubts(r, doubtful)
	if open := last.Unconfirmed(r.Job); len(open) > 0 && ended == run.Succeeded { // a failed run has more important news
		p.line("%s not checked: whether the program used %s", p.yellow("note:"), few(open))
	}
	p.asPlanned(last)
	p.retries(last.Outcome.Retries)
	p.advise(adviceOf(r.Attempts), len(last.Outcome.Retries) > 0, id)
	p.checked(run.Checklist(r.Job, r.Attempts), ended == run.Succeeded)
	if in := last.Outcome.Inside; in != nil {
		p.Inside(in.Hook)
	}
	if last.Outcome.Lied && !last.Outcome.Silent {
		p.line("%s the program exited 0 although it failed", p.yellow("note:"))
	}
	if stop != nil && stop.Why != string(ended) {
		p.Stop(r, stop)
	}
	p.line("run %s · exit code %d is %s", id, code, whose)
}

// doubts writes why the result of a run is not that of one experiment, or may be none.
func (p Printer) doubts(r *run.Run, doubtful bool) {
	for _, m := range r.Mixed {
		p.line("%s the result is %s", p.yellow("note:"), OneLine(m.String()))
	}
	if doubtful {
		p.line("%s %s", p.yellow("note:"), r.Last().Outcome.Doubtful)
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
func (p Printer) asPlanned(last *run.Attempt) {
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

// retries writes how often the allocator had to ask again: one line for all phases.
func (p Printer) retries(by map[string]oom.Retries) {
	var in []string
	for _, phase := range slices.Sorted(maps.Keys(by)) {
		in = append(in, by[phase].In(phase))
	}
	if len(in) > 0 {
		p.line("%s the card was full: the allocator retried %s", p.yellow("note:"), strings.Join(in, "; "))
	}
}

// peakText returns a measured peak with its kind: a lower bound after an out-of-memory.
func peakText(ended run.Ending, peak unit.Bytes, is string) string {
	if ended == run.OutOfMemory {
		return fmt.Sprintf("at least %v %s", peak, is)
	}
	return fmt.Sprintf("%v %s", peak, is)
}

// few returns the first three, and how many more there are.
func few(open []run.Open) string {
	var out []string
	for i, u := range open {
		if i == 3 {
			out = append(out, fmt.Sprintf("and %d more", len(open)-3))
			break
		}
		out = append(out, u.String())
	}
	return strings.Join(out, ", ")
}

func largest(plan *run.Plan) (most unit.Bytes) {
	for _, c := range plan.Choices {
		if !c.Estimate.Known() {
			return 0
		}
		most = max(most, c.Estimate.Total())
	}
	return most
}

// ToDeclare is the hint where launch does not recognise a command, and the command is not printed with it.
const ToDeclare = "to declare its settings: launch init -- COMMAND"

// Unrecognised writes the out-of-memory of a command that was not recognised. why is the reason: "no plugin knows it".
func (p Printer) Unrecognised(x Explanation, cause, why string) {
	for i, l := range advice.Explain(x.Report) {
		if i == 0 {
			l = p.red("out of memory: ") + cause // which is what the explanation begins with
		}
		p.line("%s", l)
	}
	p.remedies(x)
	p.line("launch does not recognise this command (%s): it changed nothing, and makes no second attempt", why)
}

// Inside writes whether the hook of --inside was active.
func (p Printer) Inside(h oom.Handshake) {
	if h.Why != "" {
		p.line("%s inside: %v", p.yellow("note:"), h)
		return
	}
	p.line("inside: %v", h)
}

// Warn writes a note.
func (p Printer) Warn(format string, args ...any) {
	p.line("%s %s", p.yellow("note:"), fmt.Sprintf(format, args...))
}

// Line writes a line.
func (p Printer) Line(format string, args ...any) { p.line(format, args...) }

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

// Count returns a number of things: "1 line", "2 lines".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func short(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	s := d.Round(time.Second).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	return s
}
