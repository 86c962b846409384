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
		site + "dev.pth": "# a comment\nimport os\n../../../../dev\n\n", "dev/mine/run.py": "",
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
	} {
		prog, err := command.Program(strings.Fields(tt.command), nil, filepath.Join(root, "work"))
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		if tt.want != "" {
			want = []string{filepath.Join(root, tt.want)}
		}
		if got := Files(prog, nil); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", tt.command, got, want)
		}
	}
}
