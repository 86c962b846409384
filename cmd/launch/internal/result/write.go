package result

import (
	"encoding/json"
	"errors"

	"github.com/launch-ml/launch/cmd/launch/internal/cli"
	"github.com/launch-ml/launch/cmd/launch/internal/sameness"
	"github.com/launch-ml/launch/cmd/launch/internal/settings"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/ui"
	"github.com/launch-ml/launch/core/unit"
)

// Writer writes how a launch ended: to --json-file, and as notices.
type Writer struct {
	To      settings.ResultFile
	Notices settings.Notices
	Nodes   settings.Nodes
}

// Write writes a result, and sends the notices. Every end of a run comes here once.
func (w Writer) Write(say ui.Printer, r Result) {
	defer Send(say, w.Notices, noticeOf(w.Nodes, r))
	if w.To.File == "" {
		return
	}
	if r.Job != nil {
		j := *r.Job
		j.Asked = record.MaskAsked(j.Asked)
		j.Command.Args, j.Command.Env = record.MaskArgs(j.Command.Args), record.MaskEnv(j.Command.Env)
		j.Command.Sources, j.Command.Formulas = nil, nil
		r.Job = &j
	}
	r.Metrics = run.Metrics(r.Attempts)
	if r.Job != nil {
		r.Checklist = run.Checklist(r.Job, r.Attempts)
	}
	last, room := r.Outcome, unit.Bytes(0)
	for i := range r.Attempts { // after those that ended as the run did may come one that was cut off before
		if a := &r.Attempts[i]; a.Outcome.Ending == r.Ending {
			last, room = &a.Outcome, a.Plan.Room
		}
	}
	if r.Ending == run.OutOfMemory || r.Stop != nil && r.Stop.Code == run.CannotFit {
		r.Infeasible = run.Short(r.Stop, last, room)
	}
	r.Version, r.Summary = Version, r.summary()
	b, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = private.Save(w.To.File, append(ui.CleanJSON(b), '\n'))
	}
	if err != nil {
		say.Warn("writing %s: %v", w.To.File, err)
	}
}

// Replaced returns the function that writes the result of a program that runs in place of launch.
func (w Writer) Replaced(say ui.Printer, name string, j *job.Job) func(string) {
	return func(why string) {
		w.Write(say, Result{Run: name, Ending: NotWatched, Code: -1, Error: why, Job: j})
	}
}

// Failed writes an error of launch's own, so that nobody takes an older result for this run's. An error with an
// [cli.ExitCode] has already written its result.
func (w Writer) Failed(say ui.Printer, err error) {
	var code cli.ExitCode
	if err == nil || errors.As(err, &code) || CheckFile(w.To) != nil {
		return
	}
	r := Result{Ending: NotRun, Code: run.OwnTrouble, Error: err.Error(),
		Whose: "launch's: nothing was started"}
	var own *cli.OwnExit
	if errors.As(err, &own) {
		r.Code = own.Code
	}
	if other := (*sameness.UnlikeError)(nil); errors.As(err, &other) {
		r.Run, r.Unlike = other.Run, other.What
	}
	w.Write(say, r)
}

// Busy reports that another launch has the run, and exits with 75.
func (w Writer) Busy(say ui.Printer, name string, j *job.Job, why error) error {
	say.Line("%v", why)
	w.Write(say, Result{Run: name, Ending: NotRun, Code: run.TryLater, Error: why.Error(), Job: j})
	return cli.ExitCode(run.TryLater)
}
