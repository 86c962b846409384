package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/file"
)

// A PythonSource is what stands in a Python file, as far as it can be read without running it: the values that are
// assigned to names, with the bytes that spell them. It is made by an interpreter's own parser (core/overlay reads it);
// here it is only a value.
type PythonSource struct {
	Path    string           `json:"path"` // absolute, as it was asked for
	SHA256  string           `json:"sha256"`
	Text    []byte           `json:"text"`
	Items   []PythonItem     `json:"items,omitempty"`
	Classes []PythonClass    `json:"classes,omitempty"`
	Imports []PythonImport   `json:"imports,omitempty"`
	Calls   map[string][]int `json:"calls,omitempty"` // dotted names of what is called anywhere, with their lines: "checkpoint"; ".backward" of an expression
	// Problem says why the file could not be read; everything else is then empty.
	Problem string `json:"problem,omitempty"`
}

// A PythonItem is one value that is assigned to a name where its file declares it.
//
// Its path is that of [JoinPath]: "Config.batch_size" is a class's field, "Config.__init__.batch_size" what a method
// assigns to self, "LIMIT" a constant of the module, "CFG.data.batch" a key of a dictionary that is written out or of a
// dict() call, "build()" and a name, "build().size", a parameter's default. What the only call of its kind in a place is
// given by name stands below that place: "build().Resize().size", "Resize().size" for one in the module itself. There
// may be several items of a path, in the order in which they stand; none is a literal where it cannot be known which counts.
type PythonItem struct {
	Path string `json:"path"`
	// Value is the literal as JSON: tuples and sets are lists; null with Literal false where it is an expression.
	Value   json.RawMessage `json:"value"`
	Literal bool            `json:"literal"`
	Start   int             `json:"start"` // bytes of Text that spell it
	End     int             `json:"end"`
	Line    int             `json:"line"`
}

// A PythonClass is a class and the names of its bases, as written.
type PythonClass struct {
	Name       string   `json:"name"` // dotted where it stands in another
	Bases      []string `json:"bases,omitempty"`
	Decorators []string `json:"decorators,omitempty"`
	Line       int      `json:"line"`
}

// A PythonImport is a name that a file binds by importing: "from src.config import Config as C" is
// {Module: "src.config", Name: "Config", As: "C"}; "import a.b" is {Module: "a.b", As: "a"}.
type PythonImport struct {
	Module string `json:"module"` // with its leading dots, if it is relative
	Name   string `json:"name,omitempty"`
	As     string `json:"as"`
	Line   int    `json:"line"`
}

// Item returns the item of a path: the one that counts is the last.
func (s *PythonSource) Item(path string) (PythonItem, bool) {
	for _, it := range slices.Backward(s.Items) {
		if it.Path == path {
			return it, true
		}
	}
	return PythonItem{}, false
}

// Class returns the class of that name, or nil.
func (s *PythonSource) Class(name string) *PythonClass {
	for i := range s.Classes {
		if s.Classes[i].Name == name {
			return &s.Classes[i]
		}
	}
	return nil
}

// Field returns where the file declares a class's field: in the class itself, or in the nearest of its bases that stand
// in the same file, depth first from the left, which is Python's order wherever no base is shared. ok is false if none does.
func (s *PythonSource) Field(class, name string) (it PythonItem, ok bool) {
	return s.field(class, name, map[string]bool{})
}

func (s *PythonSource) field(class, name string, seen map[string]bool) (PythonItem, bool) {
	c := s.Class(class)
	if c == nil || seen[class] {
		return PythonItem{}, false
	}
	seen[class] = true
	for _, path := range []string{JoinPath(class, "__init__", name), JoinPath(class, name)} { // what __init__ assigns comes later
		if it, ok := s.Item(path); ok {
			return it, true
		}
	}
	for _, b := range c.Bases {
		if it, ok := s.field(b, name, seen); ok {
			return it, true
		}
	}
	return PythonItem{}, false
}

// Python is a Python file of which the literals can be edited. It implements [Tree]; its paths are those of
// [PythonItem].
type Python struct {
	source *PythonSource
	text   []byte
	items  []PythonItem // with Start and End in text
}

// OpenPython returns the document of a source.
func OpenPython(s *PythonSource) (*Python, error) {
	if s.Problem != "" {
		return nil, &file.Unread{Why: fmt.Sprintf("reading %s: %s", s.Path, s.Problem)}
	}
	for _, it := range s.Items {
		if it.Start < 0 || it.End < it.Start || it.End > len(s.Text) {
			return nil, fmt.Errorf("reading %s: %s is said to stand outside the file", s.Path, it.Path)
		}
	}
	return &Python{source: s, text: slices.Clone(s.Text), items: slices.Clone(s.Items)}, nil
}

// Bytes implements [Document].
func (d *Python) Bytes() []byte { return slices.Clone(d.text) }

// Get implements [Document]. An expression is no value: only literals are found.
func (d *Python) Get(path string) (string, bool) {
	it, ok := d.item(path)
	if !ok {
		return "", false
	}
	return string(d.text[it.Start:it.End]), true
}

func (d *Python) item(path string) (*PythonItem, bool) {
	for i := range slices.Backward(d.items) {
		if it := &d.items[i]; it.Path == path {
			return it, it.Literal
		}
	}
	return nil, false
}

// Set implements [Document]. Nothing can be added to a program, so the path must be there, and the text must be one
// literal on one line: the lines of the file keep their numbers, so that tracebacks stay true.
func (d *Python) Set(path, text string) error {
	it, ok := d.item(path)
	if !ok {
		return fmt.Errorf("%s has no literal %s that could be changed", d.source.Path, path)
	}
	if err := oneLiteral(text); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	start, end := it.Start, it.End
	if bytes.IndexByte(d.text[start:end], '\n') >= 0 {
		return fmt.Errorf("%s stands on several lines, which the edit would join", path)
	}
	d.text = slices.Concat(d.text[:start], []byte(text), d.text[end:])
	shift := len(text) - (end - start)
	for i := range d.items {
		switch o := &d.items[i]; {
		case o.Start >= end:
			o.Start, o.End = o.Start+shift, o.End+shift
		case o.Start <= start && o.End >= end:
			o.End += shift
		}
	}
	return nil
}

// oneLiteral reports why text is not the spelling that [PythonText] gives a value.
func oneLiteral(text string) error {
	if strings.TrimSpace(text) != text || text == "" || strings.ContainsAny(text, "\n\r\x00#") {
		return fmt.Errorf("%q is not one literal", text)
	}
	return nil
}

// Root implements [Tree].
func (d *Python) Root() Value {
	root := Value{&value{kind: Map, line: 1}}
	for _, it := range d.items {
		if it.Literal {
			insert(root, SplitPath(it.Path), literal(it))
		}
	}
	return root
}

// insert puts a value below a mapping, making mappings on the way.
func insert(at Value, path []string, v Value) {
	if len(path) == 1 {
		at.put(path[0], path[0], v)
		return
	}
	next := at.Get(path[0])
	if next.Kind() != Map {
		next = Value{&value{kind: Map, line: v.line}}
		at.put(path[0], path[0], next)
	}
	insert(next, path[1:], v)
}

func literal(it PythonItem) Value {
	dec := json.NewDecoder(bytes.NewReader(it.Value))
	dec.UseNumber()
	var raw any
	if err := dec.Decode(&raw); err != nil {
		return Value{&value{kind: Opaque, line: it.Line}}
	}
	return fromJSON(raw, it.Line)
}

func fromJSON(raw any, line int) Value {
	v := &value{line: line}
	switch raw := raw.(type) {
	case nil:
		v.kind, v.text = Null, "None"
	case bool:
		v.kind, v.b, v.text = Bool, raw, "False"
		if raw {
			v.text = "True"
		}
	case string:
		v.kind, v.text = String, raw
	case json.Number:
		v.text = raw.String()
		f, err := raw.Float64()
		i, ierr := raw.Int64()
		v.i, v.f, v.kind = i, f, Int
		if strings.ContainsAny(v.text, ".eE") {
			v.kind = Float
		} else if ierr != nil {
			v.isBig = true
		}
		if err != nil {
			v.kind = Opaque
		}
	case []any:
		v.kind = Seq
		for _, e := range raw {
			v.items = append(v.items, fromJSON(e, line))
		}
	case map[string]any:
		v.kind = Map
		for _, k := range slices.Sorted(keysOf(raw)) {
			v.put(k, k, fromJSON(raw[k], line))
		}
	default:
		v.kind = Opaque
	}
	return Value{v}
}

func keysOf(m map[string]any) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// Text implements [Tree] by [PythonText].
func (d *Python) Text(v any) (string, error) { return PythonText(v) }

// PythonText spells a value as a Python literal: nil, bool, int, int64, float64, string, or a slice of these, which
// becomes a tuple: no field of a dataclass may have a list for its default, and what takes a list takes a tuple nearly
// everywhere.
func PythonText(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "None", nil
	case bool:
		if v {
			return "True", nil
		}
		return "False", nil
	case int:
		return strconv.Itoa(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case float64:
		s := strconv.FormatFloat(v, 'g', -1, 64)
		if !strings.ContainsAny(s, ".eEnI") {
			s += ".0"
		}
		if strings.ContainsAny(s, "nI") {
			return "", fmt.Errorf("Python has no literal for %v", v)
		}
		return s, nil
	case string:
		return pythonString(v), nil
	case []int64:
		return pythonTuple(v)
	case []any:
		return pythonTuple(v)
	}
	return "", fmt.Errorf("a %T cannot be spelled in Python", v)
}

func pythonTuple[T any](vs []T) (string, error) {
	var parts []string
	for _, v := range vs {
		s, err := PythonText(v)
		if err != nil {
			return "", err
		}
		parts = append(parts, s)
	}
	if len(parts) == 1 {
		return "(" + parts[0] + ",)", nil
	}
	return "(" + strings.Join(parts, ", ") + ")", nil
}

// pythonString quotes ASCII as Go and Python both read it; everything else by its code point.
func pythonString(s string) string {
	q := strconv.QuoteToASCII(s)
	return strings.ReplaceAll(q, `#`, `\x23`)
}
