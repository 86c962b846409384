package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/launch-ml/launch/tools/slurmtest"
)

// The program of the sweep: it saves its state on SIGUSR1, goes on from it, runs out of memory above a batch of 4, and
// cannot fit where WIDE is set. Each process appends to the file trace.
const slurmTrainer = `import json, os, signal, sys, time
lr = sys.argv[sys.argv.index("--lr") + 1]
name = sys.argv[sys.argv.index("--name") + 1]
import config
steps, saved = int(os.environ.get("STEPS", "3")), "states/%s/last.json" % name
begin = json.load(open(saved))["step"] if "--resume" in sys.argv else 0
def trace(text):
    with open(os.environ["TRACE"], "a") as f:
        f.write("%s %s\n" % (name, text))
trace("from %d" % begin)
class OutOfMemoryError(RuntimeError):
    pass
OutOfMemoryError.__module__ = "torch"
if lr == "0.2" and config.BATCH > 4:
    raise OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 4.00 GiB " +
        "of which 1.00 GiB is free. Including non-PyTorch memory, this process has 3.00 GiB memory in use. Of the " +
        "allocated memory 2.50 GiB is allocated by PyTorch, and 12.00 MiB is reserved by PyTorch but unallocated.")
asked = []
signal.signal(signal.SIGUSR1, lambda *a: asked.append(1))
step = begin
# the rows that are taken away train for ever, until they were resumed once
while step < begin + steps or lr in os.environ.get("LONG", "").split() and not begin:
    time.sleep(0.05)
    step += 1
    print("step %d" % step, flush=True)
    if asked:
        asked.clear()
        os.makedirs(os.path.dirname(saved), exist_ok=True)
        with open(saved, "w") as f:
            json.dump({"step": step}, f)
        print("saved", saved, flush=True)
trace("done")
print("training is over", flush=True)
`

const slurmDeclaration = `script: train.py
micro-batch: {config.py: BATCH}
accumulation: {config.py: ACCUM}
progress: 'step (?P<iteration>\d+)'
saved: 'saved (?P<path>\S+)'
succeeded: 'training is over'
resume: {--resume: 'states/{--name}/*.json'}
save: {signal: USR1}
`

// A sweep on a real Slurm: a row that runs out of memory goes down its ladder, a row that is preempted and one that
// comes near its time limit save, are requeued and go on, a row that cannot fit ends with 78, and the table is that
// of the same sweep on this machine.
func TestSweepOnSlurm(t *testing.T) {
	slurmtest.Need(t)
	if testing.Short() {
		t.Skip("starts a Slurm")
	}
	t.Parallel() // mostly waits for Slurm
	python := os.Getenv("LAUNCH_TEST_PYTHON")
	if python == "" {
		python = "/usr/bin/python3"
	}
	dir := t.TempDir()
	launch := filepath.Join(dir, "launch")
	if out, err := exec.Command("go", "build", "-o", launch, ".").CombinedOutput(); err != nil {
		t.Fatalf("building launch: %v\n%s", err, out)
	}
	for name, text := range map[string]string{"train.py": slurmTrainer, ".launch-job.yaml": slurmDeclaration,
		"config.py": "BATCH = 8\nACCUM = 1\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := slurmtest.Start(t, slurmtest.Nodes{Count: 2, CPUs: 1, MemoryMB: 8000})
	trace := filepath.Join(dir, "trace")
	command := func(state string, args ...string) *exec.Cmd {
		cmd := exec.Command(launch, append([]string{"sweep", "--state-dir=" + filepath.Join(dir, state)}, args...)...)
		cmd.Dir = dir
		cmd.Env = append(slices.Clone(c.Env), "HOME="+dir, "TRACE="+trace, "LONG=0.3 0.4")
		return cmd
	}
	sweepOf := func(state string, more ...string) []string {
		return slices.Concat(more, []string{"--name=s", "--grid=--lr=0.1,0.2,0.3,0.4", "--", python, "train.py",
			"--name", "{name}"})
	}
	on := command("slurm", sweepOf("slurm", "--on=slurm", "--sbatch=--time=1 --ntasks=1 --mem=200M --gres=none",
		"--save-before=50s")...)
	var printed bytes.Buffer
	on.Stdout, on.Stderr = &printed, &printed
	if err := on.Start(); err != nil {
		t.Fatal(err)
	}
	fail := func(why string, args ...any) {
		t.Helper()
		rows, _ := exec.Command("sh", "-c", "cd "+dir+"/slurm/sweeps/s && "+
			"tail -n 30 slurm-* trials/*/output.log journal.jsonl").CombinedOutput()
		t.Fatalf(why+"\n%s\n%s\n%s\n%s", append(args, printed.String(), rows, textOf(t, trace), c.Logs())...)
	}
	ended := make(chan error, 1)
	go func() { ended <- on.Wait() }()
	defer on.Process.Kill()
	until := func(what string, done func() bool) {
		t.Helper()
		for end := time.Now().Add(2 * time.Minute); !done(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) || len(ended) > 0 {
				fail("waiting for " + what)
			}
		}
	}
	node := ""
	until("row 4", func() bool {
		out, _ := c.Command("squeue", "-h", "-r", "-t", "RUNNING", "-o", "%K %N").Output()
		for line := range strings.Lines(string(out)) {
			if n, ok := strings.CutPrefix(strings.TrimSpace(line), "4 "); ok {
				node = n
			}
		}
		return node != "" && strings.Contains(textOf(t, trace), "s-4 from 0")
	})
	c.Run(t, "sbatch", "--parsable", "-p", "high", "-w", node, "--mem=10", "--wrap=true")
	if err := <-ended; err != nil {
		fail("the sweep: %v", err)
	}
	seen := strings.Split(strings.TrimSpace(textOf(t, trace)), "\n")
	for _, row := range []string{"s-1", "s-2", "s-3", "s-4"} {
		of := slices.DeleteFunc(slices.Clone(seen), func(line string) bool { return !strings.HasPrefix(line, row+" ") })
		want := map[string][]string{"s-1": {"from 0", "done"}, "s-2": {"from 0", "from 0", "done"}}[row]
		if want == nil { // a row that was taken away: it went on from where it had saved, and nothing was done twice
			var step int
			if len(of) == 3 {
				fmt.Sscanf(of[1], row+" from %d", &step)
			}
			if want = []string{"from 0", fmt.Sprintf("from %d", step), "done"}; step == 0 {
				t.Errorf("row %s did not go on from a saved state: %q", row, of)
			}
		}
		for i := range want {
			want[i] = row + " " + want[i]
		}
		if !slices.Equal(of, want) {
			t.Errorf("row %s: %q, want %q", row, of, want)
		}
	}
	here := command("local", sweepOf("local")...)
	here.Env = append(here.Env, "LONG=")
	if out, err := here.CombinedOutput(); err != nil {
		fail("the same sweep on this machine: %v: %s", err, out)
	}
	if a, b := rowsOf(t, command("slurm", "export", "--json")), rowsOf(t, command("local", "export",
		"--json")); !slices.Equal(a, b) {
		t.Errorf("on Slurm the rows are\n%s\nand on this machine\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
	}
	if t.Failed() {
		fail("see above")
	}
	away := command("away", "--on=slurm", "--detach", "--sbatch=--time=1 --ntasks=1 --mem=200M --gres=none", "--name=d",
		"--grid=--lr=0.1,0.2", "--", python, "train.py", "--name", "{name}")
	if out, err := away.CombinedOutput(); err != nil || !strings.Contains(string(out), "goes on by itself") {
		fail("a sweep that nobody waits for: %v: %s", err, out)
	}
	until("the sweep that nobody waits for", func() bool {
		out, err := command("away", "status").Output()
		return err == nil && strings.Contains(string(out), "d  ended · 2 trials: 2 succeeded")
	})
	if out, err := command("away", "resume").CombinedOutput(); err != nil || strings.Contains(string(out), "lost") {
		fail("taking up a sweep that has ended: %v: %s", err, out)
	}
	refused := command("refused", "--on=slurm", "--sbatch=--time=1 --mem=200M", "--name=r", "--memory=64MiB", "--",
		python, "train.py", "-opt", "options/train_attn.yml")
	refused.Dir, _ = filepath.Abs("../../examples/sisr")
	out, err := refused.CombinedOutput()
	exit := (&exec.ExitError{})
	if !errors.As(err, &exit) || exit.ExitCode() != 78 || !strings.Contains(string(out), "cannot fit") {
		fail("a row that cannot fit: %v: %s", err, out)
	}
}

// What sbatch-line prints, Slurm takes: the script asks for what its lines say, is told of the time limit in time to
// save, and continues the run when it is submitted again.
func TestSbatchLine(t *testing.T) {
	slurmtest.Need(t)
	if testing.Short() {
		t.Skip("starts a Slurm")
	}
	t.Parallel() // mostly waits for Slurm
	dir := t.TempDir()
	launch := filepath.Join(dir, "launch")
	if out, err := exec.Command("go", "build", "-o", launch, ".").CombinedOutput(); err != nil {
		t.Fatalf("building launch: %v\n%s", err, out)
	}
	for name, text := range map[string]string{"train.py": slurmTrainer, ".launch-job.yaml": slurmDeclaration,
		"config.py": "BATCH = 8\nACCUM = 1\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	gpus := 1
	if os.Geteuid() != 0 {
		gpus = 0
	}
	c := slurmtest.Start(t, slurmtest.Nodes{Count: 1, CPUs: 1, MemoryMB: 8000, GPUs: gpus})
	trace := filepath.Join(dir, "trace")
	in := func(cmd *exec.Cmd, more ...string) *exec.Cmd {
		cmd.Dir = dir
		cmd.Env = append(slices.Clone(c.Env), "HOME="+dir, "TRACE="+trace, "LONG=0.3", "LAUNCH_STATE_DIR="+dir+"/state",
			"PATH="+dir+":"+os.Getenv("PATH"))
		cmd.Env = append(cmd.Env, more...)
		return cmd
	}
	line := func(options string, args ...string) []byte {
		t.Helper()
		cmd := in(exec.Command(launch, slices.Concat([]string{"sbatch-line", "--save-before=50s", "--sbatch=" + options},
			args, []string{"--", testPython(), "train.py", "--name", "one", "--lr", "0.3"})...))
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v\n%s", cmd.Args, err, errs.String())
		}
		return out
	}
	sbatch := func(script []byte, args ...string) (string, error) {
		cmd := in(exec.Command("sbatch", args...))
		cmd.Stdin = bytes.NewReader(script)
		out, err := cmd.CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	asked := line("--time=1")
	for _, want := range []string{"#SBATCH --gres=gpu:1", "# no --mem:", "TERM=3.5s", "has no 75"} { // KillWait is 5s
		if !strings.Contains(string(asked), want) {
			t.Errorf("%q is not in\n%s", want, asked)
		}
	}
	if out, err := sbatch(asked, "--test-only"); (err == nil) != (gpus > 0) {
		t.Errorf("sbatch on a cluster with %d cards: %v: %s\n%s", gpus, err, out, asked)
	}
	script := line("--time=1 --mem=200M --gres=none --wait --output=job.log")
	out, err := sbatch(script)
	said := textOf(t, filepath.Join(dir, "job.log"))
	if err == nil || !strings.Contains(said, "saved states/one/last.json") {
		t.Fatalf("near its time limit the job was to save and exit with 75: %v: %s\n%s\n%s\n%s", err, out, script, said,
			c.Logs())
	}
	if out, err := sbatch(script); err != nil {
		t.Fatalf("submitted again: %v: %s\n%s", err, out, textOf(t, filepath.Join(dir, "job.log")))
	}
	seen, step := strings.Fields(textOf(t, trace)), 0
	if len(seen) == 8 { // one from 0, one from N, one done
		fmt.Sscan(seen[5], &step)
	}
	if step == 0 || seen[len(seen)-1] != "done" {
		t.Errorf("submitted again, it did not go on from the saved state: %q", seen)
	}
}

func textOf(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}

// rowsOf lists what came of each row of a sweep.
func rowsOf(t *testing.T, export *exec.Cmd) (rows []string) {
	t.Helper()
	out, err := export.Output()
	var doc struct {
		Rows []map[string]any `json:"rows"`
	}
	if err == nil {
		err = json.Unmarshal(out, &doc)
	}
	if err != nil {
		t.Fatalf("%v: %v\n%s", export.Args, err, out)
	}
	for _, r := range doc.Rows {
		rows = append(rows, fmt.Sprint(r["trial"], r["state"], r["changes"], r["batch"], r["cost"]))
	}
	return rows
}
