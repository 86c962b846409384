package host

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/proc"
)

// data limits what one process of a plugin may have as data: the largest of the built-in ones takes a tenth of it.
// RLIMIT_AS would not do: Go reserves more address space than it ever uses.
const data = 4 << 30

// allowance is how much host memory the processes of another author's plugin may take together: data, and no more
// than a quarter of what the machine has. Half a GiB is always theirs.
var allowance = sync.OnceValue(func() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return data
	}
	return min(data, max(int64(info.Totalram)*int64(info.Unit)/4, 512<<20))
})

// Allow sets the allowance, for a test.
func Allow(bytes int64) { allowance = func() int64 { return bytes } }

// every is the time between two looks at a plugin's processes.
const every = 20 * time.Millisecond

// A watch knows the processes that a plugin has started, so that all of them end with it, and together they stay
// within the allowance. It finds them as children of those that it knows: one that is started, orphaned and in
// another process group within the same 20 ms escapes it.
type watch struct {
	root int

	mu    sync.Mutex
	seen  map[int]string // their start, by which a number that was given again is told from the first
	taken int64          // more than the allowance; 0: it kept to it
	most  int64          // the allowance, in bytes
}

// follow looks until done is closed. over is called once when the allowance is used up.
func (w *watch) follow(done <-chan struct{}, over func()) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if sum := w.look(); sum > w.most {
			w.mu.Lock()
			w.taken = sum
			w.mu.Unlock()
			over()
			return
		}
		select {
		case <-done:
			return
		case <-tick.C:
		}
	}
}

// look finds new processes, and adds up the host memory that all of them take.
func (w *watch) look() (sum int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen == nil {
		w.seen = map[int]string{w.root: started(w.root)}
	}
	queue := make([]int, 0, len(w.seen))
	for pid, start := range w.seen {
		if start != "" && started(pid) == start {
			queue = append(queue, pid)
		} else {
			delete(w.seen, pid)
		}
	}
	for len(queue) > 0 {
		pid := queue[0]
		queue = queue[1:]
		sum += resident(pid)
		for _, child := range proc.Children(pid) {
			if _, known := w.seen[child]; !known {
				w.seen[child] = started(child)
				queue = append(queue, child)
			}
		}
	}
	return sum
}

// end kills the processes that are left.
func (w *watch) end() {
	w.look()
	w.mu.Lock()
	defer w.mu.Unlock()
	for pid, start := range w.seen {
		if pid != w.root && start != "" && started(pid) == start {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// why is the reason why the plugin was ended, or nil.
func (w *watch) why() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.taken == 0 {
		return nil
	}
	return fmt.Errorf("its processes took %.1f GiB of host memory, and were ended: a plugin may have %.1f GiB here",
		float64(w.taken)/(1<<30), float64(w.most)/(1<<30))
}

// started returns when a process was started, in the kernel's words; "" if there is none, or it has ended.
func started(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	const state, start = 0, 19 // after the name in parentheses: fields 3 and 22 of proc_pid_stat(5)
	f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(f) <= start || f[state] == "Z" {
		return ""
	}
	return f[start]
}

// resident is the host memory that a process takes, without what it only reads from files. What it has written into a
// memfd counts, also where that is not mapped.
func resident(pid int) int64 {
	private, shared := mapped(pid)
	return private + max(shared, memfds(pid))
}

// memfds is what the open memfds of a process hold.
func memfds(pid int) (sum int64) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	fds, _ := os.ReadDir(dir)
	for _, fd := range fds {
		path := filepath.Join(dir, fd.Name())
		if to, err := os.Readlink(path); err != nil || !strings.HasPrefix(to, "/memfd:") {
			continue
		}
		var st unix.Stat_t
		if unix.Stat(path, &st) == nil {
			sum += st.Blocks * 512
		}
	}
	return sum
}

func mapped(pid int) (private, shared int64) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		switch name {
		case "RssAnon":
			private = kib << 10
		case "RssShmem":
			shared = kib << 10
		}
	}
	return private, shared
}
