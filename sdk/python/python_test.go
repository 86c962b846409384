// Package python has the tests of the Python SDK that need launch: its examples pass the kit as any plugin does.
package python

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/plugin/kit"
	"github.com/launch-ml/launch/core/plugin/plugintest"
)

// interpreter is a Python with grpcio and torch: `make deps` installs them.
func interpreter(t *testing.T) string {
	t.Helper()
	path := os.Getenv("LAUNCH_TEST_PYTHON")
	if path == "" {
		path = "/usr/bin/python3"
	}
	const find = "import importlib.util as u; exit(not (u.find_spec('grpc') and u.find_spec('torch')))"
	if out, err := exec.Command(path, "-c", find).CombinedOutput(); err != nil {
		t.Fatalf("%s lacks grpcio or torch; `make deps` installs them: %v\n%s", path, err, out)
	}
	return path
}

// The examples keep what every plugin promises. Broken files and numbers are asked of the one that starts no PyTorch:
// each such command of the other one would import it.
func TestExamples(t *testing.T) {
	python, bin := interpreter(t), t.TempDir()
	// The first line of an example asks env for python3.
	script := "#!/bin/sh\nexec " + python + " \"$@\"\n"
	if err := os.WriteFile(filepath.Join(bin, "python3"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	for name, args := range map[string][]string{
		"tinytext": {"train_text.py", "-c", "run.json", "--batch-size=2"},
		"tinynet":  {"train_net.py", "-b", "2", "--accumulate", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			path, err := filepath.Abs(filepath.Join("examples", name, "launch-plugin-"+name))
			if err != nil {
				t.Fatal(err)
			}
			c := job.Command{Args: append([]string{python}, args...), Env: os.Environ(),
				Dir: filepath.Join("examples", name, "project")}
			plugintest.Executable(t, path, kit.Options{Cases: []kit.Case{{Name: name, Command: c}},
				Quick: name == "tinynet"})
		})
	}
}
