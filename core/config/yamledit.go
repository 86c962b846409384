package config

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Set implements [Document]. Text is one scalar, or one flow collection, that YAML 1.1 and 1.2 read alike. An absent
// path is added after the last key of the mapping that it belongs to, and mappings missing on the way are made.
//
// It refuses to change a value that is shared by an anchor or inherited by a merge key, because the edit would change it
// elsewhere too; a block of text or a block collection; and a value whose explicit tag does not allow the text.
func (d *YAML) Set(path, text string) error {
	if err := d.set(SplitPath(path), text); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func (d *YAML) set(keys []string, text string) error {
	if len(keys) == 0 {
		return errors.New("the whole document cannot be replaced")
	}
	want, err := oneValue(text)
	if err != nil {
		return err
	}
	var up *yaml.Node // the node's parent
	n := d.docs[0].Content[0]
	for i, key := range keys {
		if err := d.own(n); err != nil {
			return err
		}
		next := child(n, key, false)
		switch {
		case next != nil:
			up, n = n, next
			continue
		case n.Kind == yaml.MappingNode && child(n, key, true) != nil:
			return fmt.Errorf("line %d: %s is inherited through <<, and other mappings may share it", n.Line, key)
		case n.Kind == yaml.SequenceNode:
			return fmt.Errorf("line %d: the sequence has no item %s", n.Line, key)
		}
		return d.add(up, n, keys, keys[i:], text)
	}
	if err := d.own(n); err != nil {
		return err
	}
	return d.replace(n, keys, text, want)
}

// own refuses a node that an alias elsewhere refers to, or that is itself an alias.
func (d *YAML) own(n *yaml.Node) error {
	switch {
	case n.Kind == yaml.AliasNode:
		return fmt.Errorf("line %d: the value is the alias *%s, and an edit would change it elsewhere too", n.Line, n.Value)
	case d.aliased[n]:
		return fmt.Errorf("line %d: &%s is used elsewhere too, and an edit would change it there", n.Line, n.Anchor)
	}
	return nil
}

// oneValue reads the text of an edit.
func oneValue(text string) (*yaml.Node, error) {
	bad := func(why string) error { return fmt.Errorf("%q cannot be set: %s", text, why) }
	if strings.ContainsAny(text, "\r\n\u0085\u2028\u2029") {
		return nil, bad("it is more than one line")
	}
	if err := isText([]byte(text)); err != nil {
		return nil, bad(err.Error())
	}
	docs, err := parseNodes([]byte(text))
	if err != nil {
		return nil, bad(err.Error())
	}
	if len(docs) != 1 || len(docs[0].Content) != 1 {
		return nil, bad("it is not one value")
	}
	n := docs[0].Content[0]
	alone := &YAML{text: []byte(text), lines: []int{0}}
	if s, err := alone.span(n); err != nil || s != (span{0, len(text)}) || len(comments(docs)) > 0 {
		return nil, bad("it is not one plain or quoted value, or one flow collection")
	}
	return n, unambiguous(n)
}

// unambiguous refuses a plain scalar that readers of YAML 1.1 and 1.2 read differently, anywhere in n.
func unambiguous(n *yaml.Node) error {
	if n.Kind == yaml.AliasNode || n.Anchor != "" || n.Style&yaml.TaggedStyle != 0 {
		return fmt.Errorf("%q cannot be set: tags, anchors and aliases are not written", n.Value)
	}
	if n.Kind == yaml.ScalarNode && n.Style == 0 && !agreed(n.Value) {
		a, _ := resolve11(n.Value)
		b := resolve12(n.Value)
		hint := ""
		if b.kind == Float || b.kind == Int {
			hint = ", write " + floatText(b.f) + " for the number"
		}
		return fmt.Errorf("%q cannot be set: it is %v to YAML 1.1 and %v to YAML 1.2%s", n.Value, a.kind, b.kind, hint)
	}
	for _, c := range n.Content {
		if err := unambiguous(c); err != nil {
			return err
		}
	}
	return nil
}

// fits refuses text that the value's explicit tag does not allow.
func fits(n, want *yaml.Node) error {
	if n.Style&yaml.TaggedStyle == 0 {
		return nil
	}
	ok := n.Kind == yaml.ScalarNode && want.Kind == yaml.ScalarNode
	if ok {
		plain := value{kind: String}
		if want.Style == 0 {
			plain, _ = resolve11(want.Value)
		}
		switch n.Tag {
		case "!!str":
			ok = plain.kind == String
		case "!!null":
			ok = plain.kind == Null
		case "!!int", "!!float", "!!bool":
			ok = tagged(n.Tag, want.Value).kind != Opaque
		default:
			ok = false
		}
	}
	if !ok {
		return fmt.Errorf("line %d: the new value %s conflicts with the YAML tag %s of the old one", n.Line, want.Value, n.Tag)
	}
	return nil
}

func (d *YAML) replace(n *yaml.Node, keys []string, text string, want *yaml.Node) error {
	s, err := d.span(n)
	if err != nil {
		return err
	}
	if string(d.text[s.start:s.end]) == text {
		return nil
	}
	if err := fits(n, want); err != nil {
		return err
	}
	if n.Kind != yaml.ScalarNode && len(comments(n.Content)) > 0 {
		return fmt.Errorf("line %d: there are comments inside the value, which would be lost", n.Line)
	}
	if err := d.sharedBelow(n); err != nil {
		return err
	}
	return d.splice(s, d.spaced(s, text), keys, change{target: n, text: text})
}

// sharedBelow refuses to replace a collection that aliases elsewhere reach into.
func (d *YAML) sharedBelow(n *yaml.Node) error {
	for _, c := range n.Content {
		if c.Kind == yaml.AliasNode {
			continue
		}
		if err := d.own(c); err != nil {
			return err
		}
		if err := d.sharedBelow(c); err != nil {
			return err
		}
	}
	return nil
}

// spaced puts a blank before text that fills an empty value: "key:".
func (d *YAML) spaced(s span, text string) string {
	if s.start == s.end && s.start > 0 && !d.isSpace(s.start-1) {
		return " " + text
	}
	return text
}

// add puts the keys of rest, none of which exists yet, into n: a mapping, or a null where a mapping would be.
func (d *YAML) add(up, n *yaml.Node, keys, rest []string, text string) error {
	how := change{target: n, add: true, text: text}
	switch {
	case n.Kind == yaml.ScalarNode:
		return d.addToNull(up, n, keys, rest, how)
	case n.Kind != yaml.MappingNode:
		return fmt.Errorf("line %d: %v has no keys", n.Line, nodeKind(n))
	case n.Style&yaml.FlowStyle != 0:
		return d.addToFlow(n, keys, rest, how)
	}
	end, err := d.end(n, 0)
	if err != nil {
		return err
	}
	return d.addLines(n, end, column(n), keys, rest, how)
}

// addToNull puts a mapping with the keys in place of a null: "key:".
func (d *YAML) addToNull(up, n *yaml.Node, keys, rest []string, how change) error {
	if d.scalar(n).kind != Null {
		return fmt.Errorf("line %d: %s stands where a mapping with the key %s would be", n.Line, n.Value, rest[0])
	}
	if n.Anchor != "" || n.Style&yaml.TaggedStyle != 0 {
		return fmt.Errorf("line %d: the empty value has a tag or an anchor", n.Line)
	}
	s, err := d.span(n)
	if err != nil {
		return err
	}
	if s.start < s.end || up == nil || up.Kind != yaml.MappingNode || up.Style&yaml.FlowStyle != 0 {
		return d.splice(s, d.spaced(s, "{"+d.flowText(rest, how.text)+"}"), keys, how)
	}
	return d.addLines(n, s.end, column(up)+d.step(), keys, rest, how)
}

// addLines puts the keys on lines of their own, below the line that end is in.
func (d *YAML) addLines(n *yaml.Node, end, indent int, keys, rest []string, how change) error {
	at, nl, err := d.lineAfter(n, end, indent)
	if err != nil {
		return err
	}
	var lines strings.Builder
	for i, k := range rest {
		lines.WriteString(nl + strings.Repeat(" ", indent+i*d.step()) + d.keyText(k) + ":")
	}
	return d.splice(span{at, at}, lines.String()+" "+how.text, keys, how)
}

// addToFlow puts the keys after the last one of {…}.
func (d *YAML) addToFlow(n *yaml.Node, keys, rest []string, how change) error {
	o, err := d.body(n)
	if err != nil || o >= len(d.text) || d.text[o] != '{' {
		return d.lost(n)
	}
	flow := d.flowText(rest, how.text)
	if len(n.Content) == 0 {
		return d.splice(span{o + 1, o + 1}, flow, keys, how)
	}
	end, err := d.end(n.Content[len(n.Content)-1], 0)
	if err != nil {
		return err
	}
	return d.splice(span{end, end}, ", "+flow, keys, how)
}

// flowText nests the keys, as within {…}: "a: {b: text}".
func (d *YAML) flowText(keys []string, text string) string {
	var b strings.Builder
	for i, k := range keys {
		if i > 0 {
			b.WriteByte('{')
		}
		b.WriteString(d.keyText(k) + ": ")
	}
	return b.String() + text + strings.Repeat("}", len(keys)-1)
}

// keyText writes a key as YAML.
func (d *YAML) keyText(key string) string {
	if d.json {
		return jsonText(key)
	}
	t, err := YAMLText(key)
	if err != nil {
		return key // which reading it again will refuse
	}
	return t
}

// lineAfter returns where lines of this indent can be inserted below the one that end is in, and how lines end there. It
// skips comments that are indented deeper: they belong to what is above.
func (d *YAML) lineAfter(n *yaml.Node, end, indent int) (at int, nl string, err error) {
	at = d.lineEnd(end)
	if left := bytes.TrimLeft(d.text[end:at], " \t"); len(left) > 0 && left[0] != '#' {
		return 0, "", fmt.Errorf("line %d: %q stands behind the value", n.Line, left)
	}
	for i := at + breakAt(d.text, at); i > at && i < len(d.text); {
		eol := d.lineEnd(i)
		left := bytes.TrimLeft(d.text[i:eol], " ")
		if len(left) > 0 && (left[0] != '#' || eol-i-len(left) <= indent) {
			break
		}
		if len(left) > 0 {
			at = eol
		}
		if eol == len(d.text) {
			break
		}
		i = eol + breakAt(d.text, eol)
	}
	nl = "\n"
	if first := d.lineEnd(0); first < len(d.text) {
		nl = string(d.text[first : first+breakAt(d.text, first)])
	}
	if at < len(d.text) {
		nl = string(d.text[at : at+breakAt(d.text, at)])
	}
	return at, nl, nil
}

// step returns by how many columns the document indents.
func (d *YAML) step() int {
	const usual = 2
	root := d.docs[0].Content[0]
	if root.Style&yaml.FlowStyle != 0 {
		return usual
	}
	for _, c := range root.Content {
		if c.Kind == yaml.MappingNode && c.Style&yaml.FlowStyle == 0 && len(c.Content) > 0 && column(c) > column(root) {
			return column(c) - column(root)
		}
	}
	return usual
}

// A change is what an edit is allowed to do to the tree.
type change struct {
	target *yaml.Node
	add    bool // the target gets one more key; otherwise it becomes text
	text   string
}

// splice replaces s by ins, and keeps the result if nothing differs in it except the change.
func (d *YAML) splice(s span, ins string, keys []string, c change) error {
	out := slices.Concat(d.text[:s.start], []byte(ins), d.text[s.end:])
	edited, err := ParseYAML(out)
	if err != nil {
		return fmt.Errorf("line %d: the edit cannot be placed: %w", c.target.Line, err)
	}
	moved := fmt.Errorf("line %d: the edit cannot be placed without changing something else", c.target.Line)
	if len(edited.docs) != len(d.docs) {
		return moved
	}
	for i := range d.docs {
		if !c.equal(d.docs[i], edited.docs[i]) {
			return moved
		}
	}
	// Where a line is added the yaml package may give comments to other keys, and lose some. They are safe all the
	// same: the line stands between lines, and no scalar has become longer.
	if !c.add && !slices.Equal(comments(d.docs), comments(edited.docs)) {
		return moved
	}
	want, err := ParseYAML([]byte("{k: " + tagOf(c) + c.text + "}"))
	if err != nil || !same(want.root.Get("k"), edited.root.Lookup(keys...)) {
		return moved
	}
	*d = *edited
	return nil
}

func tagOf(c change) string {
	if !c.add && c.target.Style&yaml.TaggedStyle != 0 {
		return c.target.Tag + " "
	}
	return ""
}

// equal compares the trees before and after, except for the change itself.
func (c change) equal(a, b *yaml.Node) bool {
	grown := len(a.Content)
	switch {
	case a == c.target && !c.add:
		return a.Anchor == b.Anchor && a.Style&yaml.TaggedStyle == b.Style&yaml.TaggedStyle
	case a == c.target && a.Kind == yaml.ScalarNode:
		return b.Kind == yaml.MappingNode && len(b.Content) == 2
	case a == c.target:
		grown += 2
	}
	if a.Kind != b.Kind || a.Value != b.Value || a.Tag != b.Tag || a.Anchor != b.Anchor || a.Style != b.Style ||
		len(b.Content) != grown {
		return false
	}
	for i := range a.Content {
		if !c.equal(a.Content[i], b.Content[i]) {
			return false
		}
	}
	return true
}

// comments returns all lines of comment, sorted: an edit may move one from a key to its value, in the yaml package's
// idea of whom it belongs to, but none may come, go or change.
func comments(nodes []*yaml.Node) []string {
	var all []string
	var walk func(nodes []*yaml.Node)
	walk = func(nodes []*yaml.Node) {
		for _, n := range nodes {
			for _, c := range [...]string{n.HeadComment, n.LineComment, n.FootComment} {
				if c != "" {
					all = append(all, strings.Fields(c)...)
				}
			}
			walk(n.Content)
		}
	}
	walk(nodes)
	slices.Sort(all)
	return all
}
