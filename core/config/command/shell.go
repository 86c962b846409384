package command

import (
	"path/filepath"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// shell reads sh -c "…" where the string is one simple command, after others that only prepare it: cd, export, set,
// activating an environment. Whatever could run it twice, not at all, or in a way that only the shell would know, is
// not understood.
func (r *reader) shell(words []word) error {
	if r.prog.Shell {
		return notUnderstood("a shell within a shell")
	}
	name := filepath.Base(words[0].text)
	r.through(name + " -c")
	text, err := shellCommand(name, words[1:])
	if err != nil {
		return err
	}
	list, err := parseShell(name, text.text)
	if err != nil {
		return err
	}
	r.prog.Shell, r.vars = true, map[string]string{}
	s := &script{reader: r, arg: text.arg}
	for _, stmt := range list[:len(list)-1] {
		if err := s.prepare(stmt); err != nil {
			return err
		}
	}
	return s.final(list[len(list)-1])
}

// shellCommand returns the command string among a shell's arguments.
func shellCommand(name string, args []word) (word, error) {
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
			return word{}, notUnderstood("%s: option %s", name, option)
		}
		for _, c := range option[1:] {
			switch {
			case c == 'c':
				hasCommand = true
			case c == 'o' || c == 'O':
				if len(args) == 0 {
					return word{}, notUnderstood("%s: option %s without a value", name, option)
				}
				args = args[1:]
			case !strings.ContainsRune("abefhklmpuvxBCEHPT", c):
				return word{}, notUnderstood("%s: option %s", name, option)
			}
		}
	}
	if !hasCommand || len(args) == 0 {
		return word{}, notUnderstood("%s runs a script of the shell's own", name)
	}
	return args[0], nil
}

// parseShell returns the statements of a shell's command string: one at least.
func parseShell(name, text string) (list []*syntax.Stmt, err error) {
	lang := syntax.LangBash
	if name == "sh" || name == "dash" {
		lang = syntax.LangPOSIX
	}
	file, err := syntax.NewParser(syntax.Variant(lang)).Parse(strings.NewReader(text), "")
	if err != nil {
		return nil, notUnderstood("%s: %v", name, err)
	}
	for _, stmt := range file.Stmts {
		if list, err = flatten(list, stmt); err != nil {
			return nil, err
		}
	}
	if len(list) == 0 {
		return nil, notUnderstood("%s: an empty command", name)
	}
	return list, nil
}

// flatten makes a list of a && b && c.
func flatten(list []*syntax.Stmt, s *syntax.Stmt) ([]*syntax.Stmt, error) {
	if s.Negated || s.Background || s.Coprocess || s.Disown {
		return nil, notUnderstood("the shell runs something in the background, or inverts an exit code")
	}
	and, ok := s.Cmd.(*syntax.BinaryCmd)
	if !ok {
		return append(list, s), nil
	}
	if and.Op != syntax.AndStmt || len(s.Redirs) > 0 {
		return nil, notUnderstood("the shell's %v", and.Op)
	}
	list, err := flatten(list, and.X)
	if err != nil {
		return nil, err
	}
	return flatten(list, and.Y)
}

type script struct {
	*reader
	arg int
}

// prepare reads a statement before the last.
func (s *script) prepare(stmt *syntax.Stmt) error {
	for _, red := range stmt.Redirs {
		if red.Op == syntax.Hdoc || red.Op == syntax.DashHdoc {
			return notUnderstood("a here-document")
		}
	}
	switch c := stmt.Cmd.(type) {
	case *syntax.DeclClause:
		if c.Variant.Value != "export" {
			return notUnderstood("the shell's %s", c.Variant.Value)
		}
		return s.assigns(c.Args, true)
	case *syntax.CallExpr:
		if len(c.Args) == 0 {
			return s.assigns(c.Assigns, false)
		}
		words, err := s.words(c.Args)
		if err != nil {
			return err
		}
		if len(c.Assigns) > 0 {
			return notUnderstood("%s with an environment of its own", words[0].text)
		}
		return s.prepareCall(words)
	}
	return notUnderstood("shell syntax beyond simple commands")
}

// preparations are the commands that may stand before the program, and how each is read.
var preparations = map[string]func(s *script, args []string) error{
	"cd":     (*script).cd,
	"export": (*script).exports,
	"unset":  (*script).unsets,
	"set":    (*script).sets,
	"source": (*script).activate,
	".":      (*script).activate,
	"conda":  (*script).conda,
	"module": (*script).module,

	"echo": harmless, "true": harmless, ":": harmless, "mkdir": harmless, "date": harmless, "hostname": harmless,
	"nvidia-smi": harmless, "sleep": harmless, "ulimit": harmless,
}

// harmless is a command that changes nothing of the program's command, environment or folder.
func harmless(*script, []string) error { return nil }

func (s *script) prepareCall(words []word) error {
	args := make([]string, 0, len(words))
	for _, w := range words {
		args = append(args, w.text)
	}
	if read, ok := preparations[args[0]]; ok {
		return read(s, args)
	}
	return runsFirst(args[0])
}

func runsFirst(name string) error { return notUnderstood("the shell runs %s first", name) }

func (s *script) cd(args []string) error {
	if len(args) != 2 || args[1] == "" || args[1][0] == '-' {
		return notUnderstood("where %s leads", strings.Join(args, " "))
	}
	if _, ok := s.getenv("CDPATH"); ok && !filepath.IsAbs(args[1]) && args[1][0] != '.' {
		return notUnderstood("the target of cd %s depends on CDPATH", args[1])
	}
	return s.chdir(args[1])
}

func (s *script) exports(args []string) error {
	for _, a := range args[1:] {
		if n, v, ok := strings.Cut(a, "="); ok && reAssignment.MatchString(a) {
			s.vars[n] = v
			s.assign(a)
		} else if !s.export(a) {
			return notUnderstood("export %s", a)
		}
	}
	return nil
}

func (s *script) unsets(args []string) error {
	if len(args) != 2 || args[1] == "" || args[1][0] == '-' {
		return runsFirst(args[0])
	}
	delete(s.vars, args[1])
	s.unset(args[1])
	return nil
}

func (s *script) sets(args []string) error {
	for _, a := range args[1:] {
		if strings.Trim(a, "-+euxoC") != "" && a != "pipefail" {
			return notUnderstood("set %s", a)
		}
	}
	return nil
}

// activate reads `source …/activate`, of a virtual environment: it sets PATH and VIRTUAL_ENV.
func (s *script) activate(args []string) error {
	if len(args) != 2 || filepath.Base(args[1]) != "activate" {
		return runsFirst(args[0])
	}
	s.through("activate")
	return nil
}

func (s *script) conda(args []string) error  { return s.throughCommand(args, "activate") }
func (s *script) module(args []string) error { return s.throughCommand(args, "load") }

// throughCommand reads a program by its one known command, such as `conda activate`, with any arguments.
func (s *script) throughCommand(args []string, known string) error {
	if len(args) < 2 || args[1] != known {
		return runsFirst(args[0])
	}
	s.through(args[0] + " " + known)
	return nil
}

// export passes a variable of the shell on to the program.
func (s *script) export(name string) bool {
	v, ok := s.vars[name]
	if ok {
		s.assign(name + "=" + v)
	}
	return ok
}

func (s *script) assigns(list []*syntax.Assign, exported bool) error {
	for _, a := range list {
		if a.Name == nil || a.Append || a.Index != nil || a.Array != nil {
			return notUnderstood("an assignment that is not simple")
		}
		if a.Naked {
			if !exported || !s.export(a.Name.Value) {
				return notUnderstood("export %s", a.Name.Value)
			}
			continue
		}
		v := ""
		if a.Value != nil {
			var err error
			if v, err = s.word(a.Value, true); err != nil {
				return err
			}
		}
		s.vars[a.Name.Value] = v
		if _, inEnv := s.getenv(a.Name.Value); exported || inEnv {
			s.assign(a.Name.Value + "=" + v)
		}
	}
	return nil
}

// final reads the statement that runs the program.
func (s *script) final(stmt *syntax.Stmt) error {
	for _, red := range stmt.Redirs {
		switch red.Op {
		case syntax.RdrOut, syntax.AppOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll, syntax.DplOut, syntax.RdrIn, syntax.DplIn:
		default:
			return notUnderstood("the shell's %v", red.Op)
		}
	}
	if t, ok := stmt.Cmd.(*syntax.TimeClause); ok && t.Stmt != nil && len(stmt.Redirs) == 0 {
		s.through("time")
		return s.final(t.Stmt)
	}
	c, ok := stmt.Cmd.(*syntax.CallExpr)
	if !ok || len(c.Args) == 0 {
		return notUnderstood("shell syntax beyond simple commands")
	}
	for i, w := range c.Args { // WithArgs inserts words after others: no redirection may stand between them
		if i > 0 && slices.ContainsFunc(stmt.Redirs, func(r *syntax.Redirect) bool {
			return r.Pos().Offset() < w.Pos().Offset()
		}) {
			return notUnderstood("a redirection between the arguments")
		}
	}
	words, err := s.words(c.Args) // the shell expands them before it makes the assignments
	if err != nil {
		return err
	}
	if err := s.assigns(c.Assigns, true); err != nil {
		return err
	}
	return s.command(words)
}

func (s *script) words(ws []*syntax.Word) ([]word, error) {
	out := make([]word, len(ws))
	for i, w := range ws {
		text, err := s.word(w, false)
		if err != nil {
			return nil, err
		}
		out[i] = word{text: text, arg: s.arg, start: int(w.Pos().Offset()), end: int(w.End().Offset())}
	}
	return out, nil
}

// word expands a word, and refuses one that the shell could split into several. assigned: it is the value of an assignment,
// which the shell does not split.
func (s *script) word(w *syntax.Word, assigned bool) (string, error) {
	var b strings.Builder
	for i, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			text, err := unescape(p.Value, i == 0)
			if err != nil {
				return "", err
			}
			b.WriteString(text)
		case *syntax.SglQuoted:
			if p.Dollar {
				return "", notUnderstood("$'…'")
			}
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			if p.Dollar {
				return "", notUnderstood(`$"…"`)
			}
			for _, inner := range p.Parts {
				switch q := inner.(type) {
				case *syntax.Lit:
					b.WriteString(unescapeQuoted(q.Value))
				case *syntax.ParamExp:
					v, err := s.param(q)
					if err != nil {
						return "", err
					}
					b.WriteString(v)
				default:
					return "", notUnderstood("a shell expansion of unknown value")
				}
			}
		case *syntax.ParamExp:
			v, err := s.param(p)
			if err != nil {
				return "", err
			}
			if !assigned && (v == "" || strings.ContainsAny(v, " \t\n*?[")) {
				return "", notUnderstood("$%s, which is not one word", p.Param.Value)
			}
			b.WriteString(v)
		default:
			return "", notUnderstood("a shell expansion of unknown value")
		}
	}
	return b.String(), nil
}

// param returns the value of a plain $NAME or ${NAME}.
func (s *script) param(p *syntax.ParamExp) (string, error) {
	plain := syntax.ParamExp{Dollar: p.Dollar, Rbrace: p.Rbrace, Short: p.Short, Param: p.Param}
	if p.Param == nil || !sameParam(*p, plain) || !reAssignment.MatchString(p.Param.Value+"=") {
		return "", notUnderstood("a variable's expansion that is not simple")
	}
	if v, ok := s.vars[p.Param.Value]; ok {
		return v, nil
	}
	if v, ok := s.getenv(p.Param.Value); ok {
		return v, nil
	}
	return "", notUnderstood("$%s, which is not set", p.Param.Value)
}

func sameParam(a, b syntax.ParamExp) bool {
	return a.Flags == nil && !a.Excl && !a.Length && !a.Width && !a.IsSet && a.Split == b.Split &&
		a.GlobSubst == b.GlobSubst && a.RcExpand == b.RcExpand && a.NestedParam == nil && a.Index == nil &&
		a.Modifiers == nil && a.Slice == nil && a.Repl == nil && a.Names == b.Names && a.Exp == nil
}

// unescape reads text outside quotes. What the shell would expand there is not understood.
func unescape(s string, first bool) (string, error) {
	if first && strings.HasPrefix(s, "~") {
		return "", notUnderstood("~ in %s", s)
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s):
			i++
			if s[i] != '\n' {
				b.WriteByte(s[i])
			}
		case strings.IndexByte("*?[{", c) >= 0:
			return "", notUnderstood("the pattern %s", s)
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), nil
}

// unescapeQuoted reads text inside double quotes.
func unescapeQuoted(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte("$`\"\\\n", s[i+1]) >= 0 {
			if i++; s[i] == '\n' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
