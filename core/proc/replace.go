package proc

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/proc/internal/keep"
)

// A MeansError says that launch lacks what it needs to run a program: processes, files. Nothing was started, and [Replace] can
// still run it.
type MeansError struct {
	Doing string
	Err   error
}

func (e *MeansError) Error() string { return fmt.Sprintf("%s: %v", e.Doing, e.Err) }
func (e *MeansError) Unwrap() error { return e.Err }

// Replace runs the program of s in place of this process, with its input and outputs: nothing is seen of it, and its end is this
// process's own. It needs no more than the program does. It returns only where the program cannot be started.
func Replace(s Spec) error {
	if s.Env == nil {
		s.Env = os.Environ()
	}
	path, err := look(s)
	if err != nil {
		return err
	}
	if s.Dir != "" {
		if err := os.Chdir(s.Dir); err != nil {
			return &StartError{s.Args[0], err}
		}
	}
	if s.Limit > 0 {
		var limit unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_DATA, &limit); err == nil {
			limit.Cur = min(uint64(s.Limit), limit.Max)
			_ = unix.Setrlimit(unix.RLIMIT_DATA, &limit)
		}
	}
	keep.Ignoring(ignoredAtStart(), nil, nil, func() {
		err = syscall.Exec(path, s.Args, s.Env)
		if err == syscall.ENOEXEC { // a script without a first line, which shells and execvp give to sh
			err = syscall.Exec("/bin/sh", append([]string{"sh", path}, s.Args[1:]...), s.Env)
		}
	})
	return &StartError{s.Args[0], err}
}
