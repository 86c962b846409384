package python

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// An Import is one statement's import of a module, wherever it stands: also in a function.
type Import struct {
	Module string     // with its leading dots, if it is relative
	Names  []Imported // what "from" takes of it; nil for "import a.b"
}

// Imported is a name of a module, and what the importing file calls it.
type Imported struct{ Name, As string }

// Imports lists what the code imports, in order.
func (s Source) Imports() (out []Import) {
	code := blank(s.Text, func(int) bool { return true })
	if strings.Contains(code, "\\") {
		code = strings.NewReplacer("\\\r\n", "   ", "\\\n", "  ").Replace(code)
	}
	const keyword = "import"
	for at := 0; ; {
		i := strings.Index(code[at:], keyword)
		if i < 0 {
			return out
		}
		from := at + i
		at = from + len(keyword)
		if !whole(code, from, at) {
			continue
		}
		rest := strings.TrimLeft(code[at:], " \t")
		if inner, ok := strings.CutPrefix(rest, "("); ok {
			rest, _, _ = strings.Cut(inner, ")")
		} else if end := strings.IndexAny(rest, "\n;"); end >= 0 {
			rest = rest[:end]
		}
		var names []Imported
		for name := range strings.SplitSeq(rest, ",") {
			if f := strings.Fields(name); len(f) > 0 { // a, or a as b
				names = append(names, Imported{f[0], f[len(f)-1]})
			}
		}
		if module, ok := fromModule(code[strings.LastIndexAny(code[:from], "\n;")+1 : from]); ok {
			out = append(out, Import{Module: module, Names: names})
			continue
		}
		for _, name := range names {
			out = append(out, Import{Module: name.Name})
		}
	}
}

// fromModule is the module of "from module" at the end of a statement's text before "import".
func fromModule(before string) (module string, ok bool) {
	const keyword = "from"
	i := strings.LastIndex(before, keyword)
	for i >= 0 && !whole(before, i, i+len(keyword)) { // of a module such as from_template
		i = strings.LastIndex(before[:i], keyword)
	}
	if i < 0 {
		return "", false
	}
	module = strings.Join(strings.Fields(before[i+len(keyword):]), "")
	return module, module != "" && strings.IndexFunc(module, func(r rune) bool { return r < 0x80 && r != '.' && !wordByte(byte(r)) }) < 0
}

// Resolve finds the file of a module as Python does: below root, or relative to the file that imports it. A package comes before a
// module of its name. It is "" where there is none.
func Resolve(root, importer, module string) string {
	dir, name := base(root, importer, module)
	return fileOf(filepath.Join(dir, strings.ReplaceAll(name, ".", "/")))
}

// base is the folder that a module is looked for in, and its name without leading dots.
func base(root, importer, module string) (dir, name string) {
	name = strings.TrimLeft(module, ".")
	dots := len(module) - len(name)
	if dots == 0 {
		return root, name
	}
	dir = filepath.Dir(importer)
	for range dots - 1 {
		dir = filepath.Dir(dir)
	}
	return dir, name
}

// fileOf is the file of a module by its path without an ending, or "".
func fileOf(path string) string {
	for _, candidate := range []string{filepath.Join(path, "__init__.py"), path + ".py"} {
		if info, err := os.Stat(candidate); err == nil && info.Mode().IsRegular() {
			return candidate
		}
	}
	return ""
}

// Files are the files below root that an import of the file importer runs, as far as they are there: the packages on the way, the module,
// and names of a package that are modules.
func (im Import) Files(root, importer string) (out []string) {
	path, name := base(root, importer, im.Module)
	add := func(path string) string {
		f := fileOf(path)
		if f != "" {
			out = append(out, f)
		}
		return f
	}
	last := ""
	for _, part := range strings.FieldsFunc(name, func(r rune) bool { return r == '.' }) {
		path = filepath.Join(path, part)
		last = add(path)
	}
	if name == "" && im.Names != nil { // from . import x
		last = add(path)
	}
	if strings.HasSuffix(last, ".py") && filepath.Base(last) != "__init__.py" { // what it imports of a module is no module
		return out
	}
	for _, name := range im.Names {
		if name.Name != "*" {
			add(filepath.Join(path, name.Name))
		}
	}
	return out
}

// Reachable lists the files below root that a file's imports lead to, itself first, each once. read reads each of them. cut says
// that there were more than most.
func Reachable(root string, from Source, most int, read func(path string) Source) (files []Source, cut bool) {
	files = []Source{from}
	for i := 0; i < len(files); i++ {
		for _, im := range files[i].Imports() {
			for _, path := range im.Files(root, files[i].Path) {
				if slices.ContainsFunc(files, func(s Source) bool { return s.Path == path }) {
					continue
				}
				if len(files) == most {
					return files, true
				}
				files = append(files, read(path))
			}
		}
	}
	return files, false
}
