package file

import (
	"os"
	"path/filepath"
	"slices"
	"time"
)

// A Finder finds files by a glob.
type Finder interface{ Glob(pattern string) []string }

// A Folder is a [Finder] for its own files.
type Folder string

// Glob implements [Finder].
func (f Folder) Glob(pattern string) []string {
	return Glob(filepath.Join(string(f), pattern))
}

// WrittenSince returns the ordinary files of a glob that are not empty and were written since that time, the newest
// first.
func WrittenSince(in Finder, glob string, since time.Time) (paths []string) {
	at := map[string]time.Time{}
	for _, h := range in.Glob(glob) {
		info, err := os.Stat(h)
		if err == nil && info.Mode().IsRegular() && info.Size() > 0 && !info.ModTime().Before(earliest(info.ModTime(), since)) {
			paths, at[h] = append(paths, h), info.ModTime()
		}
	}
	slices.SortStableFunc(paths, func(a, b string) int { return at[b].Compare(at[a]) })
	return paths
}

// earliest returns the first time stamp that a file written after since can have: the kernel's clock for files lags by
// a tick, and some file systems keep no fractions of a second.
func earliest(at, since time.Time) time.Time {
	if at.Nanosecond() == 0 {
		return since.Truncate(time.Second)
	}
	return since.Add(-20 * time.Millisecond)
}
