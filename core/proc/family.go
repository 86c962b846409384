package proc

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"

	"github.com/launch-ml/launch/core/proc/internal/keep"
)

// Family lists a process and its descendants, as far as each still has its parent: at most 1,000. It asks the kernel for the
// children of each, which costs less than reading all of /proc where a job is small and is asked for often.
func Family(pid int) []int {
	family := []int{pid}
	for i := 0; i < len(family) && len(family) < 1000; i++ {
		lists, _ := filepath.Glob("/proc/" + strconv.Itoa(family[i]) + "/task/*/children")
		for _, list := range lists {
			text, _ := os.ReadFile(list)
			for _, word := range bytes.Fields(text) {
				if child, err := strconv.Atoi(string(word)); err == nil {
					family = append(family, child)
				}
			}
		}
	}
	return family
}

// Descends reports whether a process is the ancestor or one of its descendants.
func Descends(pid, ancestor int) bool {
	_, ok := Within(pid, func(p int) bool { return p == ancestor })
	return ok
}

// Within returns the nearest process for which is holds, of a process and its ancestors. ok is false if there is none.
func Within(pid int, is func(pid int) bool) (found int, ok bool) {
	for range 100 {
		if is(pid) {
			return pid, true
		}
		_, parent, ok := keep.StatOf(pid)
		if !ok || parent <= 1 {
			return 0, false
		}
		pid = parent
	}
	return 0, false
}
