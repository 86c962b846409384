package python

import (
	"cmp"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/lazy"
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
		roots := Of(prog, env).roots(filepath.Dir(prog.File))
		// the project around it, installed for development
		if venv := filepath.Dir(filepath.Dir(prog.File)); environment(venv) {
			roots = append(roots, filepath.Dir(venv), filepath.Join(filepath.Dir(venv), "src"))
		}
		return append([]string{prog.File}, entries(prog.File, roots)...)
	}
	return nil
}

// Main returns the file of the Python code that a command runs, as far as it can be found without running anything: of
// an installed program, the file of the module whose function it calls. It is "" where there is none.
func Main(prog command.Prog, env []string) string {
	files := Files(prog, env)
	if len(files) == 0 || prog.Kind == command.Installed && len(files) < 2 {
		return ""
	}
	return files[len(files)-1]
}

// Packages reports whether a path lies in a folder of installed packages.
func Packages(path string) bool {
	parts := strings.Split(filepath.ToSlash(path), "/")
	return slices.Contains(parts, "site-packages") || slices.Contains(parts, "dist-packages")
}

// entries returns the files that lead to the function that an installed program starts: `from ultralytics.cfg import
// entrypoint`, or load_entry_point with the name of the program. A module that only hands the function on is followed.
func entries(path string, roots []string) (files []string) {
	source := NewSource(path, Head(path, maxLink))
	imports := source.Imports()
	if strings.Contains(source.Code, "load_entry_point") || strings.Contains(source.Code, "importlib_load_entry_point") {
		imports = declaredEntry(filepath.Base(path), roots)
	}
	for _, im := range imports {
		if len(im.Names) == 0 || strings.HasPrefix(im.Module, ".") {
			continue
		}
		for _, root := range roots {
			if f := Resolve(root, "", im.Module); f != "" {
				return followed(f, root, im.Names[0].Name)
			}
		}
	}
	return nil
}

// followed lists a file, and the files from which it takes a function that it does not define itself.
func followed(path, root, function string) (files []string) {
	for range maxHandedOn {
		if slices.Contains(files, path) {
			break
		}
		files = append(files, path)
		source := NewSource(path, Head(path, maxCode))
		if source.Defines(function) {
			break
		}
		next := ""
		for _, im := range source.Imports() {
			if i := slices.IndexFunc(im.Names, func(n Imported) bool { return n.As == function }); i >= 0 {
				next, function = Resolve(root, path, im.Module), im.Names[i].Name
			}
		}
		if next == "" {
			break
		}
		path = next
	}
	return files
}

// Bounds on how a function is followed from module to module.
const (
	maxHandedOn = 5
	maxCode     = 1 << 20
)

// declaredEntry is what the metadata of the installed packages say that a program of that name starts, as an import.
func declaredEntry(name string, roots []string) []Import {
	for _, root := range roots {
		for _, pattern := range []string{"*.dist-info", "*.egg-info"} {
			found, _ := filepath.Glob(filepath.Join(root, pattern, "entry_points.txt"))
			for _, path := range found[:min(len(found), maxEntries)] {
				for line := range strings.Lines(Head(path, maxLink)) {
					key, target, _ := strings.Cut(line, "=")
					module, function, ok := strings.Cut(strings.TrimSpace(target), ":")
					if function, _, _ = strings.Cut(function, " "); ok && strings.TrimSpace(key) == name {
						return []Import{{Module: module, Names: []Imported{{function, function}}}}
					}
				}
			}
		}
	}
	return nil
}

// maxEntries bounds how many packages are asked for what they install.
const maxEntries = 2000

// roots are the folders that modules are looked for in, in Python's order. first is the first of them.
func (e Environment) roots(first string) []string {
	roots := []string{first}
	if path, ok := e.variable("PYTHONPATH"); ok {
		for _, dir := range filepath.SplitList(path) {
			if !filepath.IsAbs(dir) {
				dir = filepath.Join(cmp.Or(e.dir, first), dir)
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
			if finder, ok := strings.CutPrefix(line, "import __editable__"); ok {
				finder, _, _ = strings.Cut(finder, ";")
				for _, dir := range mapped(filepath.Join(folder, "__editable__"+strings.TrimSpace(finder)+".py")) {
					if !slices.Contains(dirs, dir) {
						dirs = append(dirs, dir)
					}
				}
				continue
			}
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

// mapping matches an entry of the MAPPING in setuptools' finder of a package that is installed for development.
var mapping = lazy.MustCompile(`['"]([\w.]+)['"]\s*:\s*['"]([^'"]+)['"]`)

// mapped are the folders in which such a finder finds its packages.
func mapped(path string) (dirs []string) {
	for line := range strings.Lines(Head(path, maxLink)) {
		if !strings.HasPrefix(line, "MAPPING") {
			continue
		}
		for _, m := range mapping.FindAllStringSubmatch(line, -1) {
			name := strings.TrimSuffix(filepath.Base(m[2]), ".py")
			if parts := strings.Split(m[1], "."); parts[len(parts)-1] == name && filepath.IsAbs(m[2]) {
				dir := m[2]
				for range parts {
					dir = filepath.Dir(dir)
				}
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs
}

// environment reports whether a folder is a virtual environment.
func environment(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, "pyvenv.cfg"))
	return err == nil && info.Mode().IsRegular()
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
