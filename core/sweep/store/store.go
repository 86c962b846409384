// Package store keeps sweeps on disk: one folder for each, with its events as lines of JSON and a folder for each
// trial.
//
// Events are appended and never rewritten. A line that a crash truncated is skipped when the journal is read.
package store

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/sweep"
)

// ErrBusy is wrapped by the error of [Store.Open] if another process drives the sweep.
var ErrBusy = errors.New("another process drives the sweep")

// A Store is the folder of all sweeps.
type Store struct{ Dir string }

// In returns the store of a state folder.
func In(state string) Store { return Store{filepath.Join(state, "sweeps")} }

// reserve is the room on the disk that a journal keeps for the results of the rows that run.
const reserve = 512 << 10

const (
	journalFile = "journal.jsonl"
	lockFile    = "lock"
)

// Folder is the folder of a sweep.
func (s Store) Folder(name string) string { return filepath.Join(s.Dir, name) }

// Trials is the folder of a sweep's trials.
func (s Store) Trials(name string) string { return filepath.Join(s.Dir, name, "trials") }

// Trial is the folder of a trial.
func (s Store) Trial(name string, n int) string {
	return filepath.Join(s.Trials(name), strconv.Itoa(n))
}

// A Journal is a sweep's journal, open for appending. While it is open, no other process can open it. It implements
// [sweep.Journal].
type Journal struct {
	mu      sync.Mutex
	file    *os.File
	lock    *os.File
	torn    bool // the last write failed, so the next begins with a new line
	dirty   bool
	unsaved error // of the sync in the background
	done    chan struct{}
	once    sync.Once
}

// Create makes the folder of a new sweep, and locks it.
func (s Store) Create(spec sweep.Spec) (*Journal, error) {
	if err := sweep.CheckName(spec.Name); err != nil {
		return nil, err
	}
	spec.ID = rand.Text()
	if err := private.MkdirAll(s.Dir); err != nil {
		return nil, fmt.Errorf("making the folder of sweeps: %w", err)
	}
	err := os.Mkdir(s.Folder(spec.Name), 0o700)
	if errors.Is(err, fs.ErrExist) {
		if _, err := s.Read(spec.Name); err != nil { // perhaps one that is just being made
			return nil, fmt.Errorf("%w: choose another --name, or remove %s", err, s.Folder(spec.Name))
		}
		return nil, fmt.Errorf("there is a sweep %s already: continue it with `launch sweep resume %s`, or choose another "+
			"--name",
			spec.Name, spec.Name)
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(s.Folder(spec.Name), "trials"), 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("making the folder of the sweep: %w", err)
	}
	_ = private.NoteMade(s.Dir, spec.Name) // without it, the sweep counts as older than it is
	j, err := s.open(spec.Name)
	if err != nil {
		return nil, err
	}
	if err := j.Write(sweep.Event{Version: sweep.Version, Time: time.Now(), Kind: sweep.Began, Spec: &spec,
		PID: os.Getpid()}); err != nil {
		j.Close()
		os.RemoveAll(s.Folder(spec.Name)) // nothing has run: the name stays free
		return nil, err
	}
	return j, nil
}

// Open locks a sweep, to continue it, and reads its history. Its error wraps [ErrBusy] if another process drives it.
func (s Store) Open(name string) (*Journal, *sweep.History, error) {
	if _, err := s.Read(name); err != nil {
		return nil, nil, err
	}
	j, err := s.open(name)
	if err != nil {
		return nil, nil, err
	}
	h, err := s.Read(name) // only now: until then another process may have written
	if err != nil {
		j.Close()
		return nil, nil, err
	}
	return j, h, nil
}

func (s Store) open(name string) (*Journal, error) {
	lock, err := private.Open(filepath.Join(s.Folder(name), lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking sweep %s: %w", name, err)
	}
	// a file system without locks is no reason to refuse: then nothing keeps a second process out
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		by, _ := io.ReadAll(io.LimitReader(lock, 64))
		lock.Close()
		return nil, fmt.Errorf("%w %s (process %s)", ErrBusy, name, strings.TrimSpace(string(by)))
	}
	_ = lock.Truncate(0)
	_, _ = lock.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0) // it only names the driver
	f, err := private.Open(filepath.Join(s.Folder(name), journalFile), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("opening the journal of sweep %s: %w", name, err)
	}
	j := &Journal{file: f, lock: lock, done: make(chan struct{})}
	if end, err := f.Seek(0, io.SeekEnd); err == nil && end > 0 {
		last := make([]byte, 1)
		_, err := f.ReadAt(last, end-1)
		j.torn = err == nil && last[0] != '\n'
	}
	go j.sync()
	return j, nil
}

// Write implements [sweep.Journal]. What it has written survives this process. It waits for the disk only where a crash
// of the machine would lose what nothing else has: the list of trials. The result of a trial is in the trial's folder.
func (j *Journal) Write(e sweep.Event) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if e.Kind == sweep.Started { // what follows it has to be recorded, even on a disk that is full by then
		if err := private.Reserve(j.file, reserve); err != nil {
			return fmt.Errorf("keeping room for the results: %w", err)
		}
	}
	line = append(line, '\n')
	if j.torn {
		line = append([]byte{'\n'}, line...)
	}
	if _, err := j.file.Write(line); err != nil {
		j.torn = true
		return err
	}
	j.torn, j.dirty = false, true
	if e.Kind == sweep.Began || e.Kind == sweep.Listed {
		j.dirty = false
		return j.file.Sync()
	}
	return nil
}

// sync brings to the disk what was written, once a second: a thousand short trials must not wait for it each time.
func (j *Journal) sync() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-j.done:
			return
		case <-tick.C:
			j.mu.Lock()
			dirty := j.dirty
			j.dirty = false
			j.mu.Unlock()
			if dirty {
				if err := j.file.Sync(); err != nil {
					j.mu.Lock()
					j.unsaved = err
					j.mu.Unlock()
				}
			}
		}
	}
}

// Close closes the journal and unlocks the sweep.
func (j *Journal) Close() (err error) {
	j.once.Do(func() {
		close(j.done)
		private.Unreserve(j.file)
		j.mu.Lock()
		defer j.mu.Unlock()
		err = errors.Join(j.unsaved, j.file.Sync(), j.file.Close(), j.lock.Close())
	})
	return err
}

// Read reads a sweep's history.
func (s Store) Read(name string) (*sweep.History, error) {
	if sweep.CheckName(name) != nil {
		return nil, fmt.Errorf("%q is not the name of a sweep", name)
	}
	text, err := private.ReadFile(filepath.Join(s.Folder(name), journalFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no sweep %s in %s", name, s.Dir)
	}
	if err != nil {
		return nil, fmt.Errorf("reading sweep %s: %w", name, err)
	}
	events, torn := Parse(text)
	h, err := sweep.Replay(events)
	if err != nil {
		return nil, fmt.Errorf("sweep %s: %w", name, err)
	}
	if h.Spec.Name == "" {
		return nil, fmt.Errorf("the journal of sweep %s is damaged: its beginning cannot be read", name)
	}
	h.Torn = torn
	return h, nil
}

// Parse reads the lines of a journal. torn reports that lines were skipped because they cannot be read.
func Parse(text []byte) (events []sweep.Event, torn bool) {
	for line := range bytes.Lines(text) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var e sweep.Event
		if err := json.Unmarshal(line, &e); err != nil {
			torn = true
			continue
		}
		events = append(events, e)
	}
	return events, torn
}

// Driver returns the process that drives a sweep now, or 0.
func (s Store) Driver(name string) int {
	f, err := private.Open(filepath.Join(s.Folder(name), lockFile), os.O_RDONLY, 0)
	if err != nil {
		return 0
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
		return 0
	}
	text, _ := io.ReadAll(io.LimitReader(f, 64))
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return pid
}

// List returns the names of the sweeps, the last one last.
func (s Store) List() ([]string, error) {
	entries, err := os.ReadDir(s.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing the sweeps: %w", err)
	}
	type begun struct {
		name string
		at   time.Time
	}
	var all []begun
	for _, e := range entries {
		if at, ok := s.began(e.Name()); ok {
			all = append(all, begun{e.Name(), at})
		}
	}
	names := make([]string, len(all))
	slices.SortFunc(all, func(a, b begun) int { return a.at.Compare(b.at) })
	for i, b := range all {
		names[i] = b.name
	}
	private.InOrder(s.Dir, names)
	return names, nil
}

// began reads when a sweep began, from the first line of its journal.
func (s Store) began(name string) (time.Time, bool) {
	f, err := private.Open(filepath.Join(s.Dir, name, journalFile), os.O_RDONLY, 0)
	if err != nil {
		return time.Time{}, false
	}
	defer f.Close()
	line, _ := bufio.NewReader(f).ReadBytes('\n')
	var e struct {
		Time time.Time `json:"time"`
	}
	return e.Time, json.Unmarshal(line, &e) == nil
}

// Find returns the name of a sweep; of "" or "last", the last one.
func (s Store) Find(name string) (string, error) {
	if name != "" && name != "last" {
		return name, nil
	}
	names, err := s.List()
	if err == nil && len(names) == 0 {
		err = fmt.Errorf("no sweeps yet in %s", s.Dir)
	}
	if err != nil {
		return "", err
	}
	return names[len(names)-1], nil
}
