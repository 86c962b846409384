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

// What a run makes beside its code is no change of it; what its user writes there is one.
func TestMadeByTheRun(t *testing.T) {
	p := newProject(t, map[string]string{"train.py": "import importlib, ops\nimportlib.import_module(x)\n",
		"ops/__init__.py": "",
		"ops/helpers.cpp": "", "nets/a.py": "", "scores.json": "{}"}, "python3", "train.py", "--config", "made.json",
		"--metrics", "scores.json")
	was := p.take()
	p.write("runs/a/code/train.py", "import importlib\n")
	p.write("runs/a/code/nets/a.py", "")
	p.write("ops/helpers.so", "x")
	p.write("made.json", "{}")
	p.write("scores.json", "{1}")
	past := Past{Left: was.Again(p.s)}
	wants(t, "made by the run", said(Compare(was, p.take(), past)))
	wants(t, "launch was killed", said(Compare(was, p.take(), Past{Until: time.Now().Add(time.Second)})))
	p.write("nets/b.py", "")
	p.write("ops/helpers.cpp", "int x;")
	wants(t, "code", said(Compare(was, p.take(), past)), "nets/b.py is new", "ops/helpers.cpp has changed")
	p = newProject(t, map[string]string{"train.py": "try: import fast\nexcept ImportError: pass\nimport " +
		"importlib\nimportlib.import_module(x)\n"},
		"python3", "train.py", "--config", "c.json")
	was = p.take()
	p.write("fast/__init__.py", "")
	p.write("c.json", "")
	wants(t, "what an import names", said(Compare(was, p.take(), Past{Left: []Tree{}})),
		"fast/__init__.py is new", "c.json is new")
}

// Data that are laid there again are the same data: every file is another one, with the same content.
func TestStagedAgain(t *testing.T) {
	big := func(c string) string { return strings.Repeat(c, 3<<20) }
	p := newProject(t, map[string]string{"train.py": "", "set/a": big("a"), "set/b": big("b"), "one": big("c")},
		"python3", "train.py",
		"--data", "set", "--more", "one")
	was := p.take()
	at := time.Now()
	lay := func(name, text string) {
		t.Helper()
		at = at.Add(time.Minute)
		path := filepath.Join(p.s.Command.Dir, name)
		p.write(name+".part", text)
		if err := os.Rename(path+".part", path); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	lay("set/a", big("a"))
	wants(t, "one of two", said(Compare(was, p.take(), Past{})), "set/a has changed")
	lay("set/b", big("b"))
	lay("one", big("c"))
	wants(t, "all of them", said(Compare(was, p.take(), Past{})))
	lay("set/b", big("d"))
	lay("set/a", big("a"))
	wants(t, "other content", said(Compare(was, p.take(), Past{})), "set/a has changed", "set/b has changed")
	p.write("one", big("e"))
	lay("set/b", big("b"))
	wants(t, "written in place", said(Compare(was, p.take(), Past{})), "one has changed")
}

// Data in a folder of the job's own lie elsewhere in the next job.
func TestStagedElsewhere(t *testing.T) {
	p := newProject(t, map[string]string{"train.py": "import os\nos.environ['SET']\n"}, "python3", "train.py")
	one, two := t.TempDir(), t.TempDir()
	lay := func(dir, text string) {
		for name, n := range map[string]int{"a": 1, "large": 2 << 20} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Repeat(text, n)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		p.s.Command.Env = []string{"PATH=/usr/bin:/bin", "SET=" + dir}
	}
	lay(one, "x")
	was := p.take()
	lay(two, "x")
	wants(t, "both are there", said(Compare(was, p.take(), Past{})), "SET was "+one+" and is now "+two,
		one+" is no longer there")
	if err := os.RemoveAll(one); err != nil {
		t.Fatal(err)
	}
	wants(t, "the same elsewhere", said(Compare(was, p.take(), Past{})))
	lay(two, "y")
	wants(t, "others elsewhere", said(Compare(was, p.take(), Past{})), "SET was "+one+" and is now "+two,
		one+" is no longer there")
}

// What browsers, editors, loaders and other runs leave is no data.
func TestLeftBeside(t *testing.T) {
	p := newProject(t, map[string]string{"train.py": "", "set/a": "1", "tb/old": "", "wandb/old": "",
		"baseline/old": "", "train.log": ""},
		"python3", "train.py", "--data", "set", "--summary_dir", "tb", "--where", "wandb", "--name", "baseline",
		"--log-file", "train.log")
	p.s.Job = &job.Job{Command: p.s.Command, Data: []job.Data{{At: config.Address{Path: "--data"}, Path: "set"}}}
	was := p.take()
	for _, name := range []string{"set/.DS_Store", "set/.ipynb_checkpoints/a", "set/labels.cache", "set/.cache/x",
		"set/cache-1.arrow", "set/a~",
		"tb/new", "wandb/new", "baseline/new"} {
		p.write(name, "x")
	}
	p.write("train.log", "more")
	wants(t, "left beside", said(Compare(was, p.take(), Past{})))
	p.write("set/b", "")
	wants(t, "data", said(Compare(was, p.take(), Past{})), "set/b is new")
}

// A tool that was installed beside the project's packages decides no number; one that the project can use may.
func TestInstalledBeside(t *testing.T) {
	p := newProject(t, map[string]string{"train.py": "try: import fastops\nexcept ImportError: pass\n"},
		"env/bin/python", "train.py")
	site := "env/lib/python3.11/site-packages/"
	p.write("env/bin/python", "")
	p.write("env/pyvenv.cfg", "")
	install := func(name, metadata string) { p.write(site+name+".dist-info/METADATA", "Name: x\n"+metadata) }
	install("torch-2.1", "")
	install("ruff-1.0", "")
	was := p.take()
	for _, name := range []string{"black-1.0", "cowsay-2.0", "pytest_cov-1.0"} {
		install(name, "Requires-Dist: click>=8\nRequires-Dist: numpy; extra == 'all'\n")
	}
	if err := os.Rename(filepath.Join(p.s.Command.Dir, site+"ruff-1.0.dist-info"),
		filepath.Join(p.s.Command.Dir, site+"ruff-2.0.dist-info")); err != nil {
		t.Fatal(err)
	}
	wants(t, "tools", said(Compare(was, p.take(), Past{})))
	install("fastops-1.0", "")
	install("flash_attn-2.5", "")
	install("speedy-1.0", "Requires-Dist: torch (>=2)\n")
	install("cowsay-3.0", "")
	wants(t, "what may be used", said(Compare(was, p.take(), Past{})), "fastops is now 1.0 and was not set",
		"flash_attn is now 2.5 and was not set", "speedy is now 1.0 and was not set")
}

// Variables are read by other names of the environment, too; one that is set is not read.
func TestVariablesIn(t *testing.T) {
	for code, want := range map[string]string{
		"from os import environ as E, getenv as g\nE.get('A'), g('B')":     "A B",
		"env = os.environ\nx = env['A']\nenv.get(\n  'B')":                 "A B",
		"env = os.environ.copy()\nenv['A'] = '1'\nenv['B'] == '1'":         "B",
		"read = os.environ.get\nread('A')":                                 "A",
		"NAME = 'A'\nos.environ.get(NAME, '1')":                            "A",
		"os.environ['A'] = '1'\nos.environ['B'] == '1'\nos.getenv('C')":    "B C",
		"config = load(os.environ)\nconfig['A']":                           "",
		"if 'A' in os.environ: pass":                                       "A",
		"OTHER = 'A'\nos.environ.get(key)":                                 "",
		"os.environ.setdefault('A', '1')\nfor k in os.environ: k.get('B')": "A",
		"{k: v for k, v in os.environ.items() if k.startswith('APP_')}":    "APP_* APP_*",
		"if name.startswith('APP_'): os.getenv('A')":                       "A",
		"os.environ[f'APP_{name}']":                                        "APP_* APP_*",
		"os.environ.get('APP_' + name.upper())":                            "APP_ APP_* APP_*",
		"jsonargparse.ArgumentParser(default_env=True, env_prefix='APP')":  "APP* APP*",
		"@click.option('--lr', envvar='TRAIN_LR')":                         "TRAIN_LR",
		"class S(BaseSettings):\n    lr: float = 0.1\n":                    "LR lr",
	} {
		got := variablesIn(code)
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", code, got, want)
		}
	}
}

// A path counts that source makes of a name for its folder, and those that a pattern, a range or a prefix stands for.
func TestPathsOfData(t *testing.T) {
	p := newProject(t, map[string]string{"train.py": "import os, numpy\nfrom pathlib import Path\n" +
		"ROOT = os.path.dirname(__file__)\nTOP: Path = Path(__file__).resolve().parent\n" +
		"numpy.load(os.path.join(ROOT, 'split.npy'))\nvocab = TOP / 'words.txt'\n" +
		"open(os.path.join(ROOT, 'scores.txt'), 'w')\nds = load_dataset('json', data_files={'train': 'a.jsonl'})\n" +
		"ds = ImageFolder(root='images', transform=t)\n", "a.jsonl": "1", "images/1.png": "1",
		"split.npy": "1", "words.txt": "1", "scores.txt": "1", "shards/0.tar": "1", "shards/1.tar": "1", "x.parquet": "1",
		"glob/a.bin": "1", "one.txt": "1", "two.txt": "1"},
		"python3", "train.py", "--train", "shards/{0..1}.tar", "--val=file:x.parquet", "--extra", "glob/*.bin",
		"--both", "one.txt::two.txt", "--none", "none/{0..1}.tar")
	var paths []string
	for _, d := range p.take().Data {
		paths = append(paths, d.Path)
	}
	wants(t, "data", paths, "a.jsonl", "glob", "images", "one.txt", "shards", "split.npy", "two.txt", "words.txt",
		"x.parquet")
}

// Modules that a pattern finds, and one that is loaded by its path, are code.
func TestLoadedByPath(t *testing.T) {
	p := newProject(t, map[string]string{"sub/train.py": "import glob, importlib.util as u\n" +
		"for f in glob.glob('ops/*.py'):\n" +
		"    u.spec_from_file_location('x', f)\nu.spec_from_file_location('y', 'more/y.py')\n", "ops/a.py": "import far\n",
		"more/y.py": "", "far.py": "", "other/z.py": ""}, "python3", "sub/train.py")
	got := p.code()
	for _, path := range []string{"ops/a.py", "more/y.py", "far.py"} {
		if !slices.Contains(got, path) {
			t.Errorf("%s is missing in %q", path, got)
		}
	}
	if slices.Contains(got, "other/z.py") {
		t.Errorf("nothing leads to other/z.py: %q", got)
	}
}

// What the comments of a recipe name is no input of the run.
func TestComments(t *testing.T) {
	p := newProject(t, map[string]string{"train.py": "", "README.md": "1", "gen.py": "1",
		"other.yml": "a: 1", "d.bin": "1",
		"c.yml": "# see README.md, made by gen.py, as other.yml\ndata: d.bin  # not README.md\n  # other.yml\n",
		"c.ini": "; README.md\n"}, "python3", "train.py", "--cfg", "c.yml", "--ini", "c.ini")
	id, paths := p.take(), []string(nil)
	for _, d := range id.Data {
		paths = append(paths, d.Path)
	}
	for _, f := range id.Recipes {
		paths = append(paths, f.Path)
	}
	wants(t, "inputs", paths, "d.bin", "c.ini", "c.yml")
}

// Variables that begin as those that a loop takes are compared, also one that comes new; those of a cluster are not.
func TestStems(t *testing.T) {
	p := newProject(t, map[string]string{"train.py": "import os\nc = {k: v for k, v in os.environ.items() " +
		"if k.startswith(('APP_')) or k.startswith('APP_') or k.startswith('SLURM_')}\n"}, "python3", "train.py")
	p.s.Command.Env = []string{"APP_LR=1", "SLURM_JOB_ID=1", "APPLE=1"}
	was := p.take()
	wants(t, "the same", said(Compare(was, p.take(), Past{})))
	p.s.Command.Env = []string{"APP_LR=2", "APP_NEW=1", "SLURM_JOB_ID=2", "APPLE=2"}
	wants(t, "others", said(Compare(was, p.take(), Past{})), "APP_LR was 1 and is now 2",
		"APP_NEW is now 1 and was not set")
}

// Settings files and scripts that the code names count as those that the command names.
func TestOpened(t *testing.T) {
	p := newProject(t, map[string]string{"train.py": "import subprocess, hydra, " +
		"argparse\np.add_argument('--config', default='d.yaml')\n" +
		"open('a.yaml')\nyaml.safe_load(open(\"b.yaml\"))\njson.load(open('state.json'))\nopen('state.json', " +
		"'w')\nPath('c.json').write_text(x)\n" +
		"KEPT = 'kept.json'\njson.load(open('kept.json'))\njson.load(open('all.json'))\n" +
		"load_dotenv()\nsubprocess.run(['python', 'inner.py'])\n@hydra.main(version_base=None, " +
		"config_path='conf', config_name='main')\n",
		"a.yaml": "", "b.yaml": "", "c.json": "", "d.yaml": "", "state.json": "", "kept.json": "", "all.json": "",
		".env": "", "inner.py": "import deep\n", "deep.py": "",
		"conf/main.yaml": "defaults:\n  - _self_\n  - net: small  # which\n  - override data: one\nlr: 1\n- x: " +
			"y\n", "conf/net/small.yaml": "defaults:\n- base\n",
		"conf/net/base.yaml": "", "conf/net/large.yaml": "", "conf/data/one.yaml": "", "conf/data/two.yaml": ""},
		"python3", "train.py", "data=two", "lr=2")
	var paths []string
	for _, f := range p.take().Recipes {
		paths = append(paths, f.Path)
	}
	wants(t, "recipes", paths, ".env", "a.yaml", "all.json", "b.yaml", "conf/data/two.yaml", "conf/main.yaml",
		"conf/net/base.yaml", "conf/net/small.yaml", "d.yaml")
	wants(t, "code", p.code(), "deep.py", "inner.py", "train.py")
	p.s.Command.Args = append(p.s.Command.Args, "--config=a.yaml")
	for _, f := range p.take().Recipes {
		if f.Path == "d.yaml" {
			t.Error("the default of an option that is typed counts")
		}
	}
}

// What Hydra makes by its name in a file of settings is code, and so is what a script in a folder of its own imports
// from the folder in which it is started.
func TestTargets(t *testing.T) {
	p := newProject(t, map[string]string{"prog/train.py": "import roots, torch, hydra\nroots.setup()\n" +
		"from prog.tools import x\n@hydra.main(config_path='../conf', config_name='main')\ndef main(c): pass\n",
		"prog/tools/__init__.py": "", "prog/tools/x.py": "", "prog/nets/mlp.py": "import prog.nets.part\n",
		"prog/nets/part.py": "", "prog/nets/other.py": "", "conf/main.yaml": "defaults:\n  - net: small\n",
		"conf/net/small.yaml": "_target_: prog.nets.mlp.MLP\nlr: 1\n",
		"conf/net/large.yaml": "_target_: prog.nets.other.Other\n"}, "python3", "prog/train.py")
	p.take()
	wants(t, "code", p.code(), "prog/nets/mlp.py", "prog/nets/part.py", "prog/tools/__init__.py", "prog/tools/x.py",
		"prog/train.py")
	p.s.Command.Args = append(p.s.Command.Args, "net=large")
	p.take()
	wants(t, "code of another choice", p.code(), "prog/nets/other.py", "prog/tools/__init__.py", "prog/tools/x.py",
		"prog/train.py")
}

// A package of the user's own has one version for many builds; a file of arguments and a folder called env count, too.
func TestBuilds(t *testing.T) {
	p := newProject(t, map[string]string{"train.py": "import importlib\nimportlib.import_module(x)\n",
		"args.txt": "--lr\n1\n", "env/cart.py": "",
		"venv/bin/python": "", "venv/pyvenv.cfg": "", "venv/lib/python3.11/site-packages/x.py": ""},
		"venv/bin/python", "train.py", "--out", "runs", "@args.txt")
	info := "venv/lib/python3.11/site-packages/mine-1.0.dist-info/"
	p.write(info+"direct_url.json", "{}")
	p.write(info+"RECORD", "mine.py,sha256=a,1\nother.py,sha256=b,1\n__pycache__/mine.pyc,,\n")
	was := p.take()
	p.write(info+"RECORD", "other.py,sha256=b,1\nmine.py,sha256=a,1\nmine-1.0.dist-info/x,sha256=c,1\n")
	wants(t, "the same build", said(Compare(was, p.take(), Past{})))
	p.write(info+"RECORD", "mine.py,sha256=z,1\n")
	p.write("args.txt", "--lr\n2\n")
	p.write("env/cart.py", "x")
	got := said(Compare(was, p.take(), Past{}))
	if len(got) != 3 || got[0] != "env/cart.py has changed" || !strings.HasPrefix(got[1], "mine was 1.0 (") ||
		got[2] != "args.txt has changed" {
		t.Errorf("%q", got)
	}
}

// What the code names counts as what is typed: data, lists, folders, recipes by a part of their name, and code.
func TestNamedByCode(t *testing.T) {
	source := `import argparse, glob, os, sys
from pathlib import Path
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
sys.path.append(str(Path(__file__).parent.parent / "more"))
import tools, others
ROOT = "set"
p = argparse.ArgumentParser()
p.add_argument("--labels", default="labels.npy")
p.add_argument("--output_dir", default="kept")
p.add_argument("--cfg")
args = p.parse_args()
frame = pd.read_csv("frame.csv")
names = [l for l in open(os.path.join("lists", "names.lst"))]
files = glob.glob("imgs/*/*.png")
first = open(os.path.join(ROOT, "deep", "a.txt")).read()
mean = (Path(__file__).parent / "stats" / "mean.txt").read_text()
recipe = load(f"presets/{args.cfg}.yaml")
LOG_DIR, TABLE = "kept", "table.csv"
table.to_csv(TABLE)
scores.to_csv("scores.csv"); open("scores.csv")
torch.save(net, "net.pth"); net = torch.load("net.pth")
state = torch.load("ckpt/last.pth")
`
	all := map[string]string{"a/train.py": source, "common/tools.py": "", "more/others.py": "",
		"a/recipe.py": "_base_ = ['base/one.py']\nlr = 1\n", "a/base/one.py": ""}
	for _, name := range []string{"labels.npy", "frame.csv", "imgs/x/1.png", "set/deep/a.txt", "stats/mean.txt",
		"presets/big.yaml", "presets/small.yaml", "kept/x", "table.csv", "scores.csv", "net.pth", "ckpt/last.pth",
		"wavs/1.wav"} {
		all["a/"+name] = "as it was"
	}
	all["a/lists/names.lst"] = "wavs/1.wav|one\nwavs/gone.wav|two\n"
	p := newProject(t, all, "python3", "train.py", "--cfg", "big", "--config", "recipe.py")
	p.s.Command.Dir = filepath.Join(p.s.Command.Dir, "a")
	was := p.take()
	change := func(name string) []string {
		t.Helper()
		path := filepath.Join(p.s.Command.Dir, name)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		defer os.WriteFile(path, text, 0o644)
		if err := os.WriteFile(path, append(text, " # other"...), 0o644); err != nil {
			t.Fatal(err)
		}
		return said(Compare(was, p.take(), Past{}))
	}
	for _, name := range []string{"labels.npy", "frame.csv", "imgs/x/1.png", "set/deep/a.txt", "stats/mean.txt",
		"presets/big.yaml", "lists/names.lst", "wavs/1.wav", "../common/tools.py", "../more/others.py", "base/one.py"} {
		if got := change(name); len(got) != 1 || !strings.Contains(got[0], filepath.Base(name)) {
			t.Errorf("%s has changed: %q", name, got)
		}
	}
	for _, name := range []string{"presets/small.yaml", "kept/x", "table.csv", "scores.csv", "net.pth", "ckpt/last.pth"} {
		if got := change(name); len(got) != 0 {
			t.Errorf("%s has changed, which is nothing that the training reads, or what it writes itself: %q", name, got)
		}
	}
	p.s.Command.Args = append(p.s.Command.Args, "--labels", "frame.csv")
	was = p.take()
	if got := change("labels.npy"); len(got) != 0 {
		t.Errorf("the default of an option that is typed counts: %q", got)
	}
}
