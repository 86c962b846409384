package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/private"
)

// A trial notes each folder before it makes it in the project. If launch and its keeper are both killed, the next
// launch removes the noted folders.

// The names of folders that launch makes, some of them outside the state folder. Only folders with these names are
// removed.
const (
	TrialPrefix   = "launch-trial-"
	AttemptPrefix = "launch-attempt-"
)

// Note records absolute paths of folders that do not exist yet. If this process ends without calling forget, the next
// launch removes them. The kernel releases the lock on the note when this process ends.
func (s Store) Note(paths ...string) (forget func(), err error) {
	dir := s.notes()
	if err := private.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("making the folder of notes: %w", err)
	}
	f, err := os.CreateTemp(dir, ".new-*") // readers ignore this name until the note is locked and complete
	if err != nil {
		return nil, fmt.Errorf("noting what a trial leaves: %w", err)
	}
	b, err := json.Marshal(paths)
	if err == nil {
		_, err = f.Write(b)
	}
	if err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	name := filepath.Join(dir, strings.TrimPrefix(filepath.Base(f.Name()), ".new-"))
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
		f.Close()
		return nil, fmt.Errorf("noting what a trial leaves: %w", err)
	}
	return func() {
		os.Remove(name)
		f.Close()
	}, nil
}

func (s Store) notes() string { return filepath.Join(filepath.Dir(s.Dir), "leftovers") }

// Tidy removes the folders that killed launches have noted, and returns their paths.
func (s Store) Tidy() (removed []string) {
	entries, _ := os.ReadDir(s.notes())
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		path := filepath.Join(s.notes(), e.Name())
		f, err := private.Open(path, os.O_RDONLY, 0)
		if err != nil {
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil { // else its launch is still running
			var paths []string
			all := true
			if b, err := io.ReadAll(io.LimitReader(f, 1<<20)); err == nil && json.Unmarshal(b, &paths) == nil {
				for _, p := range paths {
					switch gone, err := s.removeLeftover(p); {
					case err != nil:
						all = false // a missing disk may be back later
					case gone:
						removed = append(removed, p)
					}
				}
			}
			if all {
				os.Remove(path)
			}
		}
		f.Close()
	}
	return removed
}

// removeLeftover removes a folder that launch has made, and reports whether it existed. It follows no link, at its end
// or below.
func (s Store) removeLeftover(path string) (bool, error) {
	base := filepath.Base(path)
	inside, err := filepath.Rel(s.Dir, path)
	ours := strings.HasPrefix(base, TrialPrefix) || strings.HasPrefix(base, AttemptPrefix) || err == nil && filepath.IsLocal(inside) && base == Scratch
	if !filepath.IsAbs(path) || path != filepath.Clean(path) || !ours {
		return false, nil
	}
	root, err := os.OpenRoot(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer root.Close()
	if info, err := root.Lstat(base); err != nil || !info.IsDir() {
		return false, nil
	}
	return true, root.RemoveAll(base)
}
