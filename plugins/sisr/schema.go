package sisr

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/python"
)

// schema is what a checkout accepts in its recipes, read from the checkout's own source: every fork and every version
// accepts another set of keys, and rejects a recipe with any other before it makes anything. The JSON schemas that
// the forks ship are stale.
type schema struct {
	path    string                       // of the source file
	classes map[string]map[string]string // class -> field -> the class it nests, or "" for a plain value
	bases   map[string]string
	root    string
}

// optionFiles are where the checkouts keep their options, relative to the script, and the class at the root.
var optionFiles = []struct{ path, root string }{
	{"traiNNer/utils/redux_options.py", "ReduxOptions"}, // traiNNer-redux since 2024-07
	{"sisr/options.py", "Options"},                      // examples/sisr
}

var (
	classLine = lazy.MustCompile(`^class (\w+)(?:\(\s*(\w*)[^)]*\))?\s*:`)
	fieldLine = lazy.MustCompile(`^    (\w+)\s*:\s*(.*)$`)
)

// match matches a line, of which most do not begin so: with that prefix and a letter.
func match(r *lazy.Regexp, line, prefix string) []string {
	if !strings.HasPrefix(line, prefix) || len(line) == len(prefix) || !letter(line[len(prefix)]) {
		return nil
	}
	return r.FindStringSubmatch(line)
}

// letter reports whether a byte is of a word, as \w.
func letter(c byte) bool { return c == '_' || c-'0' < 10 || c|0x20-'a' < 26 }

// readSchema reads the options of the checkout in one of dirs; nil where there is none.
func readSchema(exists func(string) (string, bool)) (*schema, error) {
	for _, f := range optionFiles {
		path, ok := exists(f.path)
		if !ok {
			continue
		}
		text, err := file.Read(path, maxRecipe)
		if err != nil {
			return nil, fmt.Errorf("reading which keys the checkout accepts: %w", err)
		}
		s := parseSchema(python.NewSource(path, string(text)))
		s.path, s.root = path, f.root
		if len(s.classes[s.root]) == 0 { // a file of another making: better no check than a wrong one
			return nil, nil
		}
		return s, nil
	}
	return nil, nil
}

// parseSchema reads the class definitions. A field's definition may go on over several lines; a class named in it is
// what the key nests.
func parseSchema(source python.Source) *schema {
	s := &schema{classes: map[string]map[string]string{}, bases: map[string]string{}}
	class, field := "", ""
	types := map[[2]string]string{}
	for line := range strings.Lines(source.Code) {
		l := strings.TrimRight(line, " \r\n")
		if m := match(classLine, l, "class "); m != nil {
			class, field = m[1], ""
			s.classes[class], s.bases[class] = map[string]string{}, m[2]
			continue
		}
		if class == "" || strings.TrimSpace(l) == "" {
			continue
		}
		if !strings.HasPrefix(l, " ") { // the class is over
			class = ""
			continue
		}
		if m := match(fieldLine, l, "    "); m != nil {
			field = m[1]
			s.classes[class][field] = ""
			types[[2]string{class, field}] = m[2]
		} else if field != "" && strings.HasPrefix(l, "     ") {
			types[[2]string{class, field}] += " " + l
		} else if strings.HasPrefix(l, "    def ") || strings.HasPrefix(l, "    @") {
			field = ""
		}
	}
	for key, typ := range types {
		typ, _, _ = strings.Cut(typ, "description") // words of a description name no type
		for _, w := range strings.FieldsFunc(typ, func(c rune) bool { return c >= utf8.RuneSelf || !letter(byte(c)) }) {
			if _, ok := s.classes[w]; ok {
				nest := w
				if strings.Contains(strings.ToLower(typ), "dict[") {
					nest = "*" + w // any key, each of that class
				}
				s.classes[key[0]][key[1]] = nest
			}
		}
	}
	return s
}

// field looks a key up in a class and its bases.
func (s *schema) field(class, key string) (nests string, ok bool) {
	for range 8 { // bases do not go deep
		if nests, ok = s.classes[class][key]; ok {
			return nests, true
		}
		if class = s.bases[class]; class == "" {
			return "", false
		}
	}
	return "", false
}

// accepts reports whether the checkout knows the key at the path.
func (s *schema) accepts(path ...string) bool {
	class := s.root
	for i, key := range path {
		nests, ok := s.field(class, key)
		switch {
		case !ok:
			return false
		case nests == "": // free-form from here on
			return true
		case strings.HasPrefix(nests, "*"):
			if i+1 == len(path) {
				return true
			}
			return s.acceptsIn(nests[1:], path[i+2:])
		}
		class = nests
	}
	return true
}

func (s *schema) acceptsIn(class string, path []string) bool {
	sub := *s
	sub.root = class
	return sub.accepts(path...)
}

// unknown lists the recipe's keys that the checkout rejects, as paths.
func (s *schema) unknown(root config.Value) (paths []string) {
	var walk func(v config.Value, class string, at []string)
	walk = func(v config.Value, class string, at []string) {
		for _, key := range v.Keys() {
			path := append(slices.Clone(at), key)
			nests, ok := s.field(class, key)
			child := v.Get(key)
			switch {
			case !ok:
				paths = append(paths, config.JoinPath(path...))
			case strings.HasPrefix(nests, "*"):
				for _, sub := range child.Keys() {
					inner := child.Get(sub)
					walk(inner, nests[1:], append(slices.Clone(path), sub))
				}
			case nests != "":
				walk(child, nests, path)
			}
		}
	}
	walk(root, s.root, nil)
	slices.Sort(paths)
	return paths
}
