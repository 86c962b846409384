// Package hostmem looks at the rooms of the host: its memory and /dev/shm. It reads Linux's files; where they are not
// there a room is not known, which is not empty.
package hostmem

import (
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"

	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/unit"
)

// Look measures the rooms of this host, as a program started here would have them.
func Look() ladder.HostRooms {
	return look(os.DirFS("/"), shm)
}

// shmPath is where torch's shared memory lies: shm_open's, which a container limits to 64 MiB unless it is told more.
const shmPath = "/dev/shm"

// shm is what is free of /dev/shm; ok is false where there is none.
func shm() (free unit.Bytes, ok bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(shmPath, &s); err != nil {
		return 0, false
	}
	return unit.Bytes(s.Bavail) * unit.Bytes(s.Bsize), true
}

func look(root fs.FS, shm func() (unit.Bytes, bool)) (r ladder.HostRooms) {
	r.Memory = memory(root)
	if free, ok := shm(); ok {
		r.Shm = &ladder.HostRoom{Free: free, By: "what is free of " + shmPath}
	}
	return r
}

// available is the kernel's estimate of what a new program can have without swapping; ok is false where it gives none.
func available(root fs.FS) (unit.Bytes, bool) { return memLine(root, "MemAvailable:") }

// Total is what the host has for all its programs together: the machine's memory, or the least limit above this process;
// 0 where that is not known. What is in use now counts in.
func Total() (total unit.Bytes, by string) { return whole(os.DirFS("/")) }

func whole(root fs.FS) (total unit.Bytes, by string) {
	if all, ok := memLine(root, "MemTotal:"); ok {
		total, by = all, "this machine's memory"
	}
	for _, c := range cgroups(root) {
		for dir := c.path; ; dir = path.Dir(dir) {
			if limit, ok := c.number(root, dir, c.limit); ok && limit < unlimited && (total == 0 || unit.Bytes(limit) < total) {
				total, by = unit.Bytes(limit), "the memory limit of cgroup "+dir
			}
			if dir == "/" {
				break
			}
		}
	}
	return total, by
}

// memLine is a line of /proc/meminfo (proc_meminfo(5)).
func memLine(root fs.FS, name string) (unit.Bytes, bool) {
	text, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			if f := strings.Fields(rest); len(f) > 0 {
				kib, err := strconv.ParseInt(f[0], 10, 64)
				return unit.Bytes(kib) * unit.KiB, err == nil
			}
		}
	}
	return 0, false
}

// memory is the least of what the kernel says is available and what each limit above this process leaves. Swap is not
// counted: a training that swaps has run out of memory for all that it is worth.
func memory(root fs.FS) (room *ladder.HostRoom) {
	least := func(free unit.Bytes, by string) {
		if room == nil || free < room.Free {
			room = &ladder.HostRoom{Free: max(0, free), By: by}
		}
	}
	if free, ok := available(root); ok {
		least(free, "what this machine has available")
	}
	for _, c := range cgroups(root) {
		for dir := c.path; ; dir = path.Dir(dir) {
			if free, ok := c.free(root, dir); ok {
				least(free, "the memory limit of cgroup "+dir)
			}
			if dir == "/" {
				break
			}
		}
	}
	return room
}

// A cgroup is where this process stands in a hierarchy that limits memory.
type cgroup struct {
	mount       string // below the root
	path        string // absolute within the hierarchy
	limit, used string // the files
	inactive    string // the line of memory.stat: pages of files that are given up first
}

// cgroups lists the hierarchies of /proc/self/cgroup (cgroups(7)): one line each, "id:controllers:path", of which version
// 2 has no controllers.
func cgroups(root fs.FS) (out []cgroup) {
	text, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimRight(line, "\n"), ":", 3)
		if len(parts) < 3 || !strings.HasPrefix(parts[2], "/") {
			continue
		}
		at := path.Clean(parts[2])
		switch {
		case parts[0] == "0" && parts[1] == "":
			out = append(out, cgroup{"sys/fs/cgroup", at, "memory.max", "memory.current", "inactive_file"})
		case strings.Contains(","+parts[1]+",", ",memory,"):
			out = append(out, cgroup{"sys/fs/cgroup/memory", at, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"})
		}
	}
	return out
}

// unlimited is where a limit means none: version 1 says so by the largest number of whole pages.
const unlimited = 1 << 60

// free is what the limit of one group leaves: the limit less what is used, of which the pages of files that nobody has
// used lately do not count. ok is false where there is no limit, or none that can be seen: within a container the path may
// be the host's.
func (c cgroup) free(root fs.FS, dir string) (unit.Bytes, bool) {
	limit, ok := c.number(root, dir, c.limit)
	used, known := c.number(root, dir, c.used)
	if !ok || !known || limit >= unlimited {
		return 0, false
	}
	text, _ := fs.ReadFile(root, path.Join(c.mount, dir, "memory.stat"))
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == c.inactive {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			used -= min(n, used)
		}
	}
	return unit.Bytes(limit - used), true
}

// number reads one of a group's files.
func (c cgroup) number(root fs.FS, dir, name string) (int64, bool) {
	text, err := fs.ReadFile(root, path.Join(c.mount, dir, name))
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // "max" is no number, and no limit
	return n, err == nil
}
