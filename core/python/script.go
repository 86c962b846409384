package python

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/file"
)

// Files returns the files of a command's own Python code that can be found without running anything: the script,
// the file of the module that -m names, or an installed program and the file of the module that it starts. It
// returns none for code on the command line, and for a module that is not found in the command's folder, in
// PYTHONPATH, or among the packages of its Python.
func Files(prog command.Prog, env []string) []string {
	switch prog.Kind {
	case command.Script:
		if path := prog.Path(); path != "" {
			return []string{path}
		}
	case command.Module:
		if path := moduleFile(prog.Script, Of(prog, env).roots(prog.Dir)); path != "" {
			return []string{path}
		}
	case command.Installed:
		if prog.File == "" {
			return nil
		}
		files := []string{prog.File}
		if path := entry(prog.File, Of(prog, env).roots(filepath.Dir(prog.File))); path != "" {
			files = append(files, path)
		}
		return files
	}
	return nil
}

// entry returns the file of the module that an installed program starts: `from ultralytics.cfg import entrypoint`.
func entry(path string, roots []string) string {
	for _, im := range NewSource(path, Head(path, maxLink)).Imports() {
		if len(im.Names) == 0 || strings.HasPrefix(im.Module, ".") {
			continue
		}
		for _, root := range roots {
			if f := Resolve(root, "", im.Module); f != "" {
				return f
			}
		}
	}
	return ""
}

// roots are the folders that modules are looked for in, in Python's order. first is the first of them.
func (e Environment) roots(first string) []string {
	roots := []string{first}
	if path, ok := e.variable("PYTHONPATH"); ok {
		for _, dir := range filepath.SplitList(path) {
			if !filepath.IsAbs(dir) {
				dir = filepath.Join(first, dir)
			}
			roots = append(roots, dir)
		}
	}
	roots = append(roots, e.folders...)
	if e.looked != nil {
		roots = append(roots, e.looked.links()...)
	}
	return roots
}

// Bounds on the .pth files of one folder of packages.
const (
	maxLinks = 200
	maxLink  = 64 << 10
)

// linked are the folders that the .pth files in a folder of packages add, such as those of packages that are
// installed for development. See the documentation of Python's module site.
func linked(folder string) (dirs []string) {
	files, _ := filepath.Glob(filepath.Join(folder, "*.pth"))
	for _, path := range files[:min(len(files), maxLinks)] {
		text, err := file.Read(path, maxLink)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			if line == "" || line[0] == '#' || strings.HasPrefix(line, "import ") || strings.HasPrefix(line, "import\t") {
				continue
			}
			if !filepath.IsAbs(line) {
				line = filepath.Join(folder, line)
			}
			if !slices.Contains(dirs, line) {
				dirs = append(dirs, line)
			}
		}
	}
	return dirs
}

// moduleFile returns the file that python -m runs for a module, or "".
func moduleFile(module string, roots []string) string {
	parts := strings.Split(module, ".")
	if slices.Contains(parts, "") || strings.Contains(module, "/") {
		return ""
	}
	for _, root := range roots {
		path := filepath.Join(root, filepath.Join(parts...))
		for _, candidate := range []string{filepath.Join(path, "__main__.py"), path + ".py"} {
			if info, err := os.Stat(candidate); err == nil && info.Mode().IsRegular() {
				return candidate
			}
		}
		// Python looks no further once it has found the package that the module would be in.
		if _, err := os.Stat(filepath.Join(root, parts[0], "__init__.py")); err == nil {
			return ""
		}
	}
	return ""
}

// Head returns at most so many first bytes of an ordinary file, or "".
func Head(path string, most int64) string {
	f, err := file.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return ""
	}
	return string(text)
}
