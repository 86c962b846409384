package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A study of twenty trials through launch, with the real Optuna: each trial has the answer of the function by which
// docs/large-sweeps.md compares hundreds of them, and what cannot fit is told apart.
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

// A study of twenty random trials of a declared training, in a room that the largest batches do not fit. The example's
// script fails if a micro-batch ran out of memory more than twice, or if a trial did that differs from an earlier one
// in its learning rate alone. The training is a stand-in that only takes the memory.
func TestStudy(t *testing.T) {
	launch, err := exec.LookPath("launch")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "memory")
	if err := os.CopyFS(dir, os.DirFS("../../examples/optuna/memory")); err != nil {
		t.Fatal(err)
	}
	training := `import argparse, time
p = argparse.ArgumentParser()
for name, default in ("lr", 0.1), ("seed", 0), ("batch-size", 8), ("accumulation", 1):
    p.add_argument("--" + name, type=float if name == "lr" else int, default=default)
p.add_argument("--out")
a = p.parse_args()
print(f"batch size {a.batch_size}, {a.accumulation} at a time", flush=True)
for step in range(2):
    saved = bytearray(a.batch_size << 20)
    time.sleep(0.1)
    del saved
    print(f"step {step + 1}", flush=True)
print(f"validation loss {(a.lr - 0.01) ** 2:.6f}")
print("training is over")
`
	if err := os.WriteFile(filepath.Join(dir, "train.py"), []byte(training), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(testPython(), "study.py", "--random", "--trials", "20", "--seed", "5", "--memory", "110MiB")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(launch)+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), ", out of memory at ") ||
		!strings.Contains(string(out), "; 0 × with a batch that ran before") {
		t.Errorf("%v\n%s", err, out)
	}
}
