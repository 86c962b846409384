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
// the run. It also writes what it sees to log, so that it outlives this process. If the kernel has no watches left, it
// sees nothing.
func NewWatch(dir string, globs []string, family func() []int, log io.Writer) *Watch {
	w := &Watch{family: family, log: log, wrote: map[ID]bool{}, foreign: map[ID]bool{}, earlier: map[int]bool{}, names: map[string]lookedAt{}, done: make(chan struct{})}
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
		w.fs.Add(path)
	}
}

func (w *Watch) run() {
	defer close(w.done)
	for {
		select {
		case e, ok := <-w.fs.Events:
			if !ok {
				return
			}
			if e.Has(fsnotify.Create) {
				left := mostEntered
				w.entered(e.Name, &left)
			}
			if e.Has(fsnotify.Create) || e.Has(fsnotify.Write) {
				w.look(e.Name)
			}
		case _, ok := <-w.fs.Errors: // some events were lost
			if !ok {
				return
			}
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
	known := w.wrote[id] || w.foreign[id] || was.id == id && time.Since(was.when) < was.pause
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
			w.note(w.wrote, seen{ID: id})
			return
		}
	}
	if time.Since(w.scanned) > pause {
		w.scanned = time.Now()
		if w.byAnother(id) {
			line := seen{ID: id, Foreign: true}
			if w.isState(path) {
				line.Path = path
				w.mu.Lock()
				w.crowd = append(w.crowd, path)
				w.mu.Unlock()
			}
			w.note(w.foreign, line)
		}
	}
}

// isState reports whether a path, or a folder above it, matches the globs.
func (w *Watch) isState(path string) bool {
	return slices.ContainsFunc(w.globs, func(g string) bool { return matches(g, path) || matches(g, filepath.Dir(path)) })
}

func (w *Watch) note(in map[ID]bool, line seen) {
	w.mu.Lock()
	defer w.mu.Unlock()
	in[line.ID] = true
	w.write(line)
}

func (w *Watch) write(line seen) {
	if w.log != nil {
		if b, err := json.Marshal(line); err == nil {
			w.log.Write(append(b, '\n'))
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
