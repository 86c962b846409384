package python

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/config/command"
)

// version.py as torch's makers have written it over the years, and the one that this machine's Python would import.
func TestTorchCUDA(t *testing.T) {
	for name, tt := range map[string]struct {
		text, cuda string
		major      int
	}{
		"2.15 of PyPI":       {"from typing import Optional\n\n__version__ = '2.15.0+cu132'\ndebug = False\ncuda: Optional[str] = '13.2'\nhip: Optional[str] = None\n", "13.2", 2},
		"1.13 of PyPI":       {"__version__ = '1.13.1+cu117'\ndebug = False\ncuda = '11.7'\nhip = None\n", "11.7", 1},
		"1.13 of Debian":     {"__version__ = '1.13.0a0'\ndebug = False\ncuda = None\nhip = None\n", "none", 1},
		"2.4 for the CPU":    {"__version__ = '2.4.0+cpu'\ncuda: Optional[str] = None\nhip: Optional[str] = None\n", "none", 2},
		"for ROCm":           {"__version__ = '2.4.0+rocm6.1'\ncuda: Optional[str] = None\nhip: Optional[str] = '6.1'\n", "", 2},
		"nothing but itself": {"__version__ = '1.13.1'\n", "", 1},
		"nothing":            {"", "", 0},
	} {
		root := t.TempDir()
		at := filepath.Join(root, "lib", "python3.11", "site-packages", "torch")
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at, "version.py"), []byte(tt.text), 0o644); err != nil {
			t.Fatal(err)
		}
		e := Of(command.Prog{Interpreter: filepath.Join(root, "bin", "python")}, nil)
		if major, cuda := e.TorchCUDA(); major != tt.major || cuda != tt.cuda {
			t.Errorf("%s: torch %d for CUDA %q, want %d for %q", name, major, cuda, tt.major, tt.cuda)
		}
	}
	if major, cuda := (Environment{}).TorchCUDA(); major != 0 || cuda != "" {
		t.Errorf("of no Python: torch %d for CUDA %q", major, cuda)
	}
}

// Of the two names of one setting the older counts, and the newer where torch reads it.
func TestAllocatorConf(t *testing.T) {
	bare := Of(command.Prog{Interpreter: filepath.Join(version(t, "2.4.0"), "../../../../../bin/python")}, nil)
	_, linux := bare.ExpandableSegments() // a kernel that is neither WSL's nor a Jetson's
	for name, tt := range map[string]struct {
		torch string
		env   []string
		prog  command.Prog
		want  string

		offered bool
	}{
		"nothing": {"2.10.0", nil, command.Prog{}, "", true},
		"of ROCm": {"2.9.1+rocm6.4", []string{"PYTORCH_HIP_ALLOC_CONF=h"}, command.Prog{}, "h", false},
		"of ROCm, and CUDA's name": {"2.9.1+rocm6.4", []string{"PYTORCH_HIP_ALLOC_CONF=h",
			"PYTORCH_CUDA_ALLOC_CONF=a"}, command.Prog{}, "a", false},
		"ROCm's name without it":     {"2.9.1", []string{"PYTORCH_HIP_ALLOC_CONF=h"}, command.Prog{}, "", true},
		"nothing, on ROCm":           {"2.9.1+rocm6.4", nil, command.Prog{}, "", false},
		"nothing, on Intel":          {"2.9.1+xpu", nil, command.Prog{}, "", false},
		"an empty text":              {"2.4.0", []string{"PYTORCH_CUDA_ALLOC_CONF="}, command.Prog{}, "", true},
		"no cache":                   {"2.4.0", []string{"PYTORCH_NO_CUDA_MEMORY_CACHING=0"}, command.Prog{}, ",PYTORCH_NO_CUDA_MEMORY_CACHING", false},
		"the older":                  {"2.4.0", []string{"PYTORCH_CUDA_ALLOC_CONF=a"}, command.Prog{}, "a", false},
		"both":                       {"2.10.0", []string{"PYTORCH_ALLOC_CONF=b", "PYTORCH_CUDA_ALLOC_CONF=a"}, command.Prog{}, "a", false},
		"the newer":                  {"2.10.0", []string{"PYTORCH_ALLOC_CONF=b"}, command.Prog{}, "b", false},
		"which 2.9 does not take":    {"2.9.1", []string{"PYTORCH_ALLOC_CONF=b"}, command.Prog{}, "", false},
		"nor 1.13 read":              {"1.13.1", []string{"PYTORCH_ALLOC_CONF=b"}, command.Prog{}, "", false},
		"of a torch that is unknown": {"", []string{"PYTORCH_ALLOC_CONF=b"}, command.Prog{}, "b", false},
		"the last word":              {"2.4.0", []string{"PYTORCH_CUDA_ALLOC_CONF=a", "PYTORCH_CUDA_ALLOC_CONF=b"}, command.Prog{}, "b", false},
		"of the command line":        {"2.4.0", []string{"PYTORCH_CUDA_ALLOC_CONF=a"}, command.Prog{Env: []string{"PYTORCH_CUDA_ALLOC_CONF=c"}}, "c", false},
		"taken away":                 {"2.4.0", []string{"PYTORCH_CUDA_ALLOC_CONF=a"}, command.Prog{Unset: []string{"PYTORCH_CUDA_ALLOC_CONF"}}, "", false},
		"with all else":              {"2.4.0", []string{"PYTORCH_CUDA_ALLOC_CONF=a"}, command.Prog{ClearEnv: true}, "", false},
	} {
		tt.prog.Interpreter = filepath.Join(version(t, tt.torch), "../../../../../bin/python")
		e := Of(tt.prog, tt.env)
		if got, _ := e.AllocatorConf(); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
		_, offered := e.ExpandableSegments()
		if want := tt.offered && linux; offered != want {
			t.Errorf("%s: expandable segments are offered: %v, want %v", name, offered, want)
		}
	}
}

// version makes a Python that has that torch. It returns its version.py.
func version(t *testing.T, torch string) string {
	t.Helper()
	at := filepath.Join(t.TempDir(), "lib", "python3.11", "site-packages", "torch", "version.py")
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	hip := ""
	if strings.Contains(torch, "+rocm") {
		hip = "cuda: Optional[str] = None\nhip: Optional[str] = '6.4.43482'\n"
	}
	if err := os.WriteFile(at, []byte("__version__ = '"+torch+"'\n"+hip), 0o644); err != nil {
		t.Fatal(err)
	}
	return at
}

// Packages of folders that .pth files add are found where the environment's own folders have none; nothing of a .pth
// file is run.
func TestLinkedPackages(t *testing.T) {
	root := t.TempDir()
	const site, other = "venv/lib/python3.12/site-packages/", "other/lib/site-packages/"
	write(t, root, map[string]string{
		"venv/bin/python": "",
		site + "base.pth": "import os; os.remove('x')\n# " + root + "/commented\n" + root + "/none\n" +
			"../../../../other/lib/site-packages\n",
		site + "late.pth": root + "/late\n", site + "fsspec-2.0.dist-info/METADATA": "",
		other + "fsspec-1.0.dist-info/METADATA": "", other + "torch/version.py": "__version__ = '2.15.0+cpu'\ncuda = None\n",
		other + "trl-1.16.0.dist-info/METADATA": "Requires-Dist: peft>=0.17\n", other + "bare.py": "",
		"late/torch/version.py": "__version__ = '1.0.0'\n", "commented/seen.py": "", "late/trl-0.1.dist-info/METADATA": "",
	})
	e := Of(command.Prog{Interpreter: filepath.Join(root, "venv/bin/python")}, nil)
	major, minor, ok := e.Torch()
	for what, got := range map[string]struct{ got, want any }{
		"torch": {[]any{major, minor, ok}, []any{2, 15, true}}, "the folder's own": {e.Version("fsspec"), "2.0"},
		"the first of two": {e.Version("trl"), "1.16.0"}, "what it requires": {e.Requires("trl", "peft"), ">=0.17"},
		"a module": {e.Has("bare"), true}, "one of a comment": {e.Has("seen"), false}, "none": {e.Version("none"), ""},
	} {
		if !reflect.DeepEqual(got.got, got.want) {
			t.Errorf("%s: %v, want %v", what, got.got, got.want)
		}
	}
}

// An environment reads each file once, and a new one reads it again.
func TestReadOnce(t *testing.T) {
	at := version(t, "2.4.0")
	prog := command.Prog{Interpreter: filepath.Join(at, "../../../../../bin/python")}
	e := Of(prog, nil)
	if !e.Has("torch") || e.TorchBuild() != "2.4.0" || e.Has("xformers") {
		t.Fatalf("torch %v %q, xformers %v", e.Has("torch"), e.TorchBuild(), e.Has("xformers"))
	}
	packages := filepath.Dir(filepath.Dir(at))
	if err := os.Mkdir(filepath.Join(packages, "xformers"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte("__version__ = '2.5.0'\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if e.Has("xformers") || e.TorchBuild() != "2.4.0" {
		t.Errorf("one answer is from another time: xformers %v, torch %q", e.Has("xformers"), e.TorchBuild())
	}
	if later := Of(prog, nil); !later.Has("xformers") || later.TorchBuild() != "2.5.0" {
		t.Errorf("a new environment has xformers %v, torch %q", later.Has("xformers"), later.TorchBuild())
	}
}

// A command whose Python is not here cannot run here. One behind a wrapper can.
func TestMissing(t *testing.T) {
	bin := t.TempDir()
	for _, name := range []string{"python", "srun", "uv", "conda"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\nexec other \"$@\"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for line, want := range map[string]bool{
		"python x.py": false, "/nowhere/bin/python x.py": true, "nice /nowhere/bin/python x.py": true, "python3.7 x.py": true,
		"llamafactory-cli train a.yaml": true, "srun llamafactory-cli train a.yaml": false,
		"srun /nowhere/bin/python x.py": false, "torchrun --nproc-per-node 2 x.py": true,
		"accelerate launch x.py": true, "uv run /nowhere/bin/python x.py": false, "conda run -n a python9 x.py": false,
		"python9 -m torch.distributed.run --nproc-per-node 2 x.py": true,
	} {
		env := []string{"PATH=" + bin, "HOME=" + bin}
		prog, err := command.Program(strings.Fields(line), env, bin)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if e := Of(prog, env); e.Missing() != want || e.Known() {
			t.Errorf("%s: missing %v, want %v; known %v", line, e.Missing(), want, e.Known())
		}
	}
}

// Behind uv run and conda run the packages are those of their environment, and not known where that is not found.
func TestElsewhere(t *testing.T) {
	bin, project := filepath.Join(version(t, "2.4.0"), "../../../../../bin"), t.TempDir()
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	venv := filepath.Join(project, ".venv", "bin")
	own := filepath.Join(venv, "../lib/python3.11/site-packages/torch")
	for _, dir := range []string{venv, own} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for path, text := range map[string]string{filepath.Join(bin, "python"): "", filepath.Join(venv, "python"): "",
		filepath.Join(own, "version.py"): "__version__ = '2.9.0'\n"} {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for line, want := range map[string]string{
		"python x.py":                                    "2.4.0",
		"uv run python x.py":                             "2.9.0",
		"uv run --with torch==2.1 python x.py":           "",
		"uv run --isolated python x.py":                  "",
		"conda run -n a python x.py":                     "",
		"conda run -n a " + bin + "/python x.py":         "2.4.0",
		"conda run -p " + project + "/.venv python x.py": "2.9.0",
	} {
		env := []string{"PATH=" + bin, "HOME=" + bin}
		prog, err := command.Program(strings.Fields(line), env, project)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		e := Of(prog, env)
		if got := e.TorchBuild(); got != want || e.Missing() {
			t.Errorf("%s: torch %q, want %q; missing %v", line, got, want, e.Missing())
		}
	}
}
