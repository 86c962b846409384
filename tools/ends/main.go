// Ends runs a program. When that has ended, it ends all that the program has started: ends PROGRAM ARGUMENTS…
//
// The Makefile runs `go test` by it. A test that is stopped at its timeout cleans up nothing. What it leaves running
// would slow what comes next, or wait for ever. The exit code is the program's.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "ends:", err)
	}
	os.Exit(code)
}

func run(args []string) (code int, err error) {
	if len(args) == 0 {
		return 2, errors.New("no program is named")
	}
	// What loses its parent becomes a child of this process, so that none is out of reach.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 2, fmt.Errorf("becoming a subreaper: %w", err)
	}
	path, err := exec.LookPath(args[0])
	if err != nil {
		return 2, err
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP)
	runtime.LockOSThread() // Pdeathsig is sent when this thread ends
	program, err := syscall.ForkExec(path, args, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2},
		Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}})
	if err != nil {
		return 2, fmt.Errorf("starting %s: %w", path, err)
	}
	go func() {
		for s := range signals {
			_ = syscall.Kill(program, s.(syscall.Signal))
		}
	}()
	defer endAll()
	for { // as init does: a test may look whether a process is gone
		var status syscall.WaitStatus
		switch pid, err := syscall.Wait4(-1, &status, 0, nil); {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 2, fmt.Errorf("waiting for %s: %w", path, err)
		case pid == program && status.Signaled():
			return 128 + int(status.Signal()), nil
		case pid == program && status.Exited():
			return status.ExitStatus(), nil
		}
	}
}

// endAll kills the children of this process, and those that it gets as they end, until none is left.
func endAll() {
	for range 1000 {
		for _, pid := range children() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err == syscall.ECHILD {
				return
			} else if pid <= 0 {
				break
			}
		}
		time.Sleep(10 * time.Millisecond) // one that is being killed still counts
	}
}

// children are the processes whose parent is this one.
func children() (all []int) {
	files, _ := filepath.Glob("/proc/self/task/*/children")
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for _, field := range strings.Fields(string(text)) {
			var pid int
			if _, err := fmt.Sscan(field, &pid); err == nil {
				all = append(all, pid)
			}
		}
	}
	return all
}
