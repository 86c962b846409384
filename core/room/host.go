package room

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

// Host measures the host memory and the /dev/shm that a program started here would have. It reads Linux's files. If
// they are missing, a room is nil: unknown, not empty.
func Host() ladder.HostRooms {
	return look(os.DirFS("/"), shm)
}

// shmPath holds torch's shared memory (shm_open). A container limits it to 64 MiB by default.
const shmPath = "/dev/shm"

// shm returns the free space of /dev/shm. ok is false if there is none.
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
		r.Shm = &ladder.HostRoom{Free: free, By: "the free space of " + shmPath}
	}
	return r
}

// available returns the memory that a new program can have without swapping, as the kernel estimates it. ok is false
// without an estimate.
func available(root fs.FS) (unit.Bytes, bool) { return memLine(root, "MemAvailable:") }

// HostTotal returns the memory for all programs together, in use or free: the machine's memory, or the smallest limit
// on this process's cgroups. It is 0 if unknown.
func HostTotal() (total unit.Bytes, by string) { return whole(os.DirFS("/")) }

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

// memLine returns one line of /proc/meminfo, in bytes (proc_meminfo(5)).
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

// memory returns the smallest of: the memory that the kernel has available, and what each limit on this process's
// cgroups leaves. Swap does not count: a training that swaps has in effect run out of memory.
func memory(root fs.FS) (room *ladder.HostRoom) {
	least := func(free unit.Bytes, by string) {
		if room == nil || free < room.Free {
			room = &ladder.HostRoom{Free: max(0, free), By: by}
		}
	}
	if free, ok := available(root); ok {
		least(free, "this machine's available memory")
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

// A cgroup is the place of this process in a hierarchy that limits memory.
type cgroup struct {
	mount       string // below the root
	path        string // absolute within the hierarchy
	limit, used string // the files
	inactive    string // the line of memory.stat for file pages that the kernel reclaims first
}

// cgroups lists the hierarchies of /proc/self/cgroup (cgroups(7)): one line each, "id:controllers:path". Version 2's
// line names no controllers.
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

// unlimited: a limit this large means no limit. Version 1 writes the largest number of whole pages for "none".
const unlimited = 1 << 60

// free returns what the limit of one group leaves. File pages that were not used lately do not count as used. ok is
// false if there is no limit, or none is visible: in a container the path may be one outside.
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

// number reads a number from one of a group's files.
func (c cgroup) number(root fs.FS, dir, name string) (int64, bool) {
	text, err := fs.ReadFile(root, path.Join(c.mount, dir, name))
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // "max" means no limit
	return n, err == nil
}
