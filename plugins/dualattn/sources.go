package dualattn

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/lazy"
)

// The project is what the script imports of its own folder: the files, followed import by import.

const (
	maxFiles = 64
	maxFile  = 1 << 20
)

var reImport = lazy.MustCompile(`^(?:from[ \t]+(\.*[\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)|import[ \t]+([\w., \t]+))`)

// closure lists the Python files that the script's imports reach below its folder, the script first. It reads no file
// larger than maxFile and no more than maxFiles of them; cut says that there were more.
func closure(script string) (files []string, cut bool) {
	root := filepath.Dir(script)
	files = []string{script}
	for i := 0; i < len(files); i++ {
		info, err := os.Stat(files[i])
		if err != nil || info.Size() > maxFile {
			continue
		}
		text, err := file.Read(files[i], maxFile)
		if err != nil {
			continue
		}
		for _, f := range imports(code(text), files[i], root) {
			if slices.Contains(files, f) {
				continue
			}
			if len(files) == maxFiles {
				return files, true
			}
			files = append(files, f)
		}
	}
	return files, false
}

// imports are the files of the project that a file's imports name: modules, packages, and names that are modules of a
// package.
func imports(text []byte, file, root string) (out []string) {
	add := func(base string) bool {
		for _, path := range []string{base + ".py", filepath.Join(base, "__init__.py")} {
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				out = append(out, path)
				return true
			}
		}
		return false
	}
	// Importing a.b.c runs a/__init__.py and a/b/__init__.py first.
	module := func(from, dotted string) string {
		base := from
		for _, part := range strings.Split(dotted, ".") {
			if part == "" {
				continue
			}
			base = filepath.Join(base, part)
			add(base)
		}
		return base
	}
	for statement := range importing(text) {
		m := reImport.FindSubmatch(statement)
		if m == nil {
			continue
		}
		if len(m[3]) > 0 {
			for _, name := range strings.Split(string(m[3]), ",") {
				if f := strings.Fields(name); len(f) > 0 {
					module(root, f[0])
				}
			}
			continue
		}
		dotted, from := string(m[1]), root
		if rest := strings.TrimLeft(dotted, "."); len(rest) < len(dotted) {
			from = filepath.Dir(file)
			for range len(dotted) - len(rest) - 1 {
				from = filepath.Dir(from)
			}
			dotted = rest
		}
		base := module(from, dotted)
		for _, name := range strings.Split(strings.Trim(string(m[2]), "() \t"), ",") {
			if f := strings.Fields(name); len(f) > 0 && f[0] != "*" {
				add(filepath.Join(base, f[0]))
			}
		}
	}
	return out
}

// importing are the rests of a text from each line on that begins as an import does. A pattern is a hundred times slower at
// finding them.
func importing(text []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(text) > 0 {
			line := bytes.TrimLeft(text, " \t")
			if (bytes.HasPrefix(line, []byte("import")) || bytes.HasPrefix(line, []byte("from"))) && !yield(line) {
				return
			}
			_, text, _ = bytes.Cut(line, []byte("\n"))
		}
	}
}

// exists is a regular file.
func exists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&fs.ModeType == 0
}

// A setting is one field of the configuration, where the class that will be built declares it.
type setting struct {
	src  *config.PythonSource
	item config.PythonItem
}

// A class is a configuration class among the project's files.
type class struct {
	project *project
	src     *config.PythonSource
	name    string
}

// field returns where a class declares a field: itself, or the nearest of its bases, in whatever file of the project
// they stand.
func (c class) field(name string) (setting, bool) {
	if c.src == nil { // nothing could be read
		return setting{}, false
	}
	return c.project.field(c.src, c.name, name, 0)
}

func (p *project) field(src *config.PythonSource, class, name string, depth int) (setting, bool) {
	if it, ok := src.Item(config.JoinPath(class, name)); ok {
		return setting{src, it}, true
	}
	cl := src.Class(class)
	if cl == nil || depth > 8 {
		return setting{}, false
	}
	for _, base := range cl.Bases {
		base = base[strings.LastIndexByte(base, '.')+1:]
		home := src
		if src.Class(base) == nil {
			if home, base = p.imported(src, base); home == nil {
				continue
			}
		}
		if s, ok := p.field(home, base, name, depth+1); ok {
			return s, true
		}
	}
	return setting{}, false
}

// imported is the file that declares a class which src imports under a name.
func (p *project) imported(src *config.PythonSource, name string) (*config.PythonSource, string) {
	for _, im := range src.Imports {
		if im.As != name || im.Name == "" {
			continue
		}
		for _, s := range p.sources {
			if s.Class(im.Name) != nil {
				return s, im.Name
			}
		}
	}
	return nil, ""
}

// int, float, bool, text and size are a field's literal value; ok is false where it is absent or an expression.

func (c class) decode(name string, v any) bool {
	s, ok := c.field(name)
	return ok && s.item.Literal && json.Unmarshal(s.item.Value, v) == nil
}

// computed returns the first of the settings that are there and no literal, so that their values are not known; or "".
func (c class) computed(names ...string) string {
	for _, name := range names {
		if s, ok := c.field(name); ok && !s.item.Literal {
			return name
		}
	}
	return ""
}

func (c class) int(name string, def int64) (v int64) {
	if !c.decode(name, &v) {
		return def
	}
	return v
}

func (c class) float(name string, def float64) (v float64) {
	if !c.decode(name, &v) {
		return def
	}
	return v
}

func (c class) bool(name string) (v, ok bool) {
	ok = c.decode(name, &v)
	return v && ok, ok
}

func (c class) text(name string) (v string) {
	c.decode(name, &v)
	return v
}

func (c class) pair(name string) (h, w int64, ok bool) {
	var v []int64
	if !c.decode(name, &v) || len(v) != 2 {
		return 0, 0, false
	}
	return v[0], v[1], true
}
