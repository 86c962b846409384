package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/launch-ml/launch/core/confine"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/states"
)

// A trail follows the saved states of one attempt: what there was before it, who wrote what, and so what it has left.
type trail struct {
	x      *executor
	roots  *confine.Roots
	dir    string // the command's folder
	log    string // what the program prints is kept in this file; "" where it is not
	before states.Listing
	watch  *states.Watch
	wrote  *os.File          // may be nil
	marked map[string]string // folders in which the run was alone
}

// follow begins a trail. folder is the attempt's own, "" where there is none. Without one nothing outlives launch, and what the
// program prints shows nothing.
func (x *executor) follow(roots *confine.Roots, dir, folder string, pid func() int) *trail {
	t := &trail{x: x, roots: roots, dir: dir}
	watched := slices.Concat(x.job.Signs.States, x.job.Resume.Aside, x.job.Resume.InTheWay)
	t.before = states.List(roots, watched)
	t.marked = map[string]string{}
	for _, p := range x.marks {
		if p.presence.Alone() {
			t.marked[p.folder] = x.who
		}
	}
	if folder != "" {
		t.log = filepath.Join(folder, outputFile)
		if err := (states.Notes{Before: t.before, Held: x.held, Marked: t.marked}).Write(folder); err == nil {
			t.wrote, _ = states.WrittenLog(folder)
		}
	}
	var log io.Writer
	if t.wrote != nil {
		log = t.wrote
	}
	t.watch = states.NewWatch(dir, watched, func() []int {
		if root := pid(); root > 0 {
			return descendants(root)
		}
		return nil
	}, log)
	return t
}

// stop ends the watch.
func (t *trail) stop() {
	if t != nil {
		t.watch.Stop()
		if t.wrote != nil {
			t.wrote.Close()
		}
	}
}

// evidence is what shows whose a state is, of an attempt that has ended. In a folder that another run may use as well nothing
// is this run's by its place alone before a step was reported.
func (t *trail) evidence(stepped bool, last time.Time) states.Evidence {
	e := states.Evidence{Wrote: t.watch.Wrote, Foreign: t.watch.Foreign, Held: slices.DeleteFunc(slices.Clone(t.x.held), t.watch.Crowded), Stepped: last}
	if t.log != "" {
		e.Printed = printed(t.log, t.dir)
	}
	for _, p := range t.x.marks {
		if p.presence.Alone() && t.marked[p.folder] != "" && !t.watch.Crowded(p.folder) && (stepped || !t.x.job.Signs.Has(job.Progress)) {
			e.Held = append(slices.Clone(e.Held), p.folder)
		}
	}
	return e
}

func printed(log, dir string) func(string) bool {
	return states.Printed(func() (io.ReadCloser, error) { return record.OpenOutput(log) }, dir)
}

// found enters what the attempt has left.
func (t *trail) found(out *run.Outcome, last time.Time) {
	e := t.evidence(out.Stepped, last)
	if out.Iteration >= t.x.job.Signs.StateAfter {
		f := states.Newest(t.roots, t.x.job.Signs, t.before, e)
		out.Saved, out.Strange, out.Torn = f.State, f.Strange, f.Torn
	}
	e = t.evidence(true, last) // to be put aside nothing need be a state
	out.Made = states.Made(movables{t.roots}, slices.Concat(t.x.job.Resume.Aside, t.x.job.Resume.InTheWay), t.before, e)
	if out.Ending == run.Failed && t.log != "" {
		if path, ok := states.Blocked(t.log, t.dir, t.x.spans); ok {
			out.Blocked, out.Made = path, append(out.Made, path)
			t.x.blocked = append(t.x.blocked, path)
		}
	}
	t.x.spans = append(t.x.spans, spanOf(out))
	t.x.made = append(t.x.made, out.Made...)
}

// spanOf is the time in which an attempt made what it left. What it took is counted from the program's start, which comes after the
// attempt's beginning by what launch itself takes, longer on a busy machine.
func spanOf(out *run.Outcome) states.Span {
	const starting = time.Second
	return states.Span{Began: out.Began, Ended: out.Began.Add(out.Took + starting)}
}

// A mark is this run's on a folder that other runs may write their states into as well.
type mark struct {
	folder   string
	presence *states.Presence
}

// enter marks the folders in which the job's files lie, whatever the run is called, as this run's as well.
func (x *executor) enter(who string) (leave func()) {
	x.who = who
	for _, folder := range states.Folders(x.job.Command.Dir, slices.Concat(x.job.Signs.States, x.job.Resume.Aside, x.job.Resume.InTheWay)) {
		if slices.ContainsFunc(x.marks, func(m mark) bool { return m.folder == folder }) {
			continue
		}
		if p, err := states.Join(x.settings.locks(), folder, who); err == nil {
			x.marks = append(x.marks, mark{folder, p})
		}
	}
	return func() {
		for _, s := range x.marks {
			s.presence.Leave()
		}
	}
}

// putAside moves what earlier attempts of this run have left out of the way, into a folder beside it: saved states before an
// attempt that starts over, and before each what the program would stop at.
func (x *executor) putAside(p *run.Plan) {
	globs := x.job.Resume.InTheWay
	if p.Resume == nil {
		globs = slices.Concat(globs, x.job.Resume.Aside)
	}
	var files []confine.File
	for _, g := range globs {
		files = append(files, x.roots.Movable(g)...)
	}
	for _, path := range x.blocked {
		if f, ok := x.roots.File(path); ok {
			files = append(files, f)
		}
	}
	var moved []string
	for _, f := range files {
		i := slices.Index(x.made, f.Path)
		if i < 0 {
			continue
		}
		x.made = slices.Delete(x.made, i, i+1)
		dir, err := f.MoveInto(fmt.Sprintf("before-attempt-%d-%s", p.Attempt, x.firstBegan.Format("20060102-150405")))
		if err != nil {
			x.say.Warn("%s could not be put aside (%v): the attempt may overwrite it, or stop at it", f.Path, err)
			continue
		}
		moved = append(moved, dir)
	}
	slices.Sort(moved)
	for _, dir := range slices.Compact(moved) {
		if p.Resume == nil {
			x.say.Line("this attempt starts over; what was saved before is in %s", dir)
		} else {
			x.say.Line("what the attempt before has left in the way is in %s", dir)
		}
	}
}

// movables finds what of a plugin's globs may be moved.
type movables struct{ *confine.Roots }

func (m movables) Glob(pattern string) (paths []string) {
	for _, f := range m.Movable(pattern) {
		paths = append(paths, f.Path)
	}
	return paths
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
