// Package states finds the saved states that a resume reads, in the folders that a job's paths may lie in ([Roots]),
// and decides from which of them a run may resume.
//
// A state counts for an attempt if it is new or changed compared with a [Listing] from before the attempt, and if there
// is [Evidence] that a process of this run wrote it. A run that resumes from another run's state trains nothing, or the
// wrong thing, and still reports success. Times are compared only with other times of the same file, never with this
// machine's clock, because a file server has its own.
package states

import (
	"cmp"
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

	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

// A Mark describes a file, or all files of a folder, at one time. If two marks are equal, nothing was written in
// between.
type Mark struct {
	ID       ID    `json:"id"`
	Bytes    int64 `json:"bytes"`
	Files    int   `json:"files"`    // 1 for a file
	Modified int64 `json:"modified"` // the latest, in Unix nanoseconds, as ctime is
	Changed  int64 `json:"changed"`
	folder   bool
	ids      []ID // of the files
}

// An ID identifies a file independently of its name. A new file may get the inode number of a deleted one, so the time
// of birth counts too, if the file system keeps it.
type ID struct {
	Dev   uint64 `json:"dev"`
	Inode uint64 `json:"inode"`
	Born  int64  `json:"born,omitempty"` // in Unix nanoseconds
}

// idOf returns the ID of the file at path, and the time of its last change. info describes that file.
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

// A Listing has the marks of states at one time, by path.
type Listing map[string]Mark

// most bounds the files of one folder: a state of a sharded model has hundreds.
const most = 10_000

// A Finder finds files and folders by a glob, within the folders that it allows.
type Finder interface{ Glob(pattern string) []string }

// List returns the marks of everything that the globs match.
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

// look returns false for something empty, and for anything but a file or a folder.
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

// Until returns the entries that were last written before a time. It approximates a listing at that time.
func (l Listing) Until(at time.Time) Listing {
	out := Listing{}
	for path, m := range l {
		if m.Modified < at.UnixNano() {
			out[path] = m
		}
	}
	return out
}

// alike reports whether two marks have the same size and time. A copy that keeps the times is alike.
func (m Mark) alike(n Mark) bool {
	return m.Bytes == n.Bytes && m.Files == n.Files && m.Modified == n.Modified
}

// since reports whether a state was written after the listing was taken.
func (l Listing) since(path string, m Mark) bool {
	was, there := l[path]
	return !there || was.ID != m.ID || was.Bytes != m.Bytes || was.Files != m.Files || was.Modified != m.Modified || was.Changed != m.Changed
}

// Evidence can show that this run has written a state. Each field may be empty.
type Evidence struct {
	Printed func(path string) Claim // what the program printed about a state at this path
	Wrote   func(ID) bool           // a process of this run was seen to write the file
	Foreign func(ID) bool           // a process of another run was seen to write the file
	Said    func(path string) bool  // a process of this run has told launch that it wrote it
	Held    []string                // folders that only this run writes into, because it holds their locks
	Order   func(path string) int64 // in which the states were written; 0: not known
	Told    func(path string) int64 // in which the program printed that it saves them; 0: it did not
	// Rewritten reports whether a state, which has that mark now, was written by somebody else after this run had
	// written it.
	Rewritten func(path string, now Mark) bool
	Until     time.Time // Held proves nothing about files written later; zero: no such limit
	Stepped   time.Time // when the program last reported progress
	Alone     bool      // one process writes the states, not several ranks
}

// ours reports whether the state at path is this run's.
func (e Evidence) ours(path string, m Mark) bool {
	if e.Rewritten != nil && e.Rewritten(path, m) {
		return false
	}
	switch {
	case e.Wrote != nil && slices.ContainsFunc(m.ids, e.Wrote), e.Said != nil && e.Said(path):
		return true
	case e.Foreign != nil && slices.ContainsFunc(m.ids, e.Foreign):
		return false
	case e.Printed != nil && e.Printed(path) != Unsaid:
		return true
	case !e.Until.IsZero() && m.Modified > e.Until.UnixNano():
		return false
	}
	return slices.ContainsFunc(e.Held, func(folder string) bool { return within(folder, path) })
}

// within reports whether a path is a folder or lies in it, with links resolved.
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

// Found lists the states that an attempt has left.
type Found struct {
	State   *run.State  // the newest that is complete and this run's; nil if there is none
	Earlier []run.State // this run's before State, the newest first
	Strange []string    // complete and newer than the attempt, but nothing shows that this run wrote it
	Torn    []string    // this run's, newer than State, but not complete
}

// At returns the state at a path that the finder allows, if it is complete; nil if there is none.
func At(in Finder, path string) *run.State {
	for _, hit := range in.Glob(file.EscapeGlob(path)) {
		if m, ok := look(hit); ok && whole(hit) == nil {
			return &run.State{Path: hit, Bytes: unit.Bytes(m.Bytes)}
		}
	}
	return nil
}

// mostEarlier bounds how many states of an attempt are kept known beside the newest.
const mostEarlier = 7

// Newest finds the state that an attempt has left. before is the listing from before the attempt.
func Newest(in Finder, signs job.Signs, before Listing, e Evidence) (f Found) {
	iteration, err := regexp.Compile(signs.StateIteration)
	if err != nil {
		return f
	}
	for _, g := range signs.States {
		all := candidates(in, g)
		own := slices.DeleteFunc(slices.Clone(all), func(c candidate) bool {
			return !before.since(c.path, c.mark) || !e.ours(c.path, c.mark)
		})
		own = toGoOnFrom(own, g)
		e.order(own)
		from := e.newest(own, all, &f)
		for _, c := range all { // up to the state: these are newer
			if from < len(own) && c.path == own[from].path {
				break
			}
			if before.since(c.path, c.mark) && !e.ours(c.path, c.mark) && whole(c.path) == nil {
				f.Strange = append(f.Strange, c.path)
			}
		}
		f.take(own[from:], all, iteration, e)
	}
	return f
}

// newest returns the index of the newest complete state of own; what is newer is torn.
func (e Evidence) newest(own, all []candidate, f *Found) int {
	for i, c := range own {
		if complete(c, olderThan(c, own[i+1:], all), e) && !shorter(c, own[i+1:]) {
			return i
		}
		f.Torn = append(f.Torn, c.path)
	}
	return len(own)
}

// olderThan are the states that a state is compared with: this run's before it, then all others.
func olderThan(c candidate, own, all []candidate) []candidate {
	out := slices.Clone(own)
	for i, o := range all {
		if o.path == c.path {
			return append(out, all[i+1:]...)
		}
	}
	return out
}

// take keeps the states of one glob, the newest first. Of several globs, the state with the highest iteration is the
// newest; at the same one, that of the first glob.
func (f *Found) take(own, all []candidate, iteration *regexp.Regexp, e Evidence) {
	var known []run.State
	for i, c := range own {
		if len(known) > mostEarlier {
			break
		}
		if i > 0 && c.mark.folder && !complete(c, olderThan(c, own[i+1:], all), e) {
			continue
		}
		s := run.State{Path: c.path, Bytes: unit.Bytes(c.mark.Bytes)}
		if m := iteration.FindStringSubmatch(filepath.Base(c.path)); len(m) > 1 {
			s.Iteration, _ = strconv.ParseInt(m[1], 10, 64)
		}
		known = append(known, s)
	}
	if len(known) == 0 {
		return
	}
	if f.State != nil {
		if f.State.Iteration >= known[0].Iteration {
			known = slices.Concat([]run.State{*f.State}, f.Earlier, known)
		} else {
			known = slices.Concat(known, []run.State{*f.State}, f.Earlier)
		}
	}
	f.State, f.Earlier = &known[0], known[1:min(len(known), mostEarlier+1)]
}

// Identify adds the digests, by which a later launch knows the states again. One that cannot be read has none.
func (f *Found) Identify() {
	if f.State == nil {
		return
	}
	f.State.Digest, _ = Digest(f.State.Path)
	for i := range f.Earlier {
		f.Earlier[i].Digest, _ = Digest(f.Earlier[i].Path)
	}
}

// Made lists the files and folders that match the globs and that an attempt has made: they did not exist before it, and
// either there is evidence that this run wrote them, or their glob has no pattern.
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

// A candidate is a state on the disk.
type candidate struct {
	path string
	mark Mark
	numbering
}

// candidates returns the states that a glob matches, the newest first: by the number in their names if the names differ
// in nothing else, else by the time of writing.
func candidates(in Finder, glob string) (out []candidate) {
	for _, path := range expand(in, glob) {
		m, ok := look(path)
		if !ok || unfinished(filepath.Base(path)) {
			continue
		}
		out = append(out, candidate{path: path, mark: m, numbering: numberOf(path)})
	}
	sortByName(out)
	return out
}

func sortByName(all []candidate) { slices.SortStableFunc(all, byName) }

// byName compares two states by the numbers in their names or, where these cannot be compared, by their times.
func byName(a, b candidate) int {
	if a.shape == b.shape && a.known && b.known {
		if c := cmp.Or(cmp.Compare(b.epoch, a.epoch), cmp.Compare(b.step, a.step)); c != 0 {
			return c
		}
	}
	return cmp.Compare(b.mark.Modified, a.mark.Modified)
}

// toGoOnFrom leaves out the copies of the best or the averaged weights, if there are other states.
func toGoOnFrom(own []candidate, glob string) []candidate {
	others := slices.DeleteFunc(slices.Clone(own), func(c candidate) bool { return isChosen(c.path, glob) })
	if len(others) == 0 {
		return own
	}
	return others
}

// order sorts an attempt's states, the newest first. Three orders tell which is the newest: that in which they were
// seen to be written, that in which the program printed them, and that of the numbers in their names. The first
// counts where the others do not agree against it: somebody else may have written an old state again, and a program
// may name states by a figure, or use a few names in turn.
func (e Evidence) order(own []candidate) {
	if len(own) < 2 {
		return
	}
	seen := ranked(own, e.Order)
	if seen != nil && (seen[0].path == own[0].path || !numberedAlike(own)) {
		copy(own, seen)
		return
	}
	told := ranked(own, e.Told) // it reads all that the program has printed
	switch {
	case seen == nil && told != nil, told != nil && told[0].path == own[0].path:
		copy(own, told)
	case seen != nil:
		copy(own, seen)
	}
}

// ranked returns the states by a rank, the highest first; nil if it is not known of all.
func ranked(own []candidate, rank func(string) int64) []candidate {
	if rank == nil {
		return nil
	}
	at := map[string]int64{}
	for _, c := range own {
		if at[c.path] = rank(c.path); at[c.path] <= 0 {
			return nil
		}
	}
	later := func(a, b candidate) int { return cmp.Compare(at[b.path], at[a.path]) }
	return slices.SortedStableFunc(slices.Values(own), later)
}

// numberedAlike reports whether the names of states differ only in a number.
func numberedAlike(own []candidate) bool {
	return !slices.ContainsFunc(own, func(c candidate) bool { return !c.known || c.shape != own[0].shape })
}

// unfinished reports whether a name is one that programs use while they write a file, before they rename it.
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

// complete reports whether a state is complete. A folder is complete if it has the same files as the state before it.
// The first folder is complete if the program continued after writing it, if it has printed that it wrote it (another
// rank may still write, so this counts only for one process), or if the file exists that is written last.
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
	if e.Alone && e.Printed != nil && e.Printed(c.path) == Saved {
		return true
	}
	return slices.ContainsFunc(names, func(name string) bool {
		return slices.Contains(last, name) || e.Alone && name == lastOfOne
	})
}

// shorter reports whether a file of an unknown format is much smaller than this run's state before it: the program
// ended while it wrote it.
func shorter(c candidate, older []candidate) bool {
	i := slices.IndexFunc(older, func(o candidate) bool { return !o.mark.folder && o.shape == c.shape })
	return i >= 0 && c.mark.Bytes < older[i].mark.Bytes/10*9 && !knownFormat(c.path)
}

// delay bounds the time between a program's output and launch's reading of it.
const delay = 500 * time.Millisecond

// last lists the files that programs write last into a state's folder: transformers' Trainer (Trainer._save_checkpoint:
// its own state, after model, optimizer, scheduler and random state). DeepSpeed's engine writes no such file: its last
// one, latest, is in the folder above.
var last = []string{"trainer_state.json"}

// lastOfOne is the file that accelerate writes last of a process (save_accelerator_state: its random states, after
// models, optimizers, schedulers and samplers). Only objects that a program registers come after it.
const lastOfOne = "random_states_0.pkl"

// filesOf lists the paths of a folder's files, sorted, without the step numbers in their names.
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

// stepInName matches a number after "step", as in a folder of DeepSpeed: global_step40/mp_rank_00_model_states.pt.
var stepInName = lazy.MustCompile(`step[-_]?\d+`)
