package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/unit"
)

// A running launch publishes what is known of its run: a small file in the run's folder, written about once a
// second, that other processes read.
//
// The file is written in place, by one write. A rename each second would make the file system write to its disk each
// second, and in place a full disk does no harm. A checksum shows a reader that it has read half of an older status.

// StatusVersion of [Status]. A reader refuses newer ones. Fields are added within a version and never change their
// meaning.
const StatusVersion = 1

// StatusEvery is the time between two statuses.
const StatusEvery = time.Second

// statusName is the name of the file in the folder of a run.
const statusName = "live"

// mostStatus bounds what is read.
const mostStatus = 64 << 10

// A Status is what is known of an attempt that runs.
type Status struct {
	Version int       `json:"version"`
	Time    time.Time `json:"time"`            // of this status
	Attempt int       `json:"attempt"`         // its number in the run
	Trial   string    `json:"trial,omitempty"` // the kind of a short run before the training; else ""
	Began   time.Time `json:"began"`           // of the attempt
	PID     int       `json:"pid,omitempty"`   // of the program, in launch's PID namespace; 0 before it starts
	Phase   string    `json:"phase,omitempty"` // that runs; "" before the program's first line about one
	// Progress is nil until the program reports a step.
	Progress *Progress `json:"progress,omitempty"`
	// Memory is nil until something was measured.
	Memory *StatusMemory `json:"memory,omitempty"`
	// Predicted has the plan's estimates: of each phase of which it is known.
	Predicted map[string]unit.Bytes `json:"predicted_bytes,omitempty"`
	Room      unit.Bytes            `json:"room_bytes,omitempty"` // that the plan was made for; 0: not known
	Card      string                `json:"card,omitempty"`       // the UUID of the card; "": none, or not known
}

// Progress is how far a program has come, by its own reports.
type Progress struct {
	Iteration int64     `json:"iteration"`       // of the last report
	Total     int64     `json:"total,omitempty"` // iterations that it will make; 0: not known
	At        time.Time `json:"at"`              // of the last report
	// Epoch: the count starts again in each epoch, so that iterations and total are those of one epoch.
	Epoch bool `json:"epoch,omitempty"`
	// Rate is the speed in samples of the global batch per second, in the last minute of steps; 0: not known.
	Rate float64 `json:"samples_per_second,omitempty"`
	// Step is the mean time from one iteration to the next since the first report, with all phases between; 0: not known.
	Step time.Duration `json:"step_ns,omitempty"`
}

// StatusMemory is what the job holds.
type StatusMemory struct {
	Now  unit.Bytes `json:"now_bytes"`
	Peak unit.Bytes `json:"peak_bytes"`
	Is   string     `json:"is"` // the quantity: as mem.Measurement names it, or [Anonymous]
	// Doubted: part of it may belong to other processes.
	Doubted bool `json:"doubted,omitempty"`
}

// Anonymous is host memory of all processes of the job that no file backs and the kernel cannot drop: it is shown where
// nothing else is measured.
const Anonymous = "anonymous"

// Left is the time that the training still takes if it goes on as it did. ok is false if that is not known, as for one
// that should have ended: it did not go on as it did.
func (p *Progress) Left(now time.Time) (left time.Duration, ok bool) {
	if p == nil || p.Epoch || p.Total <= 0 || p.Step <= 0 || p.Iteration > p.Total {
		return 0, false
	}
	todo := p.Total - p.Iteration
	if todo == 0 {
		return 0, true
	}
	if todo > int64(math.MaxInt64/p.Step) { // such as the largest integer, of a training without an end
		return 0, false
	}
	left = time.Duration(todo)*p.Step - now.Sub(p.At)
	return max(0, left), left > 0
}

// Part is how much of the iterations was made, from 0 to 1. ok is false if that is not known.
func (p *Progress) Part() (part float64, ok bool) {
	if p == nil || p.Total <= 0 || p.Iteration < 0 || p.Iteration > p.Total {
		return 0, false
	}
	return float64(p.Iteration) / float64(p.Total), true
}

// Expected is the estimate of the running phase or, before the first, of the largest one; 0: not known.
func (s Status) Expected() (most unit.Bytes) {
	if s.Phase != "" {
		return s.Predicted[s.Phase]
	}
	for _, b := range s.Predicted {
		most = max(most, b)
	}
	return most
}

// A StatusFile is the status of a run, open for writing.
type StatusFile struct{ file *os.File }

// CreateStatus makes the file of a run in the run's folder.
func CreateStatus(dir string) (*StatusFile, error) {
	f, err := private.Open(filepath.Join(dir, statusName), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = f.Truncate(0) // a launch that was killed may have left its own
	}
	if err != nil {
		return nil, fmt.Errorf("making the file of the run's status: %w", err)
	}
	return &StatusFile{f}, nil
}

// Write replaces the status.
func (f *StatusFile) Write(s Status) error {
	s.Version = StatusVersion
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("writing the run's status: %w", err)
	}
	sum := crc32.ChecksumIEEE(text)
	if _, err := f.file.WriteAt(fmt.Appendf(append(text, '\n'), "%08x\n", sum), 0); err != nil {
		return fmt.Errorf("writing the run's status: %w", err)
	}
	return nil
}

// Close removes the file: the attempt is over.
func (f *StatusFile) Close() error { return errors.Join(os.Remove(f.file.Name()), f.file.Close()) }

// ErrNoStatus is wrapped by the error of [ReadStatus] if the run has no status.
var ErrNoStatus = errors.New("no status of the run")

// ReadStatus reads the status in the folder of a run. A launch that was killed leaves its last one: Time shows its age.
func ReadStatus(dir string) (*Status, error) {
	var torn error
	for range 3 { // a status may be half written
		text, err := read(filepath.Join(dir, statusName))
		if errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("%w: %w", ErrNoStatus, err)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the run's status: %w", err)
		}
		s, err := parse(text)
		if err == nil || !errors.Is(err, errTorn) {
			return s, err
		}
		torn = err
	}
	return nil, torn
}

func read(path string) ([]byte, error) {
	f, err := private.Open(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, mostStatus))
}

var errTorn = errors.New("reading the run's status: it is incomplete")

func parse(text []byte) (*Status, error) {
	line, rest, _ := bytes.Cut(text, []byte("\n"))
	sum, _, whole := bytes.Cut(rest, []byte("\n"))
	if !whole || string(sum) != fmt.Sprintf("%08x", crc32.ChecksumIEEE(line)) {
		return nil, errTorn
	}
	var s Status
	if err := json.Unmarshal(line, &s); err != nil {
		return nil, fmt.Errorf("reading the run's status: %w", err)
	}
	if s.Version > StatusVersion {
		return nil, fmt.Errorf("the run's status was written by a newer launch (version %d, this one reads %d)",
			s.Version, StatusVersion)
	}
	return &s, nil
}
