// Package record keeps what is known of runs on disk: one folder for each run, with its events as lines of JSON, the
// output of its programs and its status while it runs, and the receipts of all runs, by which later estimates are
// corrected. It compares two of them ([Compare]).
//
// Events are appended and never rewritten, so a run can be read and continued even after a crash of launch. A truncated
// last line is skipped.
package record

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/launch-ml/launch/core/identity"
	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/run"
	"github.com/launch-ml/launch/core/unit"
)

// Version of the events. A reader accepts older ones and refuses newer ones.
const Version = 1

// The kinds of event.
const (
	Started  = "started"  // a run: its job, ladders and limits
	Planned  = "planned"  // an attempt is about to be made
	Ended    = "ended"    // an attempt is over
	Stopped  = "stopped"  // the run is over
	Resumed  = "resumed"  // another launch continued the run after the first one died
	Followed = "followed" // a command that no plugin recognised was run as typed
	// Priced has the ladders of a run from here on: a trace has shown what they did not know.
	Priced = "priced"
	// Identified has what makes the run the same run, as its attempts found it.
	Identified = "identified"
	// Listed has the data as an attempt left them, its own files included.
	Listed = "listed"
	// Mixed: the run went on although something is not what it began with, because its user accepted that.
	Mixed = "mixed"
)

// An Event is one line of a run's record.
type Event struct {
	Version int          `json:"v"`
	Time    time.Time    `json:"time"`
	Kind    string       `json:"event"`
	PID     int          `json:"pid,omitempty"`     // of launch
	Carrier *Carrier     `json:"carrier,omitempty"` // in events by which a launch takes the run: that launch
	Run     *run.Run     `json:"run,omitempty"`
	Plan    *run.Plan    `json:"plan,omitempty"`
	Attempt *run.Attempt `json:"attempt,omitempty"`
	Stop    *run.Stop    `json:"stop,omitempty"`
	Args    []string     `json:"args,omitempty"` // of a command that no plugin recognised
	Dir     string       `json:"dir,omitempty"`
	Outcome *run.Outcome `json:"outcome,omitempty"` // of such a command
	Device  any          `json:"device,omitempty"`
	// FromStart, of Resumed: the run starts over, and states from before are not its own any more.
	FromStart bool       `json:"from_start,omitempty"`
	Limit     unit.Bytes `json:"limit_bytes,omitempty"` // the limit for each process from here on (--memory)

	Identity *identity.Identity `json:"identity,omitempty"`
	Data     []identity.Tree    `json:"data,omitempty"`
	Mix      *run.Mix           `json:"mix,omitempty"`
	Row      string             `json:"row,omitempty"`       // in events by which a launch takes the run: see [Record.Row]
	Code     *int               `json:"exit_code,omitempty"` // launch's, in the last event of a run
}

// A Store is the folder of all runs.
type Store struct{ Dir string }

// In returns the store of a state folder.
func In(state string) Store { return Store{Dir: filepath.Join(state, "runs")} }

// Locks is the folder of launch's locks and marks.
func (s Store) Locks() string { return filepath.Join(filepath.Dir(s.Dir), "locks") }

// A Record is one run's folder, open for appending. It implements [run.Journal].
type Record struct {
	ID  string
	Dir string
	// Row is the mark of the start of a sweep's row for which this launch carries the run; "": it is no row.
	Row string

	mu   sync.Mutex
	file *os.File
	sign *sign
}

var _ run.Journal = (*Record)(nil)

// Create makes the folder of a new run. The folder is the user's own: recipes and output may hold secrets.
func (s Store) Create(now time.Time) (*Record, error) {
	if err := private.MkdirAll(s.Dir); err != nil {
		return nil, fmt.Errorf("making the folder of runs: %w", err)
	}
	for {
		var salt [2]byte
		rand.Read(salt[:])
		id := now.UTC().Format("20060102-150405.000-") + hex.EncodeToString(salt[:])
		dir := filepath.Join(s.Dir, id)
		switch err := os.Mkdir(dir, 0o700); {
		case errors.Is(err, fs.ErrExist): // another run of the same second and salt
		case err != nil:
			return nil, fmt.Errorf("making the run's folder: %w", err)
		default:
			// If this fails, the run counts as older than it is: no reason to stop a training.
			_ = private.NoteMade(s.Dir, id)
			return openRecord(id, dir)
		}
	}
}

// Append opens the record of an existing run, to continue it. Its error wraps [ErrBusy] if another launch has the run,
// or may have it, on this machine or, as far as that can be known, on another.
func (s Store) Append(id string) (*Record, error) {
	h, err := s.Read(id)
	if err != nil {
		return nil, err
	}
	if l := h.Life(); l.Alive {
		return nil, fmt.Errorf("%w: run %s is still running (%s)", ErrBusy, id, l)
	}
	return openRecord(id, h.Dir)
}

func openRecord(id, dir string) (*Record, error) {
	held, err := takeSign(dir)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", id, err)
	}
	os.Remove(filepath.Join(dir, stopFile)) // it asked an earlier launch, which has ended
	f, err := private.Open(filepath.Join(dir, events), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		held.release()
		return nil, fmt.Errorf("opening the run's record: %w", err)
	}
	// The next line must not be appended to one that a crash truncated.
	if end, err := f.Seek(0, io.SeekEnd); err == nil && end > 0 {
		last := make([]byte, 1)
		if _, err := f.ReadAt(last, end-1); err == nil && last[0] != '\n' {
			_, _ = f.Write([]byte("\n"))
		}
	}
	return &Record{ID: id, Dir: dir, file: f, sign: held}, nil
}

const events = "events.jsonl"

// Write appends an event.
func (r *Record) Write(e Event) error {
	e.Version, e.PID = Version, os.Getpid()
	if e.Kind == Started || e.Kind == Followed || e.Kind == Resumed {
		e.Carrier, e.Row = carrier(), r.Row
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	b, err := line(e)
	if err != nil {
		return fmt.Errorf("writing an event: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.file.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("writing to the run's record: %w", err)
	}
	return nil // the kernel has it: it survives a crash of launch. Waiting for the disk would delay the program
}

// Planned implements [run.Journal].
func (r *Record) Planned(p *run.Plan) error { return r.Write(Event{Kind: Planned, Plan: p}) }

// Ended implements [run.Journal].
func (r *Record) Ended(a *run.Attempt) error { return r.Write(Event{Kind: Ended, Attempt: a}) }

// Reserve keeps room on the disk for the events of the run's end, which are written even if the disk is full by then.
func (r *Record) Reserve() {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = private.Reserve(r.file, 256<<10) // without it the end may be missing on a full disk
}

// Close closes the record and unlocks the run. What was written is kept.
func (r *Record) Close() error {
	r.sign.release()
	private.Unreserve(r.file)
	return r.file.Close()
}

// Attempt makes and returns the folder of an attempt, for its edited recipe and the program's output.
func (r *Record) Attempt(n int) (string, error) {
	dir := filepath.Join(r.Dir, fmt.Sprintf("attempt-%d", n))
	for again := 2; ; again++ {
		err := os.Mkdir(dir, 0o700)
		if !errors.Is(err, fs.ErrExist) {
			return dir, err
		}
		// An attempt that was planned and never ended, because launch died, keeps its folder.
		dir = filepath.Join(r.Dir, fmt.Sprintf("attempt-%d.%d", n, again))
	}
}

// History is a run as its record has it.
type History struct {
	ID     string
	Dir    string
	Events []Event
	Torn   bool // the last line was truncated
}

// Read reads a run's record.
func (s Store) Read(id string) (*History, error) {
	if id == "" || strings.ContainsAny(id, "/\\") || strings.HasPrefix(id, ".") {
		return nil, fmt.Errorf("%q is not the name of a run", id)
	}
	h := &History{ID: id, Dir: filepath.Join(s.Dir, id)}
	b, err := private.ReadFile(filepath.Join(h.Dir, events))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no run %s; run `launch runs` for a list", id)
	}
	if err != nil {
		return nil, fmt.Errorf("reading run %s: %w", id, err)
	}
	for line := range bytes.Lines(b) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			h.Torn = true
			continue
		}
		if e.Version > Version {
			return nil, fmt.Errorf("run %s was recorded by a newer launch (version %d, this one reads %d)", id, e.Version, Version)
		}
		h.Events = append(h.Events, e)
	}
	return h, nil
}

// Names returns the names of the folders of runs, by their names. Unlike List it does not look into them.
func (s Store) Names() ([]string, error) {
	entries, err := os.ReadDir(s.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing the runs: %w", err)
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") { // with a point, it is being removed
			names = append(names, e.Name())
		}
	}
	return names, nil // ReadDir has sorted them
}

// List returns the names of the runs, oldest first: in the order in which they began, whatever the clock showed then.
func (s Store) List() ([]string, error) {
	entries, err := os.ReadDir(s.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing the runs: %w", err)
	}
	var ids []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue // it is being removed
		}
		if _, err := os.Stat(filepath.Join(s.Dir, e.Name(), events)); e.IsDir() && err == nil {
			ids = append(ids, e.Name())
		}
	}
	slices.Sort(ids)
	private.InOrder(s.Dir, ids)
	return ids, nil
}

// Find returns the full name of a run: "last", a full name, or the beginning or end of one that is unique.
func (s Store) Find(name string) (string, error) {
	ids, err := s.List()
	if err != nil {
		return "", err
	}
	if len(ids) == 0 {
		return "", fmt.Errorf("no runs yet in %s", s.Dir)
	}
	if name == "" || name == "last" {
		return ids[len(ids)-1], nil
	}
	var hits []string
	for _, id := range ids {
		if id == name {
			return id, nil
		}
		if strings.HasPrefix(id, name) || strings.HasSuffix(id, name) {
			hits = append(hits, id)
		}
	}
	switch len(hits) {
	case 0:
		return "", fmt.Errorf("no run %s; run `launch runs` for a list", name)
	case 1:
		return hits[0], nil
	}
	return "", fmt.Errorf("%s is ambiguous: it could be %s", name, strings.Join(hits, ", "))
}

// Run rebuilds the run from its events: what was started, with every attempt that ended.
// It returns nil for a command that no plugin had recognised.
func (h *History) Run() *run.Run {
	var r *run.Run
	for _, e := range h.Events {
		switch {
		case e.Kind == Started && e.Run != nil:
			copied := *e.Run
			r = &copied
			r.Attempts = nil
		case e.Kind == Ended && e.Attempt != nil && r != nil:
			r.End(*e.Attempt)
		case e.Kind == Priced && e.Run != nil && r != nil:
			r.Ladders, r.Priced = e.Run.Ladders, e.Run.Priced
		case e.Kind == Planned && e.Plan != nil && r != nil:
			r.Numbered = max(r.Numbered, e.Plan.Attempt)
			r.Begin(e.Plan)
		case e.Kind == Mixed && e.Mix != nil && r != nil:
			r.Mixed = append(r.Mixed, *e.Mix)
		case e.Kind == Resumed && e.FromStart && r != nil:
			r.ForgetAll()
			r.Over = true
		}
	}
	return r
}

// Tried returns every attempt of the run that was planned, in order. One without an end, because launch was killed or
// is still running it, has an empty outcome.
func (h *History) Tried() (out []run.Attempt) {
	open := false // the last of out has no end yet
	for _, e := range h.Events {
		switch {
		case e.Kind == Planned && e.Plan != nil:
			out, open = append(out, run.Attempt{Plan: *e.Plan}), true
		case e.Kind == Ended && e.Attempt != nil && open && out[len(out)-1].Plan.Attempt == e.Attempt.Plan.Attempt:
			out[len(out)-1], open = *e.Attempt, false
		case e.Kind == Ended && e.Attempt != nil:
			out = append(out, *e.Attempt)
		}
	}
	return out
}

// Stop returns why the run is over, or nil if its record has no end: launch is still running it, or died.
func (h *History) Stop() *run.Stop {
	for _, e := range slices.Backward(h.Events) {
		switch e.Kind {
		case Stopped:
			return e.Stop
		case Started, Planned, Ended, Resumed:
			return nil
		}
	}
	return nil
}

// CutOff returns the event in which the last attempt was planned, if no event records its end; ok is false
// otherwise, and if the run was started over since.
func (h *History) CutOff() (Event, bool) {
	for _, e := range slices.Backward(h.Events) {
		switch e.Kind {
		case Planned:
			return e, true
		case Ended, Stopped:
			return Event{}, false
		case Resumed:
			if e.FromStart { // what that attempt has left is from before
				return Event{}, false
			}
		}
	}
	return Event{}, false
}

// Limit is the kernel's limit on each process of the run when it was last started or resumed; 0: none.
func (h *History) Limit() (limit unit.Bytes) {
	for _, e := range h.Events {
		if e.Kind == Started || e.Kind == Followed || e.Kind == Resumed {
			limit = e.Limit
		}
	}
	return limit
}

// PID returns the process of the launch that wrote the last event.
func (h *History) PID() int {
	if len(h.Events) == 0 {
		return 0
	}
	return h.Events[len(h.Events)-1].PID
}

// Tail returns at most n of the last lines of an output file.
func Tail(path string, n int) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > 1<<20 {
		f.Seek(-1<<20, io.SeekEnd)
	}
	if parts := apart(path); len(parts) > 0 {
		in, err := openAll(parts[max(0, len(parts)-2):])
		if err != nil {
			return nil, err
		}
		defer in.Close()
		return tail(in, n)
	}
	return tail(f, n)
}

func tail(in io.Reader, n int) ([]string, error) {
	var lines []string
	sc := bufio.NewScanner(in)
	sc.Buffer(nil, 2<<20)
	for sc.Scan() {
		if lines = append(lines, sc.Text()); len(lines) > n {
			lines = lines[1:]
		}
	}
	return lines, sc.Err()
}

// LastOutcome is the outcome of the last attempt that ended; nil if none did.
func (h *History) LastOutcome() *run.Outcome {
	if r := h.Run(); r != nil {
		if a := r.Last(); a != nil {
			return &a.Outcome
		}
		return nil
	}
	for _, e := range slices.Backward(h.Events) {
		if e.Outcome != nil {
			return e.Outcome
		}
	}
	return nil
}

// Resumable finds a run by its name. It returns an error if no plugin recognised the run's command: such a run cannot
// resume.
func (s Store) Resumable(name string) (id string, err error) {
	if id, err = s.Find(name); err != nil {
		return "", err
	}
	h, err := s.Read(id)
	switch {
	case err != nil:
		return "", err
	case h.Run() != nil:
		return id, nil
	case len(h.Events) == 0 || h.Events[0].Kind != Followed:
		return "", fmt.Errorf("the record of run %s is damaged: launch cannot read its beginning", id)
	}
	return "", fmt.Errorf("run %s cannot resume: no plugin recognised its command. "+
		"To declare its settings: launch init -- COMMAND", id)
}
