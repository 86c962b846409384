package report

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/advice"
	"github.com/launch-ml/launch/core/attempt"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/ui"
)

// Explain explains texts, or one run of a store. An argument is a file, a folder, "-" for standard input, or a run's name.
func Explain(store record.Store, args []string) (ui.Explanation, error) {
	var files []string
	named := len(args) > 1 // then evidence names its file
	for _, arg := range args {
		info, err := os.Stat(arg)
		switch {
		case arg == "-":
			files = append(files, arg)
		case err == nil && info.IsDir():
			found, err := newest(arg)
			if err != nil {
				return ui.Explanation{}, err
			}
			files, named = append(files, found...), true
		case err == nil:
			files = append(files, arg)
		case len(args) == 1 && !strings.ContainsAny(arg, `/\`):
			return ExplainRun(store, arg)
		default:
			return ui.Explanation{}, fmt.Errorf("reading what to explain: %w", err)
		}
	}
	return explainTexts(files, named)
}

// explainTexts explains files, "-" for standard input. Each is a stream of its own, so that the first rank that failed
// is found when each rank has a log.
func explainTexts(files []string, named bool) (ui.Explanation, error) {
	x := ui.Explanation{Source: ui.Source{Kind: "text", Files: files}}
	d, err := oom.NewDetector(job.Signs{})
	if err != nil {
		return x, err
	}
	for _, path := range files {
		stream := oom.Terminal
		if named {
			stream = streamOf(path)
		}
		kind, err := read(d, path, stream)
		var cut *cutOff
		switch {
		case errors.As(err, &cut):
			x.Source.Cut = cut.Error()
		case err != nil:
			return x, err
		}
		if kind == notebookInput {
			x.Source.Kind = kind
		}
	}
	x.Report, x.Clues = d.Report(oom.Exit{}), advice.CluesIn(d.Kept())
	x.Clues.Notebook = x.Clues.Notebook || x.Source.Kind == notebookInput
	x.Advise(nil)
	return x, nil
}

// lastLines is how many of a program's last lines are shown if nothing else explains its failure.
const lastLines = 8

// ExplainRun explains the last attempt of a run. name is as launch show takes it.
func ExplainRun(store record.Store, name string) (ui.Explanation, error) {
	id, err := store.Find(name)
	if err != nil {
		return ui.Explanation{}, fmt.Errorf("%s is neither a file nor a run: %w", name, err)
	}
	h, err := store.Read(id)
	if err != nil {
		return ui.Explanation{}, err
	}
	row := ui.RowOf(h, h.Life())
	d := &ui.RunDoc{ID: id, Command: row.Command, State: row.State, Attempts: []ui.AttemptDoc{}}
	x := ui.Explanation{Source: ui.Source{Kind: "run", Files: []string{}}, Run: d}
	r, stop := h.Run(), h.Stop()
	out := h.LastOutcome()
	x.Report = oom.Report{Kind: oom.NoMemory, Phase: oom.Unknown, Stage: string(oom.Unknown)}
	var options []run.Option
	if out != nil {
		d.Take(out)
		x.Report = out.Report
		if out.Ending == run.Succeeded || out.Ending == run.Interrupted { // an out-of-memory on the way did not end it
			x.Report.OOM, x.Report.Possible, x.Report.Fatal = false, false, false
		} else if x.Report.Cause == "" || out.Ending == run.Failed && x.Report.OOM {
			x.Report.Cause = out.Cause
		}
	}
	if path := output(h); path != "" {
		d.Output = path
		x.Source.Files = []string{path}
		x.Clues = Clues(path)
		if d.State == string(run.Failed) && len(x.Report.Evidence) == 0 || d.State == "cut off" {
			d.LastLines, _ = record.Tail(path, lastLines)
		}
	}
	if r != nil {
		d.Job = ui.Title(r.Job)
		for _, m := range r.Mixed {
			d.Mixed = append(d.Mixed, m.String())
		}
		for _, a := range r.Attempts {
			d.Attempts = append(d.Attempts, ui.AttemptDoc{Number: a.Plan.Attempt, Changes: a.Plan.Changes(), Trial: a.Plan.Trial, Ending: a.Outcome.Ending,
				Cause: a.Outcome.Cause, Phase: a.Outcome.Phase})
		}
		if l := r.Last(); l != nil && l.Plan.Room > 0 {
			d.RoomBytes = &l.Plan.Room
		}
		d.SavedState = r.Saved()
		// its record does not list its saved state
		if f := attempt.CutShort(h, r.Job, store.Locks(), h.Life().Over()); f.State != nil && r.Job.Resume.None == "" {
			d.SavedState = f.State
		}
		options = r.Options()
	} else if out != nil {
		d.Attempts = append(d.Attempts, ui.AttemptDoc{Number: 1, Changes: "as asked", Ending: out.Ending, Cause: out.Cause, Phase: out.Phase})
	}
	d.LimitBytes = h.Limit()
	x.Clues.Limit = d.LimitBytes
	d.Continue(r, stop, out)
	x.Advise(options)
	return x, nil
}

// output returns the newest output file of a run; "" if there is none.
func output(h *record.History) string {
	for _, path := range file.WrittenSince(file.Folder(h.Dir), filepath.Join("attempt-*", record.OutputFile), time.Time{}) {
		return path
	}
	return ""
}

// Clues reads the clues of an output file whose verdict is known. A file that cannot be read gives none.
func Clues(path string) advice.Clues {
	d, err := oom.NewDetector(job.Signs{})
	if err != nil {
		return advice.Clues{Uses: []string{}}
	}
	_, _ = read(d, path, oom.Terminal)
	return advice.CluesIn(d.Kept())
}
