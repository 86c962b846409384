package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/launch-ml/launch/core/confine"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/states"
)

// cutShort is what the attempt has left whose end launch did not see, because it was killed: nothing where every attempt has ended.
// What was noted while it ran shows whose it is, as after any other. total is of how many steps it has reported, 0 where that is not
// known. locks is the folder of launch's locks.
func cutShort(h *record.History, j *job.Job, locks string) (f states.Found, made []string, total int64) {
	began, ok := h.CutOff()
	if !ok || began.Plan == nil || began.Plan.Trial != "" {
		return f, nil, 0
	}
	folder := attemptDir(h.Dir, began.Plan.Attempt)
	log := filepath.Join(folder, outputFile)
	e := states.Evidence{Printed: printed(log, j.Command.Dir)}
	d, err := oom.NewDetector(j.Signs)
	if err != nil {
		return f, nil, 0
	}
	if out, err := record.OpenOutput(log); err == nil {
		io.Copy(d, out)
		out.Close()
		e.Stepped = record.OutputTime(log) // it printed something then, and so went on
	}
	state := d.State()
	if !j.Signs.CountsMicro {
		total = state.Total
	}
	roots, globs := confine.New(j), slices.Concat(j.Signs.States, j.Resume.Aside, j.Resume.InTheWay)
	notes, wrote, err := states.ReadNotes(folder)
	if err != nil { // an older launch kept none: what is left are times, in a folder of which it held the lock
		notes.Before = states.List(roots, globs).Until(began.Time)
		if j.Exclusive != "" {
			notes.Held = []string{j.Exclusive}
		}
	}
	e.Wrote, e.Held = wrote, notes.Held
	if !state.Stepped(j.Signs) {
		e.Stepped = time.Time{}
	}
	for folder, who := range notes.Marked {
		if states.Undisturbed(locks, folder, who) && (state.Stepped(j.Signs) || !j.Signs.Has(job.Progress)) {
			e.Held = append(e.Held, folder)
		}
	}
	if max(0, state.Iteration) >= j.Signs.StateAfter {
		f = states.Newest(roots, j.Signs, notes.Before, e)
	}
	return f, states.Made(movables{roots}, slices.Concat(j.Resume.Aside, j.Resume.InTheWay), notes.Before, e), total
}

// attemptDir is the folder of an attempt: the last, where launch died and it was made again.
func attemptDir(run string, n int) string {
	dir := filepath.Join(run, fmt.Sprintf("attempt-%d", n))
	for again := 2; ; again++ {
		next := fmt.Sprintf("%s.%d", filepath.Join(run, fmt.Sprintf("attempt-%d", n)), again)
		if _, err := os.Stat(next); err != nil {
			return dir
		}
		dir = next
	}
}
