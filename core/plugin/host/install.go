package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/launch-ml/launch/core/private"
)

// InstallOptions are how a plugin is installed.
type InstallOptions struct {
	// Python is the interpreter for a Python plugin's environment; "" for the python3 of PATH.
	Python string
	// NoIndex and FindLinks are given to pip: install from these folders alone, without a network.
	NoIndex   bool
	FindLinks []string
	// Tell receives one line about each slow step; nil: nobody wants it.
	Tell func(line string)
}

func (o InstallOptions) tell(format string, args ...any) {
	if o.Tell != nil {
		o.Tell(fmt.Sprintf(format, args...))
	}
}

// An InstallResult is what a change has done.
type InstallResult struct {
	Plugin InstalledPlugin
	Files  int    // that are pinned
	Before string // the version that it replaces, "" if there was none
	// Changed are the files that were not as pinned before.
	Changed []*ChangedPlugin
	// Left are files that a removal left, each with the reason.
	Left []string
}

// Install copies a plugin into the plugin folder, starts it once for its manifest, and pins its files. from is a
// program named launch-plugin-NAME, a folder with such a program at its top, a Python project (a folder with a
// pyproject.toml, or a wheel), which gets an environment of its own, or an archive of one of these. A plugin that was
// installed before is replaced.
//
// A plugin is in the index only once it is whole: an installation that is interrupted leaves files that launch does
// not use.
func (s *Installed) Install(ctx context.Context, from string, o InstallOptions) (*InstallResult, error) {
	unlock, err := s.lock()
	if err != nil {
		return nil, fmt.Errorf("installing %s: %w", from, err)
	}
	defer unlock()
	r, err := s.install(ctx, from, o)
	if err != nil {
		return nil, fmt.Errorf("installing %s: %w", from, err)
	}
	return r, nil
}

func (s *Installed) install(ctx context.Context, from string, o InstallOptions) (*InstallResult, error) {
	from, err := filepath.Abs(from)
	if err != nil {
		return nil, err
	}
	if err := private.MkdirAll(s.Dir); err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp(s.Dir, workPrefix)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	src, err := s.source(ctx, from, work, o)
	if err != nil {
		return nil, err
	}
	p, err := s.claim(src.name, from)
	if err != nil {
		return nil, err
	}
	files := 0
	if err = src.fill(ctx, p.Folder); err == nil {
		p.Path = filepath.Join(p.Folder, src.program)
		files, err = s.complete(ctx, &p)
	}
	r := &InstallResult{Plugin: p, Files: files}
	if err == nil {
		err = s.change(func(all []InstalledPlugin) []InstalledPlugin { return s.commit(all, p, r) })
	}
	if err != nil {
		return nil, errors.Join(err, s.abandon(p))
	}
	return r, s.clear(p.Name(), r)
}

// workPrefix begins the names of folders that last as long as one installation.
const workPrefix = ".installing-"

// A source is what is installed.
type source struct {
	name    string
	program string // of the plugin, below its folder
	fill    func(ctx context.Context, to string) error
}

// source finds out what from is. It unpacks and builds in the folder work.
func (s *Installed) source(ctx context.Context, from, work string, o InstallOptions) (src source, err error) {
	info, err := os.Stat(from)
	if err != nil {
		return src, err
	}
	if !info.IsDir() && isArchive(from) {
		o.tell("unpacking %s", filepath.Base(from))
		if from, err = unpack(ctx, from, filepath.Join(work, "unpacked")); err != nil {
			return src, err
		}
		info, err = os.Stat(from)
		if err != nil {
			return src, err
		}
	}
	switch {
	case strings.HasSuffix(from, ".whl"):
		return s.wheel(ctx, from, work, o)
	case !info.IsDir():
		return s.program(from, info)
	}
	if _, err := os.Stat(filepath.Join(from, "pyproject.toml")); err == nil {
		return s.project(ctx, from, work, o)
	}
	return s.folder(from)
}

// program is a plugin of one file.
func (s *Installed) program(path string, info fs.FileInfo) (src source, err error) {
	src.program = filepath.Base(path)
	if src.name, err = s.nameOf(path); err != nil {
		return src, err
	}
	if info.Mode()&0o111 == 0 || !info.Mode().IsRegular() {
		return src, fmt.Errorf("%s is no program: it cannot be executed (chmod +x mends that)", path)
	}
	src.fill = func(ctx context.Context, to string) error {
		return copyFile(ctx, path, filepath.Join(to, src.program), info)
	}
	return src, nil
}

// folder is a plugin of a program with files beside it.
func (s *Installed) folder(dir string) (src source, err error) {
	var all []os.FileInfo
	found, _ := filepath.Glob(filepath.Join(dir, Prefix+"*"))
	found = slices.DeleteFunc(found, func(path string) bool {
		info, err := os.Stat(path)
		wrong := err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0
		if !wrong {
			all = append(all, info)
		}
		return wrong
	})
	if len(found) != 1 {
		hint := ""
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			hint = fmt.Sprintf("; build it first: go build -o %sNAME .", Prefix)
		}
		return src,
			fmt.Errorf("%s has %d executable programs named %sNAME at its top and no pyproject.toml, where one program is "+
				"needed%s", dir, len(found), Prefix, hint)
	}
	if src, err = s.program(found[0], all[0]); err != nil {
		return src, err
	}
	none := func(string) bool { return false }
	src.fill = func(ctx context.Context, to string) error { return copyTree(ctx, dir, to, none) }
	return src, nil
}

// claim makes a folder for a plugin's files, and records that they are not whole yet. What an interrupted
// installation of the same name has left is removed.
func (s *Installed) claim(name, from string) (p InstalledPlugin, err error) {
	if err := s.clear(name, &InstallResult{}); err != nil {
		return p, err
	}
	above := filepath.Join(s.Dir, name)
	if err := private.MkdirAll(above); err != nil {
		return p, err
	}
	p = InstalledPlugin{From: from, Stage: installing}
	p.Manifest.Name = name
	for n := 1; p.Folder == ""; n++ {
		dir := filepath.Join(above, strconv.Itoa(n))
		switch err := os.Mkdir(dir, 0o700); {
		case err == nil:
			p.Folder = dir
		case !errors.Is(err, fs.ErrExist):
			return p, err
		}
	}
	return p, s.change(func(all []InstalledPlugin) []InstalledPlugin { return append(all, p) })
}

// clear removes what interrupted installations and removals of a plugin have left: the index is locked, so no other
// process is at work on them.
func (s *Installed) clear(name string, r *InstallResult) error {
	for _, p := range s.Interrupted() {
		if p.Name() != name {
			continue
		}
		if p.Stage == installing {
			if err := s.abandon(p); err != nil {
				return err
			}
			continue
		}
		left, err := s.take(p)
		if err != nil {
			return err
		}
		r.Left = append(r.Left, left...)
	}
	stale, _ := filepath.Glob(filepath.Join(s.Dir, workPrefix+"*"))
	for _, dir := range stale {
		if info, err := os.Lstat(dir); err == nil && info.IsDir() && time.Since(info.ModTime()) > 24*time.Hour {
			os.RemoveAll(dir)
		}
	}
	return nil
}

// abandon removes an installation that was not completed. launch made its folder, and all that lies in it.
func (s *Installed) abandon(p InstalledPlugin) error {
	if filepath.Dir(filepath.Dir(p.Folder)) != filepath.Clean(s.Dir) {
		return fmt.Errorf("%s is not in the plugin folder", p.Folder)
	}
	os.Remove(p.list())
	if err := os.RemoveAll(p.Folder); err != nil {
		return err
	}
	os.Remove(filepath.Dir(p.Folder)) // where nothing else is in it
	return s.forget(p)
}

// forget takes a plugin out of the index.
func (s *Installed) forget(p InstalledPlugin) error {
	return s.change(func(all []InstalledPlugin) []InstalledPlugin {
		return slices.DeleteFunc(all, func(o InstalledPlugin) bool { return o.Name() == p.Name() && o.Folder == p.Folder })
	})
}

// complete pins the files of a plugin and asks it for its manifest, and returns how many files there are.
func (s *Installed) complete(ctx context.Context, p *InstalledPlugin) (int, error) {
	name := p.Name()
	if p.Folder != "" {
		if err := tighten(p.Folder); err != nil {
			return 0, err
		}
	}
	l, err := p.look()
	if err != nil {
		return 0, err
	}
	pins, err := l.pins(ctx)
	if err != nil {
		return 0, err
	}
	manifest, err := s.ask(ctx, p.Path, name)
	if err != nil {
		return 0, err
	}
	p.Manifest = manifest
	if l, err = p.look(); err != nil {
		return 0, err
	}
	changes, err := p.changes(ctx, l, pins)
	switch {
	case err != nil:
		return 0, err
	case len(changes) > 0:
		return 0, fmt.Errorf("%s %s when the plugin was started: a plugin must not write into its own folder",
			changes[0].File,
			changes[0].How)
	}
	p.Protocol, p.At, p.Stage = s.Protocol, time.Now().Round(time.Second), ""
	return len(pins), p.keep(pins)
}

// commit puts a plugin in the place of the one of the same name. An older installation is to be removed then.
func (s *Installed) commit(all []InstalledPlugin, p InstalledPlugin, r *InstallResult) (kept []InstalledPlugin) {
	for _, o := range all {
		switch {
		case o.Name() != p.Name():
			kept = append(kept, o)
		case o.Folder == p.Folder && p.Folder != "": // itself, as it was before
		case o.Stage != "":
			kept = append(kept, o)
		default:
			r.Before = o.Manifest.Version
			if o.Folder != "" {
				o.Stage = removing
				kept = append(kept, o)
			}
		}
	}
	return append(kept, p)
}

// Remove removes an installed plugin: those of its files that are as they were installed. Files that were changed or
// added stay, and are named in the result. A program that was trusted where it lies stays, and is not run again.
func (s *Installed) Remove(name string) (*InstallResult, error) {
	unlock, err := s.lock()
	if err != nil {
		return nil, fmt.Errorf("removing %s: %w", name, err)
	}
	defer unlock()
	all, err := s.read()
	if err != nil {
		return nil, err
	}
	r := &InstallResult{}
	for _, p := range all {
		if p.Name() != name {
			continue
		}
		r.Plugin = p
		switch {
		case p.Stage == installing:
			err = s.abandon(p)
		case p.Folder == "":
			r.Left, err = append(r.Left, p.Path+": it was trusted where it lies, and not installed"), s.forget(p)
		default:
			p.Stage = removing
			if err = s.change(func(all []InstalledPlugin) []InstalledPlugin {
				i := slices.IndexFunc(all, func(o InstalledPlugin) bool { return o.Name() == name && o.Folder == p.Folder })
				all[i].Stage = removing
				return all
			}); err == nil {
				var left []string
				left, err = s.take(p)
				r.Left = append(r.Left, left...)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("removing %s: %w", name, err)
		}
	}
	if r.Plugin.Name() == "" {
		return nil, fmt.Errorf("plugin %q: %w; `launch plugins` lists the plugins", name, ErrUnknown)
	}
	return r, nil
}

// take removes the files of a plugin that are as they were pinned, and the plugin from the index. It returns what it
// left.
func (s *Installed) take(p InstalledPlugin) (left []string, err error) {
	pinned, err := p.pinned()
	var changed *ChangedPlugin
	if errors.As(err, &changed) { // nothing tells what was installed
		if _, err := os.Lstat(p.Folder); err == nil {
			left = append(left, p.Folder+": the list of what was installed there has changed")
		}
		return left, s.forget(p)
	} else if err != nil {
		return nil, err
	}
	listed := map[string]pin{}
	for _, f := range pinned {
		listed[f.Path] = f
	}
	files, err := scan(p.Folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	pins, err := look{files: files}.pins(context.Background())
	if err != nil {
		return nil, err
	}
	for i, f := range files {
		was, ok := listed[f.rel]
		switch {
		case !ok:
			left = append(left, f.path+": it was added after the installation")
		case was != pins[i]:
			left = append(left, f.path+": it was changed after the installation")
		default:
			if err := os.Remove(f.path); err != nil {
				return nil, err
			}
		}
	}
	removeEmpty(p.Folder)
	os.Remove(p.list())
	os.Remove(filepath.Dir(p.Folder)) // where nothing else is in it
	return left, s.forget(p)
}

// removeEmpty removes the empty folders below a folder, and the folder itself.
func removeEmpty(dir string) {
	var dirs []string
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	for _, dir := range slices.Backward(dirs) { // the deepest first
		os.Remove(dir)
	}
}

// Trust pins a plugin as it is now: one that is in the index, by its name, or the program at a path. It starts the
// program once, for its manifest.
func (s *Installed) Trust(ctx context.Context, path string) (*InstallResult, error) {
	unlock, err := s.lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	all, err := s.List()
	if err != nil {
		return nil, err
	}
	var p InstalledPlugin
	i := slices.IndexFunc(all, func(p InstalledPlugin) bool { return p.Name() == path || p.Path == path })
	if i >= 0 {
		p = all[i]
	} else if p, err = s.newlyTrusted(path, all); err != nil {
		return nil, err
	}
	r := &InstallResult{}
	if i >= 0 {
		if r.Changed, err = s.Changes(ctx, p); err != nil {
			return nil, fmt.Errorf("trusting %s: %w", p.Name(), err)
		}
	}
	if r.Files, err = s.complete(ctx, &p); err != nil {
		return nil, fmt.Errorf("trusting %s: %w", p.Name(), err)
	}
	r.Plugin = p
	return r, s.change(func(all []InstalledPlugin) []InstalledPlugin { return s.commit(all, p, r) })
}

// newlyTrusted is the plugin of a program that was not trusted before.
func (s *Installed) newlyTrusted(path string, all []InstalledPlugin) (p InstalledPlugin, err error) {
	if p.Path, err = filepath.Abs(path); err != nil {
		return p, err
	}
	name, err := s.nameOf(p.Path)
	if err != nil {
		return p, err
	}
	p.Manifest.Name = name
	info, err := os.Stat(p.Path)
	switch {
	case err != nil:
		return p, err
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return p, fmt.Errorf("%s is no program: it cannot be executed", p.Path)
	}
	if i := slices.IndexFunc(all, func(o InstalledPlugin) bool { return o.Name() == name && o.Folder != "" }); i >= 0 {
		return p, fmt.Errorf("plugin %s is installed in %s; `launch plugins remove %s` removes it first", name,
			all[i].Folder, name)
	}
	return p, nil
}

// copyTree copies a folder, without what a version control system keeps in it, and without the folders that leave
// names.
func copyTree(ctx context.Context, from, to string, leave func(dir string) bool) error {
	var files, size int64
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(from, path)
		target := filepath.Join(to, rel)
		info, err := d.Info()
		if err != nil {
			return err
		}
		files, size = files+1, size+info.Size()
		switch {
		case files > mostFiles || size > mostBytes:
			return fmt.Errorf("it has more than %d files or %d GiB", mostFiles, mostBytes>>30)
		case d.IsDir() && rel != "." && (slices.Contains([]string{".git", ".hg", ".svn"}, d.Name()) || leave(path)):
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(target, 0o755)
		case info.Mode().IsRegular():
			return copyFile(ctx, path, target, info)
		case d.Type() != fs.ModeSymlink:
			return fmt.Errorf("%s is no file, no folder and no link", path)
		}
		link, err := os.Readlink(path)
		if err != nil {
			return err
		}
		if !stays(rel, link) {
			return fmt.Errorf("%s is a link that leads out of the folder, to %s", path, link)
		}
		return os.Symlink(link, target)
	})
}

// stays reports whether a link in a folder leads to somewhere in it. A link's text with ".." after a name does not
// count: what it leads to depends on other links.
func stays(rel, link string) bool {
	return !filepath.IsAbs(link) && filepath.Clean(link) == link &&
		filepath.IsLocal(filepath.Join(filepath.Dir(rel), link))
}

// copyFile copies a file with its time: Python compares that of a source with its compiled one.
func copyFile(ctx context.Context, from, to string, info fs.FileInfo) error {
	in, err := os.OpenFile(from, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := writeFile(ctx, os.OpenFile, to, in, info.Mode(), mostBytes); err != nil {
		return err
	}
	return os.Chtimes(to, info.ModTime(), info.ModTime())
}

// writeFile makes a file of what a reader has, which may be most bytes.
func writeFile(ctx context.Context, open func(string, int, fs.FileMode) (*os.File, error), to string,
	in io.Reader, mode fs.FileMode,
	most int64) error {
	perm := fs.FileMode(0o644)
	if mode&0o111 != 0 {
		perm = 0o755
	}
	out, err := open(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, perm)
	if err != nil {
		return err
	}
	n, err := io.Copy(out, io.LimitReader(reader{ctx, in}, most+1))
	if err == nil && n > most {
		err = fmt.Errorf("it has more than %d GiB", mostBytes>>30)
	}
	return errors.Join(err, out.Close())
}

// A reader reads until its context ends.
type reader struct {
	ctx context.Context
	r   io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// tighten takes away what lets others write to a folder's files: pip and the user's umask may allow it.
func tighten(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type() == fs.ModeSymlink {
			return err
		}
		info, err := d.Info()
		if err != nil || info.Mode().Perm()&0o022 == 0 {
			return err
		}
		return os.Chmod(path, info.Mode().Perm()&^0o022)
	})
}
