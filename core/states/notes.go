package states

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/run"
)

// Notes record, in an attempt's folder, what is known about its states besides the files. If launch is killed, the
// launch that resumes the run needs them to find out whose the states are.
type Notes struct {
	Before Listing  `json:"before"`         // the attempt
	Held   []string `json:"held,omitempty"` // folders that the run had locked
	// Marked are the folders, with the run's mark, that no other run used when the attempt began.
	Marked map[string]string `json:"marked,omitempty"`
}

const (
	notesFile = "states-before.json"
	wroteFile = "states-written.jsonl"
)

// Write writes the notes into an attempt's folder.
func (n Notes) Write(dir string) error {
	b, err := json.Marshal(n)
	if err == nil {
		err = private.WriteFile(filepath.Join(dir, notesFile), b, 0o600)
	}
	if err != nil {
		return fmt.Errorf("noting the saved states: %w", err)
	}
	return nil
}

const afterFile = "states-after.json"

// WriteAfter records in an attempt's folder which states there were when the attempt had ended.
func WriteAfter(dir string, after Listing) error {
	b, err := json.Marshal(after)
	if err == nil {
		err = private.WriteFile(filepath.Join(dir, afterFile), b, 0o600)
	}
	if err != nil {
		return fmt.Errorf("noting the saved states: %w", err)
	}
	return nil
}

// Newer returns the states that were written since an attempt ended and that continue a series of the run's own: they
// have the name of one of its states, or differ in a number only. dir is the attempt's folder. known are the run's own.
// any: whatever they are called. It returns nothing if the record is of an older launch.
func Newer(in Finder, globs []string, dir string, known []run.State, any bool) (paths []string) {
	b, err := private.ReadFile(filepath.Join(dir, afterFile))
	after := Listing{}
	if err != nil || json.Unmarshal(b, &after) != nil {
		return nil
	}
	var series []string
	for _, s := range known {
		series = append(series, numberOf(s.Path).shape)
	}
	for path, m := range List(in, globs) {
		switch was, there := after[path]; {
		case there && was.alike(m), !any && !slices.Contains(series, numberOf(path).shape):
		case slices.ContainsFunc(known, func(s run.State) bool { return s.Path == path }): // its digest decides
		case !unfinished(filepath.Base(path)):
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// WrittenLog opens the file of an attempt's folder that a [Watch] writes to.
func WrittenLog(dir string) (*os.File, error) {
	return private.Open(filepath.Join(dir, wroteFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
}

// seen is a line of what a [Watch] saw.
type seen struct {
	ID
	Foreign bool   `json:"foreign,omitempty"` // another run's process wrote the file
	Path    string `json:"path,omitempty"`    // of a state that another run wrote
	// State, if not "", was written when Mark was taken; the line tells nothing else. Order counts such writes.
	State string `json:"state,omitempty"`
	Order int64  `json:"order,omitempty"`
	Mark  *Mark  `json:"mark,omitempty"`
}

// Seen is what a [Watch] saw, read from its log.
type Seen struct {
	wrote, foreign map[ID]bool
	crowd          []string
	noted          map[string]seen // the last line about each state
	newest         string          // the state of the last line
}

// Wrote is as [Watch.Wrote].
func (s Seen) Wrote(id ID) bool { return s.wrote[id] }

// Foreign is as [Watch.Foreign].
func (s Seen) Foreign(id ID) bool { return s.foreign[id] }

// Crowded is as [Watch.Crowded].
func (s Seen) Crowded(folder string) bool {
	return slices.ContainsFunc(s.crowd, func(path string) bool { return within(folder, path) })
}

// Order is as [Watch.Order].
func (s Seen) Order(path string) int64 { return s.noted[path].Order }

// Rewritten reports whether a state has another mark than when launch last saw it written. One that launch did not see
// may be anybody's where somebody has written others since.
func (s Seen) Rewritten(path string, now Mark) bool {
	if line, ok := s.noted[path]; ok {
		return !line.Mark.alike(now)
	}
	return s.Disturbed(filepath.Dir(path))
}

// Disturbed reports whether a state in the folder was written again after launch saw it complete, although this run had
// gone on to another one: then somebody else uses the folder.
func (s Seen) Disturbed(folder string) bool {
	for path, line := range s.noted {
		if path == s.newest || !within(folder, path) {
			continue
		}
		if m, ok := look(path); ok && !m.alike(*line.Mark) {
			return true
		}
	}
	return false
}

// ReadNotes reads an attempt's notes, and which files its own and other runs' processes were seen to write.
func ReadNotes(dir string) (n Notes, s Seen, err error) {
	b, err := private.ReadFile(filepath.Join(dir, notesFile))
	if err == nil {
		err = json.Unmarshal(b, &n)
	}
	if err != nil {
		return n, s, fmt.Errorf("reading the notes about saved states: %w", err)
	}
	s = Seen{wrote: map[ID]bool{}, foreign: map[ID]bool{}, noted: map[string]seen{}}
	if f, err := private.Open(filepath.Join(dir, wroteFile), os.O_RDONLY, 0); err == nil {
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			var line seen
			switch err := json.Unmarshal(lines.Bytes(), &line); {
			case err != nil:
			case line.State != "" && line.Mark != nil:
				s.noted[line.State], s.newest = line, line.State
			case !line.Foreign:
				s.wrote[line.ID] = true
				delete(s.foreign, line.ID)
			default:
				s.foreign[line.ID] = true
				delete(s.wrote, line.ID)
				if line.Path != "" {
					s.crowd = append(s.crowd, line.Path)
				}
			}
		}
	}
	return n, s, nil
}
