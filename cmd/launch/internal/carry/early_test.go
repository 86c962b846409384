package carry

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/launch-ml/launch/cmd/launch/internal/claims"
	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/sameness"
	"github.com/launch-ml/launch/core/attempt"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/ui"
)

// Interrupted before its program starts, a run ends as one that was interrupted, with 128 and the signal, and nothing was started.
func TestInterruptedEarly(t *testing.T) {
	store := record.Store{Dir: t.TempDir()}
	rec, err := store.Create(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	e := make(cli.Signals, 1)
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
	c := &Carrier{Say: ui.Printer{W: os.Stderr, Quiet: true}, Claims: &claims.Claims{},
		Options: attempt.Options{Quiet: true, State: t.TempDir()}}
	err = c.Finish(t.Context(), r, rec, sameness.Already(nil), attempt.Setup{Signals: e})
	var code cli.ExitCode
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
