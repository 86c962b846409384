package proc

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/unit"
)

func bytes64(n int64) unit.Bytes { return unit.Bytes(n) }

// An oomCount counts the processes that the kernel has killed for memory in this process's cgroup and those below it.
type oomCount struct {
	file   string
	before int
}

func newOOMCount() oomCount {
	c := oomCount{file: oomFile()}
	c.before = oomKills(c.file)
	return c
}

// since is the number of kills since c was made, or -1 if that cannot be read.
func (c oomCount) since() int {
	now := oomKills(c.file)
	if now < 0 || c.before < 0 {
		return -1
	}
	return now - c.before
}

// oomKills reads the count from memory.events (cgroup v2) or memory.oom_control (v1): both have a line "oom_kill N".
func oomKills(file string) int {
	text, err := os.ReadFile(file)
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

// oomFile finds the file of our own cgroup, "" if there is none.
func oomFile() string {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	var v1, v2 string
	for line := range strings.Lines(string(groups)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
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
		var file string
		switch {
		case g[0] == "cgroup" && v1 != "" && hasWord(g[2], "memory"):
			file = filepath.Join(f[4], below(v1, f[3]), "memory.oom_control")
		case g[0] == "cgroup2" && v1 == "":
			file = filepath.Join(f[4], below(v2, f[3]), "memory.events")
		default:
			continue
		}
		if oomKills(file) >= 0 {
			return file
		}
	}
	return ""
}

// below is path as seen from a mount of root.
func below(path, root string) string {
	if root == "/" {
		return path
	}
	return strings.TrimPrefix(path, root)
}

func hasWord(list, word string) bool {
	for _, w := range strings.Split(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}
