package states

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/launch-ml/launch/core/private"
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

// WrittenLog opens the file of an attempt's folder that a [Watch] writes to.
func WrittenLog(dir string) (*os.File, error) {
	return private.Open(filepath.Join(dir, wroteFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
}

// seen is a line of what a [Watch] saw.
type seen struct {
	ID
	Foreign bool   `json:"foreign,omitempty"` // another run's process wrote the file
	Path    string `json:"path,omitempty"`    // of a state that another run wrote
}

// Seen is what a [Watch] saw, read from its log.
type Seen struct {
	wrote, foreign map[ID]bool
	crowd          []string
}

// Wrote is as [Watch.Wrote].
func (s Seen) Wrote(id ID) bool { return s.wrote[id] }

// Foreign is as [Watch.Foreign].
func (s Seen) Foreign(id ID) bool { return s.foreign[id] }

// Crowded is as [Watch.Crowded].
func (s Seen) Crowded(folder string) bool {
	return slices.ContainsFunc(s.crowd, func(path string) bool { return within(folder, path) })
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
	s = Seen{wrote: map[ID]bool{}, foreign: map[ID]bool{}}
	if f, err := private.Open(filepath.Join(dir, wroteFile), os.O_RDONLY, 0); err == nil {
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			var line seen
			switch err := json.Unmarshal(lines.Bytes(), &line); {
			case err != nil:
			case !line.Foreign:
				s.wrote[line.ID] = true
			default:
				s.foreign[line.ID] = true
				if line.Path != "" {
					s.crowd = append(s.crowd, line.Path)
				}
			}
		}
	}
	return n, s, nil
}
