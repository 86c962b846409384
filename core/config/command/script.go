package command

import (
	"cmp"
	"path/filepath"
	"slices"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// A script is a shell's text while it is read: from statement to statement, as the shell would, but without running
// anything. What only the shell would know is unknown, and an error only where the program depends on it.
type script struct {
	*reader
	name                       string // of the shell
	arg                        int    // where the text stands in Argv
	text                       string
	zero                       string   // $0
	params                     []string // $1 and so on; nil with lost
	lost                       bool     // the parameters are unknown
	vars                       map[string]expand.Variable
	unknown                    map[string]bool // variables that only the shell would know
	opaque                     bool            // something has run that may have set any variable
	functions                  map[string]*syntax.Stmt
	errexit, nounset, pipefail bool
	found                      bool // the program
	depth                      int
	guess                      string // what the last expansion had to guess; "" for nothing
	trouble                    error  // why the program cannot be understood, whatever follows
}

func newScript(r *reader, name string, c shellCall) *script {
	return &script{reader: r, name: name, vars: map[string]expand.Variable{}, unknown: map[string]bool{},
		functions: map[string]*syntax.Stmt{}, errexit: c.errexit, nounset: c.nounset, pipefail: c.pipefail}
}

// read reads the whole text.
func (s *script) read() error {
	stmts, err := parseShell(s.name, s.text)
	if err != nil {
		return err
	}
	if err := s.list(stmts); err != nil {
		return err
	}
	if !s.found {
		return notUnderstood("the shell runs no Python script")
	}
	return nil
}

// maxDepth bounds how deeply statements and functions are nested.
const maxDepth = 64

func (s *script) list(stmts []*syntax.Stmt) error {
	if s.depth++; s.depth > maxDepth {
		return notUnderstood("shell functions that call themselves")
	}
	defer func() { s.depth-- }()
	for _, stmt := range stmts {
		if err := s.statement(stmt); err != nil {
			return err
		}
	}
	return nil
}

// statement reads one statement.
func (s *script) statement(stmt *syntax.Stmt) error {
	switch {
	case s.found:
		return s.after(stmt)
	case stmt.Negated || stmt.Background || stmt.Coprocess || stmt.Disown:
		return notUnderstood("the shell runs something in the background, or inverts an exit code")
	}
	switch c := stmt.Cmd.(type) {
	case *syntax.DeclClause:
		return s.declare(c)
	case *syntax.CallExpr:
		return s.call(stmt, c)
	case *syntax.BinaryCmd:
		return s.binary(stmt, c)
	case *syntax.TimeClause:
		if c.Stmt == nil || len(stmt.Redirs) > 0 {
			return notUnderstood("the shell's time")
		}
		s.through("time")
		return s.statement(c.Stmt)
	case *syntax.FuncDecl:
		s.functions[c.Name.Value] = c.Body
		return nil
	case *syntax.Block:
		return s.redirected(stmt, c.Stmts)
	case *syntax.Subshell:
		if s.inert(c.Stmts) {
			return nil
		}
		err := s.redirected(stmt, c.Stmts)
		if err == nil && !s.found {
			err = notUnderstood("a subshell")
		}
		return err
	case *syntax.IfClause:
		return s.ifClause(c)
	case *syntax.CaseClause:
		return s.caseClause(c)
	case *syntax.ForClause:
		return s.forClause(c)
	case *syntax.WhileClause:
		return s.whileClause(c)
	case *syntax.TestClause, *syntax.ArithmCmd, *syntax.LetClause:
		if s.inert([]*syntax.Stmt{stmt}) {
			return nil
		}
	}
	return notUnderstood("shell syntax beyond simple commands")
}

// redirected reads statements whose output goes elsewhere together.
func (s *script) redirected(stmt *syntax.Stmt, inner []*syntax.Stmt) error {
	if err := redirects(stmt); err != nil {
		return err
	}
	return s.list(inner)
}

// redirects refuses redirections other than those of output and of input from a file.
func redirects(stmt *syntax.Stmt) error {
	for _, red := range stmt.Redirs {
		switch red.Op {
		case syntax.RdrOut, syntax.AppOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll, syntax.DplOut, syntax.RdrIn, syntax.DplIn:
		default:
			return notUnderstood("the shell's %v", red.Op)
		}
	}
	return nil
}

// after reads a statement behind the program. It may change nothing but the exit code.
func (s *script) after(stmt *syntax.Stmt) error {
	if c, ok := stmt.Cmd.(*syntax.CallExpr); ok && len(c.Args) > 0 && c.Args[0].Lit() == "exit" {
		if len(c.Args) == 2 && c.Args[1].Lit() != "" {
			s.mask("exit " + c.Args[1].Lit())
		}
		return nil
	}
	if !s.inert([]*syntax.Stmt{stmt}) {
		return notUnderstood("the shell runs something else after the program")
	}
	if !s.errexit {
		s.mask("what follows it")
	}
	return nil
}

// mask notes that the exit code is not the program's where the program fails.
func (s *script) mask(by string) { s.prog.Masked = cmp.Or(s.prog.Masked, by) }

// binary reads a && b, a || b, and a | b.
func (s *script) binary(stmt *syntax.Stmt, c *syntax.BinaryCmd) error {
	switch c.Op {
	case syntax.AndStmt:
		if hold, known := s.test(c.X); known {
			if !hold {
				return nil
			}
			return s.statement(c.Y)
		} else if isTest(c.X) && s.inert([]*syntax.Stmt{c.Y}) {
			return s.perhaps([]*syntax.Stmt{c.Y})
		}
		if err := s.statement(c.X); err != nil {
			return err
		}
		if s.found {
			if !s.inert([]*syntax.Stmt{c.Y}) { // on success only: the exit code stays the program's
				return notUnderstood("the shell runs something else after the program")
			}
			return nil
		}
		return s.statement(c.Y)
	case syntax.OrStmt:
		if hold, known := s.test(c.X); known {
			if hold {
				return nil
			}
			return s.statement(c.Y)
		}
		// Where the left side fails and the right side ends the script, the program never runs.
		if ends(c.Y) || s.inert([]*syntax.Stmt{c.X, c.Y}) {
			if isTest(c.X) {
				return nil
			}
			if err := s.statement(c.X); err != nil {
				return err
			}
			if s.found {
				s.mask("the shell's ||")
			}
			return nil
		}
	case syntax.Pipe, syntax.PipeAll:
		if s.inert([]*syntax.Stmt{c.X, c.Y}) {
			return nil
		}
		if tee, ok := c.Y.Cmd.(*syntax.CallExpr); ok && len(tee.Args) > 0 && len(tee.Assigns) == 0 &&
			filepath.Base(tee.Args[0].Lit()) == "tee" {
			if err := s.statement(c.X); err != nil {
				return err
			}
			if s.found && !s.pipefail {
				s.mask("tee")
			}
			return redirects(stmt)
		}
	}
	return notUnderstood("the shell's %v", c.Op)
}

// ends reports whether a statement only ends the script or a function, perhaps with a message.
func ends(stmt *syntax.Stmt) bool {
	switch c := stmt.Cmd.(type) {
	case *syntax.CallExpr:
		return len(c.Args) > 0 && slices.Contains([]string{"exit", "return"}, c.Args[0].Lit())
	case *syntax.Block:
		return len(c.Stmts) > 0 && ends(c.Stmts[len(c.Stmts)-1])
	}
	return false
}

// ifClause reads the part that the shell would run, or any if none of them matters.
func (s *script) ifClause(c *syntax.IfClause) error {
	for part := c; part != nil; part = part.Else {
		if len(part.Cond) == 0 { // else
			return s.list(part.Then)
		}
		if hold, known := s.tests(part.Cond); known {
			if hold {
				return s.list(part.Then)
			}
			continue
		}
		var rest []*syntax.Stmt
		for p := part; p != nil; p = p.Else {
			if !s.inert(p.Cond) {
				return notUnderstood("which part of an if the shell runs")
			}
			rest = append(rest, p.Then...)
		}
		if !s.inert(rest) {
			return notUnderstood("which part of an if the shell runs")
		}
		return s.perhaps(rest)
	}
	return nil
}

func (s *script) tests(cond []*syntax.Stmt) (hold, known bool) {
	if len(cond) != 1 {
		return false, false
	}
	return s.test(cond[0])
}

// caseClause reads the part that matches.
func (s *script) caseClause(c *syntax.CaseClause) error {
	word, err := s.literal(c.Word)
	if err != nil {
		return err
	}
	known := s.guess == ""
	var all []*syntax.Stmt
	for _, item := range c.Items {
		all = append(all, item.Stmts...)
		if item.Op != syntax.Break {
			known = false
		}
		for _, p := range item.Patterns {
			if !known {
				break
			}
			matched, certain := s.match(p, word)
			if !certain {
				known = false
			} else if matched {
				return s.list(item.Stmts)
			}
		}
	}
	switch {
	case known:
		return nil
	case s.inert(all):
		return s.perhaps(all)
	}
	return notUnderstood("which part of a case the shell runs")
}

// forClause reads a loop that does nothing that matters, or runs once.
func (s *script) forClause(c *syntax.ForClause) error {
	it, isWords := c.Loop.(*syntax.WordIter)
	if isWords && it.InPos.IsValid() {
		fields, err := s.fields(it.Items)
		if err != nil {
			return err
		}
		if len(fields) == 1 && s.guess == "" {
			s.set(it.Name.Value, expand.Variable{Set: true, Kind: expand.String, Str: fields[0]})
			return s.list(c.Do)
		}
		s.unknown[it.Name.Value] = true
	} else if isWords {
		s.unknown[it.Name.Value] = true
	}
	if !s.inert(c.Do) {
		return notUnderstood("a loop that may run the program several times")
	}
	return s.perhaps(c.Do)
}

// maxRounds bounds the loops that are followed: those that read arguments.
const maxRounds = 200

func (s *script) whileClause(c *syntax.WhileClause) error {
	for range maxRounds {
		hold, known := s.tests(c.Cond)
		if !known {
			break
		}
		if hold == c.Until {
			return nil
		}
		if err := s.list(c.Do); err != nil {
			return err
		}
		if s.found {
			return notUnderstood("a loop that may run the program several times")
		}
	}
	if !s.inert(c.Cond) || !s.inert(c.Do) {
		return notUnderstood("a loop that may run the program several times")
	}
	return s.perhaps(c.Do)
}

// inert reports whether statements, should they run, change nothing of the program's command but variables, parameters,
// and that the script ends sooner.
func (s *script) inert(stmts []*syntax.Stmt) bool {
	fine := true
	for _, stmt := range stmts {
		syntax.Walk(stmt, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.CmdSubst: // in a process of its own
				return false
			case *syntax.ProcSubst:
				fine = false
			case *syntax.Stmt:
				fine = fine && !n.Background && !n.Coprocess && !n.Disown && !writes(n)
			case *syntax.FuncDecl:
				fine = false
			case *syntax.DeclClause:
				fine = fine && slices.Contains(declarations, n.Variant.Value)
			case *syntax.CallExpr:
				fine = fine && (len(n.Args) == 0 || s.harmless(n))
			}
			return fine
		})
	}
	return fine
}

// writes reports whether a statement writes a file that the program may read: from a here-document, or one whose
// name has the ending of settings or code.
func writes(stmt *syntax.Stmt) bool {
	here, out := false, false
	for _, r := range stmt.Redirs {
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
			here = true
		case syntax.RdrOut, syntax.AppOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll:
			out = true
			if parts := r.Word.Parts; len(parts) > 0 {
				end := parts[len(parts)-1]
				if q, ok := end.(*syntax.DblQuoted); ok && len(q.Parts) > 0 {
					end = q.Parts[len(q.Parts)-1]
				}
				lit, _ := end.(*syntax.Lit)
				if lit != nil && slices.Contains(settings, filepath.Ext(lit.Value)) {
					return true
				}
			}
		}
	}
	return here && out
}

// settings are the endings of files that programs read.
var settings = []string{".yaml", ".yml", ".json", ".toml", ".py", ".cfg", ".ini", ".sh", ".env"}

// harmless reports whether a call changes nothing of the program's command, environment or folder, beside parameters.
func (s *script) harmless(c *syntax.CallExpr) bool {
	name := c.Args[0].Lit()
	if body, ok := s.functions[name]; ok {
		delete(s.functions, name) // should it call itself, it is not harmless
		defer func() { s.functions[name] = body }()
		return s.inert([]*syntax.Stmt{body})
	}
	only, listed := harmless[name]
	return listed && (len(only) == 0 || len(c.Args) > 1 && slices.Contains(only, c.Args[1].Lit()))
}

// harmless are commands that change nothing that the program is started with; with a list, only by one of those words.
var harmless = map[string][]string{
	"echo": nil, "printf": nil, "true": nil, "false": nil, ":": nil, "mkdir": nil, "date": nil, "hostname": nil,
	"nvidia-smi": nil,
	"sleep":      nil, "ulimit": nil, "pwd": nil, "ls": nil, "which": nil, "whoami": nil, "free": nil, "df": nil,
	"lscpu": nil, "uname": nil,
	"cat": nil, "head": nil, "tail": nil, "grep": nil, "wc": nil, "printenv": nil, "[": nil, "test": nil,
	"type": nil, "umask": nil,
	"shift": nil, "exit": nil, "return": nil, "break": nil, "continue": nil, "clear": nil, "command": {"-v"},
	"touch": nil, "tee": nil,
	"nproc": nil, "id": nil, "nvcc": nil, "du": nil, "tr": nil, "cut": nil, "awk": nil, "sort": nil, "usage": nil,
	"wandb": {"login", "online", "offline", "enabled", "disabled"}, "git": {"status", "log", "rev-parse", "diff",
		"branch"},
	"huggingface-cli": {"login", "whoami", "download"}, "hf": {"auth", "download"},
}

// perhaps notes what statements that perhaps run would change: variables become unknown.
func (s *script) perhaps(stmts []*syntax.Stmt) error {
	for _, stmt := range stmts {
		syntax.Walk(stmt, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.Assign:
				if n.Name != nil {
					s.forget(n.Name.Value)
				}
			case *syntax.CallExpr:
				if len(n.Args) > 0 && n.Args[0].Lit() == "shift" {
					s.lost = true
				}
				if len(n.Args) > 0 {
					if body, ok := s.functions[n.Args[0].Lit()]; ok && s.depth < maxDepth {
						s.depth++
						_ = s.perhaps([]*syntax.Stmt{body})
						s.depth--
					}
				}
			case *syntax.ForClause:
				if it, ok := n.Loop.(*syntax.WordIter); ok {
					s.forget(it.Name.Value)
				}
			case *syntax.ParamExp:
				if n.Exp != nil && n.Param != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull) {
					s.forget(n.Param.Value)
				}
			case *syntax.BinaryArithm, *syntax.UnaryArithm:
				syntax.Walk(n, func(n syntax.Node) bool {
					if w, ok := n.(*syntax.Word); ok && w.Lit() != "" {
						s.forget(w.Lit())
					}
					return true
				})
			}
			return true
		})
	}
	return nil
}
