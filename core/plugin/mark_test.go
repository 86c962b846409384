package plugin_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/plugin"
)

// tree writes files below a folder, by their paths.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for path, text := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestMarks(t *testing.T) {
	root := tree(t, map[string]string{
		"train.py":                "import torch\nfrom lightning import Trainer\n",
		"pkg/train.py":            "from transformers import Trainer\n",
		"tool/__main__.py":        "import click\n",
		"tool/model.py":           "",
		"lib/other/run.py":        "import hydra\n",
		"long.py":                 strings.Repeat("#", 1<<20) + "\nimport torch\n",
		"pkg/config/settings.yml": "",
	})
	for _, tt := range []struct {
		command string
		mark    plugin.Mark
		want    bool
	}{
		{"python train.py", plugin.Mark{Script: "train.py", Contains: []string{"import torch", "Trainer"}}, true},
		{"python train.py", plugin.Mark{Script: "train.py", Contains: []string{"import torch", "HfArgumentParser"}}, false},
		{"python train.py", plugin.Mark{Contains: []string{"HfArgumentParser|lightning"}}, true},
		{"python train.py", plugin.Mark{Contains: []string{"HfArgumentParser|hydra"}}, false},
		{"python train.py", plugin.Mark{Script: "main.py", Contains: []string{"torch"}}, false},
		{"python none.py", plugin.Mark{Script: "none.py", Contains: []string{"torch"}}, false},
		{"python long.py", plugin.Mark{Contains: []string{"import torch"}}, false},
		{"python long.py", plugin.Mark{Contains: []string{"###"}}, true},
		{"python -c x=transformers", plugin.Mark{Contains: []string{"transformers"}}, true},

		{"python -m pkg.train", plugin.Mark{Script: "train.py", Contains: []string{"transformers"}}, true},
		{"python -m pkg.train", plugin.Mark{Script: "pkg.train"}, true},
		{"python -m pkg.train", plugin.Mark{Script: "pkg.*"}, true},
		{"python -m pkg.train", plugin.Mark{Script: "train"}, false},
		{"python -m pkg.train", plugin.Mark{Beside: []string{"config/settings.yml"}}, true},
		{"python -m tool", plugin.Mark{Script: "tool.py", Contains: []string{"click"}, Beside: []string{"model.py"}}, true},
		{"python -m other.run", plugin.Mark{Contains: []string{"hydra"}}, false},
		{"env PYTHONPATH=lib python -m other.run", plugin.Mark{Contains: []string{"hydra"}}, true},
		{"torchrun -m pkg.train", plugin.Mark{Contains: []string{"transformers"}}, true},
	} {
		prog, err := command.Program(strings.Fields(tt.command), nil, root)
		if err != nil {
			t.Fatal(err)
		}
		if got := tt.mark.Matches(plugin.See(prog, nil)); got != tt.want {
			t.Errorf("%s, %+v: %v, want %v", tt.command, tt.mark, got, tt.want)
		}
	}
}

// The script is read once, and only when a mark asks for it after everything else has matched.
func TestMarkReadsLate(t *testing.T) {
	reads := 0
	seen := plugin.Seen{Script: "train.py", Source: func() string { reads++; return "torch" }}
	texts := []string{"torch"}
	if (plugin.Mark{Script: "main.py", Contains: texts}).Matches(seen) ||
		(plugin.Mark{Flags: []string{"-x"}, Contains: texts}).Matches(seen) || reads != 0 {
		t.Errorf("the script was read %d times for marks that differ in other ways", reads)
	}
	if !(plugin.Mark{Contains: texts}).Matches(seen) || reads != 1 {
		t.Errorf("read %d times", reads)
	}
	seen.Source = nil
	if (plugin.Mark{Contains: texts}).Matches(seen) {
		t.Error("a script that nobody can read holds a text")
	}

	root := tree(t, map[string]string{"train.py": "one"})
	prog, err := command.Program([]string{"python", "train.py"}, nil, root)
	if err != nil {
		t.Fatal(err)
	}
	see := plugin.See(prog, nil)
	before := see.Source()
	if err := os.WriteFile(filepath.Join(root, "train.py"), []byte("two"), 0o644); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(before, "one") || see.Source() != before {
		t.Errorf("read twice: %q, then %q", before, see.Source())
	}
}

// An installed program matches by its own name only.
func TestMarkInstalled(t *testing.T) {
	installed := plugin.Seen{Script: "train", Installed: true}
	if (plugin.Mark{Script: "train.py"}).Matches(installed) || !(plugin.Mark{Script: "train"}).Matches(installed) {
		t.Error("an installed program is taken for a script")
	}
}

func TestManifestBoundsContains(t *testing.T) {
	for _, text := range []string{"", "a|", "|", "a||b", strings.Repeat("x", 10_001)} {
		if err := (plugin.Manifest{Marks: []plugin.Mark{{Contains: []string{text}}}}).Check(); err == nil {
			t.Errorf("%.20q is a text to look for", text)
		}
	}
	if err := (plugin.Manifest{Marks: []plugin.Mark{{Contains: make([]string, 1001)}}}).Check(); err == nil {
		t.Error("a mark has 1001 texts")
	}
	if err := (plugin.Manifest{Marks: []plugin.Mark{{Contains: []string{"a|b", "import torch"}}}}).Check(); err != nil {
		t.Error(err)
	}
}
