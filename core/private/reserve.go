package private

import (
	"errors"
	"os"
	"syscall"
)

// keepSize has fallocate(2) leave the size of a file as it is.
const keepSize = 1

// Reserve keeps room on the disk for the next bytes that are appended to a file. Its error is a full disk or a full
// quota: on a file system that keeps no room there is none.
func Reserve(f *os.File, bytes int64) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	err = syscall.Fallocate(int(f.Fd()), keepSize, info.Size(), bytes)
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return err
	}
	return nil
}

// Unreserve gives back the room that [Reserve] has kept and nothing has used.
func Unreserve(f *os.File) {
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		_ = f.Truncate(info.Size()) // the disk is only fuller than it needs to be
	}
}
