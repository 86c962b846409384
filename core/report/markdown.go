package report

import (
	"fmt"
	"strings"
	"unicode"
)

// Markdown returns the report as text for an issue of a project. Whatever comes from the record is in code spans and
// code blocks, where Markdown has no meaning, so that it can neither mention people nor load a picture.
func Markdown(r Report) []byte {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("<!-- %s -->", Mark)
	line("### %s: %s\n", span(r.Title), span(r.State))
	if r.Command != "" {
		line("%s\n", block("sh", r.Command))
	}
	for _, f := range r.Summary {
		line("- %s: %s", word(f.Name), factText(f))
	}
	for _, n := range r.Notes {
		line("- note: %s", span(n))
	}
	line("")
	if len(r.Checks) > 0 {
		line("#### Checklist\n")
		for _, f := range r.Checks {
			line("- %s: %s", span(f.Name), factText(f))
		}
		line("")
	}
	if r.Failure != nil {
		line("#### Why it ended\n\n%s\n", block("", r.Failure.Lines...))
	}
	if len(r.Attempts) > 0 {
		markAttempts(line, r.Attempts)
	}
	if len(r.Asked) > 0 {
		line("#### Set by the user\n")
		markEdits(line, r.Asked)
	}
	for _, l := range r.Ladders {
		markLadder(line, l)
	}
	if r.Sweep != nil {
		markSweep(line, r.Sweep)
	}
	if len(r.Environment) > 0 {
		line("<details><summary>Environment</summary>\n")
		for _, f := range r.Environment {
			line("- %s: %s", word(f.Name), factText(f))
		}
		for _, v := range r.Variables {
			line("- %s", span(v))
		}
		line("\n</details>\n")
	}
	line("%s", word(r.By))
	return []byte(b.String())
}

// markAttempts writes the attempts as a table of their phases, and what each changed.
func markAttempts(line func(string, ...any), all []Attempt) {
	line("| attempt | changed | phase | predicted | measured | ended |\n|---|---|---|---|---|---|")
	for _, a := range all {
		name := fmt.Sprint(a.Number)
		if a.Kind != "" {
			name += " (" + a.Kind + ")"
		}
		for i, p := range a.Phases {
			predicted, measured := "not known", "not measured"
			if p.Predicted != nil {
				predicted = p.Predicted.Text
			}
			var all []string
			for _, m := range p.Measured {
				all = append(all, strings.TrimSpace(m.Bound+" "+m.Bytes.Text+" "+m.Is))
			}
			if len(all) > 0 {
				measured = strings.Join(all, ", ")
			}
			ended, changed := span(a.Ending), span(a.Changes)
			if i > 0 {
				name, ended, changed = "", "", ""
			}
			line("| %s | %s | %s | %s | %s | %s |", name, changed, span(p.Name), predicted, span(measured), ended)
		}
		if len(a.Phases) == 0 {
			line("| %s | %s | | | | %s |", name, span(a.Changes), span(a.Ending))
		}
	}
	line("")
	for _, a := range all {
		if len(a.Edits) > 0 {
			line("What attempt %d changed:\n", a.Number)
			markEdits(line, a.Edits)
		}
	}
}

func markEdits(line func(string, ...any), all []Edit) {
	line("| setting | where | from | to | cost |\n|---|---|---|---|---|")
	for _, e := range all {
		line("| %s | %s | %s | %s | %s |", span(e.Knob), span(e.Where), span(e.From), span(e.To), word(e.Cost))
	}
	line("")
}

func markLadder(line func(string, ...any), l Ladder) {
	line("<details><summary>What could be changed: %s</summary>\n", word(l.Phase))
	line("| change | cost | estimate | in the room | taken by |\n|---|---|---|---|---|")
	for _, g := range l.Rungs {
		estimate := "–"
		if g.Estimate != nil {
			estimate = g.Estimate.Text
		}
		line("| %s | %s | %s | %s | %s |", span(g.Name), word(g.Cost), estimate, word(g.Verdict), word(g.Taken))
	}
	line("\n</details>\n")
}

func markSweep(line func(string, ...any), s *Sweep) {
	var head, rule strings.Builder
	for _, c := range s.Columns {
		head.WriteString("| " + word(c.Name) + " ")
		rule.WriteString("|---")
		if c.Numeric {
			rule.WriteString(":")
		}
	}
	line("%s|\n%s|", head.String(), rule.String())
	for _, r := range s.Rows {
		var row strings.Builder
		for _, c := range r.Cells {
			text := span(c.Text)
			if c.Num != nil {
				text = c.Num.Text
			}
			row.WriteString("| " + text + " ")
		}
		line("%s|", row.String())
	}
	if s.More > 0 {
		line("\n%d more trials are not in this report.", s.More)
	}
	line("")
}

func factText(f Fact) string {
	switch {
	case f.Num == nil:
		return span(f.Value)
	case f.Value == "":
		return f.Num.Text
	}
	return f.Num.Text + " " + span(f.Value)
}

// span is a text as code in a line or a table: nothing in it means anything. A backtick would end it.
func span(s string) string {
	s = strings.NewReplacer("`", "'", "|", `\|`, "\n", " ").Replace(strings.TrimSpace(s))
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

// word is a text as plain text if it has nothing that Markdown or HTML could read, else as code.
func word(s string) string {
	plain := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(" -,.():", r)
	}
	if strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 && !strings.Contains(s, "://") {
		return s
	}
	return span(s)
}

// block is lines of code. Its fence is longer than any in the lines.
func block(language string, lines ...string) string {
	text := strings.Join(lines, "\n")
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + language + "\n" + text + "\n" + fence
}
