package python

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/lazy"
)

var (
	configurator = lazy.MustCompile(`^exec\s*\(\s*open\s*\(`)
	settings     = lazy.MustCompile(`(?i)^(.*_)?(conf|config|configs|configuration|cfg|settings|constants|consts|` +
		`hparams|hyperparameters|hyperparams|params|args|options?|opt)$`)
	shouted = lazy.MustCompile(`^[A-Z][A-Z0-9_]*$`)
)

// constants reads the script's constants, those of its configuration classes and dictionaries, and those of the
// files of settings that it imports. Where the script reads its command line by executing a file (nanoGPT's
// configurator.py), they are options.
func (r *reader) constants(script *module) {
	if at := r.configurator(script); at >= 0 {
		r.globals(script, at)
		return
	}
	argued := len(r.out) > 0
	r.constantsOf(script, !argued)
	read := map[string]bool{script.Path: true}
	for _, s := range script.Statements {
		for _, path := range r.leadsTo(script, s) {
			if name := strings.TrimSuffix(filepath.Base(path), ".py"); settings.MatchString(name) ||
				settings.MatchString(filepath.Base(filepath.Dir(path))) {
				if m := r.load(path); m != nil && !read[path] {
					read[path] = true
					r.constantsOf(m, true)
				}
			}
		}
	}
}

// configurator is the statement that executes a file which reads the command line, or -1.
func (r *reader) configurator(m *module) int {
	for i, s := range m.Statements {
		if s.In < 0 && configurator.MatchString(m.Of(s.Range)) {
			name, _ := m.Str(m.Inside(m.First(s, "open")))
			path := filepath.Join(filepath.Dir(m.Path), name)
			text, err := file.Read(path, maxFile)
			if err == nil && strings.Contains(string(text), "argv") || strings.Contains(name, "configurator") {
				return i
			}
		}
	}
	return -1
}

// First is the bracket after the first token of a statement that is that word.
func (m *module) First(s Statement, word string) int {
	for i := s.First; i+1 < s.End; i++ {
		if m.Is(i, word) && m.Is(i+1, "(") {
			return i + 1
		}
	}
	return s.End
}

// globals are the constants before a statement, as options.
func (r *reader) globals(m *module, before int) {
	values := map[string]int{} // in r.out
	for i := range before {
		for _, name := range m.rebound(i) {
			if at, again := values[name]; again {
				r.out[at].Default, r.out[at].Known = "", false
			}
		}
		a, ok := m.Assigns(m.Statements[i])
		if !ok || a.Value.Empty() || strings.ContainsAny(a.Name, ".") || strings.HasPrefix(a.Name, "_") ||
			m.function(i) >= 0 || m.inClass(i) {
			continue
		}
		o := Option{Names: []string{"--" + a.Name}, Dest: a.Name, Path: m.Path, Line: m.LineOf(m.Statements[i].First),
			How: ByGlobals}
		o.Default, o.Known = r.value(m, a.Value, i)
		if o.Known && o.Default == "None" || strings.IndexAny(m.Of(a.Value), "[{") == 0 {
			continue // it takes numbers, strings and truth values only
		}
		o.Type = typeOf(m, a.Value, o)
		if at, again := values[a.Name]; again {
			r.out[at] = o
			continue
		}
		values[a.Name] = len(r.out)
		r.add(o)
	}
}

func typeOf(m *module, e Range, o Option) string {
	switch {
	case !o.Known:
		return ""
	case o.Default == "True" || o.Default == "False":
		return "bool"
	case m.Tokens[e.First].Kind == String:
		return "str"
	case strings.ContainsAny(o.Default, ".e"):
		return "float"
	}
	return "int"
}

// constantsOf adds the constants of a module: all scalar ones, or those in capitals only.
func (r *reader) constantsOf(m *module, all bool) {
	first := len(r.out)
	var again []string
	for i, s := range m.Statements {
		_, defines := m.Definition(s)
		if names := m.rebound(i); defines || m.Is(s.First, "import") || m.Is(s.First, "from") {
			r.forget(first, names) // what comes after it stays
		} else {
			again = append(again, names...)
		}
		a, ok := m.Assigns(s)
		if !ok || a.Value.Empty() || m.function(i) >= 0 {
			continue
		}
		name := a.Name
		if m.inClass(i) {
			class, _ := m.Definition(m.Statements[s.In])
			if m.Statements[s.In].In >= 0 || !settings.MatchString(class.Name) &&
				!strings.HasSuffix(strings.ToLower(class.Name), "config") || strings.Contains(name, ".") {
				continue
			}
			name = class.Name + "." + name
		} else if strings.HasPrefix(name, "_") {
			continue
		} else if base, _ := cutLast(name); base != "" && (!all || !settings.MatchString(base)) {
			continue
		} else if base == "" && !all && !shouted.MatchString(name) && !settings.MatchString(name) {
			continue
		}
		r.constantAt(m, name, a.Value, i, 0)
	}
	r.forget(first, again)
}

// forget drops constants, from one on, that have another value than the one that was read.
func (r *reader) forget(first int, names []string) {
	for _, name := range names {
		r.out = append(r.out[:first], slices.DeleteFunc(r.out[first:], func(o Option) bool {
			return o.Dest == name || strings.HasPrefix(o.Dest, name+".")
		})...)
	}
}

// rebound are the names that a statement binds otherwise than by an assignment to one: "a = b = 1", "a, b = 1, 2".
// Those of a class have its name, and of a function only the module's count.
func (m *module) rebound(i int) (names []string) {
	s := m.Statements[i]
	if _, ok := m.Assigns(s); ok || m.function(i) >= 0 && !m.Is(s.First, "global") {
		return nil
	}
	names = m.Binds(s)
	if m.inClass(i) {
		class, _ := m.Definition(m.Statements[s.In])
		for n := range names {
			names[n] = class.Name + "." + names[n]
		}
	}
	return names
}

// constantAt adds one constant, or the entries of a dictionary.
func (r *reader) constantAt(m *module, name string, e Range, at, depth int) {
	o := Option{Names: []string{name}, Dest: name, Path: m.Path, Line: m.LineOf(e.First), How: ByConstants}
	if m.Is(e.First, "{") && m.Tokens[e.First].Pair == e.End-1 && depth < 4 {
		for _, entry := range m.Split(m.Inside(e.First), ",") {
			if colon := m.Find(entry, ":"); colon >= 0 {
				if key, ok := m.Str(Range{First: entry.First, End: colon}); ok && key != "" {
					r.constantAt(m, name+"."+config.JoinPath(key), Range{First: colon + 1, End: entry.End}, at, depth+1)
				}
			}
		}
		return
	}
	if calls := m.Calls(e); len(calls) > 0 && calls[0].First == e.First && depth < 4 {
		switch _, last := cutLast(calls[0].Name); last {
		case "dict", "SimpleNamespace", "Namespace", "EasyDict", "edict", "ConfigDict", "Box", "Munch", "DotMap", "AttrDict":
			for _, a := range m.Args(calls[0].Open) {
				if a.Name != "" {
					r.constantAt(m, name+"."+a.Name, a.Range, at, depth+1)
				}
			}
			return
		}
	}
	o.Default, o.Known = r.value(m, e, at)
	if o.Known && o.Default != "None" {
		r.add(o)
	}
}
