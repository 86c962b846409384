package command

import (
	"path/filepath"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// call reads a simple command: assignments, a preparation, a function, or the program.
func (s *script) call(stmt *syntax.Stmt, c *syntax.CallExpr) error {
	if len(c.Args) == 0 {
		return s.assigns(c.Assigns, false)
	}
	name := c.Args[0].Lit()
	if body, ok := s.functions[name]; ok {
		return s.function(c, body)
	}
	if name == "exec" && len(c.Args) == 1 { // with redirections only
		return redirects(stmt)
	}
	if read, ok := preparations[name]; ok {
		for _, red := range stmt.Redirs {
			if red.Op == syntax.Hdoc || red.Op == syntax.DashHdoc {
				return notUnderstood("a here-document")
			}
		}
		if len(c.Assigns) > 0 {
			return notUnderstood("%s with an environment of its own", name)
		}
		if name == "eval" {
			return s.eval(c)
		}
		words, err := s.words(c.Args)
		if err != nil {
			return err
		}
		return read(s, texts(words))
	}
	if name == ":" { // for what its words assign
		_, err := s.fields(c.Args[1:])
		return err
	}
	if s.inert([]*syntax.Stmt{stmt}) {
		return s.perhaps([]*syntax.Stmt{stmt})
	}
	return s.program(stmt, c)
}

func texts(words []word) (out []string) {
	for _, w := range words {
		out = append(out, w.text)
	}
	return out
}

// program reads the command that runs the program.
func (s *script) program(stmt *syntax.Stmt, c *syntax.CallExpr) error {
	if err := redirects(stmt); err != nil {
		return err
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
	if len(words) == 0 {
		return notUnderstood("a command without words")
	}
	if err := s.assigns(c.Assigns, true); err != nil {
		return err
	}
	if s.trouble != nil {
		return s.trouble
	}
	s.prog.all = words
	if err := s.command(words); err != nil {
		return err
	}
	s.found = true
	return nil
}

// function reads the body of a function that is called.
func (s *script) function(c *syntax.CallExpr, body *syntax.Stmt) error {
	if len(c.Assigns) > 0 {
		return notUnderstood("a shell function with an environment of its own")
	}
	args, err := s.fields(c.Args[1:])
	if err != nil {
		return err
	}
	params, lost := s.params, s.lost
	s.params, s.lost = args, s.guess != ""
	err = s.list([]*syntax.Stmt{body})
	s.params, s.lost = params, lost
	return err
}

// preparations are the commands that may stand before the program and matter to it, and how each is read.
var preparations map[string]func(s *script, args []string) error

func init() { // its functions read statements, which call them
	preparations = map[string]func(s *script, args []string) error{
		"cd":     (*script).cd,
		"export": (*script).exports,
		"unset":  (*script).unsets,
		"set":    (*script).sets,
		"shift":  (*script).shift,
		"source": (*script).source,
		".":      (*script).source,
		"conda":  (*script).conda,
		"mamba":  (*script).conda,
		"module": (*script).module,
		"ml":     (*script).module,
		"eval":   nil,
		"exit":   func(*script, []string) error { return notUnderstood("the shell ends before it runs a Python script") },
	}
}

func runsFirst(name string) error { return notUnderstood("the shell runs %s first", name) }

func (s *script) cd(args []string) error {
	args = append(args[:1:1], withoutDashes(args[1:])...)
	if len(args) != 2 || args[1] == "" || args[1][0] == '-' {
		return notUnderstood("where %s leads", strings.Join(args, " "))
	}
	if _, ok := s.getenv("CDPATH"); ok && !filepath.IsAbs(args[1]) && args[1][0] != '.' {
		return notUnderstood("the target of cd %s depends on CDPATH", args[1])
	}
	return s.chdir(args[1])
}

// exports reads export where the parser does not, as after `command`.
func (s *script) exports(args []string) error {
	for _, a := range args[1:] {
		name, v, ok := strings.Cut(a, "=")
		if ok && reAssignment.MatchString(a) {
			s.set(name, expand.Variable{Set: true, Kind: expand.String, Str: v, Exported: true})
		} else if !s.export(a) {
			return notUnderstood("export %s", a)
		}
	}
	return nil
}

func (s *script) unsets(args []string) error {
	for _, name := range args[1:] {
		if !reAssignment.MatchString(name + "=") {
			return runsFirst(strings.Join(args, " "))
		}
		delete(s.vars, name)
		delete(s.unknown, name)
		s.unset(name)
	}
	return nil
}

func (s *script) sets(args []string) error {
	for i := 1; i < len(args); i++ {
		a := args[i]
		on := a != "" && a[0] == '-'
		if a == "" || a[0] != '-' && a[0] != '+' || a == "--" || strings.Trim(a[1:], "euxovhB") != "" {
			return notUnderstood("set %s", a)
		}
		for _, letter := range a[1:] {
			switch letter {
			case 'e':
				s.errexit = on
			case 'u':
				s.nounset = on
			case 'o':
				if i++; i >= len(args) {
					return notUnderstood("set -o")
				}
				switch args[i] {
				case "pipefail":
					s.pipefail = on
				case "errexit":
					s.errexit = on
				case "nounset":
					s.nounset = on
				case "xtrace", "errtrace", "functrace", "verbose":
				default:
					return notUnderstood("set -o %s", args[i])
				}
			}
		}
	}
	return nil
}

func (s *script) shift(args []string) error {
	n := 1
	if len(args) > 1 {
		n = number(args[1])
	}
	if len(args) > 2 || n == 0 || s.lost {
		return notUnderstood("what shift leaves")
	}
	if n <= len(s.params) {
		s.params = s.params[n:]
	}
	return nil
}

// source reads `source …/activate`, of a virtual environment, which sets PATH and VIRTUAL_ENV, and the files that
// only set up a shell: they may set any variable.
func (s *script) source(args []string) error {
	if len(args) < 2 {
		return runsFirst(args[0])
	}
	switch name := filepath.Base(args[1]); name {
	case "activate":
		if len(args) > 2 { // conda's, with the name of an environment
			s.opaque = true
		} else if s.prog.Dir != "" || filepath.IsAbs(args[1]) {
			s.prog.Bins = append([]string{filepath.Dir(resolve(s.prog.Dir, args[1]))}, s.prog.Bins...)
		}
		s.through("activate")
		return nil
	case "conda.sh", "mamba.sh", ".bashrc", ".bash_profile", ".profile", "profile", "bashrc", "setvars.sh":
		s.opaque = true
		s.through(name)
		return nil
	}
	return runsFirst(args[0] + " " + args[1])
}

// eval reads eval "$(conda shell.bash hook)".
func (s *script) eval(c *syntax.CallExpr) error {
	if len(c.Args) != 2 {
		return runsFirst("eval")
	}
	hook := false
	syntax.Walk(c.Args[1], func(n syntax.Node) bool {
		if call, ok := n.(*syntax.CallExpr); ok && len(call.Args) > 1 {
			tool := filepath.Base(call.Args[0].Lit())
			last := call.Args[len(call.Args)-1].Lit()
			hook = hook || strings.Contains(" conda mamba micromamba ", " "+tool+" ") &&
				(last == "hook" || slices.ContainsFunc(call.Args,
					func(w *syntax.Word) bool { return w.Lit() == "hook" }))
		}
		return true
	})
	if !hook {
		return runsFirst("eval")
	}
	s.opaque = true
	return nil
}

func (s *script) conda(args []string) error {
	return s.throughCommand(args, "activate", "deactivate", "info", "init")
}

func (s *script) module(args []string) error {
	if len(args) > 1 && args[0] == "ml" {
		s.opaque = true
		s.through("module load")
		return nil
	}
	return s.throughCommand(args, "load", "purge", "unload", "list", "use", "restore", "add", "swap")
}

// throughCommand reads a program by one of its commands, such as `conda activate`, with any arguments. Such a
// command may set any variable.
func (s *script) throughCommand(args []string, known ...string) error {
	if len(args) < 2 || !slices.Contains(known, args[1]) {
		return runsFirst(args[0])
	}
	s.opaque = true
	s.through(args[0] + " " + args[1])
	return nil
}

// export passes a variable of the shell on to the program.
func (s *script) export(name string) bool {
	v, ok := s.vars[name]
	switch _, inEnv := s.getenv(name); {
	case ok && v.Kind == expand.String:
		v.Exported = true
		s.vars[name] = v
		if s.unknown[name] {
			s.withhold(name)
		} else {
			s.assign(name + "=" + v.Str)
		}
	case !ok && !inEnv && !reAssignment.MatchString(name+"="):
		return false
	}
	return true
}

// declarations are the builtins that assign.
var declarations = []string{"export", "declare", "local", "readonly", "typeset"}

func (s *script) declare(c *syntax.DeclClause) error {
	if !slices.Contains(declarations, c.Variant.Value) {
		return notUnderstood("the shell's %s", c.Variant.Value)
	}
	exported := c.Variant.Value == "export"
	var list []*syntax.Assign
	for _, a := range c.Args {
		if a.Name != nil {
			list = append(list, a)
			continue
		}
		option := ""
		if a.Value != nil {
			option = a.Value.Lit()
		}
		if len(option) < 2 || option[0] != '-' || strings.Trim(option[1:], "xragt") != "" {
			return notUnderstood("%s %s", c.Variant.Value, option)
		}
		exported = exported || strings.Contains(option, "x")
	}
	return s.assigns(list, exported)
}

// assigns makes assignments.
func (s *script) assigns(list []*syntax.Assign, exported bool) error {
	for _, a := range list {
		name := a.Name.Value
		switch {
		case a.Naked:
			if exported && !s.export(name) {
				return notUnderstood("export %s", name)
			}
			continue
		case a.Index != nil:
			s.forget(name)
			continue
		}
		was := s.vars[name]
		if v, ok := s.getenv(name); ok && a.Append && !was.Set {
			was = expand.Variable{Set: true, Kind: expand.String, Str: v}
		}
		v, known, err := s.value(a, was)
		if err != nil {
			return err
		}
		unknown := !known || a.Append && s.unknown[name]
		v.Exported = exported || was.Exported
		if !unknown {
			s.set(name, v)
			continue
		}
		_, inEnv := s.getenv(name)
		s.vars[name], s.unknown[name] = v, true
		if v.Exported || inEnv {
			s.withhold(name)
		}
	}
	return nil
}

// value is what an assignment sets. known is false if only the shell knows.
func (s *script) value(a *syntax.Assign, was expand.Variable) (v expand.Variable, known bool, err error) {
	if a.Array != nil {
		v = expand.Variable{Set: true, Kind: expand.Indexed, List: []string{}}
		if a.Append && was.Kind == expand.Indexed {
			v.List = append(v.List, was.List...)
		} else if a.Append && was.Set {
			v.List = []string{was.Str}
		}
		known = true
		for _, e := range a.Array.Elems {
			if e.Index != nil {
				return v, false, nil
			}
			fields, err := s.fields([]*syntax.Word{e.Value})
			if err != nil {
				return v, false, err
			}
			known = known && s.guess == ""
			v.List = append(v.List, fields...)
		}
		return v, known, nil
	}
	text := ""
	s.guess = ""
	if a.Value != nil {
		if text, err = s.literal(a.Value); err != nil {
			return v, false, err
		}
	}
	if a.Append && was.Kind == expand.Indexed { // it is added to the first element
		return was, false, nil
	}
	if a.Append {
		text = was.Str + text
	}
	return expand.Variable{Set: true, Kind: expand.String, Str: text}, s.guess == "", nil
}
