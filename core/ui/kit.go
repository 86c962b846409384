package ui

import (
	"fmt"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/plugin/kit"
)

// shownFindings is how many findings of one check are printed in full: a mistake shows on every rung.
const shownFindings = 3

// Kit prints the report of a plugin's test.
func (p Printer) Kit(r *kit.Report) {
	m := r.Manifest
	built := ""
	if m.SDK != "" {
		built = ", built with the SDK " + OneLine(m.SDK)
	}
	p.line("%s", p.bold(fmt.Sprintf("plugin %s %s%s", OneLine(m.Name), OneLine(m.Version), built)))
	for _, c := range r.Cases {
		p.line("  %-20s %s: %s", OneLine(c.Case), c.Outcome, OneLine(c.About))
	}
	failed := 0
	for _, check := range kit.Checks {
		found := slices.DeleteFunc(slices.Clone(r.Findings), func(f kit.Finding) bool { return f.Check != check.Name })
		if len(found) > 0 {
			failed++
			p.kitCheck(check, found)
		}
	}
	p.line("")
	p.line("checks: %d passed, %d failed", len(r.Checked)-failed, failed)
	p.notChecked(r)
	if r.Recognised() == 0 {
		p.line("no recipe was recognised, so most of the plugin was not tested: a test fails without one")
	}
}

// kitCheck prints what one check has found.
func (p Printer) kitCheck(check kit.Check, found []kit.Finding) {
	p.line("")
	p.line("%s %s", p.bold("failed: "+check.Name+":"), check.Promise)
	for i, f := range found {
		if i == shownFindings {
			p.line("  … and %d more", len(found)-i)
			break
		}
		where := strings.Trim(OneLine(f.Case)+", "+OneLine(f.Where), ", ")
		if where != "" {
			p.line("  %s", where)
		}
		p.line("    expected: %s", OneLine(f.Want))
		for n, line := range strings.Split(f.Saw, "\n") {
			if n == 0 {
				p.line("    saw:      %s", OneLine(line))
			} else {
				p.line("              %s", OneLine(line))
			}
		}
	}
	p.line("  mend: %s", check.Mend)
}

// notChecked names the checks that could not be made.
func (p Printer) notChecked(r *kit.Report) {
	var names []string
	for _, check := range kit.Checks {
		if !slices.Contains(r.Checked, check.Name) {
			names = append(names, check.Name)
		}
	}
	if len(names) > 0 {
		p.line("these recipes gave no occasion for: %s", strings.Join(names, ", "))
	}
}
