package cli

import (
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/launch-ml/launch/core/attempt"
)

// Signals collects signals that arrive while no program is running: after the plan was shown, and between attempts.
// They would end launch, and leave a run without a recorded end. Signals that launch was started with ignored (nohup, a
// shell's background) stay ignored. It implements [attempt.Signals].
type Signals chan os.Signal

// Collect begins to collect. notices are further signals that announce the end of the run.
func Collect(notices []attempt.Notice) Signals {
	e := make(Signals, 1)
	all := []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}
	for _, n := range notices {
		all = append(all, n.Signal)
	}
	for _, sig := range all {
		if !signal.Ignored(sig) {
			signal.Notify(e, sig)
		}
	}
	return e
}

// Pending implements [attempt.Signals].
func (e Signals) Pending() error {
	select {
	case sig := <-e:
		return &attempt.Interrupted{Signal: sig}
	default:
		return nil
	}
}

// Forget implements [attempt.Signals].
func (e Signals) Forget() { _ = e.Pending() }

// Close ends the collecting.
func (e Signals) Close() {
	if e != nil {
		signal.Stop(e)
	}
}

// Leaves reports whether a signal announces the end of the run (--save-on): the run goes on elsewhere or later.
func Leaves(notices []attempt.Notice, sig os.Signal) bool {
	return slices.ContainsFunc(notices, func(n attempt.Notice) bool { return n.Signal == sig })
}

// Number is the number of a signal.
func Number(s os.Signal) int {
	n, _ := s.(syscall.Signal)
	return int(n)
}
