package main

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/launch-ml/launch/core/attempt"
)

// pendingSignals collects signals that arrive while no program is running: after the plan was shown, and between attempts. They
// would end launch, and leave a run without a recorded end. Signals that launch was started with ignored (nohup, a shell's
// background) stay ignored. It implements [attempt.Signals].
type pendingSignals chan os.Signal

// notices are further signals that announce the end of the run.
func collectSignals(notices []attempt.Notice) pendingSignals {
	e := make(pendingSignals, 1)
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
func (e pendingSignals) Pending() error {
	select {
	case sig := <-e:
		return &attempt.Interrupted{Signal: sig}
	default:
		return nil
	}
}

// Forget implements [attempt.Signals].
func (e pendingSignals) Forget() { _ = e.Pending() }

func (e pendingSignals) close() {
	if e != nil {
		signal.Stop(e)
	}
}
