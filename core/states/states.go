// Package states finds the saved states that a resume reads, and decides from which of them a run may go on.
//
// A state counts for an attempt if it is new, or changed, against a [Listing] that was taken before the attempt, and something
// shows that a process of this run wrote it ([Evidence]): a run that goes on from another run's state trains nothing, or the
// wrong thing, and reports success. Times are compared with other times of the same file only, never with this machine's clock:
// a file server has its own.
package states

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

// A Mark is what a file, or all that lies in a folder, was like. Two marks that are equal: it was not written in between.
type Mark struct {
	ID       ID    `json:"id"`
	Bytes    int64 `json:"bytes"`
	Files    int   `json:"files"`    // 1 for a file
	Modified int64 `json:"modified"` // the latest, in Unix nanoseconds, as ctime is
	Changed  int64 `json:"changed"`
	folder   bool
	ids      []ID // of the files
}

// An ID names a file, whatever it is called. The number of a file that is deleted is soon another's, so the time of its birth
// counts too, where the file system keeps it.
type ID struct {
	Dev   uint64 `json:"dev"`
	Inode uint64 `json:"inode"`
	Born  int64  `json:"born,omitempty"` // in Unix nanoseconds
}

// idOf returns the ID of the file at path, which info is about.
func idOf(path string, info fs.FileInfo) (id ID, changed int64) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ID{}, 0
	}
	id = ID{Dev: uint64(s.Dev), Inode: s.Ino}
	var x unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_BTIME, &x) == nil && x.Mask&unix.STATX_BTIME != 0 {
		id.Born = time.Unix(x.Btime.Sec, int64(x.Btime.Nsec)).UnixNano()
	}
	return id, s.Ctim.Nano()
}

// A Listing is what there was of some states at one time, by path.
type Listing map[string]Mark

// most is how many files of a folder are looked at: a state of a sharded model has hundreds.
const most = 10_000

// A Finder finds files and folders by a glob. Where one may look is its affair.
type Finder interface{ Glob(pattern string) []string }

// List looks at everything that globs name.
func List(in Finder, globs []string) Listing {
	out := Listing{}
	for _, g := range globs {
		for _, path := range expand(in, g) {
			if m, ok := look(path); ok {
				out[path] = m
			}
		}
	}
	return out
}

func expand(in Finder, glob string) []string { return in.Glob(strings.TrimSuffix(glob, "/")) }

// look is false for what holds no bytes, and for what is neither a file nor a folder.
func look(path string) (m Mark, ok bool) {
	info, err := os.Stat(path)
	if err != nil {
		return m, false
	}
	m.ID, m.Changed = idOf(path, info)
	m.Modified = info.ModTime().UnixNano()
	switch {
	case info.Mode().IsRegular():
		m.Bytes, m.Files, m.ids = info.Size(), 1, []ID{m.ID}
	case info.IsDir():
		m.folder = true
		filepath.WalkDir(path, func(at string, e fs.DirEntry, err error) error {
			if err != nil || m.Files >= most {
				return fs.SkipAll
			}
			info, err := e.Info()
			if err != nil || !info.Mode().IsRegular() {
				return nil
			}
			id, changed := idOf(at, info)
			m.Bytes, m.Files, m.ids = m.Bytes+info.Size(), m.Files+1, append(m.ids, id)
			m.Modified, m.Changed = max(m.Modified, info.ModTime().UnixNano()), max(m.Changed, changed)
			return nil
		})
	}
	return m, m.Bytes > 0
}

// Until returns those that were last written before a time: what can be known of a listing that nobody took.
func (l Listing) Until(at time.Time) Listing {
	out := Listing{}
	for path, m := range l {
		if m.Modified < at.UnixNano() {
			out[path] = m
		}
	}
	return out
}

// since reports whether a state was written after the listing was taken.
func (l Listing) since(path string, m Mark) bool {
	was, there := l[path]
	return !there || was.ID != m.ID || was.Bytes != m.Bytes || was.Files != m.Files || was.Modified != m.Modified || was.Changed != m.Changed
}

// Evidence is what shows that this run has written a state. Each field may be empty.
type Evidence struct {
	Printed func(path string) bool // the program printed that it saved it there
	Wrote   func(ID) bool          // a process of this run was seen to have it open for writing
	Foreign func(ID) bool          // a process of another run was
	Held    []string               // folders into which nobody else writes: this run holds their locks
	Until   time.Time              // of what was written later, Held shows nothing; zero: it always does
	Stepped time.Time              // when the program last reported progress
}

// ours reports whether the state at path is this run's.
func (e Evidence) ours(path string, m Mark) bool {
	switch {
	case e.Wrote != nil && slices.ContainsFunc(m.ids, e.Wrote):
		return true
	case e.Foreign != nil && slices.ContainsFunc(m.ids, e.Foreign):
		return false
	case e.Printed != nil && e.Printed(path):
		return true
	case !e.Until.IsZero() && m.Modified > e.Until.UnixNano():
		return false
	}
	return slices.ContainsFunc(e.Held, func(folder string) bool { return within(folder, path) })
}

// within reports whether a path lies in a folder, or is it; also where links lead to either.
func within(folder, path string) bool {
	in := func(folder, path string) bool {
		rel, err := filepath.Rel(folder, path)
		return err == nil && filepath.IsLocal(rel)
	}
	if in(folder, path) {
		return true
	}
	real, err := filepath.EvalSymlinks(path)
	top, wrong := filepath.EvalSymlinks(folder)
	return err == nil && wrong == nil && in(top, real)
}

// Found is what an attempt has left.
type Found struct {
	State   *run.State // the newest that is complete and this run's; nil where there is none
	Strange []string   // complete, newer than the attempt, and nothing shows that this run wrote it
	Torn    []string   // this run's, newer than State, and not complete
}

// Newest finds the state that an attempt has left, against the listing that was taken before it.
func Newest(in Finder, signs job.Signs, before Listing, e Evidence) (f Found) {
	iteration, err := regexp.Compile(signs.StateIteration)
	if err != nil {
		return f
	}
	for _, g := range signs.States {
		all := candidates(in, g)
		for i, c := range all {
			if !before.since(c.path, c.mark) {
				continue
			}
			if !e.ours(c.path, c.mark) {
				if whole(c.path) == nil {
					f.Strange = append(f.Strange, c.path)
				}
				continue
			}
			if !complete(c, all[i+1:], e) {
				f.Torn = append(f.Torn, c.path)
				continue
			}
			s := &run.State{Path: c.path, Bytes: unit.Bytes(c.mark.Bytes)}
			if m := iteration.FindStringSubmatch(filepath.Base(c.path)); len(m) > 1 {
				s.Iteration, _ = strconv.ParseInt(m[1], 10, 64)
			}
			if f.State == nil || s.Iteration > f.State.Iteration {
				f.State = s
			}
			break
		}
	}
	return f
}

// Made lists the files and folders that globs name and that an attempt has made: they were not there before it, and either
// something shows that this run wrote them, or their path is one file's whatever the run is called.
func Made(in Finder, globs []string, before Listing, e Evidence) (paths []string) {
	for _, g := range globs {
		one := !strings.ContainsAny(g, `*?[`)
		for _, path := range expand(in, g) {
			m, ok := look(path)
			if _, there := before[path]; ok && (one && !there || before.since(path, m) && e.ours(path, m)) && !slices.Contains(paths, path) {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// A candidate is a state as it lies there.
type candidate struct {
	path   string
	mark   Mark
	number int64  // the last in its name; -1 where there is none
	shape  string // its name without that number
}

// candidates are the states that a glob names, the newest first: by the number in their names where the names differ in
// nothing else, else by when they were written.
func candidates(in Finder, glob string) (out []candidate) {
	for _, path := range expand(in, glob) {
		m, ok := look(path)
		base := filepath.Base(path)
		if !ok || unfinished(base) {
			continue
		}
		c := candidate{path: path, mark: m, number: -1, shape: path}
		if at := lastNumber.FindStringSubmatchIndex(base); at != nil {
			if n, err := strconv.ParseInt(base[at[2]:at[3]], 10, 64); err == nil {
				c.number, c.shape = n, filepath.Join(filepath.Dir(path), base[:at[2]]+"#"+base[at[3]:])
			}
		}
		out = append(out, c)
	}
	slices.SortStableFunc(out, func(a, b candidate) int {
		if a.shape == b.shape && a.number != b.number {
			return int(min(1, max(-1, b.number-a.number)))
		}
		return int(min(1, max(-1, b.mark.Modified-a.mark.Modified)))
	})
	return out
}

var lastNumber = regexp.MustCompile(`(\d+)\D*$`)

// unfinished reports whether a name is one under which programs write what they rename when it is whole.
func unfinished(base string) bool {
	if strings.HasPrefix(base, ".") || strings.HasPrefix(base, "tmp") {
		return true
	}
	for _, end := range []string{".tmp", ".part", ".partial", ".incomplete", "~"} {
		if strings.HasSuffix(base, end) {
			return true
		}
	}
	return false
}

// complete reports whether all of a state is there. Of a folder that is known by the one before it, which has the same
// files; of a first one by the program, which went on after it was written, or by a file that is written last.
func complete(c candidate, older []candidate, e Evidence) bool {
	if whole(c.path) != nil {
		return false
	}
	if !c.mark.folder {
		return true
	}
	names := filesOf(c.path)
	for _, o := range older {
		if o.mark.folder && o.shape == c.shape && whole(o.path) == nil {
			return !slices.ContainsFunc(filesOf(o.path), func(name string) bool { return !slices.Contains(names, name) })
		}
	}
	if !e.Stepped.IsZero() && c.mark.Modified < e.Stepped.Add(-delay).UnixNano() {
		return true
	}
	return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(last, name) })
}

// delay is how long after a program printed something launch may come to read it.
const delay = 500 * time.Millisecond

// last are the files that a writer of folders writes last: transformers' Trainer (Trainer._save_checkpoint: the trainer's
// state after model, optimizer, scheduler and random state), DeepSpeed's engine (the file latest, in the folder above; within
// it nothing is last).
var last = []string{"trainer_state.json"}

// filesOf lists the files of a folder by their paths in it, sorted; numbers of the step in their names do not count.
func filesOf(dir string) (names []string) {
	filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || len(names) >= most {
			return fs.SkipAll
		}
		if rel, err := filepath.Rel(dir, path); err == nil && e.Type().IsRegular() {
			names = append(names, stepInName.ReplaceAllString(rel, "#"))
		}
		return nil
	})
	slices.Sort(names)
	return names
}

// stepInName is a number that follows "step", or a folder's of DeepSpeed: global_step40/mp_rank_00_model_states.pt.
var stepInName = regexp.MustCompile(`step[-_]?\d+`)
