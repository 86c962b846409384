package attempt

import (
	"errors"
	"strings"

	"github.com/launch-ml/launch/core/proc"
	"github.com/launch-ml/launch/core/run"
)

// ExitCode returns the code that launch exits with, and a text that names its origin. status is the last program's,
// trouble the executor's: if output was lost, a program that exits 0 has not succeeded; if the keeper was killed, the
// end of the program is unknown. last is nil for a command that no plugin recognised.
func ExitCode(status int, last *run.Attempt, stop *run.Stop, trouble error) (code int, whose string) {
	code, whose = status, "the program's own"
	switch {
	case errors.Is(trouble, proc.ErrKeeper):
		code, whose = run.OwnTrouble, trouble.Error()
	case stop.Code != 0:
		code = stop.Code
		whose = map[int]string{
			run.TryLater:   "launch's: " + tryLater(stop),
			run.CannotFit:  "launch's: cannot fit at the allowed cost",
			run.OwnTrouble: "launch's: the program did not take the settings of the plan",
		}[code]
		if len(stop.Unlike) > 0 {
			whose = "launch's: it would mix two experiments"
		}
	case last != nil && last.Plan.Trial != "" && last.Outcome.Ending == run.Interrupted && code == 0:
		code, whose = 130, "launch's: interrupted before the run began"
	case trouble != nil && code == 0:
		code, whose = 1, "launch's: the program exited 0, but "+trouble.Error()
	case last != nil && last.Outcome.Silent:
		code, whose = 1, "launch's: the program exited 0 but never printed its success line"
	case last != nil && last.Outcome.Lied && last.Outcome.Ending != run.Interrupted:
		code, whose = 1, "launch's: the program exited 0, but its output reports a failure"
	}
	return code, whose
}

// tryLater is why a run that did not come to its end may be tried again, without the figures of the line that stops it.
func tryLater(stop *run.Stop) string {
	if stop.By == "" {
		why, _, _ := strings.Cut(stop.Why, ": ")
		return why + "; retry later or on another machine"
	}
	_, what, told := strings.Cut(stop.Why, ": ")
	switch {
	case !told:
		return stop.Why
	case stop.By == "launch stop":
		return what + ", as launch stop asked"
	}
	return what + " after the signal " + stop.By
}
