package record

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/launch-ml/launch/core/private"
)

// stopFile holds a request to stop a run, in its folder, until the launch that carries the run takes it.
const stopFile = "stop"

// stopRefused holds why the launch that carries the run did not take the request.
const stopRefused = "stop-refused"

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
	os.Remove(filepath.Join(h.Dir, stopRefused))
	return private.WriteFile(filepath.Join(h.Dir, stopFile), text, 0o600)
}

// StopRefused returns why the launch that carries the run did not take the request; "" if it did, or has not looked
// yet.
func (h *History) StopRefused() string {
	why, err := private.ReadFile(filepath.Join(h.Dir, stopRefused))
	if err != nil {
		return ""
	}
	return string(why)
}

// StopAsked takes the request to stop this run, if there is one. The error is why it cannot take one that is there;
// whoever asked finds it by [History.StopRefused].
func (r *Record) StopAsked() (asked StopRequest, ok bool, err error) {
	path := filepath.Join(r.Dir, stopFile)
	if _, err := os.Lstat(path); err != nil { // it is looked for once a second
		return asked, false, nil
	}
	if asked, err = readStop(path); err != nil {
		_ = private.WriteFile(filepath.Join(r.Dir, stopRefused), []byte(err.Error()), 0o600) // launch prints it too
	}
	os.Remove(path) // it is asked once, and what cannot be read is not asked again and again
	asked.Save = asked.Save || asked.Next
	return asked, err == nil, err
}

func readStop(path string) (asked StopRequest, err error) {
	text, err := private.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &asked)
	}
	if err == nil && asked.Version != stopVersion {
		err = fmt.Errorf("it has the version %d, and the launch that carries the run knows %d", asked.Version, stopVersion)
	}
	return asked, err
}
