package stablesr

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/lazy"
)

// A tree is a recipe as OmegaConf merges it: mappings are map[string]any, lists []any, numbers int64 or float64, and null
// is nil.
type tree = map[string]any

// parsed are the files that were read, by path and text: every rung is tried on the whole recipe, most of which stays.
var parsed sync.Map

// parse reads one file of the recipe.
func parse(path string, text []byte) (tree, error) {
	key := path + "\x00" + string(text)
	if root, ok := parsed.Load(key); ok {
		return deepCopy(root.(tree)), nil
	}
	root, err := parseAnew(path, text)
	if err == nil {
		parsed.Store(key, deepCopy(root))
	}
	return root, err
}

func parseAnew(path string, text []byte) (tree, error) {
	doc, err := config.Parse(path, text)
	if err != nil {
		return nil, err
	}
	root, _ := plain(doc, doc.Root(), nil).(tree)
	return root, nil
}

// omegaFloat is what OmegaConf's loader reads as a number beside PyYAML's own: 1e-4 is one to it (omegaconf/_utils.py,
// get_yaml_loader, 2.1.1).
var omegaFloat = lazy.MustCompile(`^(?:[-+]?(?:[0-9][0-9_]*)\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?(?:[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)|\.[0-9_]+(?:[eE][-+][0-9]+)?)$`)

// plain is a setting as Python has it.
func plain(doc config.Tree, v config.Value, at []string) any {
	switch v.Kind() {
	case config.Bool:
		b, _ := v.Bool()
		return b
	case config.Int:
		if i, ok := v.Int(); ok {
			return i
		}
		f, _ := v.Float()
		return f
	case config.Float:
		f, _ := v.Float()
		return f
	case config.String:
		s, _ := v.Str()
		if omegaFloat.MatchString(s) {
			if spelled, ok := doc.Get(config.JoinPath(at...)); !ok || !strings.ContainsAny(spelled[:1], `"'`) {
				if f, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64); err == nil {
					return f
				}
			}
		}
		return s
	case config.Seq:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = plain(doc, v.Index(i), append(at[:len(at):len(at)], strconv.Itoa(i)))
		}
		return list
	case config.Map:
		m := tree{}
		for _, key := range v.Keys() {
			m[key] = plain(doc, v.Get(key), append(at[:len(at):len(at)], key))
		}
		return m
	case config.Opaque:
		return v.Text()
	}
	return nil
}

// merge lays src over dst as OmegaConf.merge does: mappings key by key, everything else whole. A mapping and a list do not
// merge.
func merge(dst, src tree) (tree, error) {
	out := maps.Clone(dst)
	if out == nil {
		out = tree{}
	}
	for key, v := range src {
		old, there := out[key]
		from, mapped := old.(tree)
		to, mapping := v.(tree)
		_, list := v.([]any)
		switch {
		case mapped && list, mapping && isList(old):
			return nil, fmt.Errorf("%s is a mapping in one place and a list in another, which OmegaConf does not merge", key)
		case mapped && mapping && there:
			sub, err := merge(from, to)
			if err != nil {
				return nil, fmt.Errorf("%s.%w", key, err)
			}
			out[key] = sub
		default:
			out[key] = v
		}
	}
	return out, nil
}

// reference is an interpolation that is a whole value: ${data.size}.
var reference = lazy.MustCompile(`^\$\{\s*(\w+(?:\.\w+)*)\s*\}$`)

// maxReferences is how far one reference may lead to the next: further, and it is a circle.
const maxReferences = 16

// resolved is what OmegaConf hands out for a value: what a reference names, from the root of what was merged. Relative ones,
// resolvers (${oc.env:X}) and references within a mapping or a list that is itself named by one stay as they stand.
func resolved(root tree, v any, depth int) any {
	switch v := v.(type) {
	case tree:
		out := make(tree, len(v))
		for key, sub := range v {
			out[key] = resolved(root, sub, depth)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, sub := range v {
			out[i] = resolved(root, sub, depth)
		}
		return out
	case string:
		if !refers(v) || depth == maxReferences {
			return v
		}
		m := reference.FindStringSubmatch(v)
		if m == nil {
			return v
		}
		named, ok := get(root, m[1])
		if _, text := named.(string); ok && text {
			return resolved(root, named, depth+1)
		} else if ok {
			return resolved(root, named, maxReferences)
		}
	}
	return v
}

// refers reports whether there is a reference anywhere in a value: mostly there is none.
func refers(v any) bool {
	switch v := v.(type) {
	case tree:
		for _, sub := range v {
			if refers(sub) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, refers)
	case string:
		return strings.HasPrefix(v, "${")
	}
	return false
}

func isList(v any) bool { _, ok := v.([]any); return ok }

// An override is one word of the dotlist: a key, and its value in YAML.
type override struct {
	key   string
	value any
}

// readOverride is OmegaConf.from_dotlist of one word; without "=" the value is null. Keys may have brackets: a[b].
func readOverride(word string) override {
	key, text, ok := strings.Cut(word, "=")
	o := override{key: strings.ReplaceAll(strings.ReplaceAll(key, "[", "."), "]", "")}
	if !ok || text == "" {
		return o
	}
	doc, err := config.ParseYAML([]byte("v: " + text + "\n"))
	if err != nil {
		o.value = text
		return o
	}
	o.value = plain(doc, doc.Root().Get("v"), []string{"v"})
	return o
}

// set lays a value at a dotted key, as OmegaConf.update does: what is no mapping on the way becomes one, and a mapping is
// merged.
func (o override) set(root tree) error {
	keys := strings.Split(o.key, ".")
	at := root
	for i, key := range keys[:len(keys)-1] {
		next, ok := at[key].(tree)
		if isList(at[key]) {
			return fmt.Errorf("%s: %s is a list, which can only be replaced whole", o.key, strings.Join(keys[:i+1], "."))
		}
		if !ok {
			next = tree{}
		} else {
			next = maps.Clone(next)
		}
		at[key], at = next, next
	}
	last := keys[len(keys)-1]
	if old, ok := at[last].(tree); ok {
		if over, ok := o.value.(tree); ok {
			sub, err := merge(old, over)
			at[last] = sub
			return err
		}
	}
	at[last] = o.value
	return nil
}

// get follows a dotted key.
func get(root tree, path string) (any, bool) {
	var v any = root
	for key := range strings.SplitSeq(path, ".") {
		m, ok := v.(tree)
		if !ok {
			return nil, false
		}
		if v, ok = m[key]; !ok {
			return nil, false
		}
	}
	return v, true
}

func has(root tree, path string) bool { _, ok := get(root, path); return ok }

// integer is a whole number at a dotted key.
func integer(root tree, path string) (int64, bool) {
	v, _ := get(root, path)
	n, ok := v.(int64)
	return n, ok
}

// truth is Python's truth of what stands at a dotted key, or otherwise where nothing does.
func truth(root tree, path string, otherwise bool) bool {
	v, ok := get(root, path)
	if !ok {
		return otherwise
	}
	switch v := v.(type) {
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case nil:
		return false
	}
	return true
}

func text(root tree, path string) string {
	v, _ := get(root, path)
	s, _ := v.(string)
	return s
}

func keys(root tree, path string) []string {
	v, _ := get(root, path)
	m, _ := v.(tree)
	return slices.Sorted(maps.Keys(m))
}

// spelled is a setting's value as a recipe spells it, for people: a key that is there may have none.
func spelled(v any) string {
	if v == nil {
		return "null"
	}
	return fmt.Sprint(v)
}
