package ui

import (
	"fmt"
	"strings"

	"github.com/launch-ml/launch/core/check"
)

// DoctorVersion is the version of [DoctorDocument]. Fields are added within a version and never change their meaning.
const DoctorVersion = 1

// DoctorDocument is the output of `launch doctor --json`.
type DoctorDocument struct {
	Version  int             `json:"version"`
	Command  []string        `json:"command"` // empty: the machine was examined for python3 of PATH
	Wrong    int             `json:"wrong"`
	Findings []check.Finding `json:"findings"`
}

// DoctorOf makes the document of what was found.
func DoctorOf(command []string, all []check.Finding) DoctorDocument {
	return DoctorDocument{Version: DoctorVersion, Command: append([]string{}, command...), Wrong: check.WrongOnes(all),
		Findings: append([]check.Finding{}, all...)}
}

// Doctor writes what was found: a line for each finding, and below it what is wrong and what mends it.
func (p Printer) Doctor(d DoctorDocument) {
	for _, f := range d.Findings {
		p.Beside(fmt.Sprintf("%s  %-11s  ", p.state(f.State), f.Check), OneLine(f.Found))
		const blank = "                      "
		if f.Why != "" {
			p.Beside(blank, OneLine(f.Why))
		}
		for _, m := range f.Mend {
			p.whole("%s  %s", blank, p.bold(OneLine(m)))
		}
	}
	p.line("")
	switch d.Wrong {
	case 0:
		p.line("%s", p.green("nothing is wrong"))
	default:
		p.line("%s", p.red(strings.TrimSpace(fmt.Sprintf("%s wrong", Count(d.Wrong, "finding")))))
	}
}

// state is the word of a state, as wide as the longest.
func (p Printer) state(s check.MachineState) string {
	word := pad(string(s), 7)
	switch s {
	case check.Right:
		return p.green(word)
	case check.Wrong:
		return p.red(word)
	case check.Remark, check.Unseen:
		return p.yellow(word)
	}
	return word
}
