package proc

import (
	"fmt"
	"testing"
	"testing/fstest"
)

// A tree is the part of Linux's files that the count reads.
type tree fstest.MapFS

func (t tree) put(name, text string) { t[name] = &fstest.MapFile{Data: []byte(text)} }

const (
	hybrid = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n" +
		"35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n" +
		"41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
	unified   = "26 23 0:23 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n"
	local     = "26 23 0:23 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,memory_localevents\n"
	container = "600 590 0:23 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"

	v1File, v2File = "memory.oom_control", "memory.events"
)

func events(n int) string {
	return fmt.Sprintf("low 0\nhigh 0\nmax 12\noom 3\noom_kill %d\noom_group_kill 0\n", n)
}

func control(n int) string {
	return fmt.Sprintf("oom_kill_disable 0\nunder_oom 0\noom_kill %d\n", n)
}

func machine(n int) string { return fmt.Sprintf("nr_free_pages 1\noom_kill %d\nunevictable 0\n", n) }

// What the kernel counts while a program runs, group by group; -1 is not known.
func TestOOMCount(t *testing.T) {
	const launch, program, worker = 10, 20, 30
	for _, tt := range []struct {
		name    string
		mounts  string
		groups  map[int]string // of launch, the program and its worker
		files   map[string]int // the counters before
		after   map[string]int // those that change; -1 is gone
		machine [2]int         // /proc/vmstat, -1 where there is none
		want    int
	}{
		{name: "v2, nobody", mounts: unified, groups: map[int]string{launch: "0::/user.slice/a.scope\n"},
			files: map[string]int{"sys/fs/cgroup/user.slice/a.scope/" + v2File: 2}, want: 0},
		{name: "v2, one of ours", mounts: unified, groups: map[int]string{launch: "0::/user.slice/a.scope\n"},
			files:   map[string]int{"sys/fs/cgroup/user.slice/a.scope/" + v2File: 2},
			after:   map[string]int{"sys/fs/cgroup/user.slice/a.scope/" + v2File: 3},
			machine: [2]int{7, 8}, want: 1},
		{name: "v2, a scope of the program's own", mounts: unified,
			groups:  map[int]string{launch: "0::/user.slice/a.scope\n", program: "0::/user.slice/run.scope\n"},
			files:   map[string]int{"sys/fs/cgroup/user.slice/a.scope/" + v2File: 0, "sys/fs/cgroup/user.slice/run.scope/" + v2File: 0},
			after:   map[string]int{"sys/fs/cgroup/user.slice/run.scope/" + v2File: 2},
			machine: [2]int{0, 2}, want: 2},
		{name: "v2, a group below ours, counted in both", mounts: unified,
			groups:  map[int]string{launch: "0::/a\n", program: "0::/a/b\n"},
			files:   map[string]int{"sys/fs/cgroup/a/" + v2File: 0, "sys/fs/cgroup/a/b/" + v2File: 0},
			after:   map[string]int{"sys/fs/cgroup/a/" + v2File: 1, "sys/fs/cgroup/a/b/" + v2File: 1},
			machine: [2]int{0, 1}, want: 1},
		{name: "v2, where a group counts for itself alone", mounts: local,
			groups:  map[int]string{launch: "0::/a\n", program: "0::/a/b\n"},
			files:   map[string]int{"sys/fs/cgroup/a/" + v2File: 0, "sys/fs/cgroup/a/b/" + v2File: 0},
			after:   map[string]int{"sys/fs/cgroup/a/b/" + v2File: 1},
			machine: [2]int{0, 1}, want: 1},
		{name: "v2, another name begins as ours does", mounts: unified,
			groups:  map[int]string{launch: "0::/job\n", program: "0::/job2\n"},
			files:   map[string]int{"sys/fs/cgroup/job/" + v2File: 0, "sys/fs/cgroup/job2/" + v2File: 0},
			after:   map[string]int{"sys/fs/cgroup/job2/" + v2File: 1},
			machine: [2]int{0, 1}, want: 1},
		{name: "v1, one of ours", mounts: hybrid, groups: map[int]string{launch: "4:memory:/job\n3:cpuset:/\n0::/\n"},
			files:   map[string]int{"sys/fs/cgroup/memory/job/" + v1File: 5},
			after:   map[string]int{"sys/fs/cgroup/memory/job/" + v1File: 7},
			machine: [2]int{9, 11}, want: 2},
		{name: "v1, a worker in a group below, which alone counts it", mounts: hybrid,
			groups:  map[int]string{launch: "4:memory:/job\n0::/\n", worker: "4:memory:/job/w\n0::/\n"},
			files:   map[string]int{"sys/fs/cgroup/memory/job/" + v1File: 0, "sys/fs/cgroup/memory/job/w/" + v1File: 0},
			after:   map[string]int{"sys/fs/cgroup/memory/job/w/" + v1File: 1},
			machine: [2]int{0, 1}, want: 1},
		{name: "v1 in a container that sees the host's paths", mounts: container,
			groups:  map[int]string{launch: "4:memory:/docker/abc\n"},
			files:   map[string]int{"sys/fs/cgroup/memory/" + v1File: 0},
			after:   map[string]int{"sys/fs/cgroup/memory/" + v1File: 1},
			machine: [2]int{0, 1}, want: 1},
		{name: "somebody else's group", mounts: unified, groups: map[int]string{launch: "0::/a\n"},
			files: map[string]int{"sys/fs/cgroup/a/" + v2File: 0}, machine: [2]int{0, 1}, want: -1},
		{name: "the group went with its last process", mounts: unified,
			groups:  map[int]string{launch: "0::/a\n", program: "0::/b\n"},
			files:   map[string]int{"sys/fs/cgroup/a/" + v2File: 0, "sys/fs/cgroup/b/" + v2File: 0},
			after:   map[string]int{"sys/fs/cgroup/b/" + v2File: -1},
			machine: [2]int{0, 1}, want: -1},
		{name: "no machine's count to say that there was none", mounts: unified, groups: map[int]string{launch: "0::/a\n"},
			files: map[string]int{"sys/fs/cgroup/a/" + v2File: 0}, machine: [2]int{-1, -1}, want: -1},
		{name: "the root group of version 2 has no count", mounts: unified, groups: map[int]string{launch: "0::/\n"}, want: 0},
		{name: "nothing can be read", groups: map[int]string{launch: "0::/\n"}, machine: [2]int{-1, -1}, want: -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := tree{}
			count := func(file string, n int) {
				switch {
				case n < 0:
					delete(root, file)
				case file[len(file)-len(v2File):] == v2File:
					root.put(file, events(n))
				default:
					root.put(file, control(n))
				}
			}
			for _, p := range []int{launch, program, worker} {
				if tt.groups[p] == "" {
					tt.groups[p] = tt.groups[launch]
				}
				root.put(fmt.Sprintf("proc/%d/cgroup", p), tt.groups[p])
			}
			root.put("proc/self/cgroup", tt.groups[launch])
			root.put("proc/self/mountinfo", tt.mounts)
			root.put(fmt.Sprintf("proc/%d/task/%d/children", launch, launch), fmt.Sprintf("%d ", program))
			root.put(fmt.Sprintf("proc/%d/task/%d/children", program, program), "")
			root.put(fmt.Sprintf("proc/%d/task/%d/children", program, program+1), fmt.Sprintf("%d ", worker)) // another thread's
			for file, n := range tt.files {
				count(file, n)
			}
			if tt.machine[0] >= 0 {
				root.put(vmstat, machine(tt.machine[0]))
			}
			c := countOOM(fstest.MapFS(root))
			c.look(launch)
			for file, n := range tt.after {
				count(file, n)
			}
			if tt.machine[1] >= 0 {
				root.put(vmstat, machine(tt.machine[1]))
			}
			if got := c.since(); got != tt.want {
				t.Errorf("counted %d, want %d in %v", got, tt.want, c.groups)
			}
		})
	}
}
