package proc

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// hertz is the unit of the times in proc_pid_stat(5): USER_HZ is 100 on every Linux.
const hertz = 100

// Use is what the processes that this one has started have taken of the processors.
type Use struct {
	CPU time.Duration // ever, of those that run now
	// Runs: one of them would run, and may be waiting for a processor.
	Runs bool
}

// Used looks at the processes below this one.
func Used() (u Use) {
	queue := Children(os.Getpid())
	for n := 0; n < len(queue) && n < 64; n++ {
		queue = append(queue, Children(queue[n])...)
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", queue[n]))
		for _, path := range threads[:min(len(threads), 64)] {
			stat, err := os.ReadFile(path)
			if err != nil {
				continue
			}
			const state, utime, stime = 0, 11, 12 // after the name in parentheses: fields 3, 14 and 15
			f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
			if len(f) <= stime {
				continue
			}
			u.Runs = u.Runs || f[state] == "R"
			for _, ticks := range []string{f[utime], f[stime]} {
				n, _ := strconv.ParseInt(ticks, 10, 64)
				u.CPU += time.Duration(n) * time.Second / hertz
			}
		}
	}
	return u
}

// Children are those that a process has started and that have not been orphaned.
func Children(pid int) (pids []int) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		b, _ := os.ReadFile(task)
		for _, field := range strings.Fields(string(b)) {
			if n, err := strconv.Atoi(field); err == nil {
				pids = append(pids, n)
			}
		}
	}
	return pids
}
