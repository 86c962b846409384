package proc

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/unit"
)

// An Exit is how a program ended, and what else a verdict on it needs.
type Exit struct {
	Code   int            // its exit code; 0 if a signal ended it
	Signal syscall.Signal // the signal that ended it, or 0
	Pid    int            // its process id, while it ran
	Took   time.Duration  // from its start to its end

	Interrupted bool             // the user pressed the interrupt key, or SIGINT came
	Signals     []syscall.Signal // the signals that came for it while it ran, in order, however they reached it
	Cancelled   bool             // it was asked to end because the context was done
	Killed      bool             // it was killed because it did not end within the grace

	MaxRSS   unit.Bytes   // the most memory that one of its processes had resident
	OOMKills int          // processes that the kernel killed for memory in our cgroup, or the program's, while it ran; -1 if that is not known
	Family   map[int]bool // processes that were seen to be it, or to descend from it: not all, where some were short-lived
	Left     bool         // it left processes running
	Remains  *Remains     // these, where Spec.Hold asked for them; else nil

	Untapped int64 // bytes that Spec.Tap was not told, because it hung
	Output   error // an *OutputError: the first failure to pass its output on, such as a full disk
}

// String says how the program ended, as a shell would.
func (e Exit) String() string {
	if e.Signal != 0 {
		return fmt.Sprintf("killed by signal %d (%s)", int(e.Signal), unix.SignalName(e.Signal))
	}
	return fmt.Sprintf("exit %d", e.Code)
}

// Status is what a shell's $? would be: the exit code, or 128 and the signal.
func (e Exit) Status() int {
	if e.Signal != 0 {
		return 128 + int(e.Signal)
	}
	return e.Code
}

// An OutputError says that something the program printed did not get where it was to go.
type OutputError struct {
	From Stream
	Err  error
}

func (e *OutputError) Error() string {
	name := "standard output"
	if e.From == Error {
		name = "standard error"
	}
	if errors.Is(e.Err, os.ErrDeadlineExceeded) {
		return name + " was not read to its end"
	}
	return fmt.Sprintf("%s could not be written: %v", name, e.Err)
}

func (e *OutputError) Unwrap() error { return e.Err }

// Become ends this process as the program ended: with its exit code or by its signal, without a core of our own. It does
// not return. Input that was typed for nobody is handed back to the terminal first, where the kernel allows it.
func (e Exit) Become() {
	handBack(int(os.Stdin.Fd()))
	if e.Signal != 0 && os.Getpid() != 1 { // the kernel does not let signals end process 1
		dieOf(e.Signal)
	}
	os.Exit(e.Status())
}

// dieOf ends this process by sig. It returns where sig does not end processes.
func dieOf(sig syscall.Signal) {
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	runtime.LockOSThread()
	var set unix.Sigset_t
	set.Val[(sig-1)/64] |= 1 << ((uint(sig) - 1) % 64)
	_ = unix.PthreadSigmask(unix.SIG_UNBLOCK, &set, nil)
	action(sig, &sigaction{}) // not by way of the runtime, which turns some into a stack dump and exit 2
	_ = unix.Tgkill(os.Getpid(), unix.Gettid(), sig)
}

// A StartError says that the program could not be started, and nothing was.
type StartError struct {
	Command string
	Err     error
}

func (e *StartError) Error() string {
	switch {
	case errors.Is(e.Err, errNotFound):
		return fmt.Sprintf("command not found: %s", e.Command)
	case errors.Is(e.Err, syscall.E2BIG):
		return fmt.Sprintf("cannot run %s: its arguments and environment are too long together", e.Command)
	}
	return fmt.Sprintf("cannot run %s: %v", e.Command, e.Err)
}

func (e *StartError) Unwrap() error { return e.Err }

// ExitCode is what shells and coreutils end with: 127 where there is no such command, else 126.
func (e *StartError) ExitCode() int {
	if errors.Is(e.Err, errNotFound) || errors.Is(e.Err, syscall.ENOENT) {
		return 127
	}
	return 126
}
