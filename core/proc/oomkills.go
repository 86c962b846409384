package proc

import (
	"io/fs"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/unit"
)

func bytes64(n int64) unit.Bytes { return unit.Bytes(n) }

// An oomCount counts the processes that the kernel kills for memory while a program runs: in our own cgroup, and in each
// in which the program, or what it has started, was seen. It may be put into another one than ours by itself (cgexec,
// systemd-run --scope), and a group is counted where the process that was killed stood, not where the limit was set
// (Linux, mm/oom_kill.c, __oom_kill_process): version 1 counts it there alone, version 2 in the groups above as well
// (include/linux/memcontrol.h, memcg_memory_event).
type oomCount struct {
	root    fs.FS
	groups  map[string]*kills // by their file
	seen    map[string]bool   // what /proc/PID/cgroup said, and was looked at
	machine kills             // of all groups, and of none
	family  map[int]bool      // processes that were seen, a bounded number
}

// kills is a count at first sight, and as last read; -1 where it cannot be read.
type kills struct{ before, now int }

func newOOMCount() *oomCount { return countOOM(os.DirFS("/")) }

func countOOM(root fs.FS) *oomCount {
	n := oomKills(root, vmstat)
	c := &oomCount{root: root, groups: map[string]*kills{}, seen: map[string]bool{}, machine: kills{n, n}, family: map[int]bool{}}
	c.see("self")
	return c
}

const vmstat = "proc/vmstat"

// see counts in the cgroup of a process as well.
func (c *oomCount) see(pid string) {
	text, err := fs.ReadFile(c.root, "proc/"+pid+"/cgroup")
	if err != nil || c.seen[string(text)] {
		return
	}
	c.seen[string(text)] = true
	file, nested := oomFile(c.root, string(text))
	if file == "" || c.groups[file] != nil {
		return
	}
	for other := range c.groups {
		if nested && strings.HasPrefix(path.Dir(file)+"/", path.Dir(other)+"/") {
			return // it counts there
		}
	}
	n := oomKills(c.root, file)
	c.groups[file] = &kills{n, n}
}

// Looks at where the processes stand: often at first, which is when they move, and then for no more than a thousandth of a
// core, by the time that a look takes the core: on a busy machine it mostly waits.
const (
	firstOOMLook = 10 * time.Millisecond
	oftenOOMLook = 250 * time.Millisecond
	mostOOMLook  = 10 * time.Second
	oomLookShare = 1000
)

// mostFamily bounds what is kept of a program that starts processes for ever.
const mostFamily = 1 << 16

// follow looks at all that descends from a process, until done is closed.
func (c *oomCount) follow(pid int, done <-chan struct{}) {
	runtime.LockOSThread() // whose time is taken
	defer runtime.UnlockOSThread()
	for pause := firstOOMLook; ; {
		select {
		case <-done:
			return
		case <-time.After(pause):
		}
		began := threadTime()
		c.look(pid)
		if pause *= 2; pause > oftenOOMLook {
			pause = min(max(oftenOOMLook, oomLookShare*(threadTime()-began)), mostOOMLook)
		}
	}
}

// threadTime is how long this thread has had a core.
func threadTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t)
	return time.Duration(t.Nano())
}

// look counts in the groups of all that descends from a process, which itself is one of ours.
func (c *oomCount) look(pid int) {
	family := []string{strconv.Itoa(pid)}
	for i := 0; i < len(family) && len(family) < 1000; i++ {
		c.see(family[i])
		if n, err := strconv.Atoi(family[i]); err == nil && n != pid && len(c.family) < mostFamily {
			c.family[n] = true
		}
		tasks, _ := fs.ReadDir(c.root, "proc/"+family[i]+"/task")
		for _, t := range tasks {
			text, _ := fs.ReadFile(c.root, "proc/"+family[i]+"/task/"+t.Name()+"/children")
			family = append(family, strings.Fields(string(text))...)
		}
	}
	c.read() // a group may be removed with the last process in it
}

func (c *oomCount) read() {
	for file, k := range c.groups {
		if n := oomKills(c.root, file); n >= 0 {
			k.now = n
		}
	}
}

// since is how many were killed since c was made: in its groups; or 0 where the kernel has killed nobody for memory on the
// whole machine; or -1, not known: somebody was killed, in none of these groups as far as can be read.
func (c *oomCount) since() int {
	c.read()
	sum := 0
	for _, k := range c.groups {
		if k.before >= 0 {
			sum += k.now - k.before
		}
	}
	if sum > 0 {
		return sum
	}
	if c.machine.now = oomKills(c.root, vmstat); c.machine.before >= 0 && c.machine.now == c.machine.before {
		return 0
	}
	return -1
}

// oomKills reads the count from memory.events (cgroup v2), memory.oom_control (v1) or /proc/vmstat (since Linux 4.13): each
// has a line "oom_kill N".
func oomKills(root fs.FS, file string) int {
	text, err := fs.ReadFile(root, file)
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, "oom_kill "); ok {
			if n, err := strconv.Atoi(strings.TrimSpace(v)); err == nil {
				return n
			}
		}
	}
	return -1
}

// oomFile finds the file of the cgroup that a /proc/PID/cgroup names, "" if there is none that we can see, and whether the
// groups above count what is counted there.
func oomFile(root fs.FS, groups string) (file string, nested bool) {
	mounts, err := fs.ReadFile(root, "proc/self/mountinfo")
	if err != nil {
		return "", false
	}
	var v1, v2 string
	for line := range strings.Lines(groups) {
		f := strings.SplitN(strings.TrimRight(line, "\n"), ":", 3)
		if len(f) != 3 {
			continue
		}
		switch {
		case f[1] == "":
			v2 = f[2]
		case hasWord(f[1], "memory"):
			v1 = f[2]
		}
	}
	for line := range strings.Lines(string(mounts)) {
		// 31 23 0:28 ROOT POINT options [optional...] - TYPE SOURCE SUPEROPTIONS
		head, tail, ok := strings.Cut(strings.TrimSpace(line), " - ")
		f, g := strings.Fields(head), strings.Fields(tail)
		if !ok || len(f) < 5 || len(g) < 3 {
			continue
		}
		at, name := v2, "memory.events"
		switch {
		case g[0] == "cgroup" && v1 != "" && hasWord(g[2], "memory"):
			at, name = v1, "memory.oom_control"
		case g[0] == "cgroup2" && v1 == "" && v2 != "":
			nested = !hasWord(g[2], "memory_localevents")
		default:
			continue
		}
		if strings.HasPrefix(at, "/..") {
			continue // of another namespace, and above what is mounted here
		}
		file := strings.TrimPrefix(path.Join(f[4], below(at, f[3]), name), "/")
		if oomKills(root, file) >= 0 {
			return file, nested
		}
	}
	return "", false
}

// below is a group's path as seen from a mount of root.
func below(at, root string) string {
	if root == "/" {
		return at
	}
	return strings.TrimPrefix(at, root)
}

func hasWord(list, word string) bool {
	for _, w := range strings.Split(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}
