package record

import (
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/launch-ml/launch/core/identity"
)

// Identity is what makes the run the same run: the last one that was recorded, with what its user accepted. It is nil
// for a run that was recorded before launch kept it.
func (h *History) Identity() *identity.Identity {
	for _, e := range slices.Backward(h.Events) {
		if e.Identity != nil {
			return e.Identity
		}
	}
	return nil
}

// Past is what is known of the run's data since its identity was taken.
func (h *History) Past() (p identity.Past) {
	for _, e := range slices.Backward(h.Events) {
		switch e.Kind {
		case Listed:
			p.Left = e.Data
			if p.Left == nil {
				p.Left = []identity.Tree{}
			}
			return p
		case Planned:
			p.Until = h.lastOutput()
			return p
		}
	}
	return p
}

// lastOutput is when the run's programs last printed something; zero if no output was kept.
func (h *History) lastOutput() (at time.Time) {
	paths, _ := filepath.Glob(filepath.Join(h.Dir, "attempt-*", "*"))
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && info.ModTime().After(at) {
			at = info.ModTime()
		}
	}
	return at
}

// CodeDiff is the file that keeps what differs from the commit in the code of an identity.
func (r *Record) CodeDiff(code string) string { return codeDiff(r.Dir, code) }

func codeDiff(dir, code string) string { return filepath.Join(dir, "code-"+code+".diff") }

// Changes is the file that has what differs from the commit in the run's code; "" where nothing does. Where that is not
// known, known is false.
func (h *History) Changes() (path string, known bool) {
	id := h.Identity()
	if id == nil {
		return "", false
	}
	path = codeDiff(h.Dir, id.OfCode())
	info, err := os.Stat(path)
	if err == nil && info.Size() == 0 {
		path = ""
	}
	return path, err == nil
}
