package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/attempt"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/ui"
)

// A signal that comes while no program runs is an error that names it; what came while one ran was the program's.
func TestPendingSignals(t *testing.T) {
	if err := (pendingSignals)(nil).Pending(); err != nil {
		t.Errorf("heard by nobody: %v", err)
	}
	e := collectSignals(nil)
	defer e.close()
	send := func() {
		t.Helper()
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(10 * time.Second); len(e) == 0; {
			if time.Now().After(deadline) {
				t.Fatal("the signal never came")
			}
			time.Sleep(time.Millisecond)
		}
	}
	send()
	var came *attempt.Interrupted
	if err := e.Pending(); !errors.As(err, &came) || came.Signal != syscall.SIGTERM {
		t.Errorf("it came as %v", err)
	}
	send()
	e.Forget()
	if err := e.Pending(); err != nil {
		t.Errorf("what the program got came again: %v", err)
	}
}

// Under nohup, and in the background of a shell without job control, signals are ignored from the start: they stay ignored.
func TestSignalsUnderNohup(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		".launch-job.yaml": "script: train.py\nmicro-batch: {conf.py: C.batch}\nprogress: 'step (?P<iteration>\\d+)'\nsucceeded: 'is over'\n",
		"conf.py":          "class C:\n    batch = 4\n",
		"train.py":         "for l in open(f'/proc/{__import__(\"os\").getenv(\"LAUNCH_PID\")}/status'):\n    if l.startswith('SigIgn'): print(l)\nprint('step 1')\nprint('is over')\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	launch := filepath.Join(t.TempDir(), "launch")
	if err := os.Symlink(self, launch); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("sh", "-c", `trap '' HUP INT; export LAUNCH_PID=$$; exec "$0" -q --device cpu -- "$1" train.py`, launch, testPython())
	c.Dir, c.Env = dir, append(os.Environ(), "HOME="+t.TempDir())
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var mask uint64
	_, said, _ := strings.Cut(string(out), "SigIgn:")
	if _, err := fmt.Sscanf(said, "%x", &mask); err != nil || mask&1 == 0 || mask>>(syscall.SIGINT-1)&1 == 0 {
		t.Errorf("launch itself ignores %x while the program runs, and was started with SIGHUP and SIGINT ignored:\n%s", mask, out)
	}
}

// Interrupted before its program starts, a run ends as one that was interrupted, with 128 and the signal, and nothing was started.
func TestInterruptedEarly(t *testing.T) {
	store := record.Store{Dir: t.TempDir()}
	rec, err := store.Create(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	e := make(pendingSignals, 1)
	e <- syscall.SIGINT
	dir := t.TempDir()
	r := &run.Run{
		Job: &job.Job{Command: job.Command{Args: []string{"sh", "-c", "touch started"}, Dir: dir, Env: os.Environ()}, Resume: job.Resume{None: "it saves nothing"}},
		Ladders: &ladder.Set{
			Shared: ladder.Ladder{Phase: ladder.Shared, Rungs: []ladder.Rung{{Name: "as asked"}}},
			Phases: []ladder.Ladder{{Phase: ladder.Training, Rungs: []ladder.Rung{{Name: "as asked", Estimates: []mem.Estimate{{Unknown: "no formula"}}}}}},
		},
		Limits: run.Limits{AsAsked: true},
	}
	if err := rec.Write(record.Event{Kind: record.Started, Run: r}); err != nil {
		t.Fatal(err)
	}
	err = finish(t.Context(), settings{Quiet: true, State: t.TempDir()}, r, rec, ui.Printer{W: os.Stderr, Quiet: true},
		already(nil), attempt.Setup{Signals: e})
	var code exitCode
	if !errors.As(err, &code) || code != 130 {
		t.Errorf("it ended as %v, want exit code 130", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "started")); err == nil {
		t.Error("the program was started")
	}
	h, err := store.Read(rec.ID)
	if err != nil {
		t.Fatal(err)
	}
	if row := ui.RowOf(h, record.Life{}); row.State != string(run.Interrupted) {
		t.Errorf("the run is %q", row.State)
	}
}
