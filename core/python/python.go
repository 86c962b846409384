// Package python knows the Python of a command by its files: the interpreter and the packages that it would use, the
// source of its program, and the options that this takes, with their defaults. It starts nothing.
package python

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/lazy"
)

// An Environment is an interpreter and its folders of packages, as they are when it is first asked about each: it reads
// no file twice. Of makes a new one.
type Environment struct {
	Interpreter string // its path, as the command would find it; "" if unknown
	folders     []string
	missing     bool
	dir         string // in which it is started
	looked      *looked
	env         []string // the variables that it is started with; the last of a name counts
	stripped    func(name string) bool
}

// looked is what an Environment has looked for. A plan asks for the same packages many times, and each time is dozens
// of system calls. Several goroutines may ask.
type looked struct {
	mu    sync.Mutex
	found map[string][]string // by pattern
	links func() []string     // the folders that .pth files and pyvenv.cfg add
	torch func() string       // the text of torch/version.py
}

// variable is one of the variables that it is started with.
func (e Environment) variable(name string) (value string, ok bool) {
	for _, kv := range slices.Backward(e.env) {
		if n, v, is := strings.Cut(kv, "="); is && n == name {
			return v, true
		}
	}
	return "", false
}

// Of returns the environment of a command that is started with env. Where the command names no interpreter, it is
// that of the first line of the script, of the installed program or of the launcher. Interpreters behind a wrapper
// (pyenv's shims, conda run) are not looked through: their packages are then not known.
func Of(prog command.Prog, env []string) Environment {
	all := prog.Environ(env)
	e := Environment{env: all, dir: prog.Dir, stripped: func(name string) bool {
		return prog.ClearEnv ||
			slices.Contains(prog.Unset, name)
	}}
	python := prog.Interpreter
	if python == "" {
		python = chosen(prog)
	}
	if python == "" {
		e.missing = nowhere(prog, "")
		return e
	}
	if !strings.Contains(python, "/") {
		path, _ := e.variable("PATH")
		python = cmp.Or(command.Lookup(python, prog.Bins, path), python)
	}
	if !filepath.IsAbs(python) {
		python = filepath.Join(prog.Dir, python)
	}
	e.Interpreter, e.missing = python, nowhere(prog, python)
	if prog.Elsewhere() && !strings.Contains(prog.Interpreter, "/") { // it is not that of PATH
		return e
	}
	bin := filepath.Dir(python)
	if own := filepath.Dir(prog.File); e.missing && prog.File != "" && environment(filepath.Dir(own)) {
		bin = own // a virtual environment that was moved: its programs name a Python that is not there
	}
	e.folders = shelves(bin)
	e.looked = &looked{found: map[string][]string{}}
	e.looked.torch, e.looked.links = sync.OnceValue(e.readTorch), sync.OnceValue(e.readLinks)
	return e
}

// chosen returns the interpreter of the first line of what chooses one, or "".
func chosen(prog command.Prog) string {
	path := prog.Starter
	switch {
	case path != "":
	case prog.File != "":
		path = prog.File
	case slices.Contains(prog.Through, "uv run"):
		if len(prog.Bins) > 0 {
			return filepath.Join(prog.Bins[0], "python")
		}
	case len(prog.Launchers) == 0:
		path = prog.Path()
	}
	if path == "" {
		return ""
	}
	if first, ok := command.ReadShebang(path); ok && first.Python() {
		return first.Name
	}
	return ""
}

// Known reports whether any folder of packages was found, so that a package that is not in them is not there.
func (e Environment) Known() bool { return len(e.folders) > 0 }

// Missing reports whether the command's Python, or the program that would choose one, is not on this machine: the
// command cannot run here. A Python behind a wrapper, of which nothing is known either, is not missing.
func (e Environment) Missing() bool { return e.missing }

// nowhere reports whether a command has neither an interpreter nor what chooses one, and nothing that may bring one.
func nowhere(prog command.Prog, interpreter string) bool {
	switch {
	case prog.Wrapped():
		return false
	case interpreter != "":
		_, err := os.Stat(interpreter)
		return errors.Is(err, fs.ErrNotExist)
	case len(prog.Launchers) > 0:
		return prog.Starter == ""
	}
	return prog.Kind == command.Installed && prog.File == ""
}

// Has reports whether a package or a module of that name can be imported. A user's own folders (PYTHONPATH, the user
// site) are not searched.
func (e Environment) Has(module string) bool {
	return len(e.found(module)) > 0 || len(e.found(module+".py")) > 0
}

// found are the paths of that pattern in the folders of packages. Where these have none, they are those in the first of
// the folders that has one and that their .pth files add: Python searches them afterwards.
func (e Environment) found(pattern string) []string {
	if e.looked == nil {
		return nil
	}
	e.looked.mu.Lock()
	defer e.looked.mu.Unlock()
	paths, ok := e.looked.found[pattern]
	if !ok {
		paths = e.search(pattern)
		e.looked.found[pattern] = paths
	}
	return paths
}

// search looks for the paths that found returns.
func (e Environment) search(pattern string) (paths []string) {
	for _, dir := range e.folders {
		hits, _ := filepath.Glob(filepath.Join(dir, pattern))
		paths = append(paths, hits...)
	}
	if len(paths) > 0 {
		return paths
	}
	for _, dir := range e.looked.links() {
		if hits, _ := filepath.Glob(filepath.Join(dir, pattern)); len(hits) > 0 {
			return hits
		}
	}
	return nil
}

// readLinks returns the folders that the .pth files in all folders of packages add, and those of the Python that a
// virtual environment was made from, where that shares them.
func (e Environment) readLinks() (dirs []string) {
	for _, dir := range e.folders {
		dirs = append(dirs, linked(dir)...)
	}
	cfg := Head(filepath.Join(filepath.Dir(filepath.Dir(e.Interpreter)), "pyvenv.cfg"), maxLink)
	if m := sharing.FindStringSubmatch(cfg); m != nil {
		if home := homeOf.FindStringSubmatch(cfg); home != nil {
			dirs = append(dirs, shelves(home[1])...)
		}
	}
	return dirs
}

// Lines of pyvenv.cfg (documentation of Python's module site).
var (
	sharing = lazy.MustCompile(`(?mi)^include-system-site-packages\s*=\s*true\s*$`)
	homeOf  = lazy.MustCompile(`(?m)^home\s*=\s*(\S.*?)\s*$`)
)

// shelves are the folders of packages of the Python in a folder of programs.
func shelves(bin string) (dirs []string) {
	for _, pattern := range []string{"../lib/python3.*/site-packages", "../lib/python3*/dist-packages", "../local/lib/python3.*/dist-packages"} {
		hits, _ := filepath.Glob(filepath.Join(bin, pattern))
		dirs = append(dirs, hits...)
	}
	return dirs
}

// Version returns the version of an installed distribution ("transformers"), or "" if it is not known: not installed in
// these folders, or installed twice.
func (e Environment) Version(distribution string) string {
	var found []string
	name := strings.ReplaceAll(distribution, "-", "_")
	for _, hit := range e.found(name + "-*.dist-info") {
		_, version, _ := strings.Cut(strings.TrimSuffix(filepath.Base(hit), ".dist-info"), "-")
		found = append(found, version)
	}
	if len(found) != 1 {
		return ""
	}
	return found[0]
}

var torchVersion = lazy.MustCompile(`(?m)^__version__ = ['"](\d+)\.(\d+)`)

// Torch returns the version of torch, if exactly one is installed.
func (e Environment) Torch() (major, minor int, ok bool) {
	m := torchVersion.FindStringSubmatch(e.torch())
	if m == nil {
		return 0, 0, false
	}
	major, _ = strconv.Atoi(m[1])
	minor, _ = strconv.Atoi(m[2])
	return major, minor, true
}

// Lines of torch's version.py; newer versions have an annotation.
var (
	cudaVersion = lazy.MustCompile(`(?m)^cuda(?:: Optional\[str\])? = (?:['"]([\d.]+)['"]|(None))`)
	hipVersion  = lazy.MustCompile(`(?m)^hip(?:: Optional\[str\])? = ['"]`)
)

// TorchCUDA returns torch's major version and the CUDA version that it was built for: "12.4", or "none" for a CPU
// build. They are 0 and "" if unknown.
func (e Environment) TorchCUDA() (major int, cuda string) {
	text := e.torch()
	if m := torchVersion.FindStringSubmatch(text); m != nil {
		major, _ = strconv.Atoi(m[1])
	}
	switch m := cudaVersion.FindStringSubmatch(text); {
	case m == nil, hipVersion.MatchString(text):
	case m[2] != "":
		cuda = "none"
	default:
		cuda = m[1]
	}
	return major, cuda
}

var wholeVersion = lazy.MustCompile(`(?m)^__version__ = ['"]([^'"\n]+)['"]`)

// TorchBuild returns torch's whole version, its build included ("2.15.0+cu132"), or "" if not exactly one is installed.
func (e Environment) TorchBuild() string {
	if m := wholeVersion.FindStringSubmatch(e.torch()); m != nil {
		return m[1]
	}
	return ""
}

// torch returns the text of torch/version.py, if exactly one is installed.
func (e Environment) torch() string {
	if e.looked == nil {
		return ""
	}
	return e.looked.torch()
}

// readTorch reads the text that torch returns.
func (e Environment) readTorch() string {
	found := e.found(filepath.Join("torch", "version.py"))
	if len(found) != 1 {
		return ""
	}
	text, err := file.Read(found[0], 1<<20)
	if err != nil {
		return ""
	}
	return string(text)
}

var released = lazy.MustCompile(`python(3\.\d+)`)

// Release returns the version of the interpreter, "3.11", by the name of its file or of its folders; "" if unknown.
func (e Environment) Release() string {
	names := append([]string{}, e.folders...)
	if real, err := filepath.EvalSymlinks(e.Interpreter); err == nil {
		names = append([]string{filepath.Base(real)}, names...)
	}
	for _, name := range names {
		if m := released.FindStringSubmatch(name); m != nil {
			return m[1]
		}
	}
	return ""
}

// Requires returns what an installed distribution requires of another one's version: "==2.6.0", ">=2.14.0,<3". It is ""
// if that is not known, or if it requires none (core metadata specification, Requires-Dist).
func (e Environment) Requires(distribution, other string) string {
	name := strings.ReplaceAll(distribution, "-", "_")
	for _, hit := range e.found(filepath.Join(name+"-*.dist-info", "METADATA")) {
		text, err := file.Read(hit, 1<<20)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			rest, ok := strings.CutPrefix(line, "Requires-Dist: "+other)
			if ok && !strings.Contains(rest, ";") && strings.IndexAny(rest, " (=<>!~") == 0 {
				return strings.NewReplacer("(", "", ")", "", " ", "").Replace(strings.TrimSpace(rest))
			}
		}
	}
	return ""
}
