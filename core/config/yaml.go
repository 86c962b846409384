package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/launch-ml/launch/core/file"
)

// Bounds on what is taken for a recipe. They are far above any real one and keep a hostile file from costing time.
const (
	maxText   = 4 << 20
	maxDepth  = 128       // PyYAML itself gives up at about 300
	maxValues = 500_000   // after every alias is followed and every merge key copied
	maxTOML   = 128 << 10 // the toml package takes a time quadratic in the keys of a table: about a second here
)

// YAML is a YAML file. The yaml package is used to find values, never to write them, and its idea of their types is
// not used: see [resolve11]. Of a stream of documents the first is read and edited.
type YAML struct {
	text    []byte
	docs    []*yaml.Node
	lines   []int // offset of each line
	aliased map[*yaml.Node]bool
	root    Value
	json    bool // keys that are added are written as JSON
}

// ParseYAML reads a YAML file whose root is a mapping.
func ParseYAML(text []byte) (*YAML, error) {
	if d, ok := read.get(text); ok {
		return d, nil
	}
	d, err := readText(text)
	if err == nil {
		read.put(d)
	}
	return d, err
}

// read remembers what texts say. Every edit is proven by reading the file again, and a ladder tries much the same edits
// for each of its rungs, so the same text is read many times over.
var read memory

// A memory is of some texts, of which a YAML says all: nothing that it points to is ever changed.
type memory struct {
	mu   sync.Mutex
	docs map[string]YAML
	size int
}

// maxMemory is how many bytes of text are remembered before all are forgotten.
const maxMemory = 1 << 20

func (m *memory) get(text []byte) (*YAML, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, ok := m.docs[string(text)]
	return &d, ok
}

func (m *memory) put(d *YAML) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.size += len(d.text); m.docs == nil || m.size > maxMemory {
		m.docs, m.size = map[string]YAML{}, len(d.text)
	}
	m.docs[string(d.text)] = *d
}

// readText reads it anew.
func readText(text []byte) (*YAML, error) {
	if len(text) > maxText {
		return nil, &file.Unread{Why: fmt.Sprintf("%d bytes long: too large for a recipe", len(text))}
	}
	if err := isText(text); err != nil {
		return nil, err
	}
	docs, err := parseNodes(text)
	if err != nil {
		return nil, err
	}
	if len(docs) == 0 || len(docs[0].Content) == 0 {
		return nil, errors.New("empty: there are no settings in it")
	}
	d := &YAML{text: slices.Clone(text), docs: docs, lines: lineStarts(text), aliased: map[*yaml.Node]bool{}}
	r := yamlReader{YAML: d, memo: map[*yaml.Node]Value{}, open: map[*yaml.Node]bool{}, size: map[*yaml.Node]int{}}
	root, _, err := r.read(docs[0].Content[0], 0)
	if err != nil {
		return nil, err
	}
	if root.Kind() != Map {
		return nil, fmt.Errorf("line %d: the document is %s, not a mapping of settings", root.Line(), root.Kind())
	}
	d.root = root
	return d, nil
}

func isText(text []byte) error {
	if bytes.HasPrefix(text, []byte("\xFF\xFE")) || bytes.HasPrefix(text, []byte("\xFE\xFF")) {
		return &file.Unread{Why: "UTF-16 text: only UTF-8 is read"}
	}
	if i := bytes.IndexByte(text, 0); i >= 0 {
		return fmt.Errorf("line %d: a zero byte: this is no text file", 1+bytes.Count(text[:i], []byte("\n")))
	}
	if utf8.Valid(text) {
		return nil
	}
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && n == 1 {
			return &file.Unread{Why: fmt.Sprintf("line %d: not UTF-8 text (byte 0x%02x)", 1+bytes.Count(text[:i], []byte("\n")), text[i])}
		}
		i += n
	}
	return nil
}

// parseNodes reads every document of a stream.
func parseNodes(text []byte) (docs []*yaml.Node, err error) {
	// The yaml package keeps its promise to return errors, so far; a panic of its own must not cost a training run.
	defer func() {
		if p := recover(); p != nil {
			docs, err = nil, fmt.Errorf("not readable as YAML: %v", p)
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader(text))
	for {
		n := new(yaml.Node)
		switch err := dec.Decode(n); {
		case err == io.EOF:
			return docs, nil
		case err != nil:
			return nil, yamlError(err)
		}
		docs = append(docs, n)
	}
}

func yamlError(err error) error {
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	if !strings.HasPrefix(msg, "line ") {
		msg = "line 1: " + msg // the package leaves out the number of the first line
	}
	return fmt.Errorf("not valid YAML: %s", msg)
}

// yamlReader makes values of nodes. Aliases share their values, so a bomb of aliases is small; size counts what it
// would be to a program that walks it.
type yamlReader struct {
	*YAML
	memo map[*yaml.Node]Value
	size map[*yaml.Node]int
	open map[*yaml.Node]bool
}

func (r *yamlReader) read(n *yaml.Node, depth int) (Value, int, error) {
	if depth > maxDepth {
		return Value{}, 0, fmt.Errorf("line %d: nested more than %d deep", n.Line, maxDepth)
	}
	if n.Kind == yaml.AliasNode {
		t := n.Alias
		r.aliased[t] = true
		if r.open[t] {
			return Value{}, 0, fmt.Errorf("line %d: *%s stands inside what it refers to", n.Line, n.Value)
		}
		if v, ok := r.memo[t]; ok {
			return v, r.size[t], nil
		}
		return r.read(t, depth+1)
	}
	v := &value{line: n.Line}
	size := 1
	var err error
	switch n.Kind {
	case yaml.ScalarNode:
		*v = r.scalar(n)
	case yaml.SequenceNode:
		v.kind = Seq
		size, err = r.seq(v, n, depth)
	case yaml.MappingNode:
		v.kind = Map
		size, err = r.mapping(v, n, depth)
	default:
		err = fmt.Errorf("line %d: not understood", n.Line)
	}
	if err == nil && size > maxValues {
		err = fmt.Errorf("line %d: more than %d values, with aliases and merge keys followed", n.Line, maxValues)
	}
	if err != nil {
		return Value{}, 0, err
	}
	if n.Style&yaml.TaggedStyle != 0 && (v.kind == Seq && n.Tag != "!!seq" || v.kind == Map && n.Tag != "!!map") {
		v.kind, v.text = Opaque, n.Tag
	}
	if n.Anchor != "" {
		r.memo[n], r.size[n] = Value{v}, size
	}
	return Value{v}, size, nil
}

func (r *yamlReader) seq(v *value, n *yaml.Node, depth int) (size int, err error) {
	r.open[n] = true
	defer delete(r.open, n)
	size = 1
	for _, c := range n.Content {
		item, s, err := r.read(c, depth+1)
		if err != nil {
			return 0, err
		}
		v.items = append(v.items, item)
		size += s
	}
	return size, nil
}

func (r *yamlReader) mapping(v *value, n *yaml.Node, depth int) (size int, err error) {
	r.open[n] = true
	defer delete(r.open, n)
	size = 1
	for i := 0; i+1 < len(n.Content); i += 2 { // PyYAML puts what is merged before the mapping's own keys
		if n.Content[i].Tag != mergeTag {
			continue
		}
		from, s, err := r.read(n.Content[i+1], depth+1)
		if err != nil {
			return 0, err
		}
		size += s
		if size > maxValues {
			return size, nil
		}
		sources := []Value{from}
		if from.Kind() == Seq { // of several the first wins
			sources = slices.Clone(from.items)
			slices.Reverse(sources)
		}
		for _, m := range sources {
			if m.Kind() != Map {
				return 0, fmt.Errorf("line %d: << wants a mapping, not %s", n.Content[i].Line, m.Kind())
			}
			for id, at := range m.ordered() {
				v.put(id, m.keys[at], m.items[at])
			}
		}
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if k.Tag == mergeTag {
			continue
		}
		item, s, err := r.read(n.Content[i+1], depth+1)
		if err != nil {
			return 0, err
		}
		size += s + 1
		var key value
		if k.Kind == yaml.ScalarNode && k.Anchor == "" { // nearly every key
			key = r.scalar(k)
		} else {
			other, ks, err := r.read(k, depth+1)
			if err != nil {
				return 0, err
			}
			key = *other.value
			size += ks
		}
		switch key.kind {
		case String:
			v.put(key.text, key.text, item)
		case Seq, Map: // not a key that Python could use, nor one that a path could name
		default:
			v.put(otherKey+key.text, key.text, item)
		}
	}
	return size, nil
}

const mergeTag = "!!merge"

// scalar resolves a scalar as PyYAML does.
func (r *YAML) scalar(n *yaml.Node) (v value) {
	defer func() {
		v.line = n.Line
		if v.text == "" {
			v.text = n.Value
		}
	}()
	if n.Style&yaml.TaggedStyle != 0 {
		return tagged(n.Tag, n.Value)
	}
	plain := n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0
	if !plain && !r.bang(n) || n.Value == "" && r.bang(n) {
		return value{kind: String, text: n.Value}
	}
	v, _ = resolve11(n.Value)
	return v
}

// bang reports whether a scalar has the tag "!", which makes PyYAML read a quoted one as if it were plain and an empty
// one as a string, and which the yaml package drops.
func (r *YAML) bang(n *yaml.Node) bool {
	o, ok := r.offset(n)
	return ok && o+1 < len(r.text) && r.text[o] == '!' && strings.IndexByte(" \t\r\n", r.text[o+1]) >= 0
}

// tagged reads a scalar that has an explicit tag.
func tagged(tag, s string) value {
	switch tag {
	case "!!str":
		return value{kind: String, text: s}
	case "!!int":
		return int11(s)
	case "!!float":
		return float11(s)
	case "!!bool":
		return bool11(s)
	case "!!null":
		return value{kind: Null, text: s}
	}
	return value{kind: Opaque, text: s}
}

// Root implements [Tree].
func (d *YAML) Root() Value { return d.root }

// Lookup follows keys and indices from the root.
func (d *YAML) Lookup(path ...string) Value { return d.root.Lookup(path...) }

// Keys returns the keys of the mapping at path, in order.
func (d *YAML) Keys(path ...string) []string { return d.root.Lookup(path...).Keys() }

// Documents returns how many documents the stream has. PyYAML's load refuses more than one.
func (d *YAML) Documents() int { return len(d.docs) }

// Text implements [Tree] by [YAMLText].
func (d *YAML) Text(v any) (string, error) { return YAMLText(v) }

// Bytes implements [Document].
func (d *YAML) Bytes() []byte { return slices.Clone(d.text) }

// Get implements [Document]. The value may be reached through aliases and merge keys. A block collection and a block
// scalar have no text.
func (d *YAML) Get(path string) (string, bool) {
	n := d.docs[0].Content[0]
	for _, key := range SplitPath(path) {
		if n = child(deref(n), key, true); n == nil {
			return "", false
		}
	}
	s, err := d.span(deref(n))
	if err != nil {
		return "", false
	}
	return string(d.text[s.start:s.end]), true
}

func deref(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// child returns the value that PyYAML would take for a key or an index, with or without what merge keys bring in.
func child(n *yaml.Node, key string, merged bool) *yaml.Node {
	switch n.Kind {
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(key); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i]
		}
	case yaml.MappingNode:
		if i := pair(n, key); i >= 0 {
			return n.Content[i+1]
		}
		for i := len(n.Content) - 2; merged && i >= 0; i -= 2 { // of several << the last wins
			if n.Content[i].Tag != mergeTag {
				continue
			}
			from := deref(n.Content[i+1])
			sources := []*yaml.Node{from}
			if from.Kind == yaml.SequenceNode {
				sources = from.Content
			}
			for _, s := range sources {
				if c := child(deref(s), key, true); deref(s).Kind == yaml.MappingNode && c != nil {
					return c
				}
			}
		}
	}
	return nil
}

// pair returns where in a mapping's content a key of its own stands: the last of that name, and a string before
// anything else that is spelled so.
func pair(n *yaml.Node, key string) int {
	other := -1
	for i := len(n.Content) - 2; i >= 0; i -= 2 {
		k := deref(n.Content[i])
		if k.Kind != yaml.ScalarNode || k.Value != key || k.Tag == mergeTag {
			continue
		}
		if k.Style == 0 {
			if v, _ := resolve11(k.Value); v.kind != String {
				other = max(other, i)
				continue
			}
		}
		return i
	}
	return other
}

var _ Tree = (*YAML)(nil)
