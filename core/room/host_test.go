package room

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/launch-ml/launch/core/unit"
)

const meminfo = "MemTotal:       65536000 kB\nMemFree:         1000000 kB\nMemAvailable:   33554432 kB\nSwapFree: 99999999 kB\n"

func TestMemory(t *testing.T) {
	const G = "000000000" // as the files spell it
	for _, tt := range []struct {
		name  string
		files map[string]string
		free  unit.Bytes // -1: not known
		by    string
	}{
		{"nothing can be read", nil, -1, ""},
		{"no MemAvailable, as before Linux 3.14", map[string]string{"proc/meminfo": "MemFree: 1000 kB\n"}, -1, ""},
		{"the machine alone, its swap not counted", map[string]string{"proc/meminfo": meminfo}, 32 * unit.GiB, "available"},
		{"version 2: the ancestor's limit is the smallest", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/job/task\n",
			"sys/fs/cgroup/job/task/memory.max": "max\n", "sys/fs/cgroup/job/task/memory.current": "5" + G,
			"sys/fs/cgroup/job/memory.max": "16" + G + "\n", "sys/fs/cgroup/job/memory.current": "10" + G,
			"sys/fs/cgroup/job/memory.stat": "anon 7" + G + "\ninactive_file 3" + G + "\nactive_file 1\n",
		}, 9_000_000_000, "/job"},
		{"version 2 in a container: the path is the host's, the mount its own", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/docker/0123\n",
			"sys/fs/cgroup/memory.max": "4" + G, "sys/fs/cgroup/memory.current": "1" + G,
		}, 3_000_000_000, "cgroup /"},
		{"version 1", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/slurm/step\n0::/\n",
			"sys/fs/cgroup/memory/slurm/step/memory.limit_in_bytes": "9223372036854771712", "sys/fs/cgroup/memory/slurm/step/memory.usage_in_bytes": "6" + G,
			"sys/fs/cgroup/memory/slurm/memory.limit_in_bytes": "8" + G, "sys/fs/cgroup/memory/slurm/memory.usage_in_bytes": "6" + G,
			"sys/fs/cgroup/memory/slurm/memory.stat": "inactive_file 9\ntotal_inactive_file 1" + G + "\n",
		}, 3_000_000_000, "/slurm"},
		{"no limit is none", map[string]string{
			"proc/self/cgroup":                           "4:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712", "sys/fs/cgroup/memory/memory.usage_in_bytes": "1",
		}, -1, ""},
		{"nor is one of 2^60", map[string]string{
			"proc/self/cgroup": "0::/j\n", "sys/fs/cgroup/j/memory.max": "1152921504606846976",
			"sys/fs/cgroup/j/memory.current": "1",
		}, -1, ""},
		{"and one below that is", map[string]string{
			"proc/self/cgroup": "0::/j\n", "sys/fs/cgroup/j/memory.max": "1152921504606846975",
			"sys/fs/cgroup/j/memory.current": "1",
		}, 1152921504606846974, "/j"},
		{"a limit that is reached is a room of nothing, and known", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/j\n", "sys/fs/cgroup/j/memory.max": "1" + G, "sys/fs/cgroup/j/memory.current": "2" + G,
		}, 0, "/j"},
		{"use that cannot be read makes no room", map[string]string{
			"proc/self/cgroup": "0::/j\n", "sys/fs/cgroup/j/memory.max": "1" + G,
		}, -1, ""},
		{"lines of another making", map[string]string{"proc/meminfo": "MemAvailable:\n", "proc/self/cgroup": "nonsense\n0::\n:::\n"}, -1, ""},
	} {
		fs := fstest.MapFS{}
		for name, text := range tt.files {
			fs[name] = &fstest.MapFile{Data: []byte(text)}
		}
		r := look(fs, func() (unit.Bytes, bool) { return 0, false })
		switch {
		case r.Shm != nil:
			t.Errorf("%s: /dev/shm is %+v", tt.name, r.Shm)
		case tt.free < 0 && r.Memory != nil, tt.free >= 0 && (r.Memory == nil || r.Memory.Free != tt.free || !strings.Contains(r.Memory.By, tt.by)):
			t.Errorf("%s: %+v, want %v by %q", tt.name, r.Memory, tt.free, tt.by)
		}
	}
	if r := look(fstest.MapFS{}, func() (unit.Bytes, bool) { return 64 * unit.MiB, true }); r.Shm == nil || r.Shm.Free != 64*unit.MiB || r.Memory != nil {
		t.Errorf("/dev/shm of 64 MiB: %+v", r)
	}
	if r := look(fstest.MapFS{}, func() (unit.Bytes, bool) { return 0, true }); r.Shm == nil {
		t.Error("a full /dev/shm is known")
	}
}

// The whole of the host's memory is the machine's, or the least limit that is above this process.
func TestTotal(t *testing.T) {
	root := fstest.MapFS{
		"proc/meminfo":                   {Data: []byte("MemTotal:       24000000 kB\nMemFree: 1 kB\nMemAvailable:   5000000 kB\n")},
		"proc/self/cgroup":               {Data: []byte("0::/slurm/job\n")},
		"sys/fs/cgroup/slurm/memory.max": {Data: []byte("8589934592\n")},
		"sys/fs/cgroup/memory.max":       {Data: []byte("max\n")},
	}
	if total, by := whole(root); total != 8<<30 || by != "the memory limit of cgroup /slurm" {
		t.Errorf("within a limit: %v, %s", total, by)
	}
	delete(root, "sys/fs/cgroup/slurm/memory.max")
	if total, _ := whole(root); total != 24000000<<10 {
		t.Errorf("without one: %v", total)
	}
	if total, _ := whole(fstest.MapFS{}); total != 0 {
		t.Errorf("where nothing is known: %v", total)
	}
}
