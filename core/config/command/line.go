package command

import (
	"fmt"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Words splits a line as a shell does. If a shell would do more with it than split it (a pipe, a variable, a
// redirection), the result is a command that runs the line by sh -c.
func Words(line string) ([]string, error) {
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
		text, static := plainWord(w)
		if !static {
			return script, nil
		}
		args = append(args, text)
	}
	return args, nil
}

// plainWord returns a word without its quotes, if it means the same without a shell.
func plainWord(w *syntax.Word) (text string, static bool) {
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
