package attempt

import (
	"strings"
	"syscall"
	"testing"

	"github.com/launch-ml/launch/core/proc"
	"github.com/launch-ml/launch/core/run"
)

// Whose exit code it is, and that of what never began is no success.
func TestExitCode(t *testing.T) {
	ended := func(ending run.Ending, trial run.Trial) *run.Attempt {
		return &run.Attempt{Plan: run.Plan{Trial: trial}, Outcome: run.Outcome{Ending: ending}}
	}
	lied := ended(run.Failed, "")
	lied.Outcome.Lied = true
	saved := ended(run.Interrupted, "")
	saved.Outcome.Left = "launch stop: the program saved its state and was stopped"
	older := run.Outcome{Left: "launch stop: the program was stopped", Saved: &run.State{Iteration: 9}}
	itself := run.Outcome{Left: "SIGTERM ended the program"}
	notice := run.Outcome{Left: "SIGUSR2: the program was stopped"}
	full := &proc.OutputError{From: proc.Output, Err: syscall.ENOSPC}
	for name, tt := range map[string]struct {
		status int
		last   *run.Attempt
		stop   run.Stop
		lost   error
		code   int
		whose  string
	}{
		"a success":                 {0, ended(run.Succeeded, ""), run.Stop{}, nil, 0, "the program's own"},
		"a failure":                 {3, ended(run.Failed, ""), run.Stop{}, nil, 3, "the program's own"},
		"one that says 0":           {0, lied, run.Stop{}, nil, 1, "its output reports a failure"},
		"one that saves and says 0": {0, ended(run.Interrupted, ""), run.Stop{}, nil, 0, "the program's own"},
		"no room": {1, ended(run.OutOfMemory, ""), run.Stop{Code: run.TryLater,
			Why: "no memory: 1 GiB"}, nil, run.TryLater, "launch's: no memory; retry later"},
		"stopped and saved": {0, saved, *saved.Outcome.Ended(), nil, run.TryLater,
			"launch's: the program saved its state and was stopped, as launch stop asked"},
		"stopped by a scheduler": {143, ended(run.Interrupted, ""), *notice.Ended(), nil, run.TryLater,
			"launch's: the program was stopped after the signal SIGUSR2"},
		"stopped at once, after an older state": {143, ended(run.Interrupted, ""), *older.Ended(), nil, run.TryLater,
			"launch's: the program was stopped, as launch stop asked"},
		"ended by the signal itself": {143, ended(run.Interrupted, ""), *itself.Ended(), nil, run.TryLater,
			"launch's: SIGTERM ended the program"},
		"typed, and stopped": {143, nil, *older.Ended(), nil, run.TryLater,
			"launch's: the program was stopped, as launch stop asked"},
		"a rehearsal that was interrupted": {0, ended(run.Interrupted, "rehearsal"), run.Stop{}, nil, 130, "before the run began"},
		"one that said so with its own":    {143, ended(run.Interrupted, "rehearsal"), run.Stop{}, nil, 143, "the program's own"},
		"output was lost":                  {0, ended(run.Succeeded, ""), run.Stop{}, full, 1, "standard output could not be written: no space left on device"},
		"it was typed, and output lost":    {0, nil, run.Stop{}, full, 1, "launch's"},
		"the program noticed":              {9, ended(run.Failed, ""), run.Stop{}, full, 9, "the program's own"},
	} {
		if code, whose := ExitCode(tt.status, tt.last, &tt.stop, tt.lost); code != tt.code || !strings.Contains(whose, tt.whose) {
			t.Errorf("%s: %d, %s; want %d, %s", name, code, whose, tt.code, tt.whose)
		}
	}
}
