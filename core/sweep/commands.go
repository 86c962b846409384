package sweep

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// ReadCommands reads trials from lines, one command a line. Empty lines and lines that begin with # are skipped. A line
// that is more than words (a pipe, a variable, a redirection) is a script for sh -c.
func ReadCommands(in io.Reader) ([]Trial, error) {
	var trials []Trial
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		args, err := words(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if len(trials) == mostValues {
			return nil, fmt.Errorf("the sweep has more than %d trials", mostValues)
		}
		trials = append(trials, Trial{Number: len(trials) + 1, Command: args})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the commands: %w", err)
	}
	if len(trials) == 0 {
		return nil, errors.New("no commands: write one on each line")
	}
	return trials, nil
}

// words splits a line as a shell does. If a shell would do more with it than split it, sh runs it.
func words(line string) ([]string, error) {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(line), "")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", line, err)
	}
	script := []string{"sh", "-c", line}
	if len(file.Stmts) != 1 {
		return script, nil
	}
	s := file.Stmts[0]
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || s.Background || s.Negated || len(s.Redirs) > 0 || len(call.Assigns) > 0 || len(call.Args) == 0 {
		return script, nil
	}
	var args []string
	for _, w := range call.Args {
		text, static := word(w)
		if !static {
			return script, nil
		}
		args = append(args, text)
	}
	return args, nil
}

// word returns a word without its quotes, if it means the same without a shell.
func word(w *syntax.Word) (text string, static bool) {
	var b strings.Builder
	for i, part := range w.Parts {
		switch part := part.(type) {
		case *syntax.Lit:
			if strings.ContainsAny(part.Value, `\*?[`) || i == 0 && strings.HasPrefix(part.Value, "~") {
				return "", false
			}
			b.WriteString(part.Value)
		case *syntax.SglQuoted:
			if part.Dollar {
				return "", false
			}
			b.WriteString(part.Value)
		case *syntax.DblQuoted:
			for _, inner := range part.Parts {
				lit, ok := inner.(*syntax.Lit)
				if !ok || part.Dollar || strings.Contains(lit.Value, `\`) {
					return "", false
				}
				b.WriteString(lit.Value)
			}
		default:
			return "", false
		}
	}
	return b.String(), true
}
