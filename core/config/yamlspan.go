package config

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

type span struct{ start, end int }

const (
	quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle
	block  = yaml.LiteralStyle | yaml.FoldedStyle
)

// lineStarts returns the offset of each line by libyaml's idea of a line break: CR LF, LF, CR, NEL, LS, PS.
func lineStarts(text []byte) []int {
	starts := make([]int, 1, 1+bytes.Count(text, []byte("\n")))
	for i := 0; i < len(text); {
		if n := breakAt(text, i); n > 0 {
			i += n
			starts = append(starts, i)
			continue
		}
		i++
	}
	return starts
}

// breakAt returns the length of the line break at i, or 0.
func breakAt(text []byte, i int) int {
	if i >= len(text) {
		return 0
	}
	switch text[i] {
	case '\n':
		return 1
	case '\r':
		if i+1 < len(text) && text[i+1] == '\n' {
			return 2
		}
		return 1
	case 0xC2:
		if i+1 < len(text) && text[i+1] == 0x85 {
			return 2
		}
	case 0xE2:
		if i+2 < len(text) && text[i+1] == 0x80 && (text[i+2] == 0xA8 || text[i+2] == 0xA9) {
			return 3
		}
	}
	return 0
}

var bom = []byte("\xEF\xBB\xBF")

// offset returns where a node begins, its tag and anchor included. The yaml package counts columns in characters and
// leaves out a byte-order mark.
func (d *YAML) offset(n *yaml.Node) (int, bool) {
	if n.Line < 1 || n.Line > len(d.lines) {
		return 0, false
	}
	o := d.lines[n.Line-1]
	if o == 0 && bytes.HasPrefix(d.text, bom) {
		o = len(bom)
	}
	for range n.Column - 1 {
		if o >= len(d.text) {
			return 0, false
		}
		if d.text[o] < utf8.RuneSelf {
			o++
			continue
		}
		_, w := utf8.DecodeRune(d.text[o:])
		o += w
	}
	return o, true
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

func (d *YAML) isSpace(i int) bool {
	return i < len(d.text) && (isBlank(d.text[i]) || breakAt(d.text, i) > 0)
}

// skipSpace skips white space, line breaks and comments.
func (d *YAML) skipSpace(i int) int {
	for i < len(d.text) {
		switch {
		case isBlank(d.text[i]):
			i++
		case breakAt(d.text, i) > 0:
			i += breakAt(d.text, i)
		case d.text[i] == '#' && (i == 0 || d.isSpace(i-1)):
			i = d.lineEnd(i)
		default:
			return i
		}
	}
	return i
}

// lineEnd returns where the line of i ends, before its break.
func (d *YAML) lineEnd(i int) int {
	for i < len(d.text) && breakAt(d.text, i) == 0 {
		i++
	}
	return i
}

// body returns where a node's text begins after its tag and anchor.
func (d *YAML) body(n *yaml.Node) (int, error) {
	o, ok := d.offset(n)
	if !ok {
		return 0, d.lost(n)
	}
	empty := n.Kind == yaml.ScalarNode && n.Value == "" && n.Style&(quoted|block) == 0
	for o < len(d.text) && (d.text[o] == '!' || d.text[o] == '&') {
		for o < len(d.text) && !d.isSpace(o) && !(empty && bytes.IndexByte([]byte(",]}"), d.text[o]) >= 0) {
			o++
		}
		next := d.skipSpace(o)
		if empty && (next >= len(d.text) || d.text[next] != '!' && d.text[next] != '&' || d.lineEnd(o) < next) {
			break // no value: what comes next is somebody else's
		}
		o = next
	}
	return o, nil
}

func (d *YAML) lost(n *yaml.Node) error {
	return fmt.Errorf("line %d: the bytes of this value cannot be told for certain", n.Line)
}

// span returns the bytes of a scalar or of a flow collection, without its tag and anchor.
func (d *YAML) span(n *yaml.Node) (span, error) {
	switch {
	case n.Kind == yaml.AliasNode:
		return span{}, fmt.Errorf("line %d: the value is the alias *%s", n.Line, n.Value)
	case n.Kind == yaml.ScalarNode && n.Style&block != 0:
		return span{}, fmt.Errorf("line %d: the value is a block of text", n.Line)
	case n.Kind != yaml.ScalarNode && n.Style&yaml.FlowStyle == 0:
		return span{}, fmt.Errorf("line %d: the value is %s over several lines", n.Line, nodeKind(n))
	}
	start, err := d.body(n)
	if err != nil {
		return span{}, err
	}
	end, err := d.end(n, 0)
	if err != nil || end < start {
		return span{}, d.lost(n)
	}
	return span{start, end}, nil
}

func nodeKind(n *yaml.Node) Kind {
	switch n.Kind {
	case yaml.SequenceNode:
		return Seq
	case yaml.MappingNode:
		return Map
	}
	return String
}

// end returns where a node's text ends. indent is the column, from 0, of the block collection that the node is in:
// what is not indented deeper does not belong to it.
func (d *YAML) end(n *yaml.Node, indent int) (int, error) {
	o, err := d.body(n)
	if err != nil {
		return 0, err
	}
	switch {
	case n.Kind == yaml.AliasNode:
		for o < len(d.text) && !d.isSpace(o) && bytes.IndexByte([]byte(",]}"), d.text[o]) < 0 {
			o++
		}
		return o, nil
	case n.Kind == yaml.ScalarNode:
		return d.scalarEnd(n, o, indent)
	case n.Style&yaml.FlowStyle != 0:
		return d.flowEnd(n, o)
	case len(n.Content) == 0:
		return 0, d.lost(n)
	}
	indent = n.Column - 1
	if n.Kind == yaml.MappingNode {
		indent = column(n)
	}
	return d.end(n.Content[len(n.Content)-1], indent)
}

// column returns the column, from 0, that a block mapping's keys stand at. The node's own column is that of its tag or
// anchor, where it has one.
func column(n *yaml.Node) int { return n.Content[0].Column - 1 }

func (d *YAML) flowEnd(n *yaml.Node, o int) (int, error) {
	if o >= len(d.text) {
		return 0, d.lost(n)
	}
	closing := map[byte]byte{'[': ']', '{': '}'}[d.text[o]]
	if len(n.Content) > 0 {
		end, err := d.end(n.Content[len(n.Content)-1], 0)
		if err != nil || closing == 0 { // the one pair of [a: 1] is a mapping without braces
			return end, err
		}
		o = end
	} else {
		o++
	}
	for o = d.skipSpace(o); o < len(d.text) && d.text[o] == ','; o = d.skipSpace(o) {
		o++
	}
	if closing == 0 || o >= len(d.text) || d.text[o] != closing {
		return 0, d.lost(n)
	}
	return o + 1, nil
}

func (d *YAML) scalarEnd(n *yaml.Node, o, indent int) (int, error) {
	switch {
	case n.Style&block != 0:
		return d.blockEnd(o, indent), nil
	case n.Style&quoted == 0:
		return d.plainEnd(n, o)
	}
	q := byte('\'')
	if n.Style&yaml.DoubleQuotedStyle != 0 {
		q = '"'
	}
	if o >= len(d.text) || d.text[o] != q {
		return 0, d.lost(n)
	}
	for i := o + 1; i < len(d.text); i++ {
		switch {
		case q == '"' && d.text[i] == '\\':
			i++
		case d.text[i] != q:
		case q == '\'' && i+1 < len(d.text) && d.text[i+1] == q:
			i++
		default:
			return i + 1, nil
		}
	}
	return 0, d.lost(n)
}

// plainEnd follows the value through the text: a plain scalar has no end of its own, and over several lines it is
// folded.
func (d *YAML) plainEnd(n *yaml.Node, o int) (int, error) {
	for v := n.Value; v != ""; {
		if !d.isSpace(o) {
			if o >= len(d.text) || d.text[o] != v[0] {
				return 0, d.lost(n)
			}
			o, v = o+1, v[1:]
			continue
		}
		end, breaks := o, 0
		for d.isSpace(end) {
			if w := breakAt(d.text, end); w > 0 {
				breaks++
				end += w
			} else {
				end++
			}
		}
		var folded int
		switch breaks {
		case 0: // blanks inside a line are kept
			if !bytes.HasPrefix([]byte(v), d.text[o:end]) {
				return 0, d.lost(n)
			}
			folded = end - o
		case 1:
			folded = 1
		default:
			folded = breaks - 1
		}
		if folded > len(v) {
			return 0, d.lost(n)
		}
		o, v = end, v[folded:]
	}
	return o, nil
}

// blockEnd returns the end of the last line of a literal or folded block that begins at o and belongs to a collection
// at column indent.
func (d *YAML) blockEnd(o, indent int) int {
	header := d.lineEnd(o)
	keep := bytes.IndexByte(d.text[o:min(header, o+3)], '+') >= 0
	end, inner := header, -1
	for i := header + breakAt(d.text, header); i < len(d.text); {
		eol := d.lineEnd(i)
		first := i
		for first < eol && d.text[first] == ' ' {
			first++
		}
		if first == eol {
			if keep && inner >= 0 {
				end = eol
			}
		} else {
			if inner < 0 {
				inner = max(indent+1, 1)
			}
			if first-i < inner {
				break
			}
			end = eol
		}
		if eol == len(d.text) {
			break
		}
		i = eol + breakAt(d.text, eol)
	}
	return end
}
