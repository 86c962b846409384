package proc

import (
	"bytes"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/proc/internal/keep"
)

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
		adopted := keep.Descendants(os.Getpid(), ours)
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

// isStopped reports whether a process is stopped by a signal, now.
func isStopped(pid int) bool {
	state, _, ok := keep.StatOf(pid)
	return ok && state == 'T'
}
