package command

import (
	"path/filepath"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// shell reads sh -c "…" and sh FILE. The text has to run one Python program, after commands that only prepare it:
// cd, export, set, assignments, activating an environment. Whatever could run it twice, not at all, or in a way
// that only the shell would know, is not understood.
func (r *reader) shell(words []word) error {
	name := filepath.Base(words[0].text)
	c, err := shellCommand(name, words[1:])
	if err != nil {
		return err
	}
	if c.file {
		at := c.rest[0].arg
		return r.shellFile(name, c, func(text string) (argv []string, textAt int) {
			argv = slices.Insert(slices.Clone(r.prog.Argv), at, text)
			return slices.Insert(argv, words[0].arg+1, "-c"), at + 1
		})
	}
	if err := r.enterShell(name + " -c"); err != nil {
		return err
	}
	s := newScript(r, name, c)
	s.arg, s.text = c.rest[0].arg, c.rest[0].text
	if s.zero = name; len(c.rest) > 1 {
		s.zero = c.rest[1].text
	}
	for _, w := range c.rest[min(2, len(c.rest)):] {
		s.params = append(s.params, w.text)
	}
	return s.read()
}

// enterShell notes that a shell reads the words from here on.
func (r *reader) enterShell(through string) error {
	if r.prog.Shell {
		return notUnderstood("a shell within a shell")
	}
	r.through(through)
	r.prog.Shell = true
	return nil
}

// A shellCall is what a shell is told by its arguments.
type shellCall struct {
	file                       bool   // rest begins with a file, else with a text
	rest                       []word // the text or the file, and the words after it
	errexit, nounset, pipefail bool
}

// shellCommand reads a shell's arguments.
func shellCommand(name string, args []word) (c shellCall, err error) {
	hasCommand := false
	for len(args) > 0 && len(args[0].text) > 1 && strings.IndexByte("-+", args[0].text[0]) >= 0 {
		option := args[0].text
		args = args[1:]
		if option == "--" {
			break
		}
		switch option {
		case "--login", "--norc", "--noprofile", "--posix":
			continue
		}
		if strings.HasPrefix(option, "--") {
			return c, notUnderstood("%s: option %s", name, option)
		}
		on := option[0] == '-'
		for _, letter := range option[1:] {
			switch {
			case letter == 'c':
				hasCommand = true
			case letter == 'e':
				c.errexit = on
			case letter == 'u':
				c.nounset = on
			case letter == 'o' || letter == 'O':
				if len(args) == 0 {
					return c, notUnderstood("%s: option %s without a value", name, option)
				}
				c.pipefail = c.pipefail || on && args[0].text == "pipefail"
				c.errexit = c.errexit || on && args[0].text == "errexit"
				args = args[1:]
			case !strings.ContainsRune("abfhklmpvxBCEHPT", letter):
				return c, notUnderstood("%s: option %s", name, option)
			}
		}
	}
	if len(args) == 0 || !hasCommand && (args[0].text == "" || args[0].text == "-") {
		return c, notUnderstood("%s reads its standard input", name)
	}
	c.file, c.rest = !hasCommand, args
	return c, nil
}

// parseShell returns the statements of a shell's text: one at least.
func parseShell(name, text string) ([]*syntax.Stmt, error) {
	lang := syntax.LangBash
	if name == "sh" || name == "dash" {
		lang = syntax.LangPOSIX
	}
	file, err := syntax.NewParser(syntax.Variant(lang)).Parse(strings.NewReader(text), "")
	if err != nil {
		return nil, notUnderstood("%s: %v", name, err)
	}
	if len(file.Stmts) == 0 {
		return nil, notUnderstood("%s: an empty command", name)
	}
	return file.Stmts, nil
}
