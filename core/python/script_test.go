package python

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/config/command"
)

func write(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for path, text := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

func TestScriptFiles(t *testing.T) {
	root := t.TempDir()
	const site = "venv/lib/python3.12/site-packages/"
	write(t, root, map[string]string{
		"train.py": "", "work/pkg/train.py": "", "work/pkg/__init__.py": "", "work/tool/__main__.py": "", "work/tool.py": "",
		"path/pkg/other.py": "", "path/more.py": "", "venv/bin/python": "",
		site + "litgpt/finetune.py": "", site + "litgpt/__init__.py": "", site + "litgpt/__main__.py": "",
		"venv/bin/yolo": "#!" + root + "/venv/bin/python\nimport re\nimport sys\nfrom ultralytics.cfg import " +
			"entrypoint\n",
		"venv/bin/torchrun": "#!" + root + "/venv/bin/python\n", "work/fit.py": "#!/usr/bin/env python\n",
		site + "ultralytics/cfg/__init__.py": "",
		site + "dev.pth":                     "# a comment\nimport os\n../../../../dev\n\n", "dev/mine/run.py": "",
	})
	for name, program := range map[string]string{
		"venv/bin/fit": "import sys\nfrom mine.cli import main\nif __name__ == '__main__':\n    sys.exit(main())\n",
		"venv/bin/fit-old": "from pkg_resources import load_entry_point\nload_entry_point('mine', 'console_scripts', " +
			"'fit-old')()\n",
		"venv/bin/fit-found": "import sys\nfrom other.fit import main as run\nsys.exit(run())\n",
		"venv/bin/fit-near":  "from near.fit import main\n",
		"venv/bin/fit-none":  "from nowhere.fit import main\n",
	} {
		write(t, root, map[string]string{name: "#!" + root + "/venv/bin/python\n" + program})
	}
	write(t, root, map[string]string{
		"venv/pyvenv.cfg": "", "near/fit.py": "def main(): pass\n", "dev/mine/__init__.py": "",
		"dev/mine/cli/__init__.py": "from .main import main\n", "dev/mine/cli/main.py": "def main(): pass\n",
		site + "mine-1.dist-info/entry_points.txt": "[console_scripts]\nfit-old = mine.run:main\n",
		site + "pkg_resources/__init__.py":         "def load_entry_point(): pass\n",
		site + "__editable__.other-1.pth": "import __editable___other_1_finder; " +
			"__editable___other_1_finder.install()\n",
		site + "__editable___other_1_finder.py": "MAPPING: dict[str, str] = {'other': '" + root + "/found/other'}\n",
		"found/other/__init__.py":               "", "found/other/fit.py": "def main(): pass\n",
		"moved/pyvenv.cfg": "", "moved/bin/fit": "#!/was/here/bin/python\nfrom own.fit import main\n",
		"moved/lib/python3.12/site-packages/own/fit.py": "def main(): pass\n",
	})
	for _, tt := range []struct{ command, want string }{
		{"python ../train.py", "train.py"},
		{"python none.py", "work/none.py"},
		{"python -c pass", ""},
		{"python -m pkg.train", "work/pkg/train.py"},
		{"python -m tool", "work/tool/__main__.py"}, // a package comes before a module of its name
		{"python -m none", ""},
		{"python -m pkg", ""}, // a package that cannot be run
		{"python -m more", ""},
		{"env PYTHONPATH=/none:../path python -m more", "path/more.py"},
		{"env PYTHONPATH=../path python -m pkg.other", ""}, // work/pkg hides it
		{"../venv/bin/python -m litgpt", site + "litgpt/__main__.py"},
		{"../venv/bin/python -m litgpt.finetune", site + "litgpt/finetune.py"},
		{"../venv/bin/python -m mine.run", "dev/mine/run.py"},
		{"python -m pkg..train", ""},
		{"../venv/bin/torchrun -m litgpt.finetune", site + "litgpt/finetune.py"},
		{"../venv/bin/yolo train", "venv/bin/yolo " + site + "ultralytics/cfg/__init__.py"},
		{"../venv/bin/fit --x", "venv/bin/fit dev/mine/cli/__init__.py dev/mine/cli/main.py"}, // handed on by a package
		{"../venv/bin/fit-old", "venv/bin/fit-old dev/mine/run.py"},                           // by its entry_points.txt
		{"../venv/bin/fit-found", "venv/bin/fit-found found/other/fit.py"},                    // by setuptools' finder
		{"../venv/bin/fit-near", "venv/bin/fit-near near/fit.py"},                             // beside the environment
		{"../moved/bin/fit", "moved/bin/fit moved/lib/python3.12/site-packages/own/fit.py"},   // its Python is not there
		{"../venv/bin/fit-none", "venv/bin/fit-none"},
		{"env PATH=" + root + "/venv/bin yolo train", "venv/bin/yolo " + site + "ultralytics/cfg/__init__.py"},
	} {
		prog, err := command.Program(strings.Fields(tt.command), nil, filepath.Join(root, "work"))
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, path := range strings.Fields(tt.want) {
			want = append(want, filepath.Join(root, path))
		}
		if got := Files(prog, nil); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", tt.command, got, want)
		}
	}
}

// Where the command names no interpreter, a first line does.
func TestChosenInterpreter(t *testing.T) {
	root := t.TempDir()
	write(t, root, map[string]string{
		"bin/torchrun": "#!/opt/a/bin/python3\n", "bin/python": "", "work/fit.py": "#!/usr/bin/env python\n",
		"bin/yolo": "#!/opt/b/bin/python3\n", "work/plain.py": "", "work/venv/bin/python": "",
	})
	env := []string{"PATH=" + root + "/bin"}
	for text, want := range map[string]string{
		"torchrun fit.py":            "/opt/a/bin/python3",
		"yolo train":                 "/opt/b/bin/python3",
		"./fit.py":                   root + "/bin/python",
		"./plain.py":                 "",
		"uv run fit.py":              "",
		"torchrun.py":                "",
		"python fit.py":              root + "/bin/python",
		"env PATH=/none python x.py": root + "/work/python",
	} {
		prog, err := command.Program(strings.Fields(text), env, filepath.Join(root, "work"))
		if err != nil {
			t.Fatal(err)
		}
		if got := Of(prog, env).Interpreter; got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	prog, err := command.Program([]string{"bash", "-c", "source venv/bin/activate; python fit.py"}, env,
		filepath.Join(root, "work"))
	if got := Of(prog, env).Interpreter; err != nil || got != root+"/work/venv/bin/python" {
		t.Errorf("in an activated environment: %q, %v", got, err)
	}
}
