package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"hash/fnv"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
)

// A fault replaces the bytes from..to of a file.
type fault struct {
	file     string
	line     int
	from, to int
	was, now string
}

func (f fault) String() string { return fmt.Sprintf("%s:%d: %s → %s", f.file, f.line, f.was, f.now) }

// apply makes the fault in the file's text.
func (f fault) apply(text []byte) []byte {
	return slices.Concat(text[:f.from], []byte(f.now), text[f.to:])
}

// instead are what takes an operator's place: the boundary moved, the comparison negated, and so on.
var instead = map[token.Token][]token.Token{
	token.LSS:        {token.LEQ, token.GEQ},
	token.LEQ:        {token.LSS, token.GTR},
	token.GTR:        {token.GEQ, token.LEQ},
	token.GEQ:        {token.GTR, token.LSS},
	token.EQL:        {token.NEQ},
	token.NEQ:        {token.EQL},
	token.LAND:       {token.LOR},
	token.LOR:        {token.LAND},
	token.ADD:        {token.SUB},
	token.SUB:        {token.ADD},
	token.MUL:        {token.QUO},
	token.QUO:        {token.MUL},
	token.REM:        {token.MUL},
	token.INC:        {token.DEC},
	token.DEC:        {token.INC},
	token.ADD_ASSIGN: {token.SUB_ASSIGN},
	token.SUB_ASSIGN: {token.ADD_ASSIGN},
	token.CONTINUE:   {token.BREAK},
	token.BREAK:      {token.CONTINUE},
}

// faults finds the faults that can be made in a file, in the order of its text. A file that is not built here has none.
func faults(name string, text []byte) ([]fault, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	if !builtHere(file) {
		return nil, nil
	}
	var all []fault
	at := func(pos token.Pos, was, now string) {
		p := set.Position(pos)
		all = append(all, fault{name, p.Line, p.Offset, p.Offset + len(was), was, now})
	}
	operator := func(pos token.Pos, op token.Token) {
		for _, now := range instead[op] {
			at(pos, op.String(), now.String())
		}
	}
	negate := func(cond ast.Expr) {
		if _, compares := cond.(*ast.BinaryExpr); cond != nil && !compares {
			was := string(text[set.Position(cond.Pos()).Offset:set.Position(cond.End()).Offset])
			at(cond.Pos(), was, "!("+was+")")
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if n.Op != token.ADD || !isText(n.X) && !isText(n.Y) {
				operator(n.OpPos, n.Op)
			}
		case *ast.IncDecStmt:
			operator(n.TokPos, n.Tok)
		case *ast.AssignStmt:
			operator(n.TokPos, n.Tok)
		case *ast.BranchStmt:
			operator(n.TokPos, n.Tok)
		case *ast.IfStmt:
			negate(n.Cond)
		case *ast.Ident:
			if n.Name == "true" || n.Name == "false" {
				at(n.Pos(), n.Name, map[string]string{"true": "false", "false": "true"}[n.Name])
			}
		}
		return true
	})
	slices.SortStableFunc(all, func(a, b fault) int { return cmp.Compare(a.from, b.from) })
	return all, nil
}

// isText reports whether an expression is clearly a text: a "-" between two is no fault that compiles.
func isText(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return e.Kind == token.STRING
	case *ast.BinaryExpr:
		return e.Op == token.ADD && (isText(e.X) || isText(e.Y))
	}
	return false
}

// builtHere reports whether a file's //go:build line holds on this system.
func builtHere(file *ast.File) bool {
	for _, group := range file.Comments {
		for _, c := range group.List {
			if c.Pos() < file.Package && constraint.IsGoBuild(c.Text) {
				expr, err := constraint.Parse(c.Text)
				return err == nil && expr.Eval(func(tag string) bool {
					return tag == runtime.GOOS || tag == runtime.GOARCH || tag == "unix" || strings.HasPrefix(tag, "go1")
				})
			}
		}
	}
	return true
}

// draw takes n of the faults, in the order of the text. Each fault has its own lot, so that a change in one file hardly
// changes what is drawn from the others.
func draw(all []fault, n int, seed uint64) []fault {
	weight := make([]uint64, len(all))
	for i, f := range all {
		h := fnv.New64a()
		fmt.Fprint(h, f.file, f.line, f.was, f.now, f.from)
		weight[i] = rand.NewPCG(seed, h.Sum64()).Uint64()
	}
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(weight[a], weight[b]) })
	order = order[:min(n, len(order))]
	slices.Sort(order)
	drawn := make([]fault, len(order))
	for i, at := range order {
		drawn[i] = all[at]
	}
	return drawn
}
