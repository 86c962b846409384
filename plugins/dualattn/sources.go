package dualattn

import (
	"cmp"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/python"
)

// The project is what the script imports of its own folder: the files, followed import by import.

const (
	maxFiles = 64
	maxFile  = 1 << 20
)

// closure lists the Python files that the script's imports reach below its folder, the script first. It reads no file
// larger than maxFile and no more than maxFiles of them; cut says that there were more.
func closure(script string) (files []string, cut bool) {
	read := func(path string) python.Source { return python.ReadSource(path, maxFile) }
	sources, cut := python.Reachable(filepath.Dir(script), read(script), maxFiles, read)
	for _, s := range sources {
		files = append(files, s.Path)
	}
	return files, cut
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

// imported is the file that declares a class which src imports under a name: the module that the import names, or one that this
// imports it from. Where that leads nowhere, because the script changes sys.path, it is any file that declares such a class.
func (p *project) imported(src *config.PythonSource, name string) (home *config.PythonSource, class string) {
	for range maxFiles {
		i := slices.IndexFunc(src.Imports, func(im config.PythonImport) bool { return im.As == name && im.Name != "" })
		if i < 0 {
			break
		}
		im := src.Imports[i]
		class = cmp.Or(class, im.Name)
		path := python.Resolve(filepath.Dir(p.sources[0].Path), src.Path, im.Module)
		k := slices.IndexFunc(p.sources, func(s *config.PythonSource) bool { return s.Path == path })
		if k < 0 {
			break
		}
		if src, name = p.sources[k], im.Name; src.Class(name) != nil {
			return src, name
		}
	}
	for _, s := range p.sources {
		if class != "" && s.Class(class) != nil {
			return s, class
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

func (c class) bool(name string) (v bool) {
	return c.decode(name, &v) && v
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
