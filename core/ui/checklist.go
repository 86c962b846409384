package ui

import (
	"fmt"

	"github.com/launch-ml/launch/core/job"
)

// allChecked writes the whole list of a recorded run.
func (p Printer) allChecked(all []job.CheckResult) {
	if len(all) > 0 {
		p.line("  checklist")
		p.items("      ", all)
	}
}

// items writes lines of the checklist. What is open has its evidence and its hint.
func (p Printer) items(indent string, all []job.CheckResult) {
	for _, it := range all {
		mark, paint := string(it.State), p.yellow
		if it.State == job.Met {
			paint = p.green
		}
		p.Beside(indent+paint(pad(mark, 11))+" ", OneLine(it.Name)+": "+OneLine(it.Seen))
		if it.State == job.Met {
			continue
		}
		if it.Evidence != "" {
			p.line("%s            line: %s", indent, OneLine(it.Evidence))
		}
		if it.Hint != "" {
			p.line("%s            look at: %s", indent, OneLine(it.Hint))
		}
	}
}

// ItemText describes a line of the checklist: "not met: 27.1 at step 400, then 27.1 at step 800".
func ItemText(it job.CheckResult) string {
	text := fmt.Sprintf("%s: %s", it.State, it.Seen)
	if it.State == job.NotMet && it.Evidence != "" {
		text += fmt.Sprintf(" (%s)", it.Evidence)
	}
	return text
}
