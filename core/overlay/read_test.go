package overlay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/config"
)

// read reads one text.
func read(t testing.TB, py, text string) config.PythonSource {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.py")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Read(t.Context(), py, environ(), filepath.Dir(path), []string{path})[0]
}

// spelled lists the items: their path, and their value if it is a literal, or their text.
func spelled(s config.PythonSource) (out []string) {
	for _, it := range s.Items {
		if text := string(s.Text[it.Start:it.End]); it.Literal {
			out = append(out, it.Path+" = "+string(it.Value))
		} else {
			out = append(out, it.Path+" : "+text)
		}
	}
	return out
}

func TestRead(t *testing.T) {
	type test struct {
		name, text string
		want       []string
	}
	tests := []test{
		{"constants", "A = 1\nB: int = -2\nC = 'x'\nD = None; E = True\nF = 1e-4\nG = (1, 2)\nH = [1.0, 'a', (True,)]\nI = 1 + 1\nJ: int\n",
			[]string{"A = 1", "B = -2", `C = "x"`, "D = null", "E = true", "F = 0.0001", "G = [1, 2]", `H = [1.0, "a", [true]]`, "I : 1 + 1"}},
		{"what JSON has no word for", "A = b'x'\nB = 1j\nC = ...\nD = 1e999\nE = {1: 2}\nF = '\\ud800'\nG = {2, 1}\nH = {}\nI = f'{1}'\nJ = 10**3\nK = 123456789012345678901234567890\n",
			[]string{"A : b'x'", "B : 1j", "C : ...", "D : 1e999", "E : {1: 2}", "F : '\\ud800'", "G = [1, 2]", "H = {}", "I : f'{1}'", "J : 10**3", "K = 123456789012345678901234567890"}},
		{"spans", "A = (4)\nB = ('a'\n  'b')\nC = 'a' 'b'\nD = 1, 2\nE = ((1), (2),)\nF = (\n 1,\n)\nG = ( -  1 )\n",
			[]string{"A = 4", "B : 'a'\n  'b'", `C = "ab"`, "D = [1, 2]", "E = [1, 2]", "F = [1]", "G = -1"}},
		{"targets", "a = b = 1\nc, d = 1, 2\ne, f = g()\n(h, [i]) = 1, [2]\n*j, k = 1, 2\nl = 1\nl += 1\nm, n = 3, *o\n",
			[]string{"a : 1", "b : 1", "c = 1", "d = 2", "e : g()", "f : g()", "h = 1", "i = 2", "j : 1, 2", "k : 1, 2", "l = 1", "l : 1", "m : 3, *o", "n : 3, *o"}},
		{"conditions", "A = 1\nif x:\n    A = 2\nB = 1\nif x:\n    B = 2\nB = 3\nif x:\n    C = 1\nelse:\n    C = 2\ntry:\n    D = 1\nexcept E:\n    pass\nwith x:\n    F = 1\nfor G in x:\n    H = 1\n",
			[]string{"A : 1", "A : 2", "B = 1", "B = 2", "B = 3", "C : 1", "C : 2", "D = 1", "F = 1", "G : G", "H = 1"}},
		{"classes", "class A(B, c.D, metaclass=M):\n    x: int = 1\n    y = 2\n    z: int\n    class N:\n        x = 3\n    if u:\n        v = 4\n",
			[]string{"A.x = 1", "A.y = 2", "A.N.x = 3", "A.v = 4"}},
		{"fields", "class A:\n    a: int = field(default=1)\n    b: list = dataclasses.field(default_factory=lambda: [1, 2])\n    c: list = field(default_factory=list)\n" +
			"    d: int = field(init=False)\n    e: int = Field(5, gt=1)\n    f: int = attr.ib(default=6)\n    g: int = field(repr=False, default=(7))\nh = field(default=1)\n",
			[]string{"A.a = 1", "A.b = [1, 2]", "A.c : list", "A.e = 5", "A.f = 6", "A.g = 7", "h : field(default=1)", "field().default = 1"}},
		{"methods", "class A:\n    def __init__(self, n=1, *a, k: int = 2, r):\n        self.x = 3\n        self.y: int = 4\n        x = 5\n        self.z.w = 6\n        other.x = 7\n" +
			"        if n:\n            self.x = 8\n        self.n = n\n    @staticmethod\n    def make(p, /, q=9): p.x = 1\n",
			[]string{"A.__init__().n = 1", "A.__init__().k = 2", "A.__init__.x : 3", "A.__init__.y = 4", "A.__init__.x : 8", "A.__init__.n : n", "A.make().q = 9", "A.make.x = 1"}},
		{"functions", "def build(name, size=64, *, depth=(1, 2), **kw):\n    size = 2\n    def inner(a=3): pass\n    class C:\n        b = 4\nasync def go(n=5): pass\n",
			[]string{"build().size = 64", "build().depth = [1, 2]", "build().inner().a = 3", "build().C.b = 4", "go().n = 5"}},
		{"mappings", "C = {'data': {'b': 64, 'n': [1]}, 'a.b': 2, 3: 4, 'z': 5}\nD = dict(a=1, b=dict(c=2), **x)\nE = edict({'a': 1})\nF = SimpleNamespace(a=1)\nG = {'a': 1, **H}\nI = {**H, 'a': 1}\n",
			[]string{"C : {'data': {'b': 64, 'n': [1]}, 'a.b': 2, 3: 4, 'z': 5}", "C.data : {'b': 64, 'n': [1]}", "C.data.b : 64", "C.data.n : [1]", `C.a\.b : 2`, "C.z = 5",
				"D : dict(a=1, b=dict(c=2), **x)", "D.a : 1", "D.b : dict(c=2)", "D.b.c : 2",
				"E : edict({'a': 1})", "E : {'a': 1}", "E.a = 1", "F : SimpleNamespace(a=1)", "F.a = 1", "G : {'a': 1, **H}", "G.a : 1", "I : {**H, 'a': 1}", "I.a = 1"}},
		{"assignments into", "C = {'a': 1}\nC['a'] = 2\nC['b']['c'] = 3\n_C.MODEL.NAME = 'x'\nC[0] = 1\nclass K:\n    a = 1\nK.a = 2\nC[i] = 4\n",
			[]string{"C : {'a': 1}", "C.a = 1", "C.a = 2", "C.b.c = 3", `_C.MODEL.NAME = "x"`, "K.a = 1", "K.a : 2"}},
		{"calls", "def get():\n    x = FGVC(train=t, size=448, resize=550)\n    return a.b.c(1, k=2)\nprint(1, end='')\nprint(2, end='x')\n",
			[]string{"get().FGVC().train : t", "get().FGVC().size = 448", "get().FGVC().resize = 550", `get().a\.b\.c().k = 2`, "print().end : ''", "print().end : 'x'"}},
		{"a call of what is declared", "def make(size=64): pass\nx = make(size=32)\ny = other(size=1)\n", []string{"make().size = 64", "x : make(size=32)", "y : other(size=1)", "other().size = 1"}},
		{"strange layout", "\ufeffA = 1\r\nif 1:\r\n\tB = 'ä'; C = 2\r\n\fD = '€😀', 3\r\nE = '''x\r\ny'''; F = 4\n# ü\rG = 5\\\r\n\nH = \\\n 6",
			[]string{"A = 1", `B = "\u00e4"`, "C = 2", `D = ["\u20ac\ud83d\ude00", 3]`, `E = "x\ny"`, "F = 4", "G = 5", "H = 6"}},
		{"a coding cookie", "#!/usr/bin/env python\n# -*- coding: utf-8 -*-\nA = 'é'\n", []string{`A = "\u00e9"`}},
		{"a harmless cookie", "# vim: set fileencoding=latin-1 :\nA = 'e'\n", []string{`A = "e"`}},
		{"nothing", "", nil},
	}
	dir := t.TempDir()
	var paths []string
	for i, tt := range tests {
		paths = append(paths, filepath.Join(dir, fmt.Sprintf("%d.py", i)))
		write(t, dir, map[string]string{fmt.Sprintf("%d.py", i): tt.text})
	}
	each(t, func(t *testing.T, py interpreter) {
		for i, s := range Read(t.Context(), py.path, environ(), dir, paths) {
			if got := spelled(s); s.Problem != "" || !slices.Equal(got, tests[i].want) {
				t.Errorf("%s: %s\n got %q\nwant %q", tests[i].name, s.Problem, got, tests[i].want)
			}
		}
	})
}

func TestReadNames(t *testing.T) {
	s := read(t, mainPython(t), `import os, a.b, c.d as e
from . import config
from ..x.y import Z as W, V
@dataclass(frozen = True)
@reg.istry
class A(B, pkg . C, metaclass=M):
    class N(A): pass
def f():
    from late import *
    checkpoint(x)
    torch.utils.checkpoint(y); checkpoint(z)
    g().h(); q[0].r.s()
`)
	classes, _ := json.Marshal(s.Classes)
	imports, _ := json.Marshal(s.Imports)
	calls, _ := json.Marshal(s.Calls)
	for _, c := range [][2]string{
		{string(classes), `[{"name":"A","bases":["B","pkg . C"],"decorators":["dataclass(frozen = True)","reg.istry"],"line":6},{"name":"A.N","bases":["A"],"line":7}]`},
		{string(imports), `[{"module":"os","as":"os","line":1},{"module":"a.b","as":"a","line":1},{"module":"c.d","as":"e","line":1},{"module":".","name":"config","as":"config","line":2},` +
			`{"module":"..x.y","name":"Z","as":"W","line":3},{"module":"..x.y","name":"V","as":"V","line":3},{"module":"late","name":"*","as":"*","line":9}]`},
		{string(calls), `{".h":[12],".r.s":[12],"checkpoint":[10,11],"dataclass":[4],"g":[12],"torch.utils.checkpoint":[11]}`},
	} {
		if c[0] != c[1] {
			t.Errorf("got  %s\nwant %s", c[0], c[1])
		}
	}
}

// A file that cannot be read costs the others nothing.
func TestReadProblems(t *testing.T) {
	py := mainPython(t)
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"good.py": "A = 1\n", "broken.py": "A = 1\nclass (:\n", "latin.py": "# -*- coding: latin-1 -*-\nA = 'é'\n", "bytes.py": "A = '\xe9'\n", "zero.py": "A = 1\x00\n",
		"rot.py": "# coding: rot13\nN = 1\n", "deep.py": "A = " + strings.Repeat("(", 5000) + strings.Repeat(")", 5000) + "\n",
		"unary.py": "A = " + strings.Repeat("-", 30000) + "1\n", "long.py": "A = " + strings.Repeat("1+", 50000) + "1\n",
		"elif.py": "if a: A = 1\n" + strings.Repeat("elif a: A = 1\n", 2500), "big.py": "A = 1\n" + strings.Repeat("#", int(maxSource)), "tabs.py": "if 1:\n\tA = 1\n        B = 2\n",
		"last.py": "B = 2\n",
	})
	if err := exec.Command("mkfifo", filepath.Join(dir, "fifo.py")).Run(); err != nil {
		t.Fatal(err)
	}
	want := []struct{ file, says string }{
		{"good.py", ""}, {"broken.py", "line 2 is not Python 3"}, {"missing.py", "no such file"}, {"latin.py", "latin-1"}, {"bytes.py", "not UTF-8"}, {"zero.py", "zero byte"}, {"rot.py", "rot13"},
		{"deep.py", "*"}, {"unary.py", "*"}, {"long.py", "*"}, {"elif.py", "*"}, {"big.py", "larger than 4"}, {"tabs.py", "line 3"}, {".", "no file"}, {"fifo.py", "no file"}, {"last.py", ""},
	}
	var paths []string
	for _, w := range want {
		paths = append(paths, filepath.Join(dir, w.file))
	}
	for i, s := range Read(t.Context(), py, environ(), dir, paths) {
		says := want[i].says
		t.Logf("%s: %q, %d items", want[i].file, s.Problem, len(s.Items))
		switch {
		case s.Path != paths[i]:
			t.Errorf("%s stands for %s", s.Path, paths[i])
		case says == "*": // it depends on the version whether such a text is read, and on nothing else
		case (says == "") != (s.Problem == "") || !strings.Contains(s.Problem, says):
			t.Errorf("%s: problem %q, want %q", want[i].file, s.Problem, says)
		case says == "" && (len(s.Items) != 1 || s.SHA256 != sum(s.Text)):
			t.Errorf("%+v", s)
		case says != "" && (s.Text != nil || s.SHA256 != "" || s.Items != nil):
			t.Errorf("%s has a problem and a text", want[i].file)
		}
	}
}

// Nothing of what stands around is run: no module of the folder, no sitecustomize, no startup file, and no file itself.
func TestReadRunsNothing(t *testing.T) {
	dir := t.TempDir()
	mark := filepath.Join(dir, "mark")
	run := fmt.Sprintf("open(%q, 'w')\n", mark)
	write(t, dir, map[string]string{"a.py": run + "A = 1\n", "ast.py": run, "json.py": run, "sitecustomize.py": run, "usercustomize.py": run, "startup.py": run})
	env := environ("PYTHONPATH="+dir, "PYTHONSTARTUP="+dir+"/startup.py", "PYTHONINSPECT=1", "PYTHONHOME=/nonexistent")
	s := Read(t.Context(), mainPython(t), env, dir, []string{filepath.Join(dir, "a.py")})[0]
	if _, err := os.Stat(mark); err == nil || s.Problem != "" || len(s.Items) != 1 {
		t.Errorf("%v %+v", err, s)
	}
	if _, err := os.Stat(filepath.Join(dir, "__pycache__")); err == nil {
		t.Error("a .pyc was left")
	}
}

// Where the command's own interpreter cannot read, python3 on PATH does; where none can, the source says so.
func TestReadFallsBack(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a.py": "A = 1\n"})
	script := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := filepath.Dir(script("good/python3", "exec "+mainPython(t)+" \"$@\"\n"))
	old := script("old/python3", "echo '{\"python\": \"3.7.16\"}'\n")
	two := script("two/python", "echo 'Unknown option: -I' >&2; exit 2\n")
	dies := script("dies/python3", "echo '{\"python\": \"3.11.1\"}'; kill -SEGV $$\n")
	for _, tt := range []struct{ python, path, says string }{
		{two, good, ""}, {old, good, ""}, {"/nonexistent/python", good, ""}, {"", good, ""}, {"", filepath.Dir(old) + ":" + good, ""},
		{two, "/nonexistent", "Unknown option: -I"}, {old, "", "is Python 3.7.16"}, {"", "/nonexistent", "no Python 3.8"}, {dies, good, "ended while reading"},
	} {
		s := Read(t.Context(), tt.python, []string{"PATH=" + tt.path}, dir, []string{filepath.Join(dir, "a.py")})[0]
		if (s.Problem == "") != (tt.says == "") || !strings.Contains(s.Problem, tt.says) {
			t.Errorf("%q with PATH=%s: %q, want %q", tt.python, tt.path, s.Problem, tt.says)
		}
	}
}

// An interpreter that hangs is ended at the deadline, with what it started.
func TestReadDeadline(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"a.py": "A = 1\n"})
	python := filepath.Join(dir, "python3")
	if err := os.WriteFile(python, []byte("#!/bin/sh\nsleep 30 & echo $! > "+dir+"/pid\nwait\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	at := time.Now()
	s := Read(ctx, python, environ(), dir, []string{filepath.Join(dir, "a.py")})[0]
	if took := time.Since(at); took > 5*time.Second || !strings.Contains(s.Problem, "too long") {
		t.Errorf("%v: %q", took, s.Problem)
	}
	pid, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		state, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
		if err != nil || bytes.Contains(state, []byte(") Z ")) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Error("its child lives on")
}

// --- spans

// evaluate has Python evaluate texts by themselves, with ast.literal_eval, and gives back their values as JSON.
func evaluate(t *testing.T, py string, texts []string) []json.RawMessage {
	t.Helper()
	const script = `
import ast, json, sys
def plain(v):
    if isinstance(v, (tuple, list)): return [plain(e) for e in v]
    if isinstance(v, (set, frozenset)): return [plain(e) for e in sorted(v, key=repr)]
    if isinstance(v, dict): return {k: plain(e) for k, e in v.items()}
    return v
print(json.dumps([plain(ast.literal_eval(t)) for t in json.load(sys.stdin)]))
`
	input, _ := json.Marshal(texts)
	cmd := exec.Command(py, "-c", script)
	cmd.Stdin = bytes.NewReader(input)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("a span is no literal: %v %s", err, err.(*exec.ExitError).Stderr)
	}
	var values []json.RawMessage
	if err := json.Unmarshal(out, &values); err != nil {
		t.Fatal(err)
	}
	return values
}

func same(a, b json.RawMessage) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && x.String() == y.String()
}

// spans checks that the bytes of every literal are a literal of its value, and that an edit of any item changes nothing else.
func spans(t *testing.T, py string, sources []config.PythonSource, edits int, rng *rand.Rand) (literals, edited int) {
	t.Helper()
	var texts []string
	var items []config.PythonItem
	for _, s := range sources {
		for _, it := range s.Items {
			if it.Literal {
				texts, items = append(texts, string(s.Text[it.Start:it.End])), append(items, it)
			}
			if n := 1 + bytes.Count(s.Text[:it.Start], []byte("\n")); n != it.Line && !bytes.Contains(s.Text, []byte("\r")) {
				t.Errorf("%s: %s is said to stand on line %d, and stands on %d", s.Path, it.Path, it.Line, n)
			}
		}
	}
	for i, value := range evaluate(t, py, texts) {
		if !same(value, items[i].Value) {
			t.Errorf("%s: %q is %s, and is said to be %s", items[i].Path, texts[i], value, items[i].Value)
		}
	}
	// of each source one item is edited, in all sources at once; then they are read again
	dir := t.TempDir()
	for round := range edits {
		var paths []string
		var want []map[string]string
		for i, s := range sources {
			doc, err := config.OpenPython(&s)
			if err != nil {
				t.Fatal(err)
			}
			expect := map[string]string{}
			for _, it := range s.Items {
				text := string(s.Text[it.Start:it.End])
				if last, _ := s.Item(it.Path); last.Start == it.Start && last.End == it.End && !holds(s.Items, it) { // what holds others changes with them
					expect[it.Path] = fmt.Sprintf("%v %s", it.Literal, text)
				}
			}
			for range 10 {
				if len(s.Items) == 0 {
					break
				}
				it := s.Items[rng.IntN(len(s.Items))]
				to := []string{"12345", `"a longer text than before"`, "-1.5e-07", "None", "(1, 2)"}[rng.IntN(5)]
				if doc.Set(it.Path, to) == nil {
					expect[it.Path] = "true " + to
					edited++
					break
				}
			}
			path := filepath.Join(dir, fmt.Sprintf("%d-%d.py", round, i))
			if err := os.WriteFile(path, doc.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			paths, want = append(paths, path), append(want, expect)
		}
		for i, again := range Read(t.Context(), py, environ(), dir, paths) {
			if again.Problem != "" {
				t.Errorf("%s cannot be read after an edit: %s", sources[i].Path, again.Problem)
				continue
			}
			for path, spelled := range want[i] {
				it, _ := again.Item(path)
				if got := fmt.Sprintf("%v %s", it.Literal, again.Text[it.Start:it.End]); got != spelled {
					t.Errorf("%s: %s reads %s after an edit, want %s", sources[i].Path, path, got, spelled)
				}
			}
		}
	}
	return len(items), edited
}

// holds reports whether other items stand within one.
func holds(items []config.PythonItem, it config.PythonItem) bool {
	return slices.ContainsFunc(items, func(o config.PythonItem) bool {
		return o.Start >= it.Start && o.End <= it.End && o.Path != it.Path
	})
}

// The spans hold for the standard library, as many files of it as the time allows: every file of a stride that parses.
func TestSpansOfTheLibrary(t *testing.T) {
	if testing.Short() {
		t.Skip("edits a hundred files of the library of Python")
	}
	py := mainPython(t)
	out := start(t, "/", environ(), py, "-c", "import os; print(os.path.dirname(os.__file__))")
	lib := strings.TrimSpace(out.stdout)
	all, _ := filepath.Glob(filepath.Join(lib, "*.py"))
	deeper, _ := filepath.Glob(filepath.Join(lib, "*", "*.py"))
	all = append(all, deeper...)
	const most = 150
	var paths []string
	for i := 0; i < len(all); i += max(1, len(all)/most) {
		paths = append(paths, all[i])
	}
	var sources []config.PythonSource
	for _, s := range Read(t.Context(), py, environ(), "/", paths) {
		if s.Problem != "" {
			t.Logf("not read: %s: %s", s.Path, s.Problem)
			continue
		}
		sources = append(sources, s)
	}
	literals, edited := spans(t, py, sources, 1, rand.New(rand.NewPCG(1, 2)))
	t.Logf("%d of the %d files below %s, %d read; %d literals, %d edits", len(paths), len(all), lib, len(sources), literals, edited)
	if len(sources) < min(100, len(all)) || literals < 1000 || edited < len(sources)/3 {
		t.Error("too few to say anything")
	}
}

// The spans hold for sources that nobody would write.
func TestSpansOfRandomSources(t *testing.T) {
	each(t, func(t *testing.T, py interpreter) {
		rng := rand.New(rand.NewPCG(3, uint64(py.minor)))
		dir := t.TempDir()
		var paths []string
		for i := range 60 {
			path := filepath.Join(dir, fmt.Sprintf("%d.py", i))
			if err := os.WriteFile(path, []byte(random(rng)), 0o600); err != nil {
				t.Fatal(err)
			}
			paths = append(paths, path)
		}
		sources := Read(t.Context(), py.path, environ(), dir, paths)
		for _, s := range sources {
			if s.Problem != "" {
				text, _ := os.ReadFile(s.Path)
				t.Fatalf("%s: %q", s.Problem, text)
			}
		}
		rounds := 1
		if py.always {
			rounds = 5
		}
		literals, edited := spans(t, py.path, sources, rounds, rng)
		t.Logf("%d literals, %d edits", literals, edited)
	})
}

// random writes a source of assignments in every layout that the tokenizer knows.
func random(rng *rand.Rand) string {
	pick := func(s ...string) string { return s[rng.IntN(len(s))] }
	var value func(depth int) string
	value = func(depth int) string {
		switch n := rng.IntN(16); {
		case n < 3:
			return pick("0", "1", "-1", "12_000", "0x1F", "0b1", "0o17", "- 3", "+4", "9999999999999999999")
		case n < 5:
			return pick("1.", ".5", "1e-4", "-2.5E+3", "1_0.0_1", "1e999")
		case n < 6:
			return pick("True", "False", "None", "...")
		case n < 9:
			return pick("''", `"a"`, `'ä€😀'`, `r'\d'`, `'\n\x41\u00e9'`, `"it's"`, `'#'`, `u'x'`, "'''a\nb\"c'''", `"""\
"""`, `'a' "b"`, "'x'\\\n'y'", `b'x'`, "f'{1}'", `'\ud800'`)
		case n < 10:
			return "(" + value(depth+1) + ")"
		case depth > 2:
			return "7"
		case n < 11:
			return "[" + value(depth+1) + pick(",", ", ", " ,\n") + value(depth+1) + pick("", ",") + "]"
		case n < 12:
			return "(" + value(depth+1) + "," + pick("", " ", "\n# ü\n") + value(depth+1) + ")"
		case n < 13:
			return "{" + pick("'k'", "'ä.b'", "1", "'a'") + pick(":", " : ") + value(depth+1) + pick("", ", 'z': "+value(depth+1)) + "}"
		case n < 14:
			return "dict(a=" + value(depth+1) + pick("", ", b = "+value(depth+1)) + ")"
		case n < 15:
			return pick("f(x)", "a + b", "lambda: 1", "[i for i in x]", "x if y else 2", "g(k=3, l=(4))", "-x")
		default:
			return "{" + value(3) + ", 2}"
		}
	}
	name := func() string { return pick("a", "b", "c", "größe", "LONG_NAME") + fmt.Sprint(rng.IntN(9)) }
	var b strings.Builder
	if rng.IntN(5) == 0 {
		b.WriteString("\ufeff")
	}
	var block func(indent string, depth int)
	block = func(indent string, depth int) {
		defer func() { b.WriteString(indent + "pass\n") }()
		for range 1 + rng.IntN(5) {
			switch n := rng.IntN(14); {
			case n < 5:
				fmt.Fprintf(&b, "%s%s%s=%s%s", indent, name(), pick("", " ", ": int "), pick("", " ", " \\\n "), value(0))
				b.WriteString(pick("\n", "\n", " # é\n", ";\n", "; "+name()+" = "+value(0)+"\n"))
			case n < 6:
				fmt.Fprintf(&b, "%s%s = %s = %s\n", indent, name(), name(), value(0))
			case n < 7:
				fmt.Fprintf(&b, "%s%s, %s = %s, %s\n", indent, name(), name(), value(1), value(1))
			case n < 8:
				b.WriteString(indent + "# ü 😀\n" + pick("", "\n", "\f\n"))
			case depth > 2:
				b.WriteString(indent + "pass\n")
			case n < 10:
				fmt.Fprintf(&b, "%sclass %s(%s):\n", indent, name(), pick("", "B", "m.B, metaclass=M"))
				block(indent+pick("    ", "\t", " "), depth+1)
			case n < 12:
				fmt.Fprintf(&b, "%sdef %s(self, x=%s, *, y = %s):\n%s  self.%s = %s\n%s  return h(k=%s)\n", indent, name(), value(1), value(1), indent, name(), value(0), indent, value(1))
			case n < 13:
				b.WriteString(indent + "if x:\n")
				block(indent+"  ", depth+1)
			default:
				fmt.Fprintf(&b, "%s%s: int = field(%s=%s, repr=False)\n", indent, name(), pick("default", "default_factory"), pick("", "lambda: ")+value(1))
			}
		}
	}
	block("", 0)
	text := b.String()
	if rng.IntN(4) == 0 {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	return text
}

// What reading a file of ordinary size costs, start of the interpreter and all.
func TestReadIsQuick(t *testing.T) {
	var text strings.Builder
	for i := range 25 {
		fmt.Fprintf(&text, "@dataclass\nclass Config%d(Base):\n    \"\"\"Settings.\"\"\"\n    batch: int = 8\n    lr: float = 1e-4  # for SGD\n    size: Tuple[int, int] = (448, 448)\n    name: str = 'x'\n    def f(self):\n        return self.g(self.lr, k=1)\n\n", i)
	}
	least := time.Hour
	for range 5 {
		at := time.Now()
		if s := read(t, mainPython(t), text.String()); s.Problem != "" || len(s.Items) < 100 {
			t.Fatalf("%+v", s)
		}
		least = min(least, time.Since(at))
	}
	t.Logf("%d lines in %v", strings.Count(text.String(), "\n"), least)
	if least > 2*time.Second {
		t.Errorf("reading takes %v", least)
	}
}
