package private

import (
	"os"
	"path/filepath"
	"syscall"
)

// TempDir is the first of the usual folders of temporary files that is there and can be written to. A TMPDIR that is missing
// is not made.
func TempDir() string {
	const write, search = 2, 1 // access(2)
	for _, dir := range []string{os.TempDir(), "/tmp", "/var/tmp", "/dev/shm"} {
		abs, err := filepath.Abs(dir)
		if info, wrong := os.Stat(abs); err == nil && wrong == nil && info.IsDir() && syscall.Access(abs, write|search) == nil {
			return abs
		}
	}
	return "/tmp"
}
