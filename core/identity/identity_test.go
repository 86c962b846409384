package identity

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
)

// A project is a folder with files, and the command that runs in it.
type project struct {
	t *testing.T
	s Subject
}

func newProject(t *testing.T, files map[string]string, args ...string) *project {
	t.Helper()
	p := &project{t, Subject{Masked: "***", Mask: func(args []string) []string {
		out := slices.Clone(args)
		for i := range out {
			if i > 0 && args[i-1] == "--token" {
				out[i] = "***"
			}
		}
		return out
	}, Command: job.Command{Args: args, Dir: t.TempDir(), Env: []string{"PATH=/usr/bin:/bin"}}}}
	for name, text := range files {
		p.write(name, text)
	}
	return p
}

func (p *project) write(name, text string) {
	p.t.Helper()
	path := filepath.Join(p.s.Command.Dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

func (p *project) take() *Identity { return Take(p.s, "salt") }

// code lists the paths of the code.
func (p *project) code() (paths []string) {
	for _, f := range p.take().Code {
		paths = append(paths, f.Path)
	}
	return paths
}

func wants(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// said are the differences, as a person reads them.
func said(all []Difference) (out []string) {
	for _, d := range all {
		out = append(out, d.String())
	}
	return out
}

func TestCode(t *testing.T) {
	python := func(files map[string]string, args ...string) *project {
		return newProject(t, files, append([]string{"python3"}, args...)...)
	}
	for name, tt := range map[string]struct {
		p    *project
		want []string
	}{
		"imports lead on, and a file that nothing imports is no part": {python(map[string]string{
			"train.py": "import model.net\nfrom tools import log as l, none\n", "model/__init__.py": "",
			"model/net.py":   "from . import parts\nfrom ..other import x\n",
			"model/parts.py": "import torch, os\n", "tools/log.py": "", "unused.py": ""}, "train.py"),
			[]string{"model/__init__.py", "model/net.py", "model/parts.py", "tools/log.py", "train.py"}},
		"a name that is computed leads to what lies beside": {python(map[string]string{
			"train.py": "import archs\n", "archs/__init__.py": "import importlib\n" +
				"for m in names: importlib.import_module(f'archs.{m}')\n",
			"archs/a_arch.py": "import shared\n", "archs/more/b_arch.py": "", "shared.py": "", "unused.py": ""},
			"train.py"),
			[]string{"archs/__init__.py", "archs/a_arch.py", "archs/more/b_arch.py", "shared.py", "train.py"}},
		"a recipe names a module": {python(map[string]string{
			"main.py":       "from tools.util import make\n",
			"tools/util.py": "import importlib\ndef make(c): return importlib.import_module(c)\n",
			"c.yaml":        "model:\n  target: ldm.models.Net\n", "ldm/models.py": "", "ldm/unused.py": ""}, "main.py",
			"--base", "c.yaml"),
			[]string{"ldm/models.py", "main.py", "tools/util.py"}},
		"a module, and what is compiled beside it": {python(map[string]string{
			"pkg/__init__.py": "", "pkg/train.py": "from . import ops\n", "pkg/ops.py": "", "pkg/kernel.cu": "x",
			"pkg/notes.txt": ""}, "-m", "pkg.train"),
			[]string{"pkg/__init__.py", "pkg/kernel.cu", "pkg/ops.py", "pkg/train.py"}},
		"a shell script and the script that it starts": {newProject(t, map[string]string{
			"run.sh": "python3 train.py --lr $LR \"$@\"\n", "train.py": ""}, "bash", "run.sh"), []string{"run.sh",
			"train.py"}},
		"circles": {python(map[string]string{"train.py": "import a\n", "a.py": "import b\n",
			"b.py": "import a, train\n"}, "train.py"),
			[]string{"a.py", "b.py", "train.py"}},
	} {
		got := tt.p.code()
		for i, path := range got {
			if rel, err := filepath.Rel(tt.p.s.Command.Dir, path); filepath.IsAbs(path) && err == nil {
				got[i] = rel
			}
		}
		got = slices.DeleteFunc(got, func(p string) bool { return p == "pkg/__init__.py" })
		want := slices.DeleteFunc(tt.want, func(p string) bool { return p == "pkg/__init__.py" })
		wants(t, name, got, want...)
	}
}

// An editable package and a folder of PYTHONPATH hold code of the project, too.
func TestCodeElsewhere(t *testing.T) {
	p := newProject(t, map[string]string{"project/train.py": "import lib, more\n", "src/lib.py": "",
		"path/more.py": "",
		"env/lib/python3.11/site-packages/lib.pth": "../../../../src\n", "env/bin/python": "#!/bin/sh\n"},
		"../env/bin/python", "train.py")
	top := p.s.Command.Dir
	p.s.Command.Dir = filepath.Join(top, "project")
	p.s.Command.Env = append(p.s.Command.Env, "PYTHONPATH="+filepath.Join(top, "path"))
	got := p.code()
	for i := range got {
		got[i] = filepath.Base(got[i])
	}
	slices.Sort(got)
	wants(t, "code", got, "lib.py", "more.py", "train.py")
}

// Packages that another environment lends are installed packages: their versions count, and their source is not read.
func TestLentPackages(t *testing.T) {
	const site = "lib/python3.11/site-packages/"
	p := newProject(t, map[string]string{"project/train.py": "import big, wide, base, plain, mine\n",
		"project/mine.py":                 "",
		"project/mine-1.dist-info/RECORD": "", "apps/plain.py": "", "apps/plain-5.dist-info/RECORD": "",
		"env/bin/python": "#!/bin/sh\n", "env/" + site + "more.pth": "../../../../other/" + site + "\n",
		"env/pyvenv.cfg":                      "home = BASE/bin\ninclude-system-site-packages = true\n",
		"other/" + site + "big/__init__.py":   "",
		"module/" + site + "wide/__init__.py": "", "base/" + site + "base/__init__.py": "",
		"env/" + site + "own-1.dist-info/x": "", "other/" + site + "big-2.dist-info/x": "",
		"module/" + site + "wide-3.dist-info/x": "", "base/" + site + "base-4.dist-info/x": ""},
		"../env/bin/python", "train.py")
	top := p.s.Command.Dir
	cfg := "home = " + top + "/base/bin\ninclude-system-site-packages = true\n"
	if err := os.WriteFile(filepath.Join(top, "env/pyvenv.cfg"), []byte(cfg), 0o644); err != nil {
		t.Fatal(err)
	}
	p.s.Command.Dir = filepath.Join(top, "project")
	p.s.Command.Env = append(p.s.Command.Env,
		"PYTHONPATH="+filepath.Join(top, "module", site)+":"+filepath.Join(top, "apps"))
	wants(t, "code", p.code(), "mine.py", "train.py")
	wants(t, "packages", p.take().Packages, "base 4", "big 2", "own 1", "plain 5", "wide 3")
}

func TestCommit(t *testing.T) {
	const hash = "0123456789abcdef0123456789abcdef01234567"
	for name, files := range map[string]map[string]string{
		"loose": {".git/HEAD": "ref: refs/heads/main\n", ".git/refs/heads/main": hash + "\n"},
		"packed": {".git/HEAD": "ref: refs/heads/main\n",
			".git/packed-refs": "# pack-refs\n" + hash + " refs/heads/main\n"},
		"detached": {".git/HEAD": hash + "\n"},
	} {
		files["sub/train.py"] = ""
		if got := newProject(t, files, "python3", "sub/train.py").take().Commit; got != hash {
			t.Errorf("%s: commit %q", name, got)
		}
	}
	for name, head := range map[string]string{"climbs": "ref: refs/../../../etc/passwd\n", "no hash": "x\n"} {
		p := newProject(t, map[string]string{".git/HEAD": head, "train.py": ""}, "python3", "train.py")
		if got := p.take().Commit; got != "" {
			t.Errorf("%s: commit %q", name, got)
		}
	}
}

func TestEnvironment(t *testing.T) {
	p := newProject(t, map[string]string{
		"train.py": "import os\nos.environ['SEED']; os.getenv(\"STEPS\", 3)\n'FLAG' in os.environ\n" +
			"# os.environ['COMMENT']\n" +
			"os.environ['HOME']; os.environ['RANK']; os.environ.get('WANDB_NAME')\n",
		"c.yaml": "root: ${oc.env:ROOT,/data}\n"}, "python3", "train.py", "--config", "c.yaml")
	for _, name := range []string{"SEED", "STEPS", "FLAG", "COMMENT", "HOME", "RANK", "WANDB_NAME", "ROOT",
		"OTHER", "PYTHONHASHSEED"} {
		p.s.Command.Env = append(p.s.Command.Env, name+"=1")
	}
	wants(t, "variables", p.take().Env, "FLAG=1", "PYTHONHASHSEED=1", "ROOT=1", "SEED=1", "STEPS=1")
	was := p.take()
	p.s.Command.Env = append(p.s.Command.Env, "SEED=2", "OTHER=2")
	wants(t, "changed", said(Compare(was, p.take(), Past{})), "SEED was 1 and is now 2")
}

// A secret is kept as a hash that differs where the secret does, and never as itself.
func TestSecrets(t *testing.T) {
	p := newProject(t, map[string]string{"train.py": ""}, "python3", "train.py", "--token", "hunter2")
	was := p.take()
	if text := strings.Join(was.Args, " "); strings.Contains(text, "hunter2") || !strings.Contains(text, "hidden:") {
		t.Errorf("arguments %q", text)
	}
	if what := Compare(was, p.take(), Past{}); len(what) > 0 {
		t.Errorf("the same secret differs: %v", said(what))
	}
	other := Take(p.s, "another salt")
	if other.Args[3] == was.Args[3] || other.Salted(p.s, "salt").Args[3] != was.Args[3] {
		t.Errorf("the salt does not count: %q, %q", was.Args, other.Args)
	}
	p.s.Command.Args[3] = "hunter3"
	if what := Compare(was, p.take(), Past{}); len(what) != 1 || what[0].Kind != Arguments || what[0].Name != "--token" {
		t.Errorf("another secret: %v", said(what))
	}
}

func TestRecipes(t *testing.T) {
	p := newProject(t, map[string]string{"train.py": "",
		"conf/a.yaml": "defaults:\n  - b.yaml\nval: conf/c.toml\n", "conf/b.yaml": "x: 1\n",
		"conf/c.toml": "y = 1\n", "conf/unused.yaml": ""}, "python3", "train.py", "--cfg=conf/a.yaml")
	var paths []string
	for _, f := range p.take().Recipes {
		paths = append(paths, f.Path)
	}
	wants(t, "recipes", paths, "conf/a.yaml", "conf/b.yaml", "conf/c.toml")
	was := p.take()
	p.write("conf/b.yaml", "x: 2\n")
	wants(t, "changed", said(Compare(was, p.take(), Past{})), "conf/b.yaml has changed")
	// launch holds the text that a plugin has read: the run goes on with that
	p.s.Job = &job.Job{Command: p.s.Command, Files: []job.File{{Path: "conf/b.yaml", Text: []byte("x: 1\n")}}}
	wants(t, "held", said(Compare(was, p.take(), Past{})))
}

func TestData(t *testing.T) {
	p := newProject(t, map[string]string{"train.py": "", "data/a": "1", "data/sub/b": "2", "runs/old": "",
		"list.txt": "a\n",
		"meta.bin": strings.Repeat("x", smallFile+1)}, "python3", "train.py", "--data", "data", "--out", "runs",
		"--list=list.txt",
		"--meta", "meta.bin", "--here", ".", "--absent", "none")
	var paths []string
	for _, d := range p.take().Data {
		paths = append(paths, d.Path)
	}
	wants(t, "data", paths, "data", "list.txt", "meta.bin")
	was := p.take()
	later := time.Now().Add(time.Hour)
	touch := func(name string) {
		if err := os.Chtimes(filepath.Join(p.s.Command.Dir, name), later, later); err != nil {
			t.Fatal(err)
		}
	}
	touch("data/a")
	wants(t, "a small file counts by its content", said(Compare(was, p.take(), Past{})))
	touch("meta.bin")
	wants(t, "a large file counts by its size and time", said(Compare(was, p.take(), Past{})), "meta.bin has changed")
	was = p.take()
	p.write("data/sub/b", "3")
	p.write("data/c", "")
	p.write("list.txt", "b\n")
	wants(t, "changed", said(Compare(was, p.take(), Past{})), "data/c is new", "data/sub/b has changed",
		"list.txt has changed")
	if err := os.RemoveAll(filepath.Join(p.s.Command.Dir, "data/sub")); err != nil {
		t.Fatal(err)
	}
	wants(t, "gone", said(Compare(was, p.take(), Past{})), "data/c is new", "data/sub/b is no longer there",
		"list.txt has changed")
}

// What a run itself writes into a folder that it names is no change of its data.
func TestOwnData(t *testing.T) {
	begin := func(declared bool) *project {
		p := newProject(t, map[string]string{"train.py": "", "data/a": "1"}, "python3", "train.py", "--data", "data")
		if declared {
			p.s.Job = &job.Job{Command: p.s.Command, Data: []job.Data{{At: config.Address{Path: "--data"},
				Path: "data"}}}
		}
		return p
	}
	for _, declared := range []bool{false, true} {
		p := begin(declared)
		was := p.take()
		p.write("data/train.own", "x")
		left := was.Again(p.s)
		wants(t, "its own", said(Compare(was, p.take(), Past{Left: left})))
		p.write("data/train.own", "y")
		wants(t, "its own, again", said(Compare(was, p.take(), Past{Left: left})))
		p.write("data/a", "2")
		got := said(Compare(was, p.take(), Past{Left: left}))
		if declared {
			wants(t, "declared data", got, "data/a has changed")
		} else {
			wants(t, "an output", got)
		}
		// launch was killed: what was written until its last output may be the run's own
		p = begin(declared)
		was = p.take()
		p.write("data/train.own", "x")
		wants(t, "before the end", said(Compare(was, p.take(), Past{Until: time.Now().Add(time.Second)})))
		wants(t, "after the end", said(Compare(was, p.take(), Past{Until: time.Now().Add(-time.Hour)})),
			"data/train.own is new")
	}
}

// A folder that links in circles, one with very many files, and a deadline end.
func TestDataEnds(t *testing.T) {
	p := newProject(t, map[string]string{"train.py": "", "data/a": "1"}, "python3", "train.py", "--data", "data")
	for _, name := range []string{"x", "y", "z"} {
		if err := os.Symlink(".", filepath.Join(p.s.Command.Dir, "data", name)); err != nil {
			t.Fatal(err)
		}
	}
	if d := p.take().Data; len(d) != 1 || d[0].Files != 1 {
		t.Errorf("circles: %+v", d)
	}
	for i := range 3 * mostEntries {
		p.write(filepath.Join("data", "many", string(rune('a'+i%26)), string(rune('a'+i/26%26)),
			string(rune('a'+i/676))), "x")
	}
	was := p.take()
	if d := was.Data[0]; d.Files != 3*mostEntries+1 || len(d.Parts) > mostEntries {
		t.Errorf("%d files in %d parts", d.Files, len(d.Parts))
	}
	p.write("data/many/a/a/a", "y")
	if what := Compare(was, p.take(), Past{}); len(what) != 1 {
		t.Errorf("one of many files: %v", said(what))
	}
	p.s.Deadline = time.Now().Add(-time.Second)
	if id := p.take(); len(id.Data) != 0 || !slices.Contains(id.Unknown, "data data") || len(Compare(was, id,
		Past{})) != 0 {
		t.Errorf("after the deadline: %+v", id)
	}
}

// The cache gives what the files have, also where one was written with the same size.
func TestCache(t *testing.T) {
	p := newProject(t, map[string]string{"train.py": "import a\n", "a.py": "X = 1\n", "b.py": ""}, "python3",
		"train.py")
	p.s.Cache = filepath.Join(p.s.Command.Dir, "cache")
	old := time.Now().Add(-time.Hour)
	for _, name := range []string{"train.py", "a.py"} {
		if err := os.Chtimes(filepath.Join(p.s.Command.Dir, name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	was := p.take()
	p.write("a.py", "X = 2\n")
	if what := Compare(was, p.take(), Past{}); len(what) != 1 || what[0].Name != "a.py" {
		t.Errorf("after a change: %v", said(what))
	}
	p.write("train.py", "import b\n")
	wants(t, "after another import", p.code(), "b.py", "train.py")
}

func TestRanks(t *testing.T) {
	for name, tt := range map[string]struct {
		args    []string
		env     string
		devices int
		want    int64
	}{
		"a launcher":             {[]string{"torchrun", "--nproc_per_node=4", "train.py"}, "", 8, 4},
		"a launcher that asks":   {[]string{"torchrun", "--nproc_per_node=gpu", "train.py"}, "", 2, 2},
		"it does not know":       {[]string{"torchrun", "--nproc_per_node=gpu", "train.py"}, "", 0, 0},
		"by the environment":     {[]string{"python3", "train.py"}, "WORLD_SIZE=16", 1, 16},
		"one process, no plugin": {[]string{"python3", "train.py"}, "", 4, 0},
	} {
		p := newProject(t, map[string]string{"train.py": ""}, tt.args...)
		p.s.Devices, p.s.Command.Env = tt.devices, append(p.s.Command.Env, tt.env)
		if got := p.take().Ranks; got != tt.want {
			t.Errorf("%s: %d ranks, want %d", name, got, tt.want)
		}
	}
}

// What one of two identities does not know is not compared.
func TestUnknown(t *testing.T) {
	p := newProject(t, map[string]string{"train.py": ""}, "python3", "train.py")
	was := p.take()
	now := *was
	now.Unknown, now.Code, now.Packages = []string{"code", "packages"}, nil, []string{"other 1"}
	if what := Compare(was, &now, Past{}); len(what) > 0 {
		t.Errorf("%v", said(what))
	}
	if Compare(nil, was, Past{}) != nil {
		t.Error("a run without an identity differs")
	}
}
