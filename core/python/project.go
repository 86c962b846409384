package python

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/lazy"
)

// What is read of one project at most.
const (
	maxFile    = 1 << 20
	maxBytes   = 5 << 20
	maxFiles   = 150
	maxOptions = 5000
	maxDepth   = 12 // of bases, and of constants that are made of constants
)

// A reader is what is read of one project.
type reader struct {
	roots   []string
	modules map[string]*module
	texts   map[string]string
	tells   map[string]bool
	order   []*module // those with live code, in the order in which they were reached
	narrow  bool      // only files that declare options are looked into
	configs string    // the folder of Hydra's configurations
	folders []string  // that the program may run in, the likelier first
	bytes   int
	cut     bool
	out     []Option
	unread  []string
}

// A module is one file.
type module struct {
	*Syntax
	imported map[string]symbol // what names are imported
	stars    []string          // files of which all names are imported
	defined  map[string]int    // classes and functions of the module, by their statements
	bound    map[string][]int  // the statements that bind a name
	live     []bool            // statements that the program may run
	within   []int             // the header of the function around each statement, or -1
	reached  bool
}

// A symbol is a name of another file, or that file itself where the name is "". The path of what is not in the
// project is "".
type symbol struct{ path, name, module string }

func newReader(roots []string) *reader {
	r := &reader{modules: map[string]*module{}, texts: map[string]string{}, tells: map[string]bool{}}
	add := func(root string) {
		if root = filepath.Clean(root); !slices.Contains(r.roots, root) {
			r.roots = append(r.roots, root)
		}
	}
	for _, root := range roots {
		add(root)
	}
	// a script in a package: its project is installed, or it is run as a module
	for _, root := range slices.Clone(r.roots) {
		for range maxDepth {
			if _, err := os.Stat(filepath.Join(root, "__init__.py")); err != nil {
				break
			}
			if root = filepath.Dir(root); installed(root) {
				break // other packages are not of the project
			}
			add(root)
		}
		add(filepath.Join(root, "src"))
	}
	return r
}

// installed reports whether a folder holds installed packages: by its name, or by the lists of files that installers
// leave beside what they install into a folder of any name (pip install --target).
func installed(dir string) bool {
	if slices.Contains([]string{"site-packages", "dist-packages"}, filepath.Base(dir)) {
		return true
	}
	lists, _ := filepath.Glob(filepath.Join(dir, "*.dist-info", "RECORD"))
	return len(lists) > 0
}

// resolve is the file of a module, or "".
func (r *reader) resolve(importer, module string) string {
	if strings.HasPrefix(module, ".") {
		return Resolve("", importer, module)
	}
	for _, root := range r.roots {
		if path := Resolve(root, importer, module); path != "" {
			return path
		}
	}
	return ""
}

// text reads a file, within bounds; "" where it cannot be read or there is too much.
func (r *reader) text(path string) string {
	if text, ok := r.texts[path]; ok {
		return text
	}
	r.texts[path] = ""
	if len(r.texts) > maxFiles || r.bytes > maxBytes {
		r.cut = true
		return ""
	}
	text, err := file.Read(path, maxFile)
	if err != nil {
		r.cut = r.cut || !os.IsNotExist(err)
		return ""
	}
	r.bytes += len(text)
	r.texts[path] = string(text)
	return r.texts[path]
}

// load reads a file's statements, or returns nil where it cannot be read.
func (r *reader) load(path string) *module {
	if m, ok := r.modules[path]; ok {
		return m
	}
	text := r.text(path)
	if text == "" || r.narrow && !r.telling(path) && filepath.Base(path) != "__init__.py" {
		return nil
	}
	m := &module{Syntax: NewSource(path, text).Syntax(), imported: map[string]symbol{},
		defined: map[string]int{}, bound: map[string][]int{}}
	m.live = make([]bool, len(m.Statements))
	r.modules[path] = m
	for i, s := range m.Statements {
		in := -1
		if s.In >= 0 {
			in = m.within[s.In]
			if d, ok := m.Definition(m.Statements[s.In]); ok && !d.Class {
				in = s.In
			}
		}
		m.within = append(m.within, in)
		r.index(m, i)
	}
	return m
}

// index notes what a statement defines, imports and binds.
func (r *reader) index(m *module, i int) {
	s := m.Statements[i]
	if d, ok := m.Definition(s); ok {
		if s.In < 0 || !r.inDefinition(m, i) {
			m.defined[d.Name] = i
		}
		return
	}
	switch m.Token(s.First) {
	case "import", "from":
		r.imports(m, s)
		return
	}
	if a, ok := m.Assigns(s); ok {
		if !strings.Contains(a.Name, ".") && !a.Value.Empty() {
			m.bound[a.Name] = append(m.bound[a.Name], i)
		}
		return
	}
	bind := func(r Range) {
		for t := r.First; t < r.End; t++ {
			if m.Tokens[t].Kind == Word {
				m.bound[m.Token(t)] = append(m.bound[m.Token(t)], i)
			}
		}
	}
	if eq := m.Find(s.Range, "="); eq >= 0 { // a, b = 1, 2
		bind(Range{First: s.First, End: m.lastEquals(s.Range)})
		return
	}
	switch first := m.Token(s.First); {
	case first == "for" || first == "with" || first == "except" || first == "global" || first == "nonlocal":
		bind(s.Range)
	case s.First+1 < s.End && m.Tokens[s.First].Kind == Word && strings.HasSuffix(m.Token(s.First+1), "="):
		bind(Range{First: s.First, End: s.First + 1}) // a += 1
	}
}

// lastEquals is the last "=" of a statement such as a = b = 1.
func (m *module) lastEquals(r Range) (at int) {
	for i := m.Find(r, "="); i >= 0; i = m.Find(Range{First: i + 1, End: r.End}, "=") {
		at = i
	}
	return at
}

// inDefinition reports whether a statement stands in a class or a function.
func (r *reader) inDefinition(m *module, i int) bool {
	for i = m.Statements[i].In; i >= 0; i = m.Statements[i].In {
		if _, ok := m.Definition(m.Statements[i]); ok {
			return true
		}
	}
	return false
}

// imports notes the names of an import statement.
func (r *reader) imports(m *module, s Statement) {
	i := s.First + 1
	dotted := func() string {
		from := i
		for i < s.End && (m.Tokens[i].Kind == Word && !m.Is(i, "import") && !m.Is(i, "as") || m.Is(i, ".") ||
			m.Is(i, "...")) {
			i++
		}
		return strings.Join(strings.Fields(m.Of(Range{First: from, End: i})), "")
	}
	if m.Is(s.First, "import") {
		for i < s.End {
			name := dotted()
			as := name
			if m.Is(i, "as") {
				as = m.Token(i + 1)
				i += 2
			}
			if name != "" {
				m.imported[as] = symbol{r.resolve(m.Path, name), "", name}
			}
			i++ // the comma
		}
		return
	}
	from := dotted()
	path := r.resolve(m.Path, from)
	for i++; i < s.End; i++ {
		switch {
		case m.Is(i, "*") && path != "":
			m.stars = append(m.stars, path)
		case m.Tokens[i].Kind == Word:
			name := m.Token(i)
			as := name
			if m.Is(i+1, "as") {
				as = m.Token(i + 2)
				i += 2
			}
			sym := symbol{path, name, from}
			if sub := r.resolve(m.Path, strings.TrimRight(from, ".")+cond(strings.Trim(from, ".") == "", from,
				".")+name); sub != "" {
				if base := r.modules[path]; base == nil || !base.has(name) {
					sym = symbol{sub, "", from + "." + name}
				}
			}
			m.imported[as] = sym
		}
	}
}

func cond(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

func (m *module) has(name string) bool {
	_, ok := m.defined[name]
	return ok || len(m.bound[name]) > 0
}

// find is the module and the statement that define a class or a function, by a name as another module calls it. ext
// is its full name where it is not in the project: "transformers.TrainingArguments".
func (r *reader) find(m *module, name string, depth int) (in *module, statement int, ext string) {
	if m == nil || depth > maxDepth {
		return nil, -1, ""
	}
	parts := strings.Split(name, ".")
	for n := len(parts); n > 0; n-- {
		sym, ok := m.imported[strings.Join(parts[:n], ".")]
		if !ok {
			continue
		}
		rest := parts[n:]
		if sym.name != "" {
			rest = append([]string{sym.name}, rest...)
		}
		if sym.path == "" {
			return nil, -1, strings.Join(append([]string{sym.module}, rest...), ".")
		}
		if len(rest) == 0 {
			return nil, -1, ""
		}
		return r.find(r.load(sym.path), strings.Join(rest, "."), depth+1)
	}
	if i, ok := m.defined[parts[0]]; ok {
		return m, i, ""
	}
	for _, path := range m.stars {
		if in, i, _ := r.find(r.load(path), name, depth+1); in != nil {
			return in, i, ""
		}
	}
	return nil, -1, ""
}

// telling reports whether a file declares options, or hands on what does.
func (r *reader) telling(path string) bool {
	is, ok := r.tells[path]
	if !ok {
		text := r.text(path)
		is = slices.ContainsFunc([]string{"add_argument", "arser", "parse_args", "DEFINE_", "click", "typer", "tyro",
			"get_args",
			"get_opt", "get_config", "Options"}, func(word string) bool { return strings.Contains(text, word) })
		r.tells[path] = is
	}
	return is
}

// follow makes the script live, and all that it reaches.
func (r *reader) follow(script *module) {
	script.reached, r.narrow = true, true
	defer func() { r.narrow = false }()
	r.order = append(r.order, script)
	var queue []func()
	var run func(m *module, from, to int)
	reach := func(path string) {
		if !r.telling(path) {
			return
		}
		m := r.load(path)
		if m == nil || m.reached {
			return
		}
		m.reached = true
		r.order = append(r.order, m)
		queue = append(queue, func() {
			for i := range m.Statements {
				if !r.guarded(m, i) {
					run(m, i, i+1)
				}
			}
		})
	}
	enter := func(m *module, statement int) {
		reach(m.Path)
		queue = append(queue, func() {
			_, to := m.Block(statement)
			run(m, statement, to)
		})
	}
	run = func(m *module, from, to int) {
		for i := from; i < to; i++ {
			if m.live[i] {
				continue
			}
			m.live[i] = true
			s := m.Statements[i]
			for _, path := range r.leadsTo(m, s) {
				reach(path)
			}
			for _, c := range m.Calls(s.Range) {
				if in, at, _ := r.find(m, c.Name, 0); in != nil {
					enter(in, at)
				}
			}
			if d, ok := m.Definition(s); ok && d.Class && d.Open >= 0 {
				for _, base := range m.Args(d.Open) {
					if in, at, _ := r.find(m, m.Of(base.Range), 0); in != nil {
						enter(in, at)
					}
				}
			}
		}
	}
	run(script, 0, len(script.Statements))
	for len(queue) > 0 {
		next := queue[0]
		queue = queue[1:]
		next()
	}
}

// leadsTo are the files of the project that an import statement runs.
func (r *reader) leadsTo(m *module, s Statement) (paths []string) {
	if first := m.Token(s.First); first != "import" && first != "from" {
		return nil
	}
	for t := s.First; t < s.End; t++ {
		if sym, ok := m.imported[m.Token(t)]; ok && sym.path != "" {
			paths = append(paths, sym.path)
		}
	}
	if m.Is(s.First, "import") { // a.b.c
		for _, part := range m.Split(Range{First: s.First + 1, End: s.End}, ",") {
			if sym := m.imported[m.Of(part)]; sym.path != "" {
				paths = append(paths, sym.path)
			}
		}
	}
	return append(paths, m.stars...)
}

var mainGuard = lazy.MustCompile(`^if\b.*__name__\s*==`)

// guarded reports whether an import does not run a statement: it stands in a function, or under "if __name__ ==".
func (r *reader) guarded(m *module, i int) bool {
	for i = m.Statements[i].In; i >= 0; i = m.Statements[i].In {
		if d, ok := m.Definition(m.Statements[i]); ok && !d.Class || mainGuard.MatchString(m.Of(m.Statements[i].Range)) {
			return true
		}
	}
	return false
}
