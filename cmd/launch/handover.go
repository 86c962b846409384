package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/proc"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/ui"
)

// What launch does where it lacks something itself (processes, files, room on a disk): the training runs all the same.

// handOver runs the program in place of launch, which lacks what it needs to run it. It returns only where that fails, too.
func (x *executor) handOver(spec proc.Spec, why error) error {
	const what = "the program runs in place of launch: nothing is watched, and an out-of-memory is its end"
	x.say.Warn("%v: %s", why, what)
	if x.record != nil {
		x.record.Write(record.Event{Kind: record.Stopped, Stop: &run.Stop{Why: why.Error() + ": " + what}})
	}
	writeResult(x.settings, x.say, result{Version: 1, Run: id(x.record), Ending: "not watched", Code: -1, Error: why.Error() + ": " + what, Job: x.job})
	if x.settle != nil {
		x.settle()
	}
	return proc.Replace(spec)
}

// ownTrouble reports whether a run that came to nothing did so for a reason of launch's own, so that the command can run as typed.
func ownTrouble(err error) bool {
	var code exitCode
	var own *ownExit
	var sooner *interruptedEarly
	return err != nil && !errors.As(err, &code) && !errors.As(err, &own) && !errors.As(err, &sooner)
}

// trialFailed makes an error of launch's own in a trial the trial's outcome: the run itself is made all the same.
func trialFailed(p *run.Plan, out run.Outcome, err error) (run.Outcome, error) {
	if _, start := startCode(err); p.Trial == "" || start || !ownTrouble(err) {
		return out, err
	}
	return run.Outcome{Ending: run.Failed, Cause: err.Error(), Began: time.Now()}, nil
}

// startedIn is the folder that launch was started in.
var startedIn, _ = os.Getwd()

// folderFor is the folder in which a program is to be started: "" where it is launch's own, which need not be there any more, nor
// be one that we may enter.
func folderFor(dir string) string {
	if now, err := os.Getwd(); err == nil && now == dir && now == startedIn {
		return ""
	}
	return dir
}

// passing reports whether an attempt's folder is removed after it, because it is not in the run's record.
func (x *executor) passing(dir string) bool {
	return dir != "" && (x.record == nil || !strings.HasPrefix(dir, x.record.Dir+string(filepath.Separator)))
}

// note notes what a trial will leave, for the next launch to remove should this one be killed with everything else.
func (x *executor) note(dir, scratch, name string) (forget func(), err error) {
	leaves := []string{scratch}
	if x.passing(dir) {
		leaves = []string{dir}
	}
	for _, path := range x.job.Rehearsal.Leaves {
		if strings.Contains(path, job.ScratchName) {
			leaves = append(leaves, absolute(x.job.Command.Dir, strings.ReplaceAll(path, job.ScratchName, name)))
		}
	}
	return record.Store{Dir: x.settings.runs()}.Note(leaves...)
}

// clearLeftovers removes what trials of killed launches have left.
func clearLeftovers(s settings, say ui.Printer) {
	for _, path := range (record.Store{Dir: s.runs()}).Tidy() {
		say.Line("removed what a trial that was killed had left: %s", path)
	}
}
