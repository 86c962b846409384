package states

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/launch-ml/launch/core/private"
)

// Notes are what an attempt knows of its states beside their files, kept in the attempt's folder: launch may be killed, and the
// one that takes the run up has to know whose they are.
type Notes struct {
	Before Listing  `json:"before"`         // the attempt
	Held   []string `json:"held,omitempty"` // folders of which the run held the lock
	// Marked are folders in which the run was alone when the attempt began, with its mark.
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
		return fmt.Errorf("writing down which saved states there are: %w", err)
	}
	return nil
}

// WrittenLog opens the file of an attempt's folder that a [Watch] writes to.
func WrittenLog(dir string) (*os.File, error) {
	return private.Open(filepath.Join(dir, wroteFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
}

// ReadNotes reads what an attempt knew, and which files its processes were seen to write.
func ReadNotes(dir string) (n Notes, wrote func(ID) bool, err error) {
	b, err := private.ReadFile(filepath.Join(dir, notesFile))
	if err == nil {
		err = json.Unmarshal(b, &n)
	}
	if err != nil {
		return n, nil, fmt.Errorf("reading which saved states there were: %w", err)
	}
	seen := map[ID]bool{}
	if f, err := private.Open(filepath.Join(dir, wroteFile), os.O_RDONLY, 0); err == nil {
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			var id ID
			if json.Unmarshal(lines.Bytes(), &id) == nil {
				seen[id] = true
			}
		}
	}
	return n, func(id ID) bool { return seen[id] }, nil
}
