package lazy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Every pattern in the source compiles, as it would have to at the start of the program.
func TestAllCompile(t *testing.T) {
	seen := 0
	err := filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 1 {
				return true
			}
			f, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || f.Sel.Name != "MustCompile" {
				return true
			}
			if pkg, ok := f.X.(*ast.Ident); !ok || pkg.Name != "lazy" {
				return true
			}
			if source, ok := text(call.Args[0]); ok { // what is put together of variables is tested where it is
				seen++
				if _, err := regexp.Compile(source); err != nil {
					t.Errorf("%s: %v", path, err)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 90 {
		t.Errorf("only %d patterns were found", seen)
	}
}

// text is a string constant, or a sum of them.
func text(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		return s, err == nil
	case *ast.BinaryExpr:
		a, ok := text(e.X)
		b, fine := text(e.Y)
		return a + b, ok && fine
	}
	return "", false
}

func TestFirstUse(t *testing.T) {
	r := MustCompile(`a(b+)`)
	if r.re != nil {
		t.Error("it was compiled before it was used")
	}
	if m := r.FindStringSubmatch("xabbx"); len(m) != 2 || m[1] != "bb" {
		t.Errorf("found %q", m)
	}
	defer func() {
		if recover() == nil {
			t.Error("a pattern that is none does not panic when it is used")
		}
	}()
	MustCompile(`(`).MatchString("")
}
