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

func collectSignals() pendingSignals {
	e := make(pendingSignals, 1)
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
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
func (e pendingSignals) Forget() { e.Pending() }

func (e pendingSignals) close() {
	if e != nil {
		signal.Stop(e)
	}
}
