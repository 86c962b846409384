// Package local has what a sweep needs of this machine: its folders (store.go), a copy of its code (tree.go), the
// program that chooses its trials (ask.go), and the trials, each a launch of its own, a child of this process.
//
// A trial outlives this process if it is killed. While it lives, it holds a lock on the file of its output, which it
// has inherited: so there is no moment in which a process that continues the sweep could take a living trial for a
// dead one. The process to be signalled is found by its command line, which names the file of the result.
package local

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/sweep"
)

// An Executor implements [sweep.Executor].
type Executor struct {
	Options
	ends chan sweep.End

	mu      sync.Mutex
	running map[int]*os.Process // by trial: the children of this process
	adopted map[int]string      // by trial: the results of those that an earlier process started
	pids    map[int]int         // by trial: the launches of those
}

var (
	_ sweep.Executor = (*Executor)(nil)
	_ sweep.Keeper   = (*Executor)(nil)
)

// New returns an executor.
func New(o Options) *Executor {
	o.Launch = cmp.Or(o.Launch, itself)
	return &Executor{Options: o, ends: make(chan sweep.End, 16), running: map[int]*os.Process{},
		adopted: map[int]string{}, pids: map[int]int{}}
}

// itself is this process's own program. Its file may be exchanged or away while a sweep runs, as in an upgrade: the
// kernel keeps what was started.
const itself = "/proc/self/exe"

// Ends implements [sweep.Executor].
func (x *Executor) Ends() <-chan sweep.End { return x.ends }

// Start implements [sweep.Executor].
func (x *Executor) Start(s sweep.Start) error {
	if s.Begun {
		x.adopt(s)
		return nil
	}
	if err := os.MkdirAll(x.Folder(s.Trial), 0o700); err != nil {
		return fmt.Errorf("making the folder of trial %d: %w", s.Trial, err)
	}
	out, err := private.Open(Output(x.Folder(s.Trial)), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the output of trial %d: %w", s.Trial, err)
	}
	defer out.Close()
	if err := hold(out); err != nil {
		return fmt.Errorf("starting trial %d: %w", s.Trial, err)
	}
	cmd := exec.Command(x.Launch)
	cmd.Args = append([]string{"launch"}, x.args(s)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = x.Dir, out, out
	cmd.Env = append(os.Environ(), s.Invocation.Env...)
	// A session of its own: Ctrl-C on the terminal reaches the sweep alone, which passes it on.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting trial %d: %w", s.Trial, err)
	}
	x.mu.Lock()
	x.running[s.Trial] = cmd.Process
	x.mu.Unlock()
	go func() {
		cmd.Wait()
		x.end(s, cmd.Process.Pid, cmd.ProcessState)
	}()
	return nil
}

// args returns launch's arguments for a start.
func (x *Executor) args(s sweep.Start) []string {
	flags := append(slices.Clone(x.Flags), "--json-file="+x.Result(s.Trial, s.Number))
	if x.Mark != nil {
		flags = append(flags, s.Invocation.MarkFlag(x.Mark(s.Trial, s.Number)))
	}
	if s.Card != nil && x.OnCard != nil {
		flags = append(flags, x.OnCard(s.Card)...)
	}
	if s.Resume == "" {
		for _, set := range s.Invocation.Set {
			flags = append(flags, "--set="+set)
		}
		return slices.Concat(flags, []string{"--"}, s.Invocation.Args)
	}
	flags = slices.DeleteFunc(flags, func(f string) bool { return strings.HasPrefix(f, "--set=") }) // its record has them
	args := append([]string{"resume", s.Resume}, flags...)
	if record.HasMask(record.MaskArgs(s.Invocation.Args)) { // the record has no secrets
		args = slices.Concat(args, []string{"--"}, s.Invocation.Args)
	}
	return args
}

// end delivers the end of a start whose process is gone. exit is how it ended; nil: an earlier process started it.
func (x *Executor) end(s sweep.Start, pid int, exit *os.ProcessState) {
	x.mu.Lock()
	delete(x.running, s.Trial)
	delete(x.adopted, s.Trial)
	delete(x.pids, s.Trial)
	x.mu.Unlock()
	x.ends <- sweep.End{Trial: s.Trial, Start: s.Number, Result: x.result(s, pid, exit)}
}

// Stop implements [sweep.Executor]. A launch that is asked to stop passes that on to its program; one that is killed
// takes its program with it.
func (x *Executor) Stop(trial int, now bool) {
	sig := syscall.SIGINT
	if now {
		sig = syscall.SIGKILL
	}
	x.send(trial, sig)
}

// Save implements [sweep.Saver].
func (x *Executor) Save(trial int) { x.send(trial, cmp.Or(x.SaveOn, syscall.SIGINT)) }

// Launches are the processes of the running trials' launches, by trial.
func (x *Executor) Launches() map[int]int {
	x.mu.Lock()
	defer x.mu.Unlock()
	all := maps.Clone(x.pids)
	for trial, p := range x.running {
		all[trial] = p.Pid
	}
	return all
}

func (x *Executor) send(trial int, sig syscall.Signal) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p := x.running[trial]; p != nil {
		p.Signal(sig)
	} else if path := x.adopted[trial]; path != "" {
		go x.signal(trial, path, sig)
	}
}

// signal sends a signal to a trial that an earlier process started. The trial may not have its command line yet: then
// it is looked for again until it has ended.
func (x *Executor) signal(trial int, path string, sig syscall.Signal) {
	for {
		if pid := living(filepath.Dir(path))[path]; pid != 0 && send(pid, path, sig) {
			return
		}
		time.Sleep(50 * time.Millisecond)
		x.mu.Lock()
		over := x.adopted[trial] != path
		x.mu.Unlock()
		if over {
			return
		}
	}
}

// send sends a signal to a launch, and to no later process with its number.
func send(pid int, path string, sig syscall.Signal) bool {
	p, err := os.FindProcess(pid) // on Linux this holds the process, not its number
	return err == nil && names(pid, path) && p.Signal(sig) == nil
}

// adopt waits for a start that an earlier process began.
func (x *Executor) adopt(s sweep.Start) {
	path := x.Result(s.Trial, s.Number)
	x.mu.Lock()
	x.adopted[s.Trial] = path
	x.mu.Unlock()
	go func() {
		pid := living(filepath.Dir(path))[path]
		if pid != 0 {
			x.mu.Lock()
			x.pids[s.Trial] = pid
			x.mu.Unlock()
		}
		wait(Output(x.Folder(s.Trial)))
		// A file system may have no locks. A process that is just ending may have no command line for a moment, and then
		// have one again.
		for missed := 0; pid != 0 && missed < 3; missed++ {
			if names(pid, path) {
				missed = 0
				time.Sleep(20 * time.Millisecond)
			}
		}
		x.end(s, pid, nil)
	}()
}

// patience is how long a trial that starts again waits for what its launch, which was killed, has left to end.
const patience = 10 * time.Second

// hold locks the output of a trial. The trial inherits the lock with the file, and holds it while it lives.
func hold(out *os.File) (err error) {
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		err = unix.Flock(int(out.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil // it is locked, or the file system has no locks
		}
		if time.Now().After(end) {
			return errors.New("an earlier start of it is still running")
		}
	}
}

// wait returns when no trial holds the lock on its output.
func wait(output string) {
	f, err := private.Open(output, os.O_RDONLY, 0)
	if err != nil {
		return // it was never started
	}
	defer f.Close()
	for errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH), unix.EINTR) {
	}
}

const jsonFile = "--json-file="

// living lists the launches whose results lie in a folder or below it, by their results.
func living(below string) map[string]int {
	found := map[string]int{}
	procs, _ := os.ReadDir("/proc")
	for _, e := range procs {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		for _, arg := range args(pid) {
			if path, ok := bytes.CutPrefix(arg, []byte(jsonFile+below+"/")); ok {
				found[filepath.Join(below, string(path))] = pid
			}
		}
	}
	return found
}

// names reports whether a process is a launch that writes its result there.
func names(pid int, path string) bool {
	return slices.ContainsFunc(args(pid), func(arg []byte) bool { return string(arg) == jsonFile+path })
}

// args are launch's own arguments in the command line of a process: those before "--".
func args(pid int) [][]byte {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	all := bytes.Split(text, []byte{0})
	if i := slices.IndexFunc(all, func(a []byte) bool { return string(a) == "--" }); i >= 0 {
		all = all[:i]
	}
	return all
}

// Signal asks trials of a sweep whose driving process is gone to stop, and returns how many there were.
func Signal(trials string, now bool) (n int) {
	sig := syscall.SIGINT
	if now {
		sig = syscall.SIGKILL
	}
	for path, pid := range living(trials) {
		if send(pid, path, sig) {
			n++
		}
	}
	return n
}
