package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/plugin/declared"
	"github.com/launch-ml/launch/core/private"
	"github.com/launch-ml/launch/core/sweep"
	"github.com/launch-ml/launch/core/ui"
)

// keepSettings lays the files from which launch takes settings into the copy of the code in the folder to, also where
// git does not track them: rows keep to the same --allow, and to the same declaration, as a launch of the project
// itself. What is approved there is approved here. A file that is not trusted is an error: its copy would be trusted.
func keepSettings(spec *sweep.Spec, to string) error {
	home, _ := os.UserHomeDir()
	paths := []string{private.Nearest(spec.Dir, projectFile, home), filepath.Join(spec.Dir, declared.File)}
	if prog, err := command.Program(spec.Command, os.Environ(), spec.Dir); err == nil && prog.Path() != "" {
		paths = append(paths, filepath.Join(filepath.Dir(prog.Path()), declared.File))
	}
	for _, path := range paths {
		f, err := private.ReadSettings(path)
		if path == "" || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("copying the code: %w", err)
		}
		approved := private.Approved().Has(f)
		if f.Foreign != nil && !approved {
			return fmt.Errorf("copying the code: nothing of %s is taken: %w (read it, and take it by `launch trust %s`)", path,
				f.Foreign, ui.Quote([]string{path}))
		}
		if err := keepFile(f, spec.Tree.Root, to, approved); err != nil {
			return fmt.Errorf("copying the code: %w", err)
		}
	}
	return nil
}

// keepFile lays a file of a work tree into the copy of the tree, if it is not there.
func keepFile(f *private.Settings, root, to string, approved bool) error {
	below, err := filepath.Rel(root, f.Path)
	if err != nil || !filepath.IsLocal(below) {
		below = filepath.Base(f.Path) // it lies above: that of the tree's root is as near
	}
	path := filepath.Join(to, below)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := private.WriteFile(path, f.Text, 0o644); err != nil {
			return err
		}
	}
	if !approved {
		return nil
	}
	copied, err := private.ReadSettings(path)
	if err == nil && copied.Sum() == f.Sum() {
		err = private.Approved().Add(copied)
	}
	return err
}

// besides lists the files of the work tree that the command names by absolute paths: rows read them, and not the copy.
func besides(args []string, root, to string) (paths []string) {
	for _, a := range args {
		path := a[strings.Index(a, "=")+1:]
		real, err := filepath.EvalSymlinks(path)
		if err != nil || !filepath.IsAbs(path) || slices.Contains(paths, path) {
			continue
		}
		below, err := filepath.Rel(root, real)
		if info, serr := os.Stat(filepath.Join(to, below)); err == nil && filepath.IsLocal(below) && serr == nil &&
			info.Mode().IsRegular() {
			paths = append(paths, path)
		}
	}
	return paths
}
