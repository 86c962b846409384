package states

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/proc"
)

// A Watch finds out which files the processes of this run write in the folders of its states. It checks when the kernel
// reports a write there, and costs nothing in between. It misses files that are open only for a moment; then other
// evidence has to show their owner.
type Watch struct {
	globs  []string // of the states, absolute
	dirs   []string // patterns of the folders in which a state may lie
	family func() []int
	log    io.Writer // gets each file as a line of JSON; may be nil

	mu      sync.Mutex
	last    int64             // the number of the last write of a state
	order   map[string]int64  // of the last write of each state
	unnoted map[string]*stamp // states that were written since their mark was last noted
	lines   int               // of marks, in the log
	settled chan string       // files that appeared in the barrier
	barrier string            // launch's own folder, whose events show that all earlier ones have been read; may be ""

	said    map[string]Mark // of states when the program had printed that they are saved
	wrote   map[ID]bool
	foreign map[ID]bool
	crowd   []string // paths that match a glob and that another run's process has written
	names   map[string]lookedAt
	scanned time.Time // when all processes were last checked

	earlier map[int]bool // processes from before the attempt

	fs   *fsnotify.Watcher
	done chan struct{}
}

// lookedAt records the last check of a name: when, which file it was, and the time until the next check.
type lookedAt struct {
	when  time.Time
	id    ID
	pause time.Duration
}

// folders bounds the number of watched folders: each costs the kernel about a kilobyte, and users have a limit.
const folders = 256

// NewWatch watches the folders of globs, which are relative to dir, until it is stopped. family lists the processes of
// the run. It also writes what it sees to log, so that it outlives this process. own is a folder of launch's own, for
// [Watch.Settle]; may be "". If the kernel has no watches left, it sees nothing.
func NewWatch(dir string, globs []string, family func() []int, log io.Writer, own string) *Watch {
	w := &Watch{family: family, log: log, barrier: own,
		wrote: map[ID]bool{}, foreign: map[ID]bool{}, earlier: map[int]bool{}, names: map[string]lookedAt{},
		order: map[string]int64{}, unnoted: map[string]*stamp{}, said: map[string]Mark{}, settled: make(chan string, 16),
		done: make(chan struct{})}
	for _, g := range globs {
		if !filepath.IsAbs(g) {
			g = filepath.Join(dir, g)
		}
		w.globs = append(w.globs, strings.TrimSuffix(g, "/"))
		w.dirs = append(w.dirs, filepath.Dir(strings.TrimSuffix(g, "/")))
	}
	if len(globs) == 0 || scarce() {
		close(w.done)
		return w
	}
	fs, err := fsnotify.NewWatcher()
	if err != nil {
		close(w.done)
		return w
	}
	w.fs = fs
	for _, pid := range processes() {
		w.earlier[pid] = true
	}
	for _, pattern := range w.dirs {
		w.reach(pattern)
	}
	go w.run()
	return w
}

// scarce reports whether this process may open so few files that it needs all of them for the program's outputs.
func scarce() bool {
	var l unix.Rlimit
	return unix.Getrlimit(unix.RLIMIT_NOFILE, &l) == nil && l.Cur < 64
}

// reach watches the folders that match a pattern, and the folders above one that does not exist yet.
func (w *Watch) reach(pattern string) {
	search := file.NewSearch()
	for at := pattern; ; at = filepath.Dir(at) {
		hits := search.Glob(at)
		for _, h := range hits[:min(len(hits), folders)] {
			w.add(h)
		}
		// Above a pattern every folder matters in which the next may appear.
		if parent := filepath.Dir(at); parent == at || len(hits) > 0 && !strings.ContainsAny(at, `*?[`) {
			return
		}
	}
}

func (w *Watch) add(path string) {
	if info, err := os.Stat(path); err == nil && info.IsDir() && len(w.fs.WatchList()) < folders {
		_ = w.fs.Add(path)
	}
}

func (w *Watch) run() {
	defer close(w.done)
	defer w.noteAll(true)
	var soon <-chan time.Time
	for {
		select {
		case e, ok := <-w.fs.Events:
			if !ok {
				return
			}
			if w.event(e); soon == nil && len(w.unnoted) > 0 {
				soon = time.After(quiet)
			}
		case <-soon:
			if soon = nil; w.noteAll(false) {
				soon = time.After(quiet)
			}
		case _, ok := <-w.fs.Errors: // some events were lost
			if !ok {
				return
			}
			w.forget()
		}
	}
}

func (w *Watch) event(e fsnotify.Event) {
	if filepath.Dir(e.Name) == w.barrier {
		if e.Has(fsnotify.Create) { // others are of an earlier call, or the attempt's own files
			select {
			case w.settled <- filepath.Base(e.Name):
			default:
			}
		}
		return
	}
	if e.Has(fsnotify.Create) {
		left := mostEntered
		w.entered(e.Name, &left)
	}
	if e.Has(fsnotify.Create) || e.Has(fsnotify.Write) {
		w.look(e.Name)
		w.wroteState(e.Name)
	}
	if e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename) {
		w.mu.Lock()
		delete(w.order, e.Name)
		delete(w.unnoted, e.Name)
		w.mu.Unlock()
	}
}

// A stamp records when a state was first and last written since its mark was noted.
type stamp struct{ first, last time.Time }

const (
	// quiet is how long a state is not written before its mark is noted.
	quiet = 50 * time.Millisecond
	// slowly is how often the mark of a state is noted that is written all the time.
	slowly = 4 * time.Second
	// mostLines bounds the marks in the log.
	mostLines = 200_000
)

// wroteState records that a state was written, or a file of it.
func (w *Watch) wroteState(path string) {
	state := w.stateOf(path)
	if state == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.order) >= mostNames {
		clear(w.order)
	}
	w.last++
	w.order[state] = w.last
	now := time.Now()
	if u := w.unnoted[state]; u != nil {
		u.last = now
	} else {
		w.unnoted[state] = &stamp{now, now}
	}
}

// noteAll writes the marks of the states to the log that are no longer written, or have been for long. all: of every
// state. It reports whether some are left.
func (w *Watch) noteAll(all bool) (left bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for state, u := range w.unnoted {
		if !all && now.Sub(u.last) < quiet && now.Sub(u.first) < slowly {
			left = true
			continue
		}
		delete(w.unnoted, state)
		if m, ok := look(state); ok && w.lines < mostLines {
			w.lines++
			w.write(seen{State: state, Order: w.order[state], Mark: &m})
		}
	}
	return left
}

// Said records that the program has printed a line about the state at path. If the line tells that the state is
// written, and its name has a number, nothing else of this run writes to it from now on.
func (w *Watch) Said(path, line string) {
	if !done.MatchString(line) || !numberOf(path).known || !w.isState(path) {
		return
	}
	m, ok := look(path)
	w.mu.Lock()
	defer w.mu.Unlock()
	if delete(w.said, path); ok && len(w.said) < mostNames {
		w.said[path] = m
	}
}

// late is how long a program may write to a state, unseen, after it has printed that it saved it.
const late = time.Second

// Rewritten reports whether a state was written after the program had printed that it saved it, although no process of
// the run was seen to write it since.
func (w *Watch) Rewritten(path string, now Mark) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	was, ok := w.said[path]
	return ok && !was.alike(now) && now.Modified > was.Modified+late.Nanoseconds()
}

// forget drops the order: events were lost.
func (w *Watch) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.order)
}

// Order is the number of the last write of a state: one that was written later has a larger number. 0: it was not seen.
func (w *Watch) Order(path string) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.order[path]
}

// Settle waits a moment until the watch has read what the kernel has reported so far.
func (w *Watch) Settle() {
	if w.fs == nil || w.barrier == "" {
		return
	}
	if w.fs.Add(w.barrier) != nil {
		return
	}
	defer func() { _ = w.fs.Remove(w.barrier) }()
	f, err := os.CreateTemp(w.barrier, "settled")
	if err != nil {
		return
	}
	f.Close()
	defer os.Remove(f.Name())
	for end := time.After(500 * time.Millisecond); ; {
		select {
		case name := <-w.settled:
			if name == filepath.Base(f.Name()) {
				return
			}
		case <-w.done:
			return
		case <-end:
			return
		}
	}
}

// mostEntered bounds the files that are looked at in a new folder: it may be a link, and lead in circles.
const mostEntered = 2000

// entered watches a new folder, if states may lie in it or below, and checks what was written there before that.
func (w *Watch) entered(path string, left *int) {
	info, err := os.Stat(path)
	if *left--; *left < 0 || err != nil || !info.IsDir() {
		return
	}
	for _, pattern := range w.dirs {
		if above(path, pattern) || matches(pattern, filepath.Dir(path)) { // a state may itself be a folder
			w.add(path)
			entries, _ := os.ReadDir(path)
			for _, e := range entries {
				w.entered(filepath.Join(path, e.Name()), left)
				w.look(filepath.Join(path, e.Name()))
			}
			return
		}
	}
}

func matches(pattern, path string) bool {
	ok, err := filepath.Match(pattern, path)
	return ok && err == nil
}

// above reports whether a folder is one of the pattern's, or may hold one.
func above(path, pattern string) bool {
	for {
		if matches(pattern, path) {
			return true
		}
		parent := filepath.Dir(pattern)
		if parent == pattern {
			return false
		}
		pattern = parent
	}
}

// The time until a name whose writer was not seen is checked again. It grows with each check: the name may be another
// program's log, which is written all the time.
const (
	again = 5 * time.Millisecond
	least = 2 * time.Second
)

// mostNames bounds the number of names whose last check is remembered.
const mostNames = 10_000

// look finds out whether a process of the run has the file open for writing.
func (w *Watch) look(path string) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return
	}
	id, _ := idOf(path, info)
	w.mu.Lock()
	was := w.names[path]
	if w.foreign[id] && !slices.Contains(w.crowd, path) && w.isState(path) { // it was renamed
		w.crowd = append(w.crowd, path)
		w.write(seen{ID: id, Foreign: true, Path: path})
	}
	// Another program may write a file later that this run has written, and the other way round.
	known := was.id == id && time.Since(was.when) < was.pause
	if !known {
		wait := again
		if was.id == id {
			wait = min(2*was.pause, least)
		}
		if len(w.names) >= mostNames { // a program that writes images
			clear(w.names)
		}
		w.names[path] = lookedAt{time.Now(), id, wait}
	}
	w.mu.Unlock()
	if known {
		return
	}
	for _, pid := range w.family() {
		if writes(pid, id) {
			w.note(id, "", false)
			w.mu.Lock()
			delete(w.said, w.stateOf(path))
			w.mu.Unlock()
			return
		}
	}
	if time.Since(w.scanned) > pause {
		w.scanned = time.Now()
		if w.byAnother(id) {
			if !w.isState(path) {
				path = ""
			}
			w.note(id, path, true)
		}
	}
}

// stateOf returns the state that a path is, or lies in; "" if there is none.
func (w *Watch) stateOf(path string) string {
	for _, at := range []string{path, filepath.Dir(path)} {
		if slices.ContainsFunc(w.globs, func(g string) bool { return matches(g, at) }) {
			return at
		}
	}
	return ""
}

// isState reports whether a path, or a folder above it, matches the globs.
func (w *Watch) isState(path string) bool { return w.stateOf(path) != "" }

// note records who has written a file last. path is that of another run's state.
func (w *Watch) note(id ID, path string, foreign bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.foreign[id] == foreign && w.wrote[id] == !foreign {
		return
	}
	if delete(w.wrote, id); foreign {
		w.foreign[id] = true
	} else {
		delete(w.foreign, id)
		w.wrote[id] = true
	}
	if path != "" {
		w.crowd = append(w.crowd, path)
	}
	w.write(seen{ID: id, Foreign: foreign, Path: path})
}

func (w *Watch) write(line seen) {
	if w.log != nil {
		if b, err := json.Marshal(line); err == nil {
			_, _ = w.log.Write(append(b, '\n'))
		}
	}
}

// pause is the least time between two checks of all processes; one check may take 10 ms.
const pause = 100 * time.Millisecond

// byAnother reports whether a process of another run writes the file. A process that began after the attempt may have
// been started for this run by a container or a cluster, so it counts only if this run's own processes are seen to
// train here.
func (w *Watch) byAnother(id ID) bool {
	for _, pid := range processes() {
		if !writes(pid, id) || proc.Descends(pid, os.Getpid()) {
			continue
		}
		if w.earlier[pid] || slices.ContainsFunc(w.family(), isPython) {
			return true
		}
	}
	return false
}

func processes() (pids []int) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, n := range names {
		if pid, err := strconv.Atoi(n); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func isPython(pid int) bool {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return err == nil && strings.HasPrefix(filepath.Base(exe), "python")
}

// writes reports whether a process has a file open for writing.
func writes(pid int, id ID) bool {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	for _, n := range names {
		info, err := os.Stat(filepath.Join(dir, n))
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if s, ok := info.Sys().(*syscall.Stat_t); ok && uint64(s.Dev) == id.Dev && s.Ino == id.Inode && openForWriting(pid, n) {
			return true
		}
	}
	return false
}

// openForWriting reads the flags of an open file (proc_pid_fdinfo(5): in octal, O_ACCMODE in the lowest two bits).
func openForWriting(pid int, fd string) bool {
	f, err := os.Open(fmt.Sprintf("/proc/%d/fdinfo/%s", pid, fd))
	if err != nil {
		return false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if v, ok := strings.CutPrefix(lines.Text(), "flags:"); ok {
			flags, err := strconv.ParseUint(strings.TrimSpace(v), 8, 64)
			return err == nil && flags&3 != 0
		}
	}
	return false
}

// Wrote reports whether a process of the run was seen to write the file.
func (w *Watch) Wrote(id ID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wrote[id]
}

// Foreign reports whether a process of another run was seen to write the file.
func (w *Watch) Foreign(id ID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.foreign[id]
}

// Crowded reports whether a process of another run was seen to write a state into the folder. Then a file's place there
// proves nothing.
func (w *Watch) Crowded(folder string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.crowd, func(path string) bool { return within(folder, path) })
}

// Stop ends the watch. Wrote, Foreign and Crowded still answer after it.
func (w *Watch) Stop() {
	if w.fs != nil {
		w.fs.Close()
	}
	<-w.done
}
