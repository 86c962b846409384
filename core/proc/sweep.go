package proc

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// sweep kills the program and all that descends from it, sessions of their own or not, until nobody is left: whoever loses
// its parent becomes our child, so nobody gets away by forking faster. It passes on the program's own death.
//
// A cgroup of the program's own (cgroup.kill) was left: it would kill nobody else, and the program would find itself in
// another cgroup than bare, without the files of the limits that it may go by, which Slurm then could not remove.
func (w *warden) sweep(deaths <-chan death) {
	program := w.pid
	if program != 0 && w.tty >= 0 {
		_ = unix.Kill(-program, unix.SIGKILL) // most of them in one go
	}
	pause := time.Millisecond
	for deaths != nil {
		for _, pid := range descendants(os.Getpid(), nil) {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		select {
		case d, ok := <-deaths:
			if !ok {
				return
			}
			if d.pid == program && !d.status.Stopped() {
				w.died(d)
			}
		case <-time.After(pause): // somebody may have forked while we looked, or is stuck in the kernel
			pause = min(2*pause, time.Second)
		}
	}
}

// adopters is how many Runs want what their keepers would leave behind.
var adopters atomic.Int32

// adopt makes this process the next parent of what a keeper leaves behind should it be killed, until the function that it returns
// is called: from then on what the program has left running is nobody's of ours.
func adopt() (release func()) {
	if adopters.Add(1) == 1 {
		_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	}
	return sync.OnceFunc(func() {
		if adopters.Add(-1) == 0 {
			_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
		}
	})
}

// takeUp does a killed keeper's work: it kills all that descends from the program, so that no rank stays on the card.
func (a *attempt) takeUp() {
	a.exit.Signal = unix.SIGKILL
	if a.st.ctl != nil && a.exit.Pid > 0 {
		_ = unix.Kill(-a.exit.Pid, unix.SIGKILL) // most of them in one go
	}
	// The end of its socket comes before its children become ours, which they are once it can be collected.
	_ = unix.Kill(a.k.pid, unix.SIGKILL)
	limit := time.Now().Add(5 * time.Second) // what is stuck in the kernel stays so
	for time.Now().Before(limit) {
		if pid, err := unix.Wait4(a.k.pid, nil, unix.WNOHANG, nil); pid == a.k.pid || err == unix.ECHILD {
			break
		}
		time.Sleep(time.Millisecond)
	}
	killed := map[int]bool{}
	for pause := time.Millisecond; time.Now().Before(limit); pause = min(2*pause, 100*time.Millisecond) {
		adopted := descendants(os.Getpid(), ours)
		for _, pid := range adopted {
			_ = unix.Kill(pid, unix.SIGKILL)
			killed[pid] = true
		}
		for pid := range killed { // one by one: the statuses of our own children are for those who started them
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
		if len(adopted) == 0 {
			return
		}
		time.Sleep(pause)
	}
}

// ours reports whether a child of this process was started by itself: this same executable, in one of its other parts. Another
// plugin's program, which is the only other child that may be left, has given its answer before there is a program.
func ours(pid int) bool {
	proc := "/proc/" + strconv.Itoa(pid)
	self, err := os.Stat("/proc/self/exe")
	if err != nil {
		return false
	}
	exe, err := os.Stat(proc + "/exe")
	if err != nil || !os.SameFile(self, exe) {
		return false
	}
	line, _ := os.ReadFile(proc + "/cmdline")
	args := bytes.Split(line, []byte{0})
	return len(args) > 1 && bytes.HasPrefix(args[1], []byte("__"))
}

// descendants lists all processes that descend from pid, from one reading of /proc, without the children that spare names and what
// descends from them; spare may be nil.
func descendants(pid int, spare func(child int) bool) []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	children := map[int][]int{}
	for _, name := range names {
		p, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if state, parent, ok := statOf(p); ok && state != 'Z' && state != 'X' {
			children[parent] = append(children[parent], p)
		}
	}
	var all []int
	if spare != nil {
		children[pid] = slices.DeleteFunc(children[pid], spare)
	}
	for todo := []int{pid}; len(todo) > 0; todo = todo[1:] {
		all = append(all, children[todo[0]]...)
		todo = append(todo, children[todo[0]]...)
	}
	return all
}

// statOf reads the state and the parent of a process.
func statOf(pid int) (state byte, parent int, ok bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0, false
	}
	i := bytes.LastIndexByte(stat, ')') // the name before it may hold anything
	fields := bytes.Fields(stat[i+1:])
	if len(fields) < 2 || len(fields[0]) != 1 {
		return 0, 0, false
	}
	parent, err = strconv.Atoi(string(fields[1]))
	return fields[0][0], parent, err == nil
}

// isStopped reports whether a process is stopped by a signal, now.
func isStopped(pid int) bool {
	state, _, ok := statOf(pid)
	return ok && state == 'T'
}
