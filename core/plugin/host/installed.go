package host

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/private"
)

// The plugins by other authors that the user has installed or trusted are each pinned by their checksums.
//
// Nothing is run because it has the right name: launch starts a program of another author's only if it is in the
// index, which `launch plugins install` and `launch plugins trust` write, and only while its files are those that
// were pinned. The index also holds the manifests, so that choosing a plugin starts no process and opens one file,
// however many plugins there are.

// Prefix of the file name of a plugin's program.
const Prefix = "launch-plugin-"

// An Installed is the user's plugins by other authors.
type Installed struct {
	Dir   string // the plugin folder; installed plugins lie below it
	Index string // the file that lists them; "" where the user has no folder for it: then there are none
	Cache string // a file for what was found unchanged before; "": every use reads every file of the plugin that it starts
	// Reserved are the names of the built-in plugins.
	Reserved func() []string
	// Ask starts a program once, for its manifest. Only Install and Trust need it.
	Ask func(ctx context.Context, path string) (plugin.Manifest, error)
	// MayRun returns why a program must not be run (others can write it), or nil.
	MayRun func(path string) error
	// Protocol is the version of the wire protocol in which Ask asks.
	Protocol int
}

// An InstalledPlugin is one that the user has installed or trusted.
type InstalledPlugin struct {
	Manifest plugin.Manifest `json:"manifest"`
	Protocol int             `json:"protocol"`
	// Path of its program.
	Path string `json:"path"`
	// Folder that launch has installed its files into; empty for a program that was trusted where it lies.
	Folder string `json:"folder,omitempty"`
	// SHA256 pins the program, or with a Folder the list of its files.
	SHA256 string    `json:"sha256"`
	From   string    `json:"from,omitempty"` // what it was installed from
	At     time.Time `json:"at"`             // when it was pinned
	// Stage is set while it is being installed or removed; such a plugin is not used.
	Stage string `json:"stage,omitempty"`
}

// The stages of an entry. One that is found in a locked index was interrupted.
const (
	installing = "installing"
	removing   = "removing"
)

// Name is that of the manifest.
func (p InstalledPlugin) Name() string { return p.Manifest.Name }

// list is the path of the list of its files, beside its folder.
func (p InstalledPlugin) list() string { return p.Folder + ".json" }

// index is the document of [Installed.Index]. Paths in it are absolute: a Python environment cannot be moved either.
type index struct {
	Version int               `json:"version"`
	Plugins []InstalledPlugin `json:"plugins"`
}

// version of the index.
const version = 1

// List returns the plugins, sorted by name. Those whose installation or removal was interrupted are not among them.
func (s *Installed) List() ([]InstalledPlugin, error) {
	all, err := s.read()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(p InstalledPlugin) bool { return p.Stage != "" }), nil
}

// Interrupted returns the plugins whose installation or removal was interrupted.
func (s *Installed) Interrupted() []InstalledPlugin {
	all, err := s.read()
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(all, func(p InstalledPlugin) bool { return p.Stage == "" })
}

// ErrUnknown is wrapped by errors about a name that the index does not have.
var ErrUnknown = errors.New("no such plugin is installed or trusted")

// Find returns the plugin of a name.
func (s *Installed) Find(name string) (InstalledPlugin, error) {
	all, err := s.List()
	if err != nil {
		return InstalledPlugin{}, err
	}
	i := slices.IndexFunc(all, func(p InstalledPlugin) bool { return p.Name() == name })
	if i < 0 {
		return InstalledPlugin{}, fmt.Errorf("plugin %q: %w; `launch plugins` lists the plugins", name, ErrUnknown)
	}
	return all[i], nil
}

// maxIndex bounds the index, in bytes; one of twelve plugins has some ten thousand.
const maxIndex = 32 << 20

func (s *Installed) read() ([]InstalledPlugin, error) {
	if s == nil || s.Index == "" {
		return nil, nil
	}
	// Whoever can write the index decides what launch runs.
	err := private.CheckFile(s.Index)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var doc index
	if err == nil {
		err = readJSON(s.Index, maxIndex, &doc)
	}
	if errors.As(err, new(*json.SyntaxError)) || errors.As(err, new(*json.UnmarshalTypeError)) {
		err = fmt.Errorf("%w; remove it, and install or trust your plugins again", err)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the list of installed plugins %s: %w", s.Index, err)
	case doc.Version > version:
		return nil,
			fmt.Errorf("the list of installed plugins %s has format %d, and this launch reads format %d: update launch",
				s.Index, doc.Version, version)
	}
	slices.SortFunc(doc.Plugins, func(a, b InstalledPlugin) int {
		return cmp.Or(strings.Compare(a.Name(), b.Name()), strings.Compare(a.Path, b.Path))
	})
	return doc.Plugins, nil
}

func readJSON(path string, most int64, to any) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Size() > most {
		return fmt.Errorf("it has more than %d MiB", most>>20)
	}
	b, err := private.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, to)
}

func (s *Installed) write(all []InstalledPlugin) error {
	b, err := json.MarshalIndent(index{version, all}, "", " ")
	if err == nil {
		err = private.MkdirAll(filepath.Dir(s.Index))
	}
	if err == nil {
		err = private.WriteFile(s.Index, append(b, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("writing the list of installed plugins: %w", err)
	}
	return nil
}

// change replaces the plugins of the index by the result of f.
func (s *Installed) change(f func([]InstalledPlugin) []InstalledPlugin) error {
	all, err := s.read()
	if err != nil {
		return err
	}
	return s.write(f(all))
}

// lock keeps other processes from changing the index, until unlock is called.
func (s *Installed) lock() (unlock func(), err error) {
	if s.Index == "" {
		return nil, errors.New("no home folder: launch has no place for the list of installed plugins")
	}
	if err := private.MkdirAll(filepath.Dir(s.Index)); err != nil {
		return nil, err
	}
	f, err := private.Open(s.Index+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = errors.New("another launch is changing the plugins just now; try again when it has ended")
		}
		return nil, err
	}
	return func() { f.Close() }, nil
}

// named is what a plugin's name may be: part of a file name, and of a command line.
var named = lazy.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// nameOf returns the plugin's name by the file name of its program.
func (s *Installed) nameOf(program string) (string, error) {
	base := filepath.Base(program)
	name, ok := strings.CutPrefix(base, Prefix)
	switch {
	case !ok || !named.MatchString(name):
		return "", fmt.Errorf("the program of a plugin is named %sNAME, and this one %.100q", Prefix, base)
	case slices.Contains(s.Reserved(), name):
		return "", fmt.Errorf("plugin %s is built into launch: give yours another name", name)
	}
	return name, nil
}

// ask checks that a program may be run, and asks it for its manifest, which has to be of that name.
func (s *Installed) ask(ctx context.Context, path, name string) (plugin.Manifest, error) {
	if err := s.MayRun(path); err != nil {
		return plugin.Manifest{}, fmt.Errorf("%s is not run: %w", path, err)
	}
	m, err := s.Ask(ctx, path)
	if err != nil {
		return plugin.Manifest{}, err
	}
	if m.Name != name {
		return plugin.Manifest{}, fmt.Errorf("it calls itself %.100q, and its file would have to be named %s%.100s", m.Name,
			Prefix, m.Name)
	}
	return m, nil
}

// An InstalledProgram is one with the name of a plugin that launch does not run.
type InstalledProgram struct {
	Path string
	Why  string
	// MayBeTrusted says that `launch plugins trust` is all that it needs.
	MayBeTrusted bool
}

// Name is that of the plugin that it would be.
func (p InstalledProgram) Name() string { return strings.TrimPrefix(filepath.Base(p.Path), Prefix) }

func (p InstalledProgram) String() string {
	return fmt.Sprintf("plugin %s is left out: %s", p.Path, p.Why)
}

// Programs lists the programs named as plugins in dirs that launch does not run, in order. It starts none.
func (s *Installed) Programs(dirs []string) (out []InstalledProgram) {
	all, _ := s.List()
	taken := slices.Clone(s.Reserved())
	for _, p := range all {
		taken = append(taken, p.Name())
	}
	var searched []os.FileInfo
	for _, dir := range dirs {
		for _, path := range programs(dir, &searched) {
			info, err := os.Stat(path)
			known := slices.ContainsFunc(all, func(p InstalledPlugin) bool { return p.Path == path || p.at(path, info) })
			if err != nil || info.IsDir() || info.Mode()&0o111 == 0 || known {
				continue
			}
			p := InstalledProgram{Path: path}
			_, wrong := s.nameOf(path)
			switch err := s.MayRun(path); {
			case err != nil:
				p.Why = fmt.Sprintf("it is not run: %v", err)
			case slices.Contains(taken, p.Name()):
				p.Why = fmt.Sprintf("there is another %s before it", p.Name())
			case wrong != nil:
				p.Why = wrong.Error()
			default:
				p.MayBeTrusted = true
				p.Why = fmt.Sprintf("it is not trusted; `launch plugins trust %s` lets launch run it, as it is now",
					command.Quote(path))
				taken = append(taken, p.Name())
			}
			out = append(out, p)
		}
	}
	return out
}

// at reports whether a path leads to the plugin's program, under the same name: /bin is /usr/bin.
func (p InstalledPlugin) at(path string, info os.FileInfo) bool {
	if filepath.Base(p.Path) != filepath.Base(path) {
		return false
	}
	own, err := os.Stat(p.Path)
	return err == nil && info != nil && os.SameFile(own, info)
}

// programs lists the files of a folder that are named as plugins. A folder that was searched under another name, as /bin
// is /usr/bin, is passed over.
func programs(dir string, searched *[]os.FileInfo) (paths []string) {
	if dir == "" { // as a shell reads PATH
		dir = "."
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || slices.ContainsFunc(*searched, func(other os.FileInfo) bool { return os.SameFile(info, other) }) {
		return nil
	}
	*searched = append(*searched, info)
	names, _ := f.Readdirnames(-1) // in no order, and nothing is asked of the files: folders on PATH have thousands
	for _, name := range names {
		if strings.HasPrefix(name, Prefix) {
			paths = append(paths, filepath.Join(dir, name)) // still relative where the folder is
		}
	}
	slices.Sort(paths)
	return paths
}
