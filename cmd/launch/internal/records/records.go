// Package records opens what launch keeps of runs: their records, their receipts, and the results of sweeps.
package records

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"time"

	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/sweep"
	"github.com/launch-ml/launch/core/sweep/local"
	"github.com/launch-ml/launch/core/sweep/slurm"
	"github.com/launch-ml/launch/core/ui"
)

// New makes the record of a run that this launch begins. row is the mark of the sweep's row that it is.
func New(state, row string) (*record.Record, error) {
	rec, err := record.In(state).Create(time.Now())
	if err == nil {
		CarryRow(rec, row)
	}
	return rec, err
}

// CarryRow marks the record of a run that this launch carries for a sweep's row, and keeps room for the run's end: on a
// disk that is full by then, a row that succeeded would be trained again.
func CarryRow(rec *record.Record, row string) {
	if rec.Row = row; row != "" {
		rec.Reserve()
	}
}

// ID is how messages name a run.
func ID(rec *record.Record) string {
	if rec == nil {
		return ui.NotRecorded
	}
	return rec.ID
}

// Receipts is the store of receipts, which outlives the records of runs.
func Receipts(state string) record.Receipts {
	return record.Receipts{Path: filepath.Join(state, "receipts.jsonl")}
}

// ClearLeftovers removes the files of trials whose launch was killed.
func ClearLeftovers(state string, say ui.Printer) {
	for _, path := range record.In(state).Tidy() {
		say.Line("removed files that a killed rehearsal had left: %s", path)
	}
}

// tidyDeadline bounds how long launch prunes records after a program has ended. The next launch continues.
const tidyDeadline = 2 * time.Second

// Prune removes old records after a program has ended, at most once a day.
func Prune(state string) {
	store, now := record.In(state), time.Now()
	if !store.Due(now) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), tidyDeadline)
	defer cancel()
	if _, err := store.Prune(ctx, record.Usual, now, Resumable, false); err == nil {
		store.Done(now) // else the next launch continues
	}
}

// Resumable reports whether `launch resume` could continue a run.
func Resumable(h *record.History) bool {
	r := h.Run()
	if r == nil {
		return false
	}
	if _, err := os.Stat(r.Job.Command.Dir); errors.Is(err, fs.ErrNotExist) {
		return false // without the project's folder, resume refuses
	}
	d := &ui.RunDoc{ID: h.ID, State: ui.RowOf(h, record.Life{}).State}
	d.Continue(r, h.Stop(), h.LastOutcome())
	return len(d.GoOn) > 0
}

// Masking knows whose home folder not to show.
func Masking() record.Mask {
	m := record.Mask{}
	m.Home, _ = os.UserHomeDir()
	if u, err := user.Current(); err == nil {
		m.User = u.Username
	}
	return m
}

// Collected reads a sweep, with the results of tasks that nobody has collected yet.
func Collected(sweeps local.Folders, name string) (*sweep.History, error) {
	h, err := sweeps.Read(name)
	if err == nil && h.Spec.Engine != nil && sweeps.Driver(name) == 0 {
		slurm.Collect(sweeps.Folder(name), h)
	}
	return h, err
}
