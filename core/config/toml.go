package config

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// TOML is a TOML file. The toml package's parser says where values stand; it never writes.
type TOML struct {
	text     []byte
	root     *table
	value    Value
	comments []string
}

// A table is a mapping and the places of its values and of what could be added to it.
type table struct {
	value *value
	subs  map[string]*table // tables that are not in an array
	spans map[string]span   // the text of values, by key
	items map[string]*array
	// Where lines can be put in and what their keys begin with, where the table has lines: behind the last one of a
	// table with a header, or of keys like a.b. For an inline table at is where ", k = v" goes.
	at     int
	prefix string
	kind   tableKind
	empty  bool // of an inline table
}

type tableKind uint8

const (
	implied tableKind = iota // by the header of a table below it
	lined                    // with a header, by dotted keys, or the root
	inline
)

// An array's items are values with spans, tables, or arrays.
type array struct {
	spans  []span // start == end where the text of an item is not known
	tables []*table
	arrays []*array
}

// ParseTOML reads a TOML file.
func ParseTOML(text []byte) (*TOML, error) {
	if len(text) > maxTOML {
		return nil, fmt.Errorf("%d bytes long: too large for a recipe", len(text))
	}
	if err := isText(text); err != nil {
		return nil, err
	}
	var check map[string]any // that it is valid, which the parser of single lines does not know
	if err := toml.Unmarshal(bytes.TrimPrefix(text, bom), &check); err != nil {
		var at *toml.DecodeError
		if errors.As(err, &at) {
			line, _ := at.Position()
			return nil, fmt.Errorf("not valid TOML: line %d: %s", line, strings.TrimPrefix(at.Error(), "toml: "))
		}
		return nil, fmt.Errorf("not valid TOML: %w", err)
	}
	if len(check) == 0 {
		return nil, errors.New("empty: there are no settings in it")
	}
	d := &TOML{text: slices.Clone(text)}
	if err := d.read(); err != nil {
		return nil, err
	}
	return d, nil
}

func newTable(kind tableKind, line int) *table {
	return &table{
		value: &value{kind: Map, line: line}, kind: kind,
		subs: map[string]*table{}, spans: map[string]span{}, items: map[string]*array{},
	}
}

type tomlReader struct {
	*TOML
	p     unstable.Parser
	shift int // the parser is not shown a byte-order mark
	line  int
	seen  int // offset up to which line is counted
}

func (d *TOML) read() error {
	r := &tomlReader{TOML: d, line: 1}
	if bytes.HasPrefix(d.text, bom) {
		r.shift = len(bom)
	}
	r.p.KeepComments = true
	r.p.Reset(d.text[r.shift:])
	d.root = newTable(lined, 1)
	d.root.at = -1 // nothing to stand behind yet
	section := d.root
	for r.p.NextExpression() {
		e := r.p.Expression()
		switch e.Kind {
		case unstable.Comment:
			d.comments = append(d.comments, string(e.Data))
		case unstable.KeyValue:
			if err := r.keyValue(section, e, 0); err != nil {
				return err
			}
		case unstable.Table, unstable.ArrayTable:
			var err error
			if section, err = r.header(e); err != nil {
				return err
			}
		}
		r.trailing(e)
	}
	d.value = Value{d.root.value}
	return r.p.Error()
}

// trailing keeps the comment behind an expression.
func (r *tomlReader) trailing(e *unstable.Node) {
	if e.Kind == unstable.Comment {
		return
	}
	for n := e.Next(); n != nil; n = n.Next() {
		if n.Kind == unstable.Comment {
			r.comments = append(r.comments, string(n.Data))
		}
	}
}

func (r *tomlReader) lineOf(offset int) int {
	if offset < r.seen {
		return 1 + bytes.Count(r.text[:offset], []byte("\n"))
	}
	r.line += bytes.Count(r.text[r.seen:offset], []byte("\n"))
	r.seen = offset
	return r.line
}

func (r *tomlReader) start(n *unstable.Node) int { return int(n.Raw.Offset) + r.shift }
func (r *tomlReader) stop(n *unstable.Node) int  { return r.start(n) + int(n.Raw.Length) }

func (r *tomlReader) keys(e *unstable.Node) (keys []string, first, last *unstable.Node) {
	for it := e.Key(); it.Next(); {
		n := it.Node()
		if n.Kind != unstable.Key {
			break
		}
		if first == nil {
			first = n
		}
		last = n
		keys = append(keys, string(n.Data))
	}
	return keys, first, last
}

// header opens [a.b] or [[a.b]].
func (r *tomlReader) header(e *unstable.Node) (*table, error) {
	keys, first, lastNode := r.keys(e)
	line := r.lineOf(r.start(first))
	if len(keys) > maxDepth {
		return nil, fmt.Errorf("line %d: nested more than %d deep", line, maxDepth)
	}
	t := r.root
	for _, k := range keys[:len(keys)-1] {
		t = t.sub(k, implied, line)
	}
	last := keys[len(keys)-1]
	var s *table
	if e.Kind == unstable.ArrayTable {
		a := t.items[last]
		if a == nil {
			a = &array{}
			t.items[last] = a
			t.value.put(last, last, Value{&value{kind: Seq, line: line}})
		}
		s = newTable(lined, line)
		a.tables = append(a.tables, s)
		list := t.value.items[t.value.index[last]].value
		list.items = append(list.items, Value{s.value})
	} else {
		s = t.sub(last, lined, line)
		s.kind, s.prefix = lined, ""
	}
	s.at = lineEnd(r.text, r.stop(lastNode))
	return s, nil
}

// sub returns the table at k, of an array its last, made if it is absent.
func (t *table) sub(k string, kind tableKind, line int) *table {
	if s := t.subs[k]; s != nil {
		return s
	}
	if a := t.items[k]; a != nil && len(a.tables) > 0 {
		return a.tables[len(a.tables)-1]
	}
	s := newTable(kind, line)
	t.subs[k] = s
	t.value.put(k, k, Value{s.value})
	return s
}

func (r *tomlReader) keyValue(section *table, e *unstable.Node, depth int) error {
	keys, first, lastKey := r.keys(e)
	line := r.lineOf(r.start(first))
	if depth += len(keys) - 1; depth > maxDepth {
		return fmt.Errorf("line %d: nested more than %d deep", line, maxDepth)
	}
	begin := r.stop(lastKey)
	begin += bytes.IndexByte(r.text[begin:], '=') + 1
	for begin < len(r.text) && isBlank(r.text[begin]) {
		begin++
	}
	end := r.stop(e)
	t, prefix := section, section.prefix
	at := lineEnd(r.text, end)
	if section.kind != inline {
		section.at = at
	}
	for _, k := range keys[:len(keys)-1] {
		t = t.sub(k, lined, line)
		prefix += tomlKey(k) + "."
		if section.kind == inline {
			t.kind, t.at, t.prefix = inline, end, prefix
		} else {
			t.kind, t.at, t.prefix = lined, at, prefix
		}
	}
	last := keys[len(keys)-1]
	v, sub, a, err := r.read1(e.Value(), line, depth)
	if err != nil {
		return err
	}
	t.value.put(last, last, v)
	t.spans[last] = span{begin, end}
	if sub != nil {
		t.subs[last] = sub
	}
	if a != nil {
		t.items[last] = a
	}
	return nil
}

// read1 reads a value.
func (r *tomlReader) read1(n *unstable.Node, line, depth int) (Value, *table, *array, error) {
	if depth > maxDepth {
		return Value{}, nil, nil, fmt.Errorf("line %d: nested more than %d deep", line, maxDepth)
	}
	switch n.Kind {
	case unstable.Array:
		v, a := &value{kind: Seq, line: line}, &array{}
		for it := n.Children(); it.Next(); {
			c := it.Node()
			if c.Kind == unstable.Comment {
				r.comments = append(r.comments, string(c.Data))
				r.moreComments(c)
				continue
			}
			var cs span // that of an array in an array is not known to the parser, and stays empty
			if c.Kind != unstable.Array && c.Kind != unstable.InlineTable {
				cs = span{r.start(c), r.stop(c)}
			}
			item, sub, inner, err := r.read1(c, line, depth+1)
			if err != nil {
				return Value{}, nil, nil, err
			}
			v.items = append(v.items, item)
			a.spans = append(a.spans, cs)
			a.tables = append(a.tables, sub)
			a.arrays = append(a.arrays, inner)
		}
		return Value{v}, nil, a, nil
	case unstable.InlineTable:
		t := newTable(inline, line)
		t.empty, t.at = true, r.start(n)+1
		for it := n.Children(); it.Next(); {
			c := it.Node()
			if c.Kind != unstable.KeyValue {
				r.comments = append(r.comments, string(c.Data))
				r.moreComments(c)
				continue
			}
			if err := r.keyValue(t, c, depth+1); err != nil {
				return Value{}, nil, nil, err
			}
			t.empty, t.at = false, r.stop(c)
		}
		return Value{t.value}, t, nil, nil
	}
	v := tomlScalar(n)
	v.line = line
	return Value{&v}, nil, nil, nil
}

func (r *tomlReader) moreComments(c *unstable.Node) {
	for it := c.Children(); it.Next(); {
		r.comments = append(r.comments, string(it.Node().Data))
	}
}

// tomlScalar reads a scalar as Python's tomllib does. Dates and times are strings here.
func tomlScalar(n *unstable.Node) value {
	s := string(n.Data)
	switch n.Kind {
	case unstable.Bool:
		return value{kind: Bool, text: s, b: s == "true"}
	case unstable.Integer:
		v := value{kind: Int, text: s}
		i, ok := new(big.Int).SetString(strings.ReplaceAll(strings.TrimPrefix(s, "+"), "_", ""), 0)
		if !ok || !i.IsInt64() {
			return value{kind: Opaque, text: s}
		}
		v.i = i.Int64()
		v.f = float64(v.i)
		return v
	case unstable.Float:
		v := value{kind: Float, text: s}
		t := strings.ReplaceAll(s, "_", "")
		if strings.HasSuffix(t, "nan") {
			v.f = math.NaN()
			return v
		}
		v.f, _ = strconv.ParseFloat(t, 64)
		return v
	}
	return value{kind: String, text: s}
}

func lineEnd(text []byte, i int) int {
	n := bytes.IndexByte(text[i:], '\n')
	if n < 0 {
		return len(text)
	}
	if n > 0 && text[i+n-1] == '\r' {
		n--
	}
	return i + n
}

// Root implements [Tree].
func (d *TOML) Root() Value { return d.value }

// Bytes implements [Document].
func (d *TOML) Bytes() []byte { return slices.Clone(d.text) }

// Text implements [Tree] by [TOMLText].
func (d *TOML) Text(v any) (string, error) { return TOMLText(v) }

var _ Tree = (*TOML)(nil)
