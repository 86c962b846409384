package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/launch-ml/launch/core/lazy"
)

// Get implements [Document]. A table with a header has no text.
func (d *TOML) Get(path string) (string, bool) {
	s, _, _ := d.find(SplitPath(path))
	if s.start == s.end {
		return "", false
	}
	return string(d.text[s.start:s.end]), true
}

// find returns the text of the value at keys. If it is absent, it returns the table that lacks it and the keys that
// are to be added there.
func (d *TOML) find(keys []string) (s span, lacks *table, rest []string) {
	t := d.root
	for i := 0; i < len(keys); i++ {
		k := keys[i]
		if !t.value.has(k) {
			return span{}, t, keys[i:]
		}
		s = t.spans[k]
		if i == len(keys)-1 {
			return s, nil, nil
		}
		if sub := t.subs[k]; sub != nil {
			t = sub
			continue
		}
		a := t.items[k]
		for t = nil; a != nil && i+1 < len(keys) && t == nil; {
			i++
			n, err := strconv.Atoi(keys[i])
			if err != nil || n < 0 || n >= max(len(a.tables), len(a.spans)) {
				return span{}, nil, nil
			}
			s, t = span{}, a.tables[n]
			if n < len(a.spans) {
				s = a.spans[n]
			}
			if t == nil && a.arrays[n] != nil {
				a = a.arrays[n]
				continue
			}
			a = nil
		}
		if t == nil {
			if i == len(keys)-1 {
				return s, nil, nil
			}
			return span{}, nil, nil
		}
		if i == len(keys)-1 {
			return span{}, nil, nil
		}
	}
	return span{}, nil, nil
}

func (v *value) has(key string) bool { _, ok := v.index[key]; return ok }

// Set implements [Document]. Text is one TOML value on one line. An absent key is added behind the last line of its
// table; a table that is missing is added at the end of the file, or where its parent is written inline or by dotted
// keys, in that form.
func (d *TOML) Set(path, text string) error {
	keys := SplitPath(path)
	if len(keys) == 0 {
		return errors.New("the whole document cannot be replaced")
	}
	want, err := ParseTOML([]byte("k = " + text))
	if err != nil || strings.ContainsAny(text, "\r\n") || len(want.comments) > 0 ||
		want.root.spans["k"] != (span{4, 4 + len(text)}) {
		return fmt.Errorf("%s: %q cannot be set: it is not one TOML value on one line", path, text)
	}
	s, lacks, rest := d.find(keys)
	switch {
	case s.start < s.end && string(d.text[s.start:s.end]) == text:
		return nil
	case s.start < s.end:
		v, was := d.value.Lookup(keys...), string(d.text[s.start:s.end])
		if (v.Kind() == Seq || v.Kind() == Map) && strings.ContainsAny(was, "#\n") {
			return fmt.Errorf("line %d: %s: the value has several lines or comments in it, which would be lost", v.Line(), path)
		}
	case lacks != nil:
		s, text = d.place(lacks, keys[:len(keys)-len(rest)], rest, text)
	default:
		if v := d.value.Lookup(keys...); v.Exists() {
			return fmt.Errorf("line %d: %s: %v that is not written as one value", v.Line(), path, v.Kind())
		}
		return fmt.Errorf("%s: what it would stand in is no table", path)
	}
	return d.splice(s, text, path, want.value.Get("k"))
}

// place returns where an absent key goes and the text that puts it there. over are the keys of the table t.
func (d *TOML) place(t *table, over, rest []string, text string) (span, string) {
	nl := "\n"
	if i := lineEnd(d.text, 0); i < len(d.text) && d.text[i] == '\r' {
		nl = "\r\n"
	}
	dotted := t.prefix + tomlKeys(rest) + " = " + text
	switch {
	case t.kind == inline && t.empty:
		return span{t.at, t.at}, " " + dotted + " "
	case t.kind == inline:
		return span{t.at, t.at}, ", " + dotted
	case t.kind == lined && t.at < 0: // the root without keys: before anything else
		at := 0
		if strings.HasPrefix(string(d.text), string(bom)) {
			at = len(bom)
		}
		if len(rest) == 1 {
			return span{at, at}, dotted + nl
		}
	case t.kind == lined && (len(rest) == 1 || t.prefix != "" || !d.plainHeaders(over)):
		return span{t.at, t.at}, nl + d.indent(t.at) + dotted
	}
	// a table of its own at the end, as such files are written
	header, last := slices.Concat(over, rest[:len(rest)-1]), rest[len(rest)-1]
	var b strings.Builder
	if len(d.text) > 0 && d.text[len(d.text)-1] != '\n' {
		b.WriteString(nl)
	}
	b.WriteString(nl + "[" + tomlKeys(header) + "]" + nl + tomlKey(last) + " = " + text + nl)
	return span{len(d.text), len(d.text)}, b.String()
}

// plainHeaders reports whether keys name tables by header only, with no array on the way.
func (d *TOML) plainHeaders(keys []string) bool {
	t := d.root
	for _, k := range keys {
		if t = t.subs[k]; t == nil || t.kind == inline || t.prefix != "" {
			return false
		}
	}
	return true
}

// indent returns what the line that ends at begins with.
func (d *TOML) indent(end int) string {
	start := strings.LastIndexByte(string(d.text[:end]), '\n') + 1
	line := string(d.text[start:end])
	return line[:len(line)-len(strings.TrimLeft(line, " \t"))]
}

// splice puts ins in the place of s and takes the result if nothing but the value at path is different in it.
func (d *TOML) splice(s span, ins, path string, want Value) error {
	moved := fmt.Errorf("%s: the edit cannot be placed without changing something else", path)
	edited, err := ParseTOML(slices.Concat(d.text[:s.start], []byte(ins), d.text[s.end:]))
	if err != nil {
		return fmt.Errorf("%s: the edit cannot be placed: %w", path, err)
	}
	keys := SplitPath(path)
	if !same(edited.value.Lookup(keys...), want) || !sameBut(d.value, edited.value, keys) {
		return moved
	}
	slices.Sort(d.comments)
	slices.Sort(edited.comments)
	if !slices.Equal(d.comments, edited.comments) {
		return moved
	}
	*d = *edited
	return nil
}

// sameBut compares two values but for what is at path, which a may lack.
func sameBut(a, b Value, path []string) bool {
	if len(path) == 0 {
		return true
	}
	if !a.Exists() { // a mapping that was made on the way
		return b.Kind() == Map && b.Len() == 1 && sameBut(Value{}, b.Get(path[0]), path[1:])
	}
	if a.Kind() != b.Kind() {
		return false
	}
	grown := a.Len()
	switch a.Kind() {
	case Seq:
		for i := range min(a.Len(), b.Len()) {
			if strconv.Itoa(i) == path[0] {
				if !sameBut(a.Index(i), b.Index(i), path[1:]) {
					return false
				}
			} else if !same(a.Index(i), b.Index(i)) {
				return false
			}
		}
	case Map:
		for _, k := range a.keys {
			if k != path[0] && !same(a.Get(k), b.Get(k)) {
				return false
			}
		}
		if !a.Get(path[0]).Exists() {
			grown++
		}
		if !b.Get(path[0]).Exists() || !sameBut(a.Get(path[0]), b.Get(path[0]), path[1:]) {
			return false
		}
	}
	return b.Len() == grown
}

var reBareKey = lazy.MustCompile(`^[A-Za-z0-9_-]+$`)

func tomlKey(k string) string {
	if reBareKey.MatchString(k) {
		return k
	}
	return quoteTOML(k)
}

func tomlKeys(keys []string) string {
	parts := make([]string, len(keys))
	for i, k := range keys {
		parts[i] = tomlKey(k)
	}
	return strings.Join(parts, ".")
}

func quoteTOML(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r == 0x7F:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// TOMLText spells a value in TOML: bool, int, int64, float64, string, or a slice of these. TOML has no null.
func TOMLText(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", errors.New("TOML has no null: leave the key out")
	case float64:
		switch {
		case math.IsInf(v, 1):
			return "inf", nil
		case math.IsInf(v, -1):
			return "-inf", nil
		case math.IsNaN(v):
			return "nan", nil
		}
		return floatText(v), nil
	case string:
		return quoteTOML(v), nil
	}
	return commonText(v, TOMLText)
}
