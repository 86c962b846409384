package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// early hears the signals that come while no program runs to take them: behind the plan that a person reads before the program
// starts, and between two attempts. Without it they would end launch, and leave a run of which nobody knows how it ended. Those that
// launch was started with ignored (nohup, a shell's background) stay so.
type early chan os.Signal

func hearEarly() early {
	e := make(early, 1)
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(sig) {
			signal.Notify(e, sig)
		}
	}
	return e
}

// came is the signal that came, as an error; nil for none.
func (e early) came() error {
	select {
	case sig := <-e:
		return &interruptedEarly{sig.(syscall.Signal)}
	default:
		return nil
	}
}

// forget what came while a program ran: it was the program's.
func (e early) forget() { e.came() }

func (e early) close() {
	if e != nil {
		signal.Stop(e)
	}
}

// interruptedEarly says that launch was interrupted while no program ran.
type interruptedEarly struct{ signal syscall.Signal }

func (e *interruptedEarly) Error() string {
	return fmt.Sprintf("interrupted (%v) while no program ran", e.signal)
}
