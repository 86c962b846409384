package attempt

import (
	"errors"

	"github.com/launch-ml/launch/core/proc"
	"github.com/launch-ml/launch/core/run"
)

// ExitCode is the code that launch exits with, and whose it is, after a last attempt whose program ended with that status. trouble
// is the executor's: where output could not be written, a program that did not notice has not succeeded; where the keeper
// was killed, nobody knows how the program would have ended. last is nil for a command that no plugin recognised.
func ExitCode(status int, last *run.Attempt, stop *run.Stop, trouble error) (code int, whose string) {
	code, whose = status, "the program's own"
	switch {
	case errors.Is(trouble, proc.ErrKeeper):
		code, whose = run.OwnTrouble, trouble.Error()
	case stop.Code != 0:
		code = stop.Code
		whose = map[int]string{
			run.TryLater: "launch's: no room now, or preempted; elsewhere or later", run.CannotFit: "launch's: cannot fit at the allowed cost",
			run.OwnTrouble: "launch's: the settings did not reach the program",
		}[code]
	case last != nil && last.Plan.Trial != "" && last.Outcome.Ending == run.Interrupted && code == 0:
		code, whose = 130, "launch's: interrupted before the run itself began"
	case trouble != nil && code == 0:
		code, whose = 1, "launch's: the program exited 0, but "+trouble.Error()
	case last != nil && last.Outcome.Silent:
		code, whose = 1, "launch's: the program exited 0, and the words by which it says that it succeeded never came"
	case last != nil && last.Outcome.Lied && last.Outcome.Ending != run.Interrupted:
		code, whose = 1, "launch's: the program exited 0, and its own words say that it failed"
	}
	return code, whose
}
