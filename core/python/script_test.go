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
