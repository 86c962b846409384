package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A study of twenty trials through launch, with the real Optuna: each trial has the answer of the function by which
// docs/searching.md compares hundreds of them, and what cannot fit is told apart.
func TestOptuna(t *testing.T) {
	python := os.Getenv("LAUNCH_OPTUNA_PYTHON")
	if python == "" {
		python = testPython()
	}
	if out, err := exec.Command(python, "-c", "import optuna; "+
		"optuna.trial.Trial.set_constraint").CombinedOutput(); err != nil {
		t.Skipf("%s has no optuna of version 5, so examples/optuna is not tested (name another Python in "+
			"LAUNCH_OPTUNA_PYTHON): %s", python, out)
	}
	launch, err := exec.LookPath("launch")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "optuna")
	if err := os.CopyFS(dir, os.DirFS("../../examples/optuna")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "study.py", "--agree", "--trials", "20", "--seed", "1")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(launch)+":"+os.Getenv("PATH"), "XDG_STATE_HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "20 trials agree") || strings.Contains(string(out), ", 0 of them") {
		t.Errorf("%v\n%s", err, out)
	}
}
