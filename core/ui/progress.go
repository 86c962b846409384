package ui

import (
	"fmt"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/advice"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/run"
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
	if out.LastWords != nil {
		p.line("%v", out.LastWords)
	}
	if missed := out.Missed(); missed != "" {
		p.line("%s", missed)
	}
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
