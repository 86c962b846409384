package python

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/lazy"
)

// Comments and docstrings go as Python's own tokenizer has them, and nothing moves.
func TestCode(t *testing.T) {
	for what, tt := range map[string]struct{ text, want string }{
		"all of it":                      {"a = 1  # \"\"\"\nb = '#'\n\"\"\"assert x\n'\"\"\"\nc = 'it\\'s' # d\n", "a = 1       \nb = '#'\n           \n    \nc = 'it\\'s'    \n"},
		"nothing":                        {"a = 1\n", "a = 1\n"},
		"a comment without a space":      {"a = 1 #b\nc", "a = 1   \nc"},
		"next to code":                   {"a = 1#b", "a = 1  "},
		"a # with spaces in a string":    {"a = 'b # c'", "a = 'b # c'"},
		"a docstring with a quote":       {`"""a\""" b""" c`, `              c`},
		"one that does not end":          {"a\n'''b\nc", "a\n    \n "},
		"other quotes within":            {`'''"""''' a`, `          a`},
		"an empty string":                {`"" # a`, `""    `},
		"a quote in a raw string":        {`r'\'' # a`, `r'\''    `},
		"a string over two lines":        {"'a\\\n# b' # c", "'a\\\n# b'    "},
		"the same with CRLF":             {"'a\\\r\n# b' # c", "'a\\\r\n# b'    "},
		"a string without an end":        {"a = 'b\nc # d", "a = 'b\nc    "},
		"quotes of a field":              {`f"{a["#"]}" # b`, `f"{a["#"]}"    `},
		"of a nested one":                {`f'{f'{'#'}'}' # b`, `f'{f'{'#'}'}'    `},
		"braces that are none":           {`f"{{'" # b`, `f"{{'"    `},
		"a format with a #":              {`f"{n:#x}" # b`, `f"{n:#x}"    `},
		"a format with a field":          {`f"{n:{w['#']}}" # b`, `f"{n:{w['#']}}"    `},
		"a word that ends like a prefix": {`if"{'" # b`, `if"{'"    `},
	} {
		s := NewSource("x.py", tt.text)
		if s.Code != tt.want || s.Text != tt.text {
			t.Errorf("%s: %q is %q as code, want %q", what, tt.text, s.Code, tt.want)
		}
	}
}

func TestPlaces(t *testing.T) {
	s := NewSource("/a/x.py", "'''b = 1'''\nb = 2  # c = 3\n")
	b, c := lazy.MustCompile(`(b) = (\d)?`), lazy.MustCompile(`c = 3`)
	if at, m, ok := s.Find(b); !ok || at != "x.py:2" || !slices.Equal(m, []string{"b = 2", "b", "2"}) {
		t.Errorf("found at %s: %q", at, m)
	}
	if s.At(b) != "x.py:2" || s.AtText(b) != "x.py:1" || s.At(c) != "x.py" || s.AtText(c) != "x.py:2" || s.Has(c) {
		t.Errorf("%s %s %s %s", s.At(b), s.AtText(b), s.At(c), s.AtText(c))
	}
	if gone := ReadSource("/no/such.py", 9); gone.Exists() || gone.Path != "/no/such.py" || gone.Has(b) {
		t.Errorf("what is not there is %+v", gone)
	}
}

func TestOptions(t *testing.T) {
	got := NewSource("x.py", `
p.add_argument("data")
p.add_argument("-b", "--batch-size", default=64 * (1 + 1), help="all, (of) them")
p.add_argument('--name', default='a, b')  # "--no"
p.add_argument("--flag", action="store_true")
p.add_argument("--ids", nargs="*", type=int)
p.add_argument("--maybe", nargs='?')
# p.add_argument("--commented")
p.add_argument("--path", action=ExpandUser, help="not action='store_true'")
p.add_argument("--must", required=True)
p.add_argument("--need-not", required=False)
p.add_argument ("--switch", action=argparse.BooleanOptionalAction)
def add_argument_of(): pass
`).Options()
	want := []DeclaredOption{
		{Option: config.Option{Names: []string{"-b", "--batch-size"}}, Default: "64 * (1 + 1)"},
		{Option: config.Option{Names: []string{"--name"}}, Default: "a, b"},
		{Option: config.Option{Names: []string{"--flag"}, Takes: config.None}, Default: ""},
		{Option: config.Option{Names: []string{"--ids"}, Takes: config.Any}, Default: ""},
		{Option: config.Option{Names: []string{"--maybe"}, Takes: config.Maybe}, Default: ""},
		{Option: config.Option{Names: []string{"--path"}}, Default: ""},
		{Option: config.Option{Names: []string{"--must"}}, Required: true},
		{Option: config.Option{Names: []string{"--need-not"}}},
		{Option: config.Option{Names: []string{"--switch"}, Takes: config.None}, Default: ""},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v", got)
	}
}

func TestNames(t *testing.T) {
	code := NewSource("t.py", "config.batch_size = 1\n\n  config.batch_size\t= config.batch_sizes\n"+
		"x = config.batch_size == 2\nif config.batch_size == 3: pass\nconfig.batch_size=4\nmy_config.batch_size = 5\n"+
		"config.batch_size == 6\nconfig.lr\n'''config.gone = 1'''\n"+
		"z = config.batch_size = 7\na, config.batch_size = 1, 2\nif a: config.batch_size = 3\n")
	if got := code.Assigned("config.batch_size"); !slices.Equal(got, []int{1, 3, 6, 11, 12, 13}) {
		t.Errorf("assigned on %v", got)
	}
	if got := code.Assigned("config.lr"); got != nil {
		t.Errorf("what is only read is assigned on %v", got)
	}
	for name, want := range map[string]bool{".batch_size": true, ".batch_sizes": true, ".batch": false, ".lr": true, ".l": false, ".dim": false, "config": true, "my_config": true, "batch": false, "gone": false} {
		if code.Names(name) != want {
			t.Errorf("%s: not %v", name, want)
		}
	}
}

func TestDefines(t *testing.T) {
	s := NewSource("x.py", `"""
class Told:
"""
# class Noted:
class  HAT (nn.Module):
    class Inner: pass
    def method(self, x=(
1, 2)):
        class Deep: pass
    def after(self): pass
try:
    import y
except ImportError:
    def fallback(): pass
async def later(): pass
definitely = 1
classic = 2
`)
	for name, want := range map[string]bool{"hat": true, "fallback": true, "later": true, "told": false, "noted": false, "inner": false, "method": false, "deep": false, "after": false, "initely": false, "ic": false, "y": false} {
		if s.Defines(name) != want {
			t.Errorf("%s: not %v", name, want)
		}
	}
}

func TestImports(t *testing.T) {
	got := NewSource("x.py", `
import a, b.c as d; import e
from f import (  # all of
    g as h,
    i,
)
from . import j
from ..k import *
from l import m, \
    n
def f():
    if x: from o.from_p import q
"import r"
'''
import s
'''
importlib.import_module("t")
yield from u
`).Imports()
	name := func(names ...string) (out []Imported) {
		for _, n := range names {
			out = append(out, Imported{n, n})
		}
		return out
	}
	want := []Import{{"a", nil}, {"b.c", nil}, {"e", nil}, {"f", []Imported{{"g", "h"}, {"i", "i"}}}, {".", name("j")}, {"..k", name("*")}, {"l", name("m", "n")}, {"o.from_p", name("q")}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, want %+v", got, want)
	}
}

// A package comes before a module of its name, importing a.b runs a first, and what is imported of a module is no file.
func TestFiles(t *testing.T) {
	root := t.TempDir()
	for path, text := range map[string]string{
		"run.py": "import both, pkg.deep.leaf\nfrom pkg import sub, name\nfrom bare import inner\nfrom solo import other\nimport elsewhere", "both.py": "", "both/__init__.py": "",
		"pkg/__init__.py": "", "pkg/sub.py": "from . import near\nfrom .deep import leaf\nfrom .. import top", "pkg/near.py": "", "pkg/deep/__init__.py": "", "pkg/deep/leaf.py": "",
		"top.py": "", "bare/inner.py": "", "solo.py": "", "solo/other.py": "", "never.py": "",
	} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	read := func(path string) Source { return ReadSource(path, 1000) }
	reached := func(most int) (out []string, cut bool) {
		sources, cut := Reachable(root, read(filepath.Join(root, "run.py")), most, read)
		for _, s := range sources {
			rel, _ := filepath.Rel(root, s.Path)
			out = append(out, rel)
		}
		return out, cut
	}
	want := []string{"run.py", "both/__init__.py", "pkg/__init__.py", "pkg/deep/__init__.py", "pkg/deep/leaf.py", "pkg/sub.py", "bare/inner.py", "solo.py", "pkg/near.py", "top.py"}
	if got, cut := reached(64); !slices.Equal(got, want) || cut {
		t.Errorf("reached %q, want %q (cut %v)", got, want, cut)
	}
	if got, cut := reached(4); !slices.Equal(got, want[:4]) || !cut {
		t.Errorf("of four: %q (cut %v)", got, cut)
	}
	for module, want := range map[string]string{"both": "both/__init__.py", ".near": "pkg/near.py", "..top": "top.py", ".": "pkg/__init__.py", "elsewhere": ""} {
		got := Resolve(root, filepath.Join(root, "pkg/sub.py"), module)
		if want != "" {
			want = filepath.Join(root, want)
		}
		if got != want {
			t.Errorf("%s is %s, want %s", module, got, want)
		}
	}
}

// What is passed over without parsing is no assignment.
func TestMayAssign(t *testing.T) {
	for code, want := range map[string]bool{
		"a.b = 1": true, "a.b=1": true, "a.b += 1": true, "a.b //= 2": true, "x = a.b = 1": true, "a.b, c = 1, 2": true,
		"(c,\n a.b,\n) = 1, 2": true, "(c,\n a.b) \\\n = 1, 2": true, "a.b: int = 1": true,
		"a.b \\\n = 1": true, "[c, a.b] = x": true, "(a.b\n) = 1": true, "x = a.b\ny = 1": false,
		"x = a.b": false, "a.b == 1": false, "f(a.b)": true, "x = f(a.b) + 1": false, "f(a.b, 1)": false,
		"a.b.c = 1": false, "a.bc = 1": false, "x = a.b + 1": false, "if a.b: pass": false,
		"x = a.b <= 3": true,
	} {
		s := NewSource("t.py", code+"\n")
		if got := s.mayAssign("a.b"); got != want {
			t.Errorf("%q may assign: %v, want %v", code, got, want)
		}
		if len(s.Assigned("a.b")) > 0 && !want {
			t.Errorf("%q assigns, and is passed over", code)
		}
	}
}
