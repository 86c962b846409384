package command

import (
	"path/filepath"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/launch-ml/launch/core/file"
)

// A Text is a shell script that a command runs, as it was read.
type Text struct {
	Path string `json:"path"`
	Text string `json:"text"`
}

// maxShell bounds a shell script: with other arguments its text is an argument of the shell, and Linux takes 128
// KiB in one (MAX_ARG_STRLEN).
const maxShell = 100 << 10

// readText returns the text of a shell script: as it was first read, if Program was given that.
func (r *reader) readText(path string) (string, error) {
	i := slices.IndexFunc(r.texts, func(t Text) bool { return t.Path == path })
	if i < 0 {
		text, err := file.Read(path, maxShell)
		if err != nil {
			return "", notUnderstood("reading the shell script: %v", err)
		}
		r.texts = append(slices.Clip(r.texts), Text{path, string(text)})
		i = len(r.texts) - 1
	}
	r.prog.Texts = append(r.prog.Texts, r.texts[i])
	return r.texts[i].Text, nil
}

// Changed returns the path of a shell script of the command that is another than when it was first read, or "". One
// that cannot be read any longer has changed.
func (p Prog) Changed() string {
	for _, t := range p.Texts {
		if now, err := file.Read(t.Path, maxShell); err != nil || string(now) != t.Text {
			return t.Path
		}
	}
	return ""
}

// shellFile reads a shell script that is a file: the first of c.rest. inline puts a text in place of the file: the
// command is then SHELL -c TEXT FILE ARGUMENTS, in which $0 and "$@" are the same.
func (r *reader) shellFile(name string, c shellCall, inline func(text string) (argv []string, textAt int)) error {
	if !slices.Contains([]string{"sh", "bash", "dash"}, name) {
		return notUnderstood("%s runs a script of its own", name)
	}
	typed := c.rest[0].text
	if r.prog.Dir == "" && !filepath.IsAbs(typed) {
		return notUnderstood("launch does not know the folder of %s", typed)
	}
	if err := r.enterShell(name); err != nil {
		return err
	}
	text, err := r.readText(resolve(r.prog.Dir, typed))
	if err != nil {
		return err
	}
	if strings.ContainsRune(text, 0) {
		return notUnderstood("%s is no text", typed)
	}
	if text, err = withoutSource(name, text); err != nil {
		return err
	}
	s := newScript(r, name, c)
	s.text, s.zero = text, typed
	for _, w := range c.rest[1:] {
		s.params = append(s.params, w.text)
	}
	r.prog.Typed = r.prog.Argv
	r.prog.Argv, s.arg = inline(text)
	return s.read()
}

// withoutSource replaces BASH_SOURCE, which a text given by -c does not have, with 0: both are the script's path.
func withoutSource(name, text string) (string, error) {
	const variable = "BASH_SOURCE"
	if !strings.Contains(text, variable) {
		return text, nil
	}
	stmts, err := parseShell(name, text)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	at := 0
	for _, s := range stmts {
		syntax.Walk(s, func(n syntax.Node) bool {
			p, ok := n.(*syntax.ParamExp)
			if !ok || p.Param == nil || p.Param.Value != variable {
				return true
			}
			start, end := int(p.Param.Pos().Offset()), int(p.Param.End().Offset())
			switch w, isWord := p.Index.(*syntax.Word); {
			case p.Index == nil:
			case isWord && w.Lit() == "0" && !p.Length && !p.Excl:
				end = int(w.End().Offset()) + 1 // and the bracket
			default:
				err = notUnderstood("%s of a file that called another", variable)
				return false
			}
			b.WriteString(text[at:start] + "0")
			at = end
			return true
		})
	}
	b.WriteString(text[at:])
	if strings.Contains(b.String(), variable) && err == nil {
		err = notUnderstood("%s in a form that launch does not know", variable)
	}
	return b.String(), err
}
