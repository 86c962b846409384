package kit

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/job"
)

// attempts is the folder, below a case's, that edited copies go to.
const attempts = "launch-attempt"

// copied returns the command in a copy of its folder.
func (t *tester) copied(c job.Command) (job.Command, error) {
	dir, err := t.folder()
	if err != nil {
		return c, err
	}
	from, err := filepath.Abs(c.Dir)
	if err != nil {
		return c, err
	}
	if err := t.copy(from, dir); err != nil {
		return c, fmt.Errorf("copying %s: %w", c.Dir, err)
	}
	c.Args, c.Sources, c.Formulas = slices.Clone(c.Args), nil, nil
	for i, a := range c.Args {
		if rel, err := filepath.Rel(from, a); err == nil && filepath.IsAbs(a) && filepath.IsLocal(rel) {
			c.Args[i] = filepath.Join(dir, rel)
		}
	}
	c.Dir = dir
	return c, nil
}

// Bounds of a case's folder, which may be a whole project. Of a larger file the copy has the beginning, where headers
// are, and the length.
const (
	maxEntries = 50_000
	maxCopied  = 16 << 20
	beginning  = 1 << 20
)

// copy copies a folder: files, folders and links. What a program talks through, such as sockets, is left out, and so
// is the test's own folder.
func (t *tester) copy(from, to string) error {
	entries := 0
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		rel, rerr := filepath.Rel(from, path)
		if entries++; entries > maxEntries {
			return fmt.Errorf("it has more than %d files: make a smaller folder for the test", maxEntries)
		}
		into := filepath.Join(to, rel)
		switch {
		case err != nil || rerr != nil:
			return errors.Join(err, rerr)
		case path == t.temp:
			return filepath.SkipDir
		case e.IsDir():
			return os.MkdirAll(into, 0o755)
		case e.Type() == fs.ModeSymlink:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(target, into)
		case e.Type().IsRegular():
			return copyFile(path, into)
		}
		return nil
	})
}

func copyFile(from, to string) error {
	in, err := file.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm()|0o200)
	if err != nil {
		return err
	}
	defer out.Close()
	most := info.Size()
	if most > maxCopied {
		most = beginning
	}
	if _, err := io.Copy(out, io.LimitReader(in, most)); err != nil {
		return err
	}
	if err := out.Truncate(info.Size()); err != nil {
		return err
	}
	return out.Close()
}

// put writes a case's files into a new folder, and returns it.
func (t *tester) put(files map[string]string) (string, error) {
	dir, err := t.folder()
	if err != nil {
		return "", err
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// tree is what lies in a folder: paths, modes, times, and what files contain.
func tree(dir string) (map[string]string, error) {
	entries := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		info, err := e.Info()
		if err != nil {
			return err
		}
		entries[rel] = info.Mode().String()
		if info.Mode().IsRegular() {
			sum, err := sumOf(path)
			entries[rel] += fmt.Sprintf(" %d %v %s", info.Size(), info.ModTime(), sum)
			return err
		}
		return nil
	})
	return entries, err
}

func sumOf(path string) (string, error) {
	f, err := file.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(f, maxCopied)); err != nil { // the time shows other changes
		return "", err
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}

// changed names what differs between two trees, at most three paths.
func changed(before, now map[string]string) string {
	var paths []string
	for path, what := range now {
		if before[path] == "" {
			paths = append(paths, path+" is new")
		} else if before[path] != what {
			paths = append(paths, path+" was changed")
		}
	}
	for path := range before {
		if now[path] == "" {
			paths = append(paths, path+" is gone")
		}
	}
	slices.Sort(paths)
	if len(paths) > 3 {
		paths = append(paths[:3], "…")
	}
	return strings.Join(paths, ", ")
}

// write puts the edited copies where the command finds them, until undo is called. Python source has no copy: it is
// changed in its place, while launch's overlay serves the copy without changing the file.
func write(files []job.File) (undo func() error, err error) {
	var undone []func() error
	undo = func() (err error) {
		for _, f := range undone {
			err = errors.Join(err, f())
		}
		return err
	}
	for _, f := range files {
		text := f.Text
		if f.Format == job.Binary {
			if text, err = patched(f); err != nil {
				return undo, err
			}
		}
		restore, err := replace(f.Path, text)
		undone = append(undone, restore)
		if err != nil {
			return undo, err
		}
	}
	return undo, nil
}

// patched is the copy of a binary file.
func patched(f job.File) ([]byte, error) {
	text, err := os.ReadFile(f.From)
	if err != nil {
		return nil, err
	}
	for _, patch := range f.Patches {
		for _, b := range patch.Bytes {
			if b.At < 0 || b.At+int64(len(b.New)) > int64(len(text)) {
				return nil, fmt.Errorf("a patch of %s writes at %d, after its end", f.From, b.At)
			}
			copy(text[b.At:], b.New)
		}
	}
	return text, nil
}

// replace writes a file, until restore is called.
func replace(path string, text []byte) (restore func() error, err error) {
	old, oldErr := os.ReadFile(path)
	restore = func() error {
		if oldErr == nil {
			return os.WriteFile(path, old, 0o644)
		}
		os.Remove(path)
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return restore, err
	}
	return restore, os.WriteFile(path, text, 0o644)
}
