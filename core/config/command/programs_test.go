package command

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tree writes files below a folder, by their paths. Those in a folder bin can be executed, and so can those with a
// first line.
func tree(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for path, text := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if strings.HasPrefix(text, "#!") || filepath.Base(filepath.Dir(path)) == "bin" {
			mode = 0o755
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
}

func TestInstalled(t *testing.T) {
	root := t.TempDir()
	const stub = "#!/opt/venv/bin/python3\nimport sys\nfrom ultralytics.cfg import entrypoint\nsys.exit(entrypoint())\n"
	tree(t, root, map[string]string{
		"bin/yolo": stub, "bin/elf": "\x7fELF", "bin/wrapper": "#!/bin/bash\npython t.py\n", "bin/empty": "",
		"bin/bare":              "#!\n",
		"bin/long":              "#!/bin/sh\n'''exec' '/a long/python3.12' \"$0\" \"$@\"\n' '''\nimport x\n",
		"bin/viaenv":            "#!/usr/bin/env python3\n",
		"bin/viasplit":          "#!/usr/bin/env -S python3 -u\n",
		"bin/perl":              "#!/usr/bin/env perl\n",
		"other/yolo":            stub, // not executable by its folder, but by its first line
		"w/fit":                 "#!/usr/bin/env python3\n",
		"w/tool":                "#!/usr/bin/env node\n",
		"w/.venv/bin/trainx":    stub,
		"shims/nnU":             "#!/usr/bin/env bash\nexec pyenv exec \"$program\" \"$@\"\n",
		"shims/two":             "#!/usr/bin/env bash\nexec pyenv exec \"$program\" \"$@\"\n",
		"versions/3.11/bin/nnU": stub, "versions/3.11/bin/two": stub, "versions/3.12/bin/two": stub,
	})
	env := []string{"PATH=" + strings.Join([]string{"relative", root + "/none", root + "/bin", root + "/other",
		root + "/shims"}, ":")}
	for _, tt := range []struct {
		command string
		kind    Kind
		script  string
		file    string
	}{
		{"yolo detect train model=yolo11n.pt", Installed, "yolo", "bin/yolo"},
		{"long x", Installed, "long", "bin/long"},
		{"viaenv x", Installed, "viaenv", "bin/viaenv"},
		{"viasplit x", Installed, "viasplit", "bin/viasplit"},
		{"../bin/yolo train", Installed, "../bin/yolo", "bin/yolo"},
		{"nnU x", Installed, "nnU", "versions/3.11/bin/nnU"},
		{"uv run trainx a", Installed, "trainx", "w/.venv/bin/trainx"},
		{"./fit a", Script, "./fit", ""},
		{"env PATH=/none yolo", 0, "", ""},
		{"elf", 0, "", ""}, {"wrapper", 0, "", ""}, {"perl", 0, "", ""}, {"two", 0, "", ""}, {"missing", 0, "", ""},
		{"trainx", 0, "", ""}, {"./tool", 0, "", ""}, {"empty", 0, "", ""}, {"bare", 0, "", ""},
	} {
		p, err := Program(strings.Fields(tt.command), env, filepath.Join(root, "w"))
		if tt.script == "" {
			if !errors.Is(err, ErrNotUnderstood) {
				t.Errorf("%s: %+v, %v", tt.command, p, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.command, err)
			continue
		}
		file := ""
		if tt.file != "" {
			file = filepath.Join(root, tt.file)
		}
		if p.Kind != tt.kind || p.Script != tt.script || p.File != file {
			t.Errorf("%s: kind %d, script %q, file %q", tt.command, p.Kind, p.Script, p.File)
		}
		got, err := p.WithArgs(append(slices.Clone(p.Args), "more"))
		if want := append(strings.Fields(tt.command), "more"); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s with one more argument: %q, %v", tt.command, got, err)
		}
	}
}

// What the command line leaves out, accelerate's configuration says.
func TestAccelerateConfig(t *testing.T) {
	root := t.TempDir()
	tree(t, root, map[string]string{
		"four.yaml": "compute_environment: LOCAL_MACHINE\ndeepspeed_config:\n  num_processes: 9\nnum_machines: 1\n" +
			"num_processes: 4 # cards\nmain_process_port: null\n",
		"nodes.yaml":  "num_processes: 8\nnum_machines: 2\nmachine_rank: 1\nmain_process_port: 29501\n",
		"three.json":  "{\n  \"num_machines\": 1,\n  \"num_processes\": 3\n}\n",
		"silent.yaml": "mixed_precision: bf16\n",
		"home/.cache/huggingface/accelerate/default_config.yaml": "num_processes: 2\n",
		"hub/accelerate/default_config.yaml":                     "num_processes: 5\n",
	})
	home := "HOME=" + filepath.Join(root, "home")
	for _, tt := range []struct {
		command string
		env     []string
		want    Launcher
		node    string
		port    string
	}{
		{"accelerate launch --config_file four.yaml t.py", nil, Launcher{"accelerate", 4, "4", 0}, "", ""},
		{"accelerate launch --config_file four.yaml --num_processes 1 t.py", nil, Launcher{"accelerate", 1, "1", 0}, "", ""},
		{"accelerate launch --config_file three.json t.py --num_processes 7", nil, Launcher{"accelerate", 3, "3", 0}, "", ""},
		{"accelerate launch --config_file nodes.yaml t.py", nil, Launcher{"accelerate", 8, "8", 2}, "1", "29501"},
		{"accelerate launch --config_file silent.yaml t.py", nil, Launcher{"accelerate", 0, "", 0}, "", ""},
		{"accelerate launch --config_file none.yaml t.py", nil, Launcher{"accelerate", 0, "", 0}, "", ""},
		{"accelerate-launch t.py", []string{home}, Launcher{"accelerate", 2, "2", 0}, "", ""},
		{"accelerate launch --cpu t.py", []string{home}, Launcher{"accelerate", 0, "gpu", 0}, "", ""},
		{"accelerate launch t.py", []string{home, "HF_HOME=" + filepath.Join(root, "hub")},
			Launcher{"accelerate", 5, "5", 0}, "", ""},
		{"accelerate launch t.py", []string{home, "XDG_CACHE_HOME=" + root}, Launcher{"accelerate", 0, "gpu", 0}, "", ""},
	} {
		p, err := Program(strings.Fields(tt.command), tt.env, root)
		if err != nil || len(p.Launchers) != 1 || p.Launchers[0] != tt.want || p.Node != tt.node || p.Port != tt.port {
			t.Errorf("%s: %+v, node %q, port %q, %v; want %+v", tt.command, p.Launchers, p.Node, p.Port, err, tt.want)
		}
	}
}

// A project that is not installed names the programs that it would install; nothing else declares them.
func TestAbsentProgram(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"pyproject.toml": "[project.scripts]\ntoy-train = \"toy.cli:main\"\n" +
			"scripts.toy-serve = 'toy:serve'\n[tool.x]\ntoy = \"3.1\"\n",
		"setup.py": "setup(entry_points={'console_scripts': ['toy_eval=toy.bin.eval:main', 'toy_test=toy:test']})\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"toy-train": "toy-train is not installed: pyproject.toml declares it",
		"toy-serve": "toy-serve is not installed: pyproject.toml declares it",
		"toy_test":  "toy_test is not installed: setup.py declares it",
		"toy":       "there is no program toy",
		"train":     "there is no program train",
	} {
		_, err := Program([]string{name, "x"}, []string{"PATH=" + dir}, dir)
		if !errors.Is(err, ErrNotUnderstood) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}
