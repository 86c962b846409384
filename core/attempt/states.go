package attempt

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/proc"
	"github.com/launch-ml/launch/core/record"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/states"
)

// A trail follows the saved states of one attempt: which existed before, and which process wrote each. This shows which
// are its own.
type trail struct {
	x      *Executor
	roots  *states.Roots
	dir    string // the command's folder
	folder string // the attempt's own; "" if there is none
	log    string // the file with the program's output; "" if it is not kept
	before states.Listing
	watch  *states.Watch
	wrote  *os.File          // may be nil
	marked map[string]string // folders that only this run used
	words  *run.LastWords    // of the program, once it has ended; may be nil
}

// follow starts a trail. folder is the attempt's own. If it is "", no notes outlive launch, and the program's output is
// no evidence.
func (x *Executor) follow(roots *states.Roots, dir, folder string, pid func() int) *trail {
	t := &trail{x: x, roots: roots, dir: dir}
	watched := slices.Concat(x.Job.Signs.States, x.Job.Resume.Aside, x.Job.Resume.InTheWay)
	t.before = states.List(roots, watched)
	t.marked = map[string]string{}
	for _, p := range x.marks {
		if p.presence.Alone() {
			t.marked[p.folder] = x.Name
		}
	}
	if t.folder = folder; folder != "" {
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
	}, log, folder)
	return t
}

// said tells the watch what the program printed about a state.
func (t *trail) said(e oom.Event) {
	if e.Path != "" {
		t.watch.Said(file.In(t.dir, filepath.Clean(e.Path)), e.Line.Text)
	}
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

// evidence returns the proof of which states belong to an attempt that has ended. In a folder that other runs may use
// too, a file counts as this run's by its place only after the program has reported a step.
func (t *trail) evidence(stepped bool, last time.Time) states.Evidence {
	held := slices.DeleteFunc(slices.Clone(t.x.Held), t.watch.Crowded)
	e := states.Evidence{Wrote: t.watch.Wrote, Foreign: t.watch.Foreign, Order: t.watch.Order, Held: held,
		Rewritten: t.watch.Rewritten,
		Stepped:   last, Alone: t.x.Job.Batch.Ranks == 1}
	if w := t.words; w != nil && w.Path != "" && !w.Kept {
		e.Said = func(path string) bool { return sameFile(path, w.Path) }
	}
	if t.log != "" {
		e.Printed, e.Told = printed(t.log, t.x.Job, t.dir), told(t.log, t.x.Job, t.dir)
	}
	for _, p := range t.x.marks {
		if p.presence.Alone() && t.marked[p.folder] != "" && !t.watch.Crowded(p.folder) && (stepped || !t.x.Job.Signs.Has(job.Progress)) {
			e.Held = append(slices.Clone(e.Held), p.folder)
		}
	}
	return e
}

func printed(log string, j *job.Job, dir string) func(string) states.Claim {
	return states.Printed(func() (io.ReadCloser, error) { return record.OpenOutput(log) }, dir, j.Signs)
}

func told(log string, j *job.Job, dir string) func(string) int64 {
	return states.Told(func() (io.ReadCloser, error) { return record.OpenOutput(log) }, dir, j.Signs)
}

// found adds to an outcome what the attempt has left.
func (t *trail) found(out *run.Outcome, last time.Time) {
	t.watch.Settle()
	e := t.evidence(out.Stepped, last)
	if out.Iteration >= t.x.Job.Signs.StateAfter {
		f := states.Newest(t.roots, t.x.Job.Signs, t.before, e)
		if f.State == nil && t.log != "" {
			var path string
			if f.State, path = deeper(t.roots, t.x.Job, t.log, t.dir); path != "" && out.Ending != run.Succeeded {
				t.x.BreakLine()
				t.x.Report.Warn("%s", outOfReach(t.x.Job, f.State, path))
			}
		}
		f.Identify()
		out.Saved, out.Earlier, out.Strange, out.Torn = f.State, f.Earlier, f.Strange, f.Torn
	}
	if t.folder != "" { // without it nothing is known later of who has written since
		_ = states.WriteAfter(t.folder, states.List(t.roots, t.x.Job.Signs.States))
	}
	e = t.evidence(true, last) // a file to move aside need not be a state
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

// deeper returns the state that a program printed although no glob finds it, because it lies at another depth. path is
// what was printed; "" if there is nothing. The state is nil if launch cannot use it.
func deeper(roots *states.Roots, j *job.Job, log, dir string) (s *run.State, path string) {
	path = states.Elsewhere(func() (io.ReadCloser, error) { return record.OpenOutput(log) }, dir, j.Signs)
	if path == "" || !byPath(j.Resume) {
		return nil, path
	}
	return states.At(roots, path), path
}

// byPath reports whether the program is told from which state it resumes.
func byPath(r job.Resume) bool {
	return slices.ContainsFunc(r.Edits, func(e config.Edit) bool { return strings.Contains(e.To, job.SavedPath) })
}

// outOfReach describes a state that a program printed and that no glob finds. s is nil if launch cannot use it.
func outOfReach(j *job.Job, s *run.State, path string) string {
	text := fmt.Sprintf("the program printed that it saved %s, which the declared path of its saved states (%s) does not "+
		"match", path, strings.Join(j.Signs.States, ", "))
	if s == nil {
		return text + ": launch cannot resume from it. Correct the path in the declaration"
	}
	return text + ": launch resumes from it all the same"
}

// Changed implements [run.Keeper].
func (x *Executor) Changed(s run.State) string { return states.Changed(s.Path, s.Digest) }

// Lost implements [run.Keeper].
func (x *Executor) Lost(lost []run.Loss, from run.State) {
	for _, line := range run.Losses(lost) {
		x.Report.Warn("%s: launch resumes from %s, which this run wrote before that", line, filepath.Base(from.Path))
	}
}

// SpanOf is the time in which an attempt wrote its files. Took counts from the program's start, which is later than
// Began by the time that launch itself needs; that is longer on a busy machine.
func SpanOf(out *run.Outcome) states.Span {
	const starting = time.Second
	return states.Span{Began: out.Began, Ended: out.Began.Add(out.Took + starting)}
}

// A mark shows that this run writes into a folder that other runs may use too.
type mark struct {
	folder   string
	presence *states.Presence
}

// enter marks the folders of files whose paths hold no pattern. They are those of the job, where every run of the
// project writes, and that of a state from which an attempt resumes: many programs then write where they wrote
// before.
func (x *Executor) enter(globs []string) {
	for _, folder := range states.Folders(x.Job.Command.Dir, globs) {
		if slices.ContainsFunc(x.marks, func(m mark) bool { return m.folder == folder }) {
			continue
		}
		if p, err := states.Join(x.store().Locks(), folder, x.Name); err == nil {
			x.marks = append(x.marks, mark{folder, p})
		}
	}
}

// leave removes the marks.
func (x *Executor) leave() {
	for _, s := range x.marks {
		s.presence.Leave()
	}
}

// putAside moves files of the run's earlier attempts into a folder beside them: before each attempt the files at which
// the program would stop, and before one that starts over also the saved states.
func (x *Executor) putAside(p *run.Plan) {
	globs := x.Job.Resume.InTheWay
	if p.Resume == nil {
		globs = slices.Concat(globs, x.Job.Resume.Aside)
	}
	var files []states.RootFile
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
			x.Report.Warn("launch could not move %s aside (%v): the attempt may overwrite it, or stop because of it",
				f.Path, err)
			continue
		}
		moved = append(moved, dir)
	}
	slices.Sort(moved)
	for _, dir := range slices.Compact(moved) {
		if p.Resume == nil {
			x.Report.Line("this attempt starts over; launch moved earlier saved states to %s", dir)
		} else {
			x.Report.Line("launch moved files of the previous attempt that were in the way to %s", dir)
		}
	}
}

// movables finds the files of a plugin's globs that launch may move.
type movables struct{ *states.Roots }

func (m movables) Glob(pattern string) (paths []string) {
	for _, f := range m.Movable(pattern) {
		paths = append(paths, f.Path)
	}
	return paths
}

// newest returns, for each glob, the newest file written since that time, if there is one.
func newest(in file.Finder, globs []string, since time.Time) (paths []string) {
	for _, g := range globs {
		if all := file.WrittenSince(in, g, since); len(all) > 0 {
			paths = append(paths, all[0])
		}
	}
	return paths
}
