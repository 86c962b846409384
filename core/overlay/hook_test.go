package overlay

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/config"
)

// main is the interpreter that every test must have.
func mainPython(t testing.TB) string {
	t.Helper()
	path := os.Getenv("LAUNCH_TEST_PYTHON")
	if path == "" {
		path = "/usr/bin/python3"
	}
	if out, err := exec.Command(path, "-c", "import sys; assert sys.version_info >= (3, 8)").CombinedOutput(); err != nil {
		t.Fatalf("these tests need a Python 3.8 or later: set LAUNCH_TEST_PYTHON (%s: %v %s)", path, err, out)
	}
	return path
}

type interpreter struct {
	path, version string
	minor         int
	always        bool // it is the one that must be there, which is tested at length
}

var others = sync.OnceValue(func() (found []interpreter) {
	home, _ := os.UserHomeDir()
	paths, _ := filepath.Glob(filepath.Join(home, ".pyenv/versions/*/bin/python3"))
	for _, path := range paths {
		if p, err := version(path); err == nil {
			found = append(found, p)
		}
	}
	return found
})

func version(path string) (interpreter, error) {
	out, err := exec.Command(path, "-S", "-c", "import sys; print('%d.%d.%d' % sys.version_info[:3])").Output()
	p := interpreter{path: path, version: strings.TrimSpace(string(out))}
	fmt.Sscanf(p.version, "3.%d", &p.minor)
	return p, err
}

// turn reports whether the i-th of many cases is an interpreter's: the one that must be there takes all, the others a third
// each, so that the tests stay short and every case has several interpreters.
func (py interpreter) turn(i int) bool { return py.always || (i+py.minor)%3 == 0 }

// each runs a test under the interpreter that must be there and, unless -short, all of 3.8 or later that pyenv has.
func each(t *testing.T, f func(t *testing.T, py interpreter)) {
	t.Helper()
	p, err := version(mainPython(t))
	if err != nil {
		t.Fatal(err)
	}
	p.always = true
	ps := []interpreter{p}
	for _, o := range others() {
		if o.minor >= 8 && !testing.Short() {
			ps = append(ps, o)
		}
	}
	for _, p := range ps {
		t.Run(p.version, func(t *testing.T) {
			t.Parallel()
			f(t, p)
		})
	}
}

func TestInterpreters(t *testing.T) {
	t.Logf("always: %s", mainPython(t))
	for _, p := range others() {
		t.Logf("found: %s (%s)", p.path, p.version)
	}
}

// environ is an environment without anything that bears on Python.
func environ(more ...string) []string {
	env := []string{"HOME=/nonexistent", "LANG=C.UTF-8", "PATH=" + os.Getenv("PATH")}
	return append(env, more...)
}

type outcome struct {
	stdout, stderr string
	code           int // of a signal: -1 and its number in signal
	signal         syscall.Signal
}

func start(t testing.TB, dir string, env []string, args ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env = dir, env
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if cmd.ProcessState == nil || ctx.Err() != nil {
		t.Fatalf("%q: %v %v", args, err, ctx.Err())
	}
	o := outcome{stdout: stdout.String(), stderr: stderr.String(), code: cmd.ProcessState.ExitCode()}
	if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		o.signal = ws.Signal()
	}
	return o
}

func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// edited sets an item of a source and returns what is to be installed.
func edited(t testing.TB, s config.PythonSource, path, to string) File {
	t.Helper()
	doc, err := config.OpenPython(&s)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Set(path, to); err != nil {
		t.Fatal(err)
	}
	return File{Path: s.Path, SHA256: s.SHA256, Text: doc.Bytes(), Names: []string{path}}
}

// took is the project's file at path with both settings edited.
func took(t testing.TB, path string) File {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return File{Path: path, SHA256: sum(text), Names: []string{"Config.batch", "LIMIT"},
		Text: bytes.Replace(bytes.Replace(text, []byte("= 64"), []byte("= 8"), 1), []byte("LIMIT = 4"), []byte("LIMIT = 9"), 1)}
}

func install(t testing.TB, env []string, files ...File) *Overlay {
	t.Helper()
	o, err := Install(filepath.Join(t.TempDir(), "attempt"), files, env)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// tree is every file of a folder, with its hash.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			var b []byte
			b, err = os.ReadFile(path)
			found[strings.TrimPrefix(path, dir)] = sum(b)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// shapes are the ways in which settings stand in source: what is edited, and an expression that then has the value want.
var shapes = []struct {
	name, source string
	path, to     string
	expr, want   string
	built        string // what the report says of the item; "" for nothing
}{
	{"a dataclass", "from dataclasses import dataclass\n@dataclass\nclass C:\n    b: int = 64\n", "C.b", "8", "C().b", "8", "8"},
	{"a derived field", "from dataclasses import dataclass\n@dataclass\nclass C:\n    b: int = 64\n    def __post_init__(self):\n        self.e = self.b * 4\n", "C.b", "8", "C().e", "32", "8"},
	{"an inherited field", "from dataclasses import dataclass\n@dataclass\nclass B:\n    b: int = 64\n@dataclass\nclass C(B):\n    n: int = 1\n", "B.b", "8", "C().b", "8", "8"},
	{"a field declared again", "from dataclasses import dataclass\n@dataclass\nclass B:\n    b: int = 32\n@dataclass\nclass C(B):\n    b: int = 64\n", "C.b", "8", "(B().b, C().b)", "(32, 8)", "8"},
	{"a frozen dataclass", "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass C:\n    b: int = 64\n", "C.b", "8", "C().b", "8", "8"},
	{"slots", "import sys\nfrom dataclasses import dataclass\n@dataclass(**({'slots': True} if sys.version_info >= (3, 10) else {}))\nclass C:\n    b: int = 64\n", "C.b", "8", "C().b", "8", "8"},
	{"kw_only", "import sys\nfrom dataclasses import dataclass\n@dataclass(**({'kw_only': True} if sys.version_info >= (3, 10) else {}))\nclass C:\n    b: int = 64\n", "C.b", "8", "C(b=9).b + C().b", "17", "9"},
	{"field(default=)", "import dataclasses\n@dataclasses.dataclass\nclass C:\n    b: int = dataclasses.field(default=64, metadata={'help': 'x'})\n", "C.b", "8", "[f.default for f in __import__('dataclasses').fields(C)]", "[8]", "8"},
	{"default_factory", "from dataclasses import dataclass, field\n@dataclass\nclass C:\n    b: tuple = field(default_factory=lambda: (64, 64))\n", "C.b", "(8, 8)", "C().b", "(8, 8)", "(8, 8)"},
	{"init=False", "from dataclasses import dataclass, field\n@dataclass\nclass C:\n    b: int = field(default=64, init=False)\n", "C.b", "8", "C().b", "8", "8"},
	{"a class attribute", "class C:\n    b = 64\n    c = b * 2\n", "C.b", "8", "(C.b, C().c)", "(8, 16)", "8"},
	{"what __init__ assigns", "class C:\n    def __init__(self, n=1):\n        self.b = 64\n        self.e = self.b * n\n", "C.__init__.b", "8", "C(2).e", "16", "8"},
	{"a class in a class", "class C:\n    class Train:\n        b = 64\n", "C.Train.b", "8", "C.Train.b", "8", "8"},
	{"a NamedTuple", "from typing import NamedTuple\nclass C(NamedTuple):\n    b: int = 64\n    n: int = 2\n", "C.b", "8", "C()", "C(b=8, n=2)", "8"},
	{"an Enum", "import enum\nclass C(enum.IntEnum):\n    b = 64\n", "C.b", "8", "int(C.b)", "8", ""},
	{"a metaclass", "class M(type):\n    pass\nclass C(metaclass=M):\n    b = 64\n    def __init__(self):\n        self.e = self.b\n", "C.b", "8", "C().e", "8", "8"},
	{"a constant", "B = 64\nE = B * 4\n", "B", "8", "(B, E)", "(8, 32)", "8"},
	{"a constant under a condition", "import os\nif os.sep:\n    B = 64\n", "B", "8", "B", "8", "8"},
	{"a constant in a try", "try:\n    import json\n    B = 64\nfinally:\n    pass\n", "B", "8", "B", "8", "8"},
	{"a dict", "C = {'data': {'b': 64, 'n': 1}, 'x': 2}\n", "C.data.b", "8", "C['data']['b'], C['x']", "(8, 2)", "8"},
	{"dict()", "C = dict(data=dict(b=64), x=2)\n", "C.data.b", "8", "C['data']", "{'b': 8}", "8"},
	{"a namespace", "from types import SimpleNamespace\nC = SimpleNamespace(b=64, n='x')\n", "C.b", "8", "C.b", "8", "8"},
	{"a dict assigned to", "C = {'b': 1}\nC['b'] = 64\n", "C.b", "8", "C", "{'b': 8}", "8"},
	{"an instance made on import", "from dataclasses import dataclass\n@dataclass\nclass C:\n    b: int = 64\nc = C()\n", "C.b", "8", "c.b", "8", "8"},
	{"a parameter's default", "def build(name, size=64, *, n=1):\n    return size * n\n", "build().size", "8", "build('x', n=2)", "16", "8"},
	{"a method's default", "class C:\n    def build(self, *, size=64):\n        return size\n", "C.build().size", "8", "C().build()", "8", "8"},
	{"a keyword of a call", "def make(size):\n    return size\ndef build():\n    return make(size=64)\n", "build().make().size", "8", "build()", "8", ""},
	{"a keyword of an imported function's call", "from textwrap import wrap\nB = wrap('a b c d', width=7)\nclass X: pass\n", "wrap().width", "1", "B", "['a', 'b', 'c', 'd']", ""},
	{"a string", "NAME = 'r50'\n", "NAME", `"r18"`, "NAME", "'r18'", "'r18'"},
	{"future annotations", "'''doc'''\nfrom __future__ import annotations\nfrom dataclasses import dataclass\n@dataclass\nclass C:\n    b: Undefined = 64\n", "C.b", "8", "(C().b, __doc__)", "(8, 'doc')", "8"},
}

// Every shape is followed where the file is imported, and where it is the script itself.
func TestShapes(t *testing.T) {
	each(t, func(t *testing.T, py interpreter) {
		dir := t.TempDir()
		var files []File
		var paths []string
		var program strings.Builder
		for i, s := range shapes {
			conf, script := fmt.Sprintf("conf_%d.py", i), fmt.Sprintf("main_%d.py", i)
			print := "print(repr((" + s.expr + ")))\n"
			write(t, dir, map[string]string{conf: s.source, script: s.source + print})
			fmt.Fprintf(&program, "ns = dict(vars(__import__(%q)))\nexec(%q, ns)\n", strings.TrimSuffix(conf, ".py"), print)
			paths = append(paths, filepath.Join(dir, conf), filepath.Join(dir, script))
		}
		for i, source := range Read(t.Context(), py.path, environ(), dir, paths) {
			files = append(files, edited(t, source, shapes[i/2].path, shapes[i/2].to))
		}
		write(t, dir, map[string]string{"program.py": program.String()})
		before := tree(t, dir)
		o := install(t, environ(), files...)

		out := start(t, dir, environ(o.Env...), py.path, "program.py")
		got := strings.Split(strings.TrimSpace(out.stdout), "\n")
		if out.code != 0 || out.stderr != "" || len(got) != len(shapes) {
			t.Fatalf("%+v", out)
		}
		for i, s := range shapes {
			if got[i] != s.want {
				t.Errorf("%s, imported: %s is %s, want %s", s.name, s.expr, got[i], s.want)
			}
			if !py.turn(i) {
				continue
			}
			out := start(t, dir, environ(o.Env...), py.path, fmt.Sprintf("main_%d.py", i))
			if out.code != 0 || strings.TrimSpace(out.stdout) != s.want || out.stderr != "" {
				t.Errorf("%s, as the script: %+v, want %s", s.name, out, s.want)
			}
		}
		r := o.Report()
		if missing := r.Missing(files); py.always && len(missing) > 0 || len(r.Errors)+len(r.Stale) > 0 {
			t.Errorf("missing %v, errors %v, stale %v", missing, r.Errors, r.Stale)
		}
		for i, f := range files {
			s := shapes[i/2]
			if r.Applied[f.Path] == 0 && !py.always {
				continue
			}
			if built, _ := r.Value(f.Path, s.path); built != s.built {
				t.Errorf("%s: the report says %q was built, want %q", f.Path, built, s.built)
			}
		}
		if after := tree(t, dir); !maps.Equal(before, after) {
			t.Errorf("files changed or were left: %v", diff(before, after))
		}
	})
}

func diff(a, b map[string]string) (out []string) {
	for name := range b {
		if a[name] != b[name] {
			out = append(out, name)
		}
	}
	for name := range a {
		if _, ok := b[name]; !ok {
			out = append(out, name+" (gone)")
		}
	}
	return out
}

const project = `
from dataclasses import dataclass

LIMIT = 4

@dataclass
class Config:
    batch: int = 64
    lr: float = 0.1
`

// ways are ways to start a program that prints "8 9" if it took the settings. Of the project's files are overlaid
// pkg/conf.py and the script named in over.
var ways = []struct {
	name  string
	files map[string]string
	over  string // "pkg/conf.py", where empty
	dir   string // below the project's
	args  []string
	minor int    // at least 3.minor
	plain string // what a plain run prints; "64 4" where empty
}{
	{name: "import", args: []string{"train.py"}},
	{name: "-m", args: []string{"-m", "pkg.cli"}},
	{name: "-m, itself", over: "pkg/self.py", args: []string{"-m", "pkg.self"}},
	{name: "-c", args: []string{"-c", "import pkg.cli; pkg.cli.main()"}},
	{name: "the script", over: "self.py", args: []string{"self.py"}},
	{name: "the script, absolute from elsewhere", over: "self.py", dir: "elsewhere", args: []string{"{dir}/self.py"}},
	{name: "the script, relative from elsewhere", over: "self.py", dir: "elsewhere", args: []string{"../self.py"}},
	{name: "a script of another name", over: "train", args: []string{"train"}},
	{name: "a link to the script", over: "self.py", args: []string{"linked"}},
	{name: "a linked folder", over: "self.py", args: []string{"../link/self.py"}},
	{name: "modules in a linked folder", args: []string{"../link/train.py"}},
	{name: "a linked module", over: "pkg/conf.py", args: []string{"aliased.py"}},
	{name: "a folder with __main__.py", over: "app/__main__.py", args: []string{"app"}},
	{name: "options", over: "self.py", args: []string{"-B", "-O", "-u", "-s", "-X", "utf8", "-W", "error", "self.py"}},
	{name: "-P", args: []string{"-P", "-c", "import sys; sys.path.insert(0, '.'); import pkg.cli; pkg.cli.main()"}, minor: 11},
	{name: "-P, the script", over: "self.py", args: []string{"-P", "self.py"}, minor: 11},
	{name: "spec_from_file_location", args: []string{"spec.py"}},
	{name: "reload", args: []string{"reload.py"}},
	{name: "run_path", args: []string{"runpath.py"}},
	{name: "run_module", args: []string{"-c", "import runpy; c = runpy.run_module('pkg.conf'); print(c['Config']().batch, c['LIMIT'])"}},
	{name: "cProfile", over: "self.py", args: []string{"-m", "cProfile", "-o", "/dev/null", "self.py"}, minor: 12},
	{name: "a child process", args: []string{"child.py"}},
	{name: "a child of its own script", over: "self.py", args: []string{"-c", "import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-u', 'self.py']))"}},
	{name: "fork", args: []string{"mp.py", "fork"}, plain: "64 4\n64 4"},
	{name: "spawn", args: []string{"mp.py", "spawn"}, plain: "64 4\n64 4"},
	{name: "forkserver", args: []string{"mp.py", "forkserver"}, plain: "64 4\n64 4"},
	{name: "fork, the script", over: "mpself.py", args: []string{"mpself.py", "fork"}, plain: "64 4\n64 4"},
	{name: "spawn, the script", over: "mpself.py", args: []string{"mpself.py", "spawn"}, plain: "64 4\n64 4"},
	{name: "forkserver, the script", over: "mpself.py", args: []string{"mpself.py", "forkserver"}, plain: "64 4\n64 4"},
	{name: "a loader that rewrites", args: []string{"rewriting.py"}},
}

const show = "    print(Config().batch, LIMIT, flush=True)\n"

var wayFiles = map[string]string{
	"pkg/__init__.py": "",
	"pkg/conf.py":     project,
	"pkg/cli.py":      "from .conf import Config, LIMIT\ndef main():\n" + show + "if __name__ == '__main__':\n    main()\n",
	"pkg/self.py":     project + "if __name__ == '__main__':\n" + show,
	"self.py":         project + "if __name__ == '__main__':\n" + show,
	"train":           project + "if __name__ == '__main__':\n" + show,
	"app/__main__.py": project + "if __name__ == '__main__':\n" + show,
	"train.py":        "import pkg.cli\npkg.cli.main()\n",
	"aliased.py":      "from alias import Config, LIMIT\nif 1:\n" + show,
	"spec.py": "import importlib.util as u\ns = u.spec_from_file_location('any.name', 'pkg/conf.py')\nm = u.module_from_spec(s)\n" +
		"import sys; sys.modules['any.name'] = m\ns.loader.exec_module(m)\nprint(m.Config().batch, m.LIMIT)\n",
	"reload.py":  "import importlib, pkg.conf as c\nc.LIMIT = 0\nimportlib.reload(c)\nprint(c.Config().batch, c.LIMIT)\n",
	"runpath.py": "import runpy\nc = runpy.run_path('pkg/conf.py', run_name='any')\nprint(c['LIMIT'] * 16 if c['LIMIT'] == 4 else c['Config'].batch, c['LIMIT'])\n",
	"child.py":   "import subprocess, sys\nsys.exit(subprocess.call([sys.executable, 'train.py']))\n",
	"mp.py": "import multiprocessing as mp, sys\nfrom pkg.cli import main\nif __name__ == '__main__':\n    main()\n" +
		"    p = mp.get_context(sys.argv[1]).Process(target=main)\n    p.start(); p.join(); sys.exit(p.exitcode)\n",
	"mpself.py": "import multiprocessing as mp, sys\n" + project + "def main():\n" + show + "if __name__ == '__main__':\n    main()\n" +
		"    p = mp.get_context(sys.argv[1]).Process(target=main)\n    p.start(); p.join(); sys.exit(p.exitcode)\n",
	"rewriting.py": `
import sys, importlib.machinery, importlib.util
class Loader(importlib.machinery.SourceFileLoader):
    def source_to_code(self, data, path, **kw):
        return compile(data + b"\nREWRITTEN = True\n", path, "exec", dont_inherit=True)
m = importlib.util.module_from_spec(importlib.util.spec_from_loader("c", Loader("c", "pkg/conf.py")))
sys.modules["c"] = m
m.__loader__.exec_module(m)
assert m.REWRITTEN
print(m.Config().batch, m.LIMIT)
`,
}

// lay writes a project twice over: with no .pyc, or with those that a plain run leaves.
func lay(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "project")
	write(t, dir, wayFiles)
	for link, to := range map[string]string{"linked": "self.py", "../link": dir, "alias.py": "pkg/conf.py"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "elsewhere"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Whatever loads the file gets the copy, with the original's .pyc there or not; no .pyc of the copy is left, and the next
// plain run sees the file itself.
func TestWays(t *testing.T) {
	each(t, func(t *testing.T, py interpreter) {
		shared := ""
		if !py.always { // one project with the .pyc of a plain run serves all ways
			shared = lay(t)
			start(t, shared, environ(), py.path, "train.py")
		}
		for i, w := range ways {
			if py.minor < w.minor || !py.turn(i) {
				continue
			}
			t.Run(w.name, func(t *testing.T) {
				dir := shared
				if py.always {
					dir = lay(t)
				}
				over := w.over
				if over == "" {
					over = "pkg/conf.py"
				}
				args := []string{py.path}
				for _, a := range w.args {
					args = append(args, strings.ReplaceAll(a, "{dir}", dir))
				}
				cwd := filepath.Join(dir, w.dir)
				plain, want := w.plain, ""
				if plain == "" {
					plain = "64 4"
				}
				want = strings.ReplaceAll(plain, "64 4", "8 9")
				warm := py.always && i%2 == 0 // with the .pyc of a plain run, or without; both orders over the list
				if warm {
					if out := start(t, cwd, environ(), args...); strings.TrimSpace(out.stdout) != plain || out.code != 0 {
						t.Fatalf("a plain run: %+v", out)
					}
				}
				before := tree(t, dir)
				f := took(t, filepath.Join(dir, over))
				o := install(t, environ(), f)
				out := start(t, cwd, environ(o.Env...), args...)
				if strings.TrimSpace(out.stdout) != want || out.code != 0 || out.stderr != "" {
					t.Errorf("%+v, want %s", out, want)
				}
				r := o.Report()
				if state, why := Verdict(r, []File{f}, true, time.Minute); state != Taken {
					t.Errorf("the verdict is %v: %s", state, why)
				}
				for name := range tree(t, dir) {
					if _, ok := before[name]; !ok && strings.Contains(name, strings.TrimSuffix(filepath.Base(over), ".py")+".cpython") {
						t.Errorf("%s was left", name)
					}
				}
				if !py.always || i%3 > 0 {
					return
				}
				if out := start(t, cwd, environ(), args...); strings.TrimSpace(out.stdout) != plain || out.code != 0 {
					t.Errorf("a plain run afterwards: %+v, want %s", out, plain)
				}
			})
		}
	})
}

// programs say all that they can see of how they were started; with an overlay that changes nothing they must say the same.
var programs = map[string]string{
	"state": `
import sys, os, inspect, traceback
hidden = {"_launch", "_functools", "_operator", "_collections", "_sha256", "_sha2", "sitecustomize"}
print(sys.argv, sys.path, sys.flags, getattr(sys, "orig_argv", 0))
print(sorted(set(sys.modules) - hidden), "sitecustomize" in sys.modules)
print([getattr(h, "__name__", h) for h in sys.path_hooks], sys.meta_path)
print({k: v for k, v in sys.path_importer_cache.items() if not str(v).startswith("FileFinder")})
print({k: repr(v) for k, v in globals().items() if k != "hidden"})
print(__loader__.path, __loader__.name, __loader__.get_filename("__main__"))
print(len(inspect.stack()), inspect.stack()[-1].filename, sys._getframe().f_back, sys._getframe().f_code.co_filename)
print(sys._getframe().f_locals is globals() or sys._getframe().f_locals == globals(), locals() is globals())
print(type(__builtins__), sys.modules["__main__"].__dict__ is globals())
traceback.print_stack()
import sysconfig, site
print(site.getsitepackages(), {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "LAUNCH_OVERLAY")})
`,
	"pickle": `
import pickle, dataclasses, inspect, copy
@dataclasses.dataclass
class C:
    """A comment."""
    a: int = 1
class D(C):
    pass
print(pickle.loads(pickle.dumps([C(), D(2)])), copy.deepcopy(C(3)), pickle.dumps(C()))
print(inspect.getsource(C), inspect.getsourcefile(C), inspect.getsourcelines(D), C.__module__, inspect.signature(C), inspect.getmodule(C))
print(C.__init__, C.__init__.__qualname__, C.__init__.__defaults__, C.__init__.__code__.co_varnames)
`,
	"typing": `
import dataclasses, typing, inspect
@dataclasses.dataclass
class C:
    a: "typing.Optional[int]" = 1
print(inspect.signature(C), typing.get_type_hints(C), typing.get_type_hints(C.__init__), inspect.getfullargspec(C.__init__), C.__doc__)
print(C(2), [C(a=3), C()])
try:
    C(1, 2)
except TypeError as e:
    print(e)
`,
	"raises": `
def f(n):
    if n:
        return f(n - 1)
    raise ValueError("é")
try:
    f(2)
except ValueError:
    raise KeyError(1)
`,
	"raises in a child thread":     "import threading\ndef f():\n    1/0\nt = threading.Thread(target=f, name='t')\nt.start(); t.join()\nprint('on')\n",
	"exits":                        "import sys, atexit\natexit.register(print, 'bye')\nsys.exit('no')\n",
	"exits 3":                      "import sys\nsys.exit(3)\n",
	"exits hard":                   "import os\nprint('x', flush=True)\nos._exit(4)\n",
	"interrupted":                  "import atexit\natexit.register(print, 'bye')\nraise KeyboardInterrupt\n",
	"excepthook":                   "import sys\nsys.excepthook = lambda t, v, tb: print(t, v, tb.tb_lineno, tb.tb_next, tb.tb_frame.f_back)\n1/0\n",
	"AttributeError":               "None.nothing\n",
	"warns":                        "import warnings\nwarnings.simplefilter('always')\nwarnings.warn('w')\nwarnings.warn('w', stacklevel=2)\nx = 1\nprint(x is 1)\n",
	"runpy":                        "import runpy, sys\nprint(runpy.__file__, runpy._run_module_as_main, sys.modules['runpy'] is runpy, hasattr(runpy, 'nothing'))\n",
	"imports a broken module":      "import broken\n",
	"imports a module that raises": "import raising\n",
	"imports none":                 "import nothing_of_that_name\n",
	"a failing init":               "import dataclasses\n@dataclasses.dataclass\nclass C:\n    a: int = 1\n    def __post_init__(self):\n        assert self.a > 1, self.a\nimport sys\ntry:\n    C()\nexcept AssertionError as e:\n    print(e)\nprint(C(2))\n",
	"a failing init, uncaught":     "import dataclasses\n@dataclasses.dataclass\nclass C:\n    a: int = 1\n    def __post_init__(self):\n        assert self.a > 1, self.a\nC()\n",
	"frames in an init":            "import sys, traceback\nclass C:\n    a = 1\n    def __init__(self, b=2):\n        self.b = b\n        print(sys._getframe(1).f_code.co_name)\n        traceback.print_stack()\nclass D(C):\n    def __init__(self):\n        super().__init__()\nprint(C.__init__.__code__.co_argcount, vars(C(3)), vars(D()))\n",
	"__future__":                   "'''doc'''\nfrom __future__ import annotations\nclass C:\n    a: Nothing = 1\nprint(C.__annotations__, __doc__, __annotations__)\nx: Nothing = 2\n",
	"a generator at the end":       "def g():\n    try:\n        yield\n    finally:\n        print('closed')\nx = g(); next(x)\nclass D:\n    def __del__(self): print('deleted', __name__)\nd = D()\n",
	"run_path of nothing":          "import runpy\nrunpy.run_path('nothing.py')\n",
	"its own json":                 "import json\nprint(json.__file__, json.OURS)\n",
	"a child":                      "import subprocess, sys\nsys.exit(subprocess.call([sys.executable, '-c', 'import sys; print(sys.path); sys.exit(5)']))\n",
	"eval at main":                 "def f():\n    return [k for k in globals() if not k.startswith('_')]\nprint(f(), eval('__name__'), [x for x in range(3)])\nexec('y = 1')\nprint(y, vars() is globals())\n",
}

var reAddress = regexp.MustCompile(`0x[0-9a-f]{6,}`)

// An overlay that changes nothing changes nothing: output, errors, exit, and all that a program can see.
func TestTransparent(t *testing.T) {
	each(t, func(t *testing.T, py interpreter) {
		for i, name := range slices.Sorted(maps.Keys(programs)) {
			text := programs[name]
			if !py.turn(i) && name != "state" {
				continue
			}
			t.Run(name, func(t *testing.T) {
				dir := t.TempDir()
				write(t, dir, map[string]string{"main.py": text, "broken.py": "def f(:\n    pass\n", "raising.py": "def f():\n    1/0\nf()\n"})
				if name == "its own json" {
					write(t, dir, map[string]string{"json.py": "OURS = True\n"})
				}
				path := filepath.Join(dir, "main.py")
				f := File{Path: path, SHA256: sum([]byte(text)), Text: []byte(text), Names: []string{"C.a", "x"}}
				o := install(t, environ(), f)
				for _, flags := range [][]string{nil, {"-O", "-X", "dev"}} {
					if flags != nil && (!py.always || i%3 > 0 && name != "state") {
						continue
					}
					args := slices.Concat([]string{py.path}, flags, []string{"main.py", "an argument"})
					want, got := start(t, dir, environ(), args...), start(t, dir, environ(o.Env...), args...)
					for _, o := range []*outcome{&want, &got} {
						o.stdout, o.stderr = reAddress.ReplaceAllString(o.stdout, "0x"), reAddress.ReplaceAllString(o.stderr, "0x")
					}
					if py.minor < 11 && (name == "run_path of nothing" || name == "a failing init, uncaught") { // one frame more in the traceback
						got.stderr, want.stderr = "", ""
					}
					if got != want {
						t.Errorf("%v: with an overlay\n%+v\nplain\n%+v", flags, got, want)
					}
				}
				if r := o.Report(); r.Applied[path] == 0 || len(r.Errors) > 0 {
					t.Errorf("it was not served: %+v", r)
				}
			})
		}
	})
}
