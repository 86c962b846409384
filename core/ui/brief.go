package ui

import (
	"fmt"
	"slices"
	"strings"
)

// Brief writes what a person needs before a run, in at most four lines: what it is, whether it fits, what changes at
// what cost, and where the rest is. Behind them stands what is amiss with this run, a line each: nobody should find
// that in the morning. A run that is not started, and a verbose printer, have the whole plan.
func (p Printer) Brief(v View) {
	if v.Stop != nil || v.Plan == nil || p.Verbose {
		p.Plan(v)
		return
	}
	p = p.fitted()
	if v.Fails != nil {
		p.line("%s %v", p.red("it stops as it begins:"), v.Fails)
	}
	p.line("%s", p.bold(v.title()))
	p.line("%s%s", p.answer(v), v.needs())
	if text := p.changed(v); text != "" {
		p.line("%s", text)
	}
	p.before(v)
	if len(v.Plan.Edits) > 0 || len(v.Truths) > 0 || v.close() {
		p.line("every figure and reason: launch plan with the same command")
	}
	for _, w := range slices.Concat(v.Run.Job.Warnings, v.Warnings) {
		p.line("%s %s", p.yellow("note:"), w)
	}
}

// needs is what each phase needs of the room; "" where that is known of none.
func (v View) needs() string {
	if v.Run.Room == 0 {
		return ""
	}
	var each []string
	known := false
	for _, c := range v.Plan.Choices {
		need := "not known"
		if c.Estimate.Known() {
			need, known = fmt.Sprintf("%s of %v", mostText(c.Estimate), v.Run.Room), true
		}
		each = append(each, c.Phase+" "+need)
	}
	if !known {
		return ""
	}
	return fmt.Sprintf(" (%s)", strings.Join(each, ", "))
}

// changed is what you and launch have changed, in one line; "" for nothing.
func (p Printer) changed(v View) string {
	var parts []string
	if len(v.Run.Job.Asked) > 0 {
		parts = append(parts, p.bold("set by you:")+" "+p.fromTos(v.Run.Job.Asked))
	}
	if len(v.Plan.Edits) > 0 {
		text := p.bold("changed, in a copy:") + " " + p.fromTos(v.Plan.Edits)
		switch change, other := batchChange(v.Run.Job.Batch, v.Plan.Batch); {
		case other:
			text += "; " + p.yellow(change)
		case change != "":
			text += "; " + change
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}
