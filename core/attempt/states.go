package attempt

import (
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/launch-ml/launch/core/confine"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/proc"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/states"
)

// A trail follows the saved states of one attempt: which there were before it, who wrote which, and so which it has left.
type trail struct {
	x      *Executor
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
func (x *Executor) follow(roots *confine.Roots, dir, folder string, pid func() int) *trail {
	t := &trail{x: x, roots: roots, dir: dir}
	watched := slices.Concat(x.Job.Signs.States, x.Job.Resume.Aside, x.Job.Resume.InTheWay)
	t.before = states.List(roots, watched)
	t.marked = map[string]string{}
	for _, p := range x.marks {
		if p.presence.Alone() {
			t.marked[p.folder] = x.Name
		}
	}
	if folder != "" {
		t.log = outputIn(folder)
		if err := (states.Notes{Before: t.before, Held: x.Held, Marked: t.marked}).Write(folder); err == nil {
			t.wrote, _ = states.WrittenLog(folder)
		}
	}
	var log io.Writer
	if t.wrote != nil {
		log = t.wrote
	}
	t.watch = states.NewWatch(dir, watched, func() []int {
		if root := pid(); root > 0 {
			return proc.Family(root)
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
	e := states.Evidence{Wrote: t.watch.Wrote, Foreign: t.watch.Foreign, Held: slices.DeleteFunc(slices.Clone(t.x.Held), t.watch.Crowded), Stepped: last}
	if t.log != "" {
		e.Printed = printed(t.log, t.dir)
	}
	for _, p := range t.x.marks {
		if p.presence.Alone() && t.marked[p.folder] != "" && !t.watch.Crowded(p.folder) && (stepped || !t.x.Job.Signs.Has(job.Progress)) {
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
	if out.Iteration >= t.x.Job.Signs.StateAfter {
		f := states.Newest(t.roots, t.x.Job.Signs, t.before, e)
		out.Saved, out.Strange, out.Torn = f.State, f.Strange, f.Torn
	}
	e = t.evidence(true, last) // to be put aside nothing need be a state
	out.Made = states.Made(movables{t.roots}, slices.Concat(t.x.Job.Resume.Aside, t.x.Job.Resume.InTheWay), t.before, e)
	if out.Ending == run.Failed && t.log != "" {
		if path, ok := states.Blocked(t.log, t.dir, t.x.spans); ok {
			out.Blocked, out.Made = path, append(out.Made, path)
			t.x.blocked = append(t.x.blocked, path)
		}
	}
	t.x.spans = append(t.x.spans, SpanOf(out))
	t.x.made = append(t.x.made, out.Made...)
}

// SpanOf is the time in which an attempt made what it left. What it took is counted from the program's start, which comes after the
// attempt's beginning by what launch itself takes, longer on a busy machine.
func SpanOf(out *run.Outcome) states.Span {
	const starting = time.Second
	return states.Span{Began: out.Began, Ended: out.Began.Add(out.Took + starting)}
}

// A mark is this run's on a folder that other runs may write their states into as well.
type mark struct {
	folder   string
	presence *states.Presence
}

// enter marks the folders in which the job's files lie, whatever the run is called, as this run's as well.
func (x *Executor) enter() {
	for _, folder := range states.Folders(x.Job.Command.Dir, slices.Concat(x.Job.Signs.States, x.Job.Resume.Aside, x.Job.Resume.InTheWay)) {
		if slices.ContainsFunc(x.marks, func(m mark) bool { return m.folder == folder }) {
			continue
		}
		if p, err := states.Join(x.store().Locks(), folder, x.Name); err == nil {
			x.marks = append(x.marks, mark{folder, p})
		}
	}
}

// leave takes the marks back.
func (x *Executor) leave() {
	for _, s := range x.marks {
		s.presence.Leave()
	}
}

// putAside moves what earlier attempts of this run have left out of the way, into a folder beside it: saved states before an
// attempt that starts over, and before each what the program would stop at.
func (x *Executor) putAside(p *run.Plan) {
	globs := x.Job.Resume.InTheWay
	if p.Resume == nil {
		globs = slices.Concat(globs, x.Job.Resume.Aside)
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
		dir, err := f.MoveInto(fmt.Sprintf("before-attempt-%d-%s", p.Attempt, x.began.Format("20060102-150405")))
		if err != nil {
			x.Report.Warn("%s could not be put aside (%v): the attempt may overwrite it, or stop at it", f.Path, err)
			continue
		}
		moved = append(moved, dir)
	}
	slices.Sort(moved)
	for _, dir := range slices.Compact(moved) {
		if p.Resume == nil {
			x.Report.Line("this attempt starts over; what was saved before is in %s", dir)
		} else {
			x.Report.Line("what the attempt before has left in the way is in %s", dir)
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

// newest returns of each glob the newest file that was written since, if there is one.
func newest(in file.Finder, globs []string, since time.Time) (paths []string) {
	for _, g := range globs {
		if all := file.WrittenSince(in, g, since); len(all) > 0 {
			paths = append(paths, all[0])
		}
	}
	return paths
}
