package states

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/launch-ml/launch/core/job"
)

// CheckPuts returns an error for the first file that a plugin wants to put outside a trial's folder, by its path or
// through a link that the plugin puts there.
func CheckPuts(puts []job.Put) error {
	links := map[string]bool{}
	for _, p := range puts {
		if !filepath.IsLocal(p.Path) || filepath.Clean(p.Path) == "." || p.Link != "" && !filepath.IsAbs(p.Link) {
			return fmt.Errorf("the plugin puts %.200q outside its folder, or links it to a path that is not absolute",
				p.Path)
		}
		for at := filepath.Clean(p.Path); at != "."; at = filepath.Dir(at) {
			if links[at] {
				return fmt.Errorf("the plugin puts %.200q through a link", p.Path)
			}
		}
		if p.Link != "" {
			links[filepath.Clean(p.Path)] = true
		}
	}
	return nil
}

// Stage writes the plugin's files and links into a trial's folder, and nowhere else. The targets of links are only
// read, and stay when the folder is removed.
func Stage(scratch string, puts []job.Put) error {
	if err := CheckPuts(puts); err != nil {
		return fmt.Errorf("preparing the trial: %w", err)
	}
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return fmt.Errorf("preparing the trial: %w", err)
	}
	root, err := os.OpenRoot(scratch)
	if err != nil {
		return fmt.Errorf("preparing the trial: %w", err)
	}
	defer root.Close()
	for _, p := range puts {
		err := root.MkdirAll(filepath.Dir(filepath.Clean(p.Path)), 0o700)
		switch {
		case err != nil:
		case p.Link != "":
			err = root.Symlink(p.Link, p.Path)
		default:
			err = root.WriteFile(p.Path, p.Text, 0o600)
		}
		if err != nil {
			return fmt.Errorf("preparing the trial: %w", err)
		}
	}
	return nil
}

// Copy copies a file and writes the patches into the copy. A patch beyond its end is an error.
func Copy(from, to string, patches []job.Patch) error {
	in, info, err := regular(from)
	if err != nil {
		return err
	}
	defer in.Close()
	for _, p := range patches {
		for _, b := range p.Bytes {
			if b.At < 0 || b.At > info.Size()-int64(len(b.New)) {
				return fmt.Errorf("a patch of %s lies outside the file", from)
			}
		}
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.LimitReader(in, info.Size()))
	for _, p := range patches {
		for _, b := range p.Bytes {
			if err == nil {
				_, err = out.WriteAt(b.New, b.At)
			}
		}
	}
	return errors.Join(err, out.Close())
}
