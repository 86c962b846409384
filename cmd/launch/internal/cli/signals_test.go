package cli

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/attempt"
)

// A signal that comes while no program runs is an error that names it; what came while one ran was the program's.
func TestPendingSignals(t *testing.T) {
	if err := (Signals)(nil).Pending(); err != nil {
		t.Errorf("heard by nobody: %v", err)
	}
	e := Collect(nil)
	defer e.Close()
	send := func() {
		t.Helper()
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(10 * time.Second); len(e) == 0; {
			if time.Now().After(deadline) {
				t.Fatal("the signal never came")
			}
			time.Sleep(time.Millisecond)
		}
	}
	send()
	var came *attempt.Interrupted
	if err := e.Pending(); !errors.As(err, &came) || came.Signal != syscall.SIGTERM {
		t.Errorf("it came as %v", err)
	}
	send()
	e.Forget()
	if err := e.Pending(); err != nil {
		t.Errorf("what the program got came again: %v", err)
	}
}
