package record

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/unit"
)

// Bounds limit which runs are kept.
type Bounds struct {
	Age    time.Duration // of a run's last event
	Bytes  unit.Bytes    // of all of them together
	Newest int           // this many of the newest runs are always kept
}

// Usual are the default bounds.
var Usual = Bounds{Age: 90 * 24 * time.Hour, Bytes: 4 * unit.GiB, Newest: 20}

// A Pruned is something that was removed or, in a dry run, would be.
type Pruned struct {
	ID    string     `json:"id"`
	Bytes unit.Bytes `json:"bytes"`
	Why   string     `json:"why"`
}

// stored is a run on the disk.
type stored struct {
	id    string
	bytes unit.Bytes
	at    time.Time // of its last event
	stays bool
}

// beyond chooses the runs that exceed the bounds, the oldest first. all is sorted, the oldest first.
func beyond(all []stored, b Bounds, now time.Time) (out []Pruned) {
	total := unit.Bytes(0)
	for _, r := range all {
		total += r.bytes
	}
	for i, r := range all {
		if r.stays || i >= len(all)-b.Newest {
			continue
		}
		switch {
		case now.Sub(r.at) > b.Age:
			out = append(out, Pruned{r.id, r.bytes, fmt.Sprintf("%.0f days old", now.Sub(r.at).Hours()/24)})
		case total > b.Bytes:
			out = append(out, Pruned{r.id, r.bytes, fmt.Sprintf("all records together exceed %v", b.Bytes)})
		default:
			continue
		}
		total -= r.bytes
	}
	return out
}

// gone is the prefix of a run's folder while it is being removed.
const gone = ".gone-"

// Prune removes the runs that exceed the bounds, and what killed rehearsals have left. It never removes a run that is still
// running, one that can be resumed, as the caller's function reports, or one that cannot be read. It removes only within
// the folder of runs and follows no link. ctx ends it between two runs.
func (s Store) Prune(ctx context.Context, b Bounds, now time.Time, resumable func(*History) bool, dry bool) (out []Pruned, err error) {
	if err := private.Check(s.Dir); err != nil {
		return nil, fmt.Errorf("pruning the runs: %w", err)
	}
	root, err := os.OpenRoot(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("pruning the runs: %w", err)
	}
	defer root.Close()
	ids, err := s.List()
	if err != nil {
		return nil, err
	}
	var all []stored
	for _, id := range ids {
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		r, left, err := s.measure(root, id, resumable, dry)
		if err != nil {
			return out, err
		}
		if left > 0 {
			out = append(out, Pruned{id, left, "the folder of a killed trial"})
		}
		all = append(all, r)
	}
	for _, p := range beyond(all, b, now) {
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		if !dry {
			if err := s.remove(root, p.ID); errors.Is(err, ErrBusy) {
				continue
			} else if err != nil {
				return out, fmt.Errorf("removing run %s: %w", p.ID, err)
			}
		}
		out = append(out, p)
	}
	if !dry {
		entries, _ := fs.ReadDir(root.FS(), ".")
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), gone) { // its launch was killed while it pruned
				root.RemoveAll(e.Name())
			}
		}
	}
	return out, nil
}

// measure returns a run's age and size. Unless dry, it removes what killed trials left in the run's folder. left is the
// size of that; the run's own size does not include it.
func (s Store) measure(root *os.Root, id string, resumable func(*History) bool, dry bool) (r stored, left unit.Bytes, err error) {
	h, err := s.Read(id)
	r = stored{id: id, bytes: size(root, id)}
	if err != nil || len(h.Events) == 0 {
		r.stays = true
		return r, 0, nil
	}
	r.at = h.Events[len(h.Events)-1].Time
	if h.Life().Alive {
		r.stays = true
		return r, 0, nil
	}
	left, err = s.scratch(root, id, dry)
	r.bytes -= left
	r.stays = err == nil && resumable(h)
	return r, left, err
}

// remove locks the run, so that no launch resumes it meanwhile. It renames it first, so that a half-removed run is
// never listed.
func (s Store) remove(root *os.Root, id string) error {
	held, err := takeSign(filepath.Join(s.Dir, id))
	if err != nil {
		return err
	}
	defer held.release()
	if err := root.Rename(id, gone+id); err != nil {
		return err
	}
	return root.RemoveAll(gone + id)
}

// Scratch is the name of a trial's folder, in its attempt's folder.
const Scratch = "scratch"

// scratch removes what a run's trials have left, and returns its size.
func (s Store) scratch(root *os.Root, id string, dry bool) (left unit.Bytes, err error) {
	entries, err := fs.ReadDir(root.FS(), id)
	if err != nil {
		return 0, fmt.Errorf("pruning run %s: %w", id, err)
	}
	for _, e := range entries {
		dir := path.Join(id, e.Name(), Scratch)
		if info, err := root.Lstat(dir); !strings.HasPrefix(e.Name(), "attempt-") || err != nil || !info.IsDir() {
			continue
		}
		left += max(1, size(root, dir))
		if !dry {
			if err := root.RemoveAll(dir); err != nil {
				return left, fmt.Errorf("removing %s: %w", dir, err)
			}
		}
	}
	return left, nil
}

// size is the sum of the files in a folder. It follows no link.
func size(root *os.Root, dir string) (sum unit.Bytes) {
	fs.WalkDir(root.FS(), dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil
		}
		if info, err := e.Info(); err == nil {
			sum += unit.Bytes(info.Size())
		}
		return nil
	})
	return sum
}

// Due reports whether the last pruning that [Store.Done] noted is longer ago than a day.
func (s Store) Due(now time.Time) bool {
	info, err := os.Stat(s.stamp())
	return err != nil || now.Sub(info.ModTime()) > 24*time.Hour || info.ModTime().After(now.Add(time.Hour))
}

// Done notes that the runs were pruned. It writes only into a folder that is this user's own.
func (s Store) Done(now time.Time) {
	if private.MkdirAll(filepath.Dir(s.stamp())) != nil {
		return
	}
	f, err := private.Open(s.stamp(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		f.Close()
		os.Chtimes(s.stamp(), now, now)
	}
}

func (s Store) stamp() string { return filepath.Join(filepath.Dir(s.Dir), "pruned") }
