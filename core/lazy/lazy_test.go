package lazy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
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
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 1 {
				return true
			}
			f, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || f.Sel.Name != "MustCompile" {
				return true
			}
			switch pkg, ok := f.X.(*ast.Ident); {
			case ok && pkg.Name == "regexp" && !strings.HasPrefix(path, "../../tools/") && !inFunction(file, call):
				t.Errorf("%s: a pattern is compiled at each start of the program; take lazy.MustCompile", path)
				fallthrough
			case !ok || pkg.Name != "lazy":
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

// inFunction reports whether a call stands in a function.
func inFunction(file *ast.File, call *ast.CallExpr) (in bool) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n.(type) {
		case *ast.FuncDecl, *ast.FuncLit:
			in = in || n.Pos() <= call.Pos() && call.End() <= n.End()
		}
		return !in
	})
	return in
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

// A text without the literal of a pattern has no match, and with it the pattern decides: the answers are those of regexp.
func TestLiteral(t *testing.T) {
	for source, want := range map[string]string{
		`a(b+)c`: "a", `(?i)abc`: "", `foo|bar`: "", `(?:foo)?barbaz`: "barbaz", `x{0,2}yy`: "yy", `(?:abc){2}d`: "abc", `(abcd)+e`: "abcd",
		`['"]--moco-k['"]`: "--moco-k", `\bautocast\(`: "autocast(", `(?m)^[^#\n]*\bkey\b`: "key", `x*`: "", `(?:long word)*z`: "z", `^$`: "", `ab(?i)cdef`: "ab", `(?:long){0,3}z`: "z",
	} {
		r := MustCompile(source)
		if r.texts(); r.literal != want {
			t.Errorf("%s: %q, want %q", source, r.literal, want)
		}
		re := regexp.MustCompile(source)
		for _, s := range []string{"", "abc", "ABC", "abbbc xabcabcd", "foo", "bar", "barbaz foobarbaz", "xyy y", "abcdabcde", `add('--moco-k', "--moco-k")`, "_autocast( autocast(", "# key\n key", "xx", "z long word", "abCDEF", "\xff"} {
			for name, same := range map[string]bool{
				"MatchString": r.MatchString(s) == re.MatchString(s), "Match": r.Match([]byte(s)) == re.Match([]byte(s)), "FindString": r.FindString(s) == re.FindString(s),
				"FindIndex": reflect.DeepEqual(r.FindIndex([]byte(s)), re.FindIndex([]byte(s))), "FindStringIndex": reflect.DeepEqual(r.FindStringIndex(s), re.FindStringIndex(s)),
				"FindSubmatch":               reflect.DeepEqual(r.FindSubmatch([]byte(s)), re.FindSubmatch([]byte(s))),
				"FindSubmatchIndex":          reflect.DeepEqual(r.FindSubmatchIndex([]byte(s)), re.FindSubmatchIndex([]byte(s))),
				"FindStringSubmatch":         reflect.DeepEqual(r.FindStringSubmatch(s), re.FindStringSubmatch(s)),
				"FindStringSubmatchIndex":    reflect.DeepEqual(r.FindStringSubmatchIndex(s), re.FindStringSubmatchIndex(s)),
				"FindAll":                    reflect.DeepEqual(r.FindAll([]byte(s), -1), re.FindAll([]byte(s), -1)),
				"FindAllString":              reflect.DeepEqual(r.FindAllString(s, -1), re.FindAllString(s, -1)),
				"FindAllStringIndex":         reflect.DeepEqual(r.FindAllStringIndex(s, 1), re.FindAllStringIndex(s, 1)),
				"FindAllSubmatch":            reflect.DeepEqual(r.FindAllSubmatch([]byte(s), -1), re.FindAllSubmatch([]byte(s), -1)),
				"FindAllSubmatchIndex":       reflect.DeepEqual(r.FindAllSubmatchIndex([]byte(s), 2), re.FindAllSubmatchIndex([]byte(s), 2)),
				"FindAllStringSubmatch":      reflect.DeepEqual(r.FindAllStringSubmatch(s, -1), re.FindAllStringSubmatch(s, -1)),
				"FindAllStringSubmatchIndex": reflect.DeepEqual(r.FindAllStringSubmatchIndex(s, -1), re.FindAllStringSubmatchIndex(s, -1)),
			} {
				if !same {
					t.Errorf("%s of %q in %q is another answer", name, source, s)
				}
			}
		}
	}
}
