package command

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/pattern"
	"mvdan.cc/sh/v3/syntax"
)

// Get implements [expand.Environ]. A variable that only the shell would know is noted in s.guess.
func (s *script) Get(name string) expand.Variable {
	list := func(l []string) expand.Variable { // expand makes one empty word of a list that is nil
		return expand.Variable{Set: true, Kind: expand.Indexed, List: append([]string{}, l...)}
	}
	text := func(t string) expand.Variable { return expand.Variable{Set: true, Kind: expand.String, Str: t} }
	if s.unknown[name] {
		s.guessed("$" + name)
		return s.vars[name]
	}
	if v, ok := s.vars[name]; ok {
		return v
	}
	if name != "" && strings.Trim(name, "0123456789") == "" || name == "@" || name == "*" || name == "#" {
		if name != "0" && s.lost {
			s.guessed("$" + name)
		}
		n, err := strconv.Atoi(name)
		switch {
		case name == "#":
			return text(strconv.Itoa(len(s.params)))
		case err != nil:
			return list(s.params)
		case n == 0:
			return text(s.zero)
		case n <= len(s.params):
			return text(s.params[n-1])
		}
		return expand.Variable{}
	}
	switch {
	case name == "PWD" && s.prog.Dir != "":
		return text(s.prog.Dir)
	case name == "IFS": // a shell does not take it from its environment
		return expand.Variable{}
	case slices.Contains(shellsOwn, name) || strings.HasPrefix(name, "BASH"):
		s.guessed("$" + name)
		return expand.Variable{}
	}
	if v, ok := s.getenv(name); ok {
		return text(v)
	}
	if s.opaque {
		s.guessed("$" + name)
	}
	return expand.Variable{}
}

// shellsOwn are variables that a shell sets itself, to what is not known here.
var shellsOwn = []string{"RANDOM", "SRANDOM", "SECONDS", "EPOCHSECONDS", "EPOCHREALTIME", "$", "PPID", "!", "?",
	"_", "-", "OSTYPE",
	"HOSTTYPE", "MACHTYPE", "HOSTNAME", "UID", "EUID", "GROUPS", "LINENO", "FUNCNAME", "DIRSTACK", "COLUMNS",
	"LINES", "SHLVL",
	"OLDPWD", "PIPESTATUS", "REPLY", "OPTARG", "OPTIND"}

// Each implements [expand.Environ], for ${!prefix*}: nothing is listed.
func (s *script) Each(func(name string, v expand.Variable) bool) { s.guessed("${!…}") }

// Set implements [expand.WriteEnviron], for ${NAME:=value} and arithmetic.
func (s *script) Set(name string, v expand.Variable) error {
	guess := s.guess
	s.set(name, v)
	if s.guess = guess; guess != "" {
		s.forget(name)
	}
	return nil
}

// set sets a variable, and passes it on to the program if that is to have it.
func (s *script) set(name string, v expand.Variable) {
	_, inEnv := s.getenv(name)
	v.Exported = v.Exported || s.vars[name].Exported
	s.vars[name] = v
	delete(s.unknown, name)
	if (v.Exported || inEnv) && v.Kind == expand.String {
		s.assign(name + "=" + v.Str)
	}
}

func (s *script) guessed(what string) {
	if s.guess == "" {
		s.guess = what
	}
}

// decisive are variables by which launch decides: it must know them.
var decisive = []string{"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
	"ZE_AFFINITY_MASK", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF",
	"PYTORCH_NO_CUDA_MEMORY_CACHING", "IFS"}

// forget notes that only the shell would know a variable from here on.
func (s *script) forget(name string) {
	_, inEnv := s.getenv(name)
	s.unknown[name] = true
	if inEnv || s.vars[name].Exported {
		s.withhold(name)
	}
}

// withhold leaves a variable that the program has, and that is unknown, out of its environment.
func (s *script) withhold(name string) {
	switch {
	case slices.Contains(decisive, name):
		if s.trouble == nil {
			s.trouble = notUnderstood("$%s, which only the shell knows", name)
		}
	case name == "PYTHONPATH": // what is known of it is there
		s.assign(name + "=" + s.vars[name].Str)
	default:
		s.unset(name)
	}
}

// config is how words are expanded. files is how patterns are, or nil.
func (s *script) config(files func(string) ([]fs.DirEntry, error)) *expand.Config {
	s.guess = ""
	return &expand.Config{Env: s, NoUnset: s.nounset, CmdSubst: s.substitute, ReadDir2: files,
		ProcSubst: func(*syntax.ProcSubst) (string, error) { return "", notUnderstood("the shell's <( … )") }}
}

// fields expands words as a command's. s.guess is set if what only the shell knows is among it.
func (s *script) fields(ws []*syntax.Word) ([]string, error) {
	out, err := expand.Fields(s.config(nil), ws...)
	if err != nil {
		return nil, asNotUnderstood(err)
	}
	guess := s.guess
	if guess == "" && slices.ContainsFunc(ws, hasPattern) {
		found, err := expand.Fields(s.config(os.ReadDir), ws...)
		if err != nil || !slices.Equal(found, out) {
			return nil, notUnderstood("a pattern of file names, which may match others later")
		}
		if slices.ContainsFunc(ws, func(w *syntax.Word) bool { return s.braces(w) }) {
			return nil, notUnderstood("braces, which not every sh expands")
		}
	}
	s.guess = guess
	return out, nil
}

// hasPattern reports whether a word may be a pattern.
func hasPattern(w *syntax.Word) bool {
	found := false
	syntax.Walk(w, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Lit:
			found = found || strings.ContainsAny(n.Value, "*?[{")
		case *syntax.ParamExp, *syntax.CmdSubst:
			found = true
		case *syntax.SglQuoted:
			return false
		}
		return !found
	})
	return found
}

// braces reports whether a word would be several where braces are expanded, in a shell that may not do so.
func (s *script) braces(w *syntax.Word) bool {
	if s.name != "sh" && s.name != "dash" {
		return false
	}
	copied := *w
	return syntax.SplitBraces(&copied)
}

func asNotUnderstood(err error) error { return fmt.Errorf("%w: %w", ErrNotUnderstood, err) }

// literal expands a word that the shell does not split. s.guess is set if what only the shell knows is in it.
func (s *script) literal(w *syntax.Word) (string, error) {
	text, err := expand.Literal(s.config(nil), w)
	if err != nil {
		return "", asNotUnderstood(err)
	}
	return text, nil
}

// words expands the words of a command; all have to be known. Each keeps its place in the text.
func (s *script) words(ws []*syntax.Word) ([]word, error) {
	var out []word
	for i, w := range ws {
		fields, err := s.fields([]*syntax.Word{w})
		if err != nil {
			return nil, err
		}
		if s.guess != "" {
			return nil, notUnderstood("%s, which only the shell knows", s.guess)
		}
		if doubtful(w) && slices.Contains(fields, "") || strings.HasSuffix(w.Lit(), `\`) {
			return nil, notUnderstood("a word that shells read in different ways")
		}
		if len(fields) != 1 && slices.Contains([]string{"zsh", "ksh"}, s.name) {
			return nil, notUnderstood("a word of %s that is not one argument", s.name)
		}
		for _, f := range fields {
			out = append(out, word{text: f, arg: s.arg, start: int(w.Pos().Offset()), end: int(w.End().Offset()), group: i})
		}
	}
	return out, nil
}

// doubtful reports whether a word has a part of a list, such as "${@:2}", which is no word at all where the part is
// empty.
func doubtful(w *syntax.Word) (found bool) {
	syntax.Walk(w, func(n syntax.Node) bool {
		p, ok := n.(*syntax.ParamExp)
		found = found || ok && (p.Slice != nil || p.Repl != nil || p.Exp != nil) &&
			(p.Index != nil || p.Param != nil && p.Param.Value == "@")
		return !found
	})
	return found
}

// match reports whether a word matches a pattern. certain is false if only the shell knows.
func (s *script) match(p *syntax.Word, text string) (matched, certain bool) {
	pat, err := expand.Pattern(s.config(nil), p)
	if err != nil || s.guess != "" {
		return false, false
	}
	expr, err := pattern.Regexp(pat, pattern.EntireString)
	if err != nil {
		return false, false
	}
	re, err := regexp.Compile(expr)
	return err == nil && re.MatchString(text), err == nil
}

// substitute expands $(…) where that takes no more than paths. Everything else is a guess.
func (s *script) substitute(w io.Writer, c *syntax.CmdSubst) error {
	outer := s.guess
	text, ok := s.pathOf(c.Stmts)
	s.guess = outer
	if !ok {
		s.guessed("$(…)")
	}
	_, err := io.WriteString(w, text)
	return err
}

// pathOf evaluates the commands that only rewrite paths: dirname, basename, realpath, readlink -f, pwd, cd DIR && pwd.
func (s *script) pathOf(stmts []*syntax.Stmt) (text string, ok bool) {
	if before, then := pair(stmts); before != nil {
		return s.pwdIn(before, then)
	}
	if len(stmts) != 1 {
		return "", false
	}
	args, ok := s.pure(stmts[0])
	if !ok {
		return "", false
	}
	rest := withoutDashes(args[1:])
	switch name := args[0]; {
	case name == "dirname" && len(rest) == 1:
		return dirname(rest[0]), true
	case name == "basename" && (len(rest) == 1 || len(rest) == 2):
		base := filepath.Base(rest[0])
		if len(rest) == 2 && base != rest[1] {
			base = strings.TrimSuffix(base, rest[1])
		}
		return base, true
	case (name == "realpath" && len(args) == 2 || name == "readlink" && len(args) == 3 && args[1] == "-f") &&
		s.prog.Dir != "":
		return s.real(resolve(s.prog.Dir, args[len(args)-1]), true)
	case name == "pwd" && s.prog.Dir != "" && len(args) <= 2:
		return s.real(s.prog.Dir, len(args) == 2)
	case name == "echo" && len(rest) == len(args)-1 && !strings.Contains(strings.Join(rest, ""), `\`):
		return strings.Join(rest, " "), true
	}
	return "", false
}

// pair returns the two statements of "a && b" and of "a; b", or nil.
func pair(stmts []*syntax.Stmt) (first, second *syntax.Stmt) {
	switch len(stmts) {
	case 1:
		if and, ok := stmts[0].Cmd.(*syntax.BinaryCmd); ok && and.Op == syntax.AndStmt {
			return and.X, and.Y
		}
	case 2:
		return stmts[0], stmts[1]
	}
	return nil, nil
}

// pwdIn evaluates cd DIR && pwd.
func (s *script) pwdIn(before, then *syntax.Stmt) (text string, ok bool) {
	cd, ok1 := s.pure(before)
	pwd, ok2 := s.pure(then)
	if !ok1 || !ok2 || len(cd) < 2 || cd[0] != "cd" || pwd[0] != "pwd" || len(pwd) > 2 || s.prog.Dir == "" {
		return "", false
	}
	if cd = withoutDashes(cd[1:]); len(cd) != 1 {
		return "", false
	}
	return s.real(resolve(s.prog.Dir, cd[0]), len(pwd) == 2)
}

// real returns a path, with links resolved if that is wanted.
func (s *script) real(path string, resolved bool) (string, bool) {
	if !resolved {
		return path, true
	}
	path, err := filepath.EvalSymlinks(path)
	return path, err == nil
}

func withoutDashes(args []string) []string {
	if len(args) > 0 && args[0] == "--" {
		return args[1:]
	}
	return args
}

// dirname is the command of that name.
func dirname(path string) string {
	trimmed := strings.TrimRight(path, "/")
	switch at := strings.LastIndexByte(trimmed, '/'); {
	case trimmed == "" && path != "":
		return "/"
	case at < 0:
		return "."
	default:
		if trimmed = strings.TrimRight(trimmed[:at], "/"); trimmed == "" {
			return "/"
		}
		return trimmed
	}
}

// pure returns the words of a simple command that are all known.
func (s *script) pure(stmt *syntax.Stmt) ([]string, bool) {
	c, ok := stmt.Cmd.(*syntax.CallExpr)
	if !ok || len(c.Args) == 0 || len(c.Assigns) > 0 || stmt.Negated || stmt.Background {
		return nil, false
	}
	outer := s.guess
	args, err := s.fields(c.Args)
	inner := s.guess
	s.guess = outer
	return args, err == nil && inner == "" && len(args) > 0
}

// test evaluates a condition on variables. known is false if it takes more, such as a look at files.
func (s *script) test(stmt *syntax.Stmt) (holds, known bool) {
	switch c := stmt.Cmd.(type) {
	case *syntax.BinaryCmd:
		if stmt.Negated || c.Op != syntax.AndStmt && c.Op != syntax.OrStmt || !isTest(c.X) || !isTest(c.Y) {
			return false, false
		}
		x, knownX := s.test(c.X)
		if knownX && x == (c.Op == syntax.OrStmt) {
			return x, true
		}
		y, knownY := s.test(c.Y)
		return y, knownX && knownY
	case *syntax.TestClause:
		holds, known = s.expression(c.X)
	case *syntax.ArithmCmd:
		n, err := expand.Arithm(s.config(nil), c.X)
		holds, known = n != 0, err == nil && s.guess == ""
	case *syntax.CallExpr:
		args, ok := s.pure(stmt)
		if !ok {
			return false, false
		}
		switch {
		case args[0] == "true" || args[0] == ":":
			holds, known = true, true
		case args[0] == "false":
			known = true
		case args[0] == "[" && args[len(args)-1] == "]":
			holds, known = bracket(args[1 : len(args)-1])
		case args[0] == "test":
			holds, known = bracket(args[1:])
		}
	}
	return holds != stmt.Negated, known
}

// isTest reports whether a statement only tests something.
func isTest(stmt *syntax.Stmt) bool {
	switch c := stmt.Cmd.(type) {
	case *syntax.TestClause, *syntax.ArithmCmd:
		return true
	case *syntax.CallExpr:
		return len(c.Args) > 0 && slices.Contains([]string{"[", "test", "true", "false", ":"}, c.Args[0].Lit())
	case *syntax.BinaryCmd:
		return (c.Op == syntax.AndStmt || c.Op == syntax.OrStmt) && isTest(c.X) && isTest(c.Y)
	}
	return false
}

// bracket evaluates the arguments of test.
func bracket(args []string) (holds, known bool) {
	switch {
	case len(args) == 0:
		return false, true
	case len(args) == 1:
		return args[0] != "", true
	case args[0] == "!":
		holds, known = bracket(args[1:])
		return !holds, known
	case len(args) == 2 && args[0] == "-z":
		return args[1] == "", true
	case len(args) == 2 && args[0] == "-n":
		return args[1] != "", true
	case len(args) == 3 && (args[1] == "=" || args[1] == "=="):
		return args[0] == args[2], true
	case len(args) == 3 && args[1] == "!=":
		return args[0] != args[2], true
	case len(args) == 3:
		return compare(args[0], args[1], args[2])
	}
	return false, false
}

// compare evaluates X -lt Y and its like.
func compare(x, op, y string) (holds, known bool) {
	a, err := strconv.Atoi(strings.TrimSpace(x))
	b, err2 := strconv.Atoi(strings.TrimSpace(y))
	holds, known = map[string]bool{"-eq": a == b, "-ne": a != b, "-lt": a < b, "-le": a <= b, "-gt": a > b,
		"-ge": a >= b}[op],
		strings.Contains(" -eq -ne -lt -le -gt -ge ", " "+op+" ")
	return holds, known && err == nil && err2 == nil
}

// expression evaluates what is between [[ and ]].
func (s *script) expression(x syntax.TestExpr) (holds, known bool) {
	switch x := x.(type) {
	case *syntax.Word:
		text, err := s.literal(x)
		return text != "", err == nil && s.guess == ""
	case *syntax.ParenTest:
		return s.expression(x.X)
	case *syntax.UnaryTest:
		w, isWord := x.X.(*syntax.Word)
		switch {
		case x.Op == syntax.TsNot:
			holds, known = s.expression(x.X)
			return !holds, known
		case isWord && (x.Op == syntax.TsEmpStr || x.Op == syntax.TsNempStr):
			text, err := s.literal(w)
			return (text == "") == (x.Op == syntax.TsEmpStr), err == nil && s.guess == ""
		}
	case *syntax.BinaryTest:
		if x.Op == syntax.AndTest || x.Op == syntax.OrTest {
			a, knownA := s.expression(x.X)
			if knownA && a == (x.Op == syntax.OrTest) {
				return a, true
			}
			b, knownB := s.expression(x.Y)
			return b, knownA && knownB
		}
		return s.comparison(x)
	}
	return false, false
}

func (s *script) comparison(x *syntax.BinaryTest) (holds, known bool) {
	left, ok := x.X.(*syntax.Word)
	right, ok2 := x.Y.(*syntax.Word)
	if !ok || !ok2 {
		return false, false
	}
	text, err := s.literal(left)
	if err != nil || s.guess != "" {
		return false, false
	}
	switch x.Op {
	case syntax.TsMatch, syntax.TsMatchShort, syntax.TsNoMatch:
		holds, known = s.match(right, text)
		return holds == (x.Op != syntax.TsNoMatch), known
	}
	other, err := s.literal(right)
	if err != nil || s.guess != "" {
		return false, false
	}
	return compare(text, x.Op.String(), other)
}

var _ expand.WriteEnviron = (*script)(nil)
