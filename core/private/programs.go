package private

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Ground is what may have been cloned or unpacked from somebody else: some folders and the git work trees that hold
// them. launch starts no program from there for itself, neither to read a command nor to look at the machine.
type Ground []string

// GroundOf returns the ground of some folders, such as a command's and its script's. The home folder and those above it
// are the user's own: nobody clones a project into them.
func GroundOf(dirs ...string) (g Ground) {
	home, _ := os.UserHomeDir()
	if real, err := filepath.EvalSymlinks(home); err == nil {
		home = real
	}
	own := func(dir string) bool { return dir == "/" || filepath.IsAbs(home) && below(dir, home) }
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		dir, err := filepath.Abs(dir)
		if err != nil {
			continue
		}
		for _, d := range spellings(dir) {
			top := d
			for at := d; !own(at); at = filepath.Dir(at) {
				if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
					top = at // the outermost: a submodule came with what holds it
				}
			}
			if !own(top) && !slices.Contains(g, top) {
				g = append(g, top)
			}
		}
	}
	return g
}

// spellings are a path as written and with its links resolved.
func spellings(path string) []string {
	path = filepath.Clean(path)
	if real, err := filepath.EvalSymlinks(path); err == nil && real != path {
		return []string{path, real}
	}
	return []string{path}
}

// below reports whether a clean path is a folder or lies in it.
func below(folder, path string) bool {
	return path == folder || strings.HasPrefix(path, strings.TrimSuffix(folder, "/")+"/")
}

// Holds reports whether a path lies on the ground: as written, by its folder, or by what it leads to.
func (g Ground) Holds(path string) bool {
	at := append(spellings(path), spellings(filepath.Dir(path))...)
	return slices.ContainsFunc(g, func(folder string) bool {
		return slices.ContainsFunc(at, func(p string) bool { return below(folder, p) })
	})
}

// Start returns the program that may be started in place of a path, or "". On the ground that is what a link leads to
// outside of it, as from a virtual environment to its Python: started by that path it reads no file of the ground. It
// has to be the user's or root's.
func (g Ground) Start(path string) string {
	if !filepath.IsAbs(path) {
		return ""
	}
	if g.Holds(path) {
		real, err := filepath.EvalSymlinks(path)
		if err != nil || g.Holds(real) {
			return ""
		}
		path = real
	}
	var info unix.Stat_t
	if unix.Stat(path, &info) != nil || self().owner(&info) != "" || info.Mode&unix.S_IFMT != unix.S_IFREG ||
		info.Mode&0o111 == 0 {
		return ""
	}
	return path
}

// Folders returns the entries of a PATH in which programs may be looked for: absolute ones outside of the ground.
func (g Ground) Folders(path string) (dirs []string) {
	for _, dir := range filepath.SplitList(path) {
		if filepath.IsAbs(dir) && !g.Holds(dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// Find looks for a program of the system, such as git or nvidia-smi, on this process's PATH, but never on the ground.
// The error is an [exec.Error], as of [exec.LookPath].
func (g Ground) Find(name string) (string, error) {
	for _, dir := range g.Folders(os.Getenv("PATH")) {
		at := filepath.Join(dir, name)
		if real := g.Start(at); real != "" {
			if g.Holds(at) {
				return real, nil
			}
			return at, nil
		}
	}
	return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
}

// Find is [Ground.Find] for the ground of the current folder.
func Find(name string) (string, error) { return here().Find(name) }

func here() Ground {
	dir, err := os.Getwd()
	if err != nil {
		return nil
	}
	return GroundOf(dir)
}

// Command is [exec.CommandContext] for a program of the system: neither it nor what it starts in turn is found in the
// current folder, or in what was cloned with it.
func Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	return here().Command(ctx, name, args...)
}

// Command is [Command] for a ground.
func (g Ground) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	path, err := g.Find(name)
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Args[0] = name
	cmd.Err = err
	cmd.Env = g.Environ(os.Environ())
	return cmd
}

// Environ returns an environment whose PATH has only the entries of [Ground.Folders].
func (g Ground) Environ(env []string) []string {
	out := slices.Clone(env)
	for i, kv := range out {
		if path, ok := strings.CutPrefix(kv, "PATH="); ok {
			out[i] = "PATH=" + strings.Join(g.Folders(path), string(filepath.ListSeparator))
		}
	}
	return out
}
