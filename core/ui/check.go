package ui

import (
	"fmt"

	"github.com/launch-ml/launch/core/check"
)

// CheckVersion is the version of [CheckDocument]. Fields are added within a version and never change their meaning.
const CheckVersion = 1

// CheckDocument is the output of `launch check --json`.
type CheckDocument struct {
	Version  int          `json:"version"`
	Command  []string     `json:"command"`
	Problems int          `json:"problems"`
	ExitCode int          `json:"exit_code"`
	Checks   []check.Line `json:"checks"`
}

// CheckOf makes the document of what was found.
func CheckOf(command []string, all []check.Line) CheckDocument {
	return CheckDocument{Version: CheckVersion, Command: append([]string{}, command...), Problems: check.Problems(all),
		Checks: append([]check.Line{}, all...)}
}

// Check writes what was found: a line for each check, and below it what mends it.
func (p Printer) Check(d CheckDocument) {
	for _, l := range d.Checks {
		word := pad(string(l.State), 9)
		switch l.State {
		case check.OK:
			word = p.green(word)
		case check.Problem:
			word = p.red(word)
		default:
			word = p.yellow(word)
		}
		p.Beside(fmt.Sprintf("%s  %s  ", word, pad(l.Check, 8)), OneLine(l.Found))
		if l.Mend != "" {
			p.whole("%23s%s", "", p.bold(OneLine(l.Mend)))
		}
	}
	p.line("")
	end := p.green("no problem was found")
	if d.Problems > 0 {
		end = p.red(Count(d.Problems, "problem"))
	}
	if n := unknown(d.Checks); n > 0 {
		end += "; " + p.yellow(fmt.Sprintf("%d not known", n))
	}
	p.line("%s", end)
}

// unknown counts the checks that found nothing out.
func unknown(all []check.Line) (n int) {
	for _, l := range all {
		if l.State == check.Unknown {
			n++
		}
	}
	return n
}
