package ui

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/advice"
	"github.com/launch-ml/launch/core/check"
	"github.com/launch-ml/launch/core/job"
)

// On a terminal no line of a sentence is wider than it, its further lines stand below its first, and what is to be
// copied stays whole. Elsewhere each is one line.
func TestBeside(t *testing.T) {
	const long = "its limits are not those of a job, and what is measured here says little about how long it takes there"
	const command = "/home/somebody/miniconda3/envs/training/bin/python3 -m pip install torch " +
		"--index-url https://example.org"
	finding := check.Finding{Check: "environment", State: check.Wrong, Found: long, Why: long, Mend: []string{command}}
	for name, write := range map[string]func(Printer){
		"doctor": func(p Printer) { p.Doctor(DoctorDocument{Findings: []check.Finding{finding}}) },
		"check": func(p Printer) {
			p.Check(CheckDocument{Checks: []check.Line{{State: check.Problem, Check: "python", Found: long, Mend: command}}})
		},
		"checklist": func(p Printer) { p.items("  ", []job.CheckResult{{Name: "it is so", State: job.NotMet, Seen: long}}) },
		"remedies": func(p Printer) {
			p.remedies(Explanation{Remedies: []RemedyDoc{{Remedy: advice.Remedy{What: long, Cost: "speed",
				Run: []string{command}}}}})
		},
		"legend": func(p Printer) { p.reason("   # " + long[:50] + "   + " + long[:50] + "   . 3 B free") },
		"named":  func(p Printer) { p.reason("  asked by  " + long) },
	} {
		for _, colour := range []bool{false, true} {
			var narrow, piped strings.Builder
			write(Printer{W: &narrow, Width: 80, Colour: colour})
			write(Printer{W: &piped, Colour: colour})
			for line := range strings.Lines(narrow.String()) {
				if textWidth(strings.TrimSuffix(line, "\n")) > 80 && !strings.Contains(line, command) {
					t.Errorf("%s: too wide: %s", name, line)
				}
			}
			flat := func(s string) string { return strings.Join(strings.Fields(s), " ") }
			if flat(narrow.String()) != flat(piped.String()) {
				t.Errorf("%s: %s\nbut at 80 columns\n%s", name, piped.String(), narrow.String())
			}
			if strings.Contains(piped.String(), command) && !strings.Contains(narrow.String(), command) {
				t.Errorf("%s: the command is broken:\n%s", name, narrow.String())
			}
		}
	}
	var out strings.Builder
	Printer{W: &out, Width: 40, Prefix: "launch: "}.Beside("ab  ", "one two three four five six seven eight nine")
	if want := "launch: ab  one two three four five six\nlaunch:     seven eight nine\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
