package record

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"github.com/launch-ml/launch/core/private"
)

// stopFile holds a request to stop a run, in its folder, until the launch that carries the run takes it.
const stopFile = "stop"

// stopVersion is the version of [StopRequest].
const stopVersion = 1

// A StopRequest asks the launch that carries a run to stop it. A file carries it, not a signal: signals are the
// program's.
type StopRequest struct {
	Version int `json:"version"`
	// Save: the program saves its state first, in its own way if it has one, else as it does by itself.
	Save bool `json:"save"`
	// Next: the program is not asked to save; launch waits for its next saved state. It implies Save.
	Next bool `json:"next"`
	// Within is how long the program may take to save; 0: as long as it takes.
	Within time.Duration `json:"within_nanoseconds"`
}

// AskToStop leaves a request for the launch that carries the run. A later request replaces an earlier one.
func (h *History) AskToStop(r StopRequest) error {
	r.Version = stopVersion
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return private.WriteFile(filepath.Join(h.Dir, stopFile), text, 0o600)
}

// StopAsked takes the request to stop this run, if there is one.
func (r *Record) StopAsked() (asked StopRequest, ok bool) {
	path := filepath.Join(r.Dir, stopFile)
	if _, err := os.Lstat(path); err != nil { // it is looked for once a second
		return asked, false
	}
	text, err := private.ReadFile(path)
	os.Remove(path) // it is asked once, and what cannot be read is not asked again and again
	ok = err == nil && json.Unmarshal(text, &asked) == nil && asked.Version == stopVersion
	asked.Save = asked.Save || asked.Next
	return asked, ok
}
