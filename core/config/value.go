package config

import (
	"iter"
	"slices"
	"strconv"
)

// A Kind says what a [Value] is to the program that reads it.
type Kind uint8

const (
	Absent Kind = iota // there is no such setting
	Null
	Bool
	Int
	Float
	String
	Seq
	Map
	Opaque // it is there, but only the program knows what it means: an unknown tag, or text that its tag cannot mean
)

var kindNames = [...]string{"absent", "null", "a bool", "an int", "a float", "a string", "a sequence", "a mapping", "opaque"}

func (k Kind) String() string { return kindNames[k] }

// A Value is a setting as the reading program sees it. The zero Value is absent, and everything looked up in an absent
// value or in a scalar is absent too, so that look-ups can be chained.
type Value struct{ *value }

type value struct {
	kind  Kind
	text  string // a scalar's spelling without quotes
	b     bool
	i     int64
	isBig bool // an int beyond int64: f has it, roughly
	f     float64
	items []Value
	keys  []string
	index map[string]int // by [value.keyID], into keys and items
	line  int
}

// Kind returns what the value is.
func (v Value) Kind() Kind {
	if v.value == nil {
		return Absent
	}
	return v.kind
}

// Exists reports whether the setting is there, be it null.
func (v Value) Exists() bool { return v.value != nil }

// IsNull reports whether the setting is there and null.
func (v Value) IsNull() bool { return v.Kind() == Null }

// Line returns the line of the file that the value begins on, counted from 1, or 0 if it is absent.
func (v Value) Line() int {
	if v.value == nil {
		return 0
	}
	return v.line
}

// Bool returns a bool's value.
func (v Value) Bool() (b, ok bool) {
	if v.Kind() != Bool {
		return false, false
	}
	return v.b, true
}

// Int returns an int's value. A float is no int, even if it is whole, and a quoted number is a string.
func (v Value) Int() (int64, bool) {
	if v.Kind() != Int || v.isBig {
		return 0, false
	}
	return v.i, true
}

// Float returns a float's or an int's value.
func (v Value) Float() (float64, bool) {
	if v.Kind() != Float && v.Kind() != Int {
		return 0, false
	}
	return v.f, true
}

// Str returns a string's value.
func (v Value) Str() (string, bool) {
	if v.Kind() != String {
		return "", false
	}
	return v.text, true
}

// Text returns a scalar as it is spelled, without quotes, for messages.
func (v Value) Text() string {
	if v.value == nil {
		return ""
	}
	return v.text
}

// Len returns the number of a sequence's items or a mapping's keys.
func (v Value) Len() int {
	if v.value == nil {
		return 0
	}
	return len(v.items)
}

// Index returns the i-th item of a sequence.
func (v Value) Index(i int) Value {
	if v.Kind() != Seq || i < 0 || i >= len(v.items) {
		return Value{}
	}
	return v.items[i]
}

// Keys returns a mapping's keys in order, those inherited through merge keys first, as Python sees them. A key that is
// no scalar is left out.
func (v Value) Keys() []string {
	if v.Kind() != Map {
		return nil
	}
	return slices.Clone(v.keys)
}

// Get returns the value of a mapping's key. A key that is no string, such as 0 or on, is found by its spelling.
func (v Value) Get(key string) Value {
	if v.Kind() != Map {
		return Value{}
	}
	if i, ok := v.index[key]; ok {
		return v.items[i]
	}
	if i, ok := v.index[otherKey+key]; ok {
		return v.items[i]
	}
	return Value{}
}

// Lookup follows keys and sequence indices.
func (v Value) Lookup(path ...string) Value {
	for _, p := range path {
		if v.Kind() == Seq {
			i, err := strconv.Atoi(p)
			if err != nil {
				return Value{}
			}
			v = v.Index(i)
			continue
		}
		v = v.Get(p)
	}
	return v
}

// At follows a path as [SplitPath] reads it.
func (v Value) At(path string) Value { return v.Lookup(SplitPath(path)...) }

// otherKey marks, in the index of a mapping, the keys that are no strings: 1 and "1" are two keys.
const otherKey = "\x00"

func (v *value) put(id, key string, item Value) {
	if v.index == nil {
		v.index = map[string]int{}
	}
	if i, ok := v.index[id]; ok { // the last one wins, at the place of the first, as in a Python dict
		v.items[i] = item
		return
	}
	v.index[id] = len(v.keys)
	v.keys = append(v.keys, key)
	v.items = append(v.items, item)
}

// ordered yields a mapping's index in the order of its keys.
func (v *value) ordered() iter.Seq2[string, int] {
	ids := make([]string, len(v.keys))
	for id, i := range v.index {
		ids[i] = id
	}
	return func(yield func(string, int) bool) {
		for i, id := range ids {
			if !yield(id, i) {
				return
			}
		}
	}
}

// same reports whether two values read the same: kind, value, keys and their order. Lines and spellings may differ.
func same(a, b Value) bool {
	if a.value == b.value {
		return true
	}
	if a.Kind() != b.Kind() || a.Len() != b.Len() {
		return false
	}
	switch a.kind {
	case Bool:
		return a.b == b.b
	case Int:
		return a.i == b.i && a.isBig == b.isBig && (a.f == b.f)
	case Float:
		return a.f == b.f || a.f != a.f && b.f != b.f
	case String, Opaque:
		return a.text == b.text
	case Seq, Map:
		if !slices.Equal(a.keys, b.keys) {
			return false
		}
		return slices.EqualFunc(a.items, b.items, same)
	}
	return true
}
