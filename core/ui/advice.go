package ui

import (
	"fmt"

	"github.com/launch-ml/launch/core/advice"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/run"
)

// adviceOf joins the advice of a run's attempts.
func adviceOf(attempts []run.Attempt) []job.Advice {
	var all [][]job.Advice
	for _, a := range attempts {
		all = append(all, a.Outcome.Advice)
	}
	return advice.Once(all...)
}

// Advise writes one advice, while the program runs.
func (p Printer) Advise(a job.Advice) {
	p.line("%s %s. %s", p.yellow("advice:"), OneLine(a.What), OneLine(a.Change))
}

// advise writes the advice without which the result is worth nothing; with Verbose what is slow, too. What was printed
// while the program ran is not printed again. retried: the end of the run reports the allocator's retries already.
func (p Printer) advise(all []job.Advice, retried bool) {
	for _, a := range all {
		known := a.Told || a.Name == advice.FullCard && retried
		if !known && (a.Weight == job.Fails || p.Verbose && a.Weight != job.Tidy) {
			p.Advise(a)
		}
	}
}

// allAdvice writes all advice of a run, with its evidence.
func (p Printer) allAdvice(all []job.Advice) {
	for _, a := range all {
		p.line("  %s %s", p.yellow(fmt.Sprintf("advice    %s:", a.Weight)), OneLine(a.What))
		for _, e := range a.Evidence {
			p.line("      seen:   %s", OneLine(e))
		}
		p.line("      change: %s", OneLine(a.Change))
	}
}
