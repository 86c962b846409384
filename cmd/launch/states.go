package main

import (
	"archive/zip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

// putAside moves the saved states of this run's earlier attempts out of the way of one that starts over, into a folder
// beside them.
func (x *executor) putAside(p *run.Plan) {
	if x.firstBegan.IsZero() {
		return
	}
	var moved []string
	for _, g := range x.job.Resume.Aside {
		for _, f := range x.roots.Movable(g) {
			info, err := os.Stat(f.Path)
			if err != nil || !info.Mode().IsRegular() || info.ModTime().Before(x.firstBegan.Truncate(time.Second)) {
				continue
			}
			dir, err := f.MoveInto(fmt.Sprintf("before-attempt-%d-%s", p.Attempt, x.firstBegan.Format("20060102-150405")))
			if err == nil {
				moved = append(moved, dir)
				continue
			}
			x.say.Warn("%s could not be put aside (%v): the attempt may overwrite it", f.Path, err)
		}
	}
	slices.Sort(moved)
	for _, dir := range slices.Compact(moved) {
		x.say.Line("this attempt starts over; what was saved before is in %s", dir)
	}
}

// A finder finds files by a glob: a plugin's within [confine.Roots], launch's own and the user's in a folder.
type finder interface{ Glob(pattern string) []string }

type folder string

func (f folder) Glob(pattern string) []string {
	hits, _ := filepath.Glob(filepath.Join(string(f), pattern))
	return hits
}

// newest returns of each glob the newest file that was written since, if there is one.
func newest(in finder, globs []string, since time.Time) (paths []string) {
	for _, g := range globs {
		if path, _ := newestOf(in, g, since); path != "" {
			paths = append(paths, path)
		}
	}
	return paths
}

func newestOf(in finder, glob string, since time.Time) (path string, at time.Time) {
	for _, path := range writtenSince(in, glob, since) {
		info, err := os.Stat(path)
		if err == nil {
			return path, info.ModTime()
		}
	}
	return "", at
}

// writtenSince returns the files of a glob that were written since, the newest first.
func writtenSince(in finder, glob string, since time.Time) (paths []string) {
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

// earliest is the first time that a file written since can bear: the kernel's clock for files lags behind by a tick, and
// some file systems keep no fractions of a second.
func earliest(at, since time.Time) time.Time {
	if at.Nanosecond() == 0 {
		return since.Truncate(time.Second)
	}
	return since.Add(-20 * time.Millisecond)
}

// saved finds the newest state that was written since and is whole: what a resume would go on from.
func saved(in finder, signs job.Signs, since time.Time) *run.State {
	iteration, err := regexp.Compile(signs.StateIteration)
	if err != nil {
		return nil
	}
	var best *run.State
	for _, g := range signs.States {
		for _, path := range writtenSince(in, g, since) {
			if !whole(path) {
				continue
			}
			s := &run.State{Path: path}
			if info, err := os.Stat(path); err == nil {
				s.Bytes = unit.Bytes(info.Size())
			}
			if m := iteration.FindStringSubmatch(filepath.Base(path)); len(m) > 1 {
				s.Iteration, _ = strconv.ParseInt(m[1], 10, 64)
			}
			if best == nil || s.Iteration > best.Iteration {
				best = s
			}
			break
		}
	}
	return best
}

// whole reports whether a file is not known to be torn: torch.save writes a zip archive, whose directory comes last.
func whole(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	magic := make([]byte, 4)
	if _, err := io.ReadFull(f, magic); err != nil {
		return false
	}
	if string(magic) != "PK\x03\x04" { // of another format: nothing is known against it
		return true
	}
	info, err := f.Stat()
	if err != nil {
		return false
	}
	_, err = zip.NewReader(f, info.Size())
	return err == nil
}
