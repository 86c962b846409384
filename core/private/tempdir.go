package private

import (
	"os"
	"path/filepath"
	"syscall"
)

// Shared are the folders of temporary files that every program of this machine has, whatever its TMPDIR: a batch system gives each job
// a TMPDIR of its own, so what is there is not seen by another job.
func Shared() []string { return []string{"/tmp", "/var/tmp", "/dev/shm"} }

// TempDir is the first of the usual folders of temporary files that is there and can be written to. A TMPDIR that is missing
// is not made.
func TempDir() string {
	return first(append([]string{os.TempDir()}, Shared()...))
}

// MachineDir is the first of the folders of [Shared] that can be written to.
func MachineDir() string { return first(Shared()) }

func first(dirs []string) string {
	const write, search = 2, 1 // access(2)
	for _, dir := range dirs {
		abs, err := filepath.Abs(dir)
		if info, wrong := os.Stat(abs); err == nil && wrong == nil && info.IsDir() && syscall.Access(abs, write|search) == nil {
			return abs
		}
	}
	return "/tmp"
}
