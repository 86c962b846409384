package declared

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/launch-ml/launch/core/config"
)

// What a declaration may hold is described once, by the fields of [declaration] and of the types below it: this file
// reads by that description, and schema.go writes the JSON Schema for editors from it.
//
// The tag "key" of a field is its key, and "doc" the line that an editor shows. With need:"true" the key has to be
// there.

// A part reads itself: its form is not that of a struct, a list, a text, a number or a truth value.
type part interface {
	read(v config.Value) error
	schema(d definitions) object
}

// A mistake is a part of a declaration that cannot be read.
type mistake struct {
	key  string // from the top: "rungs[1].cost"
	line int    // 0: that of what holds it
	err  error
}

func (m *mistake) Error() string { return m.key + ": " + m.err.Error() }
func (m *mistake) Unwrap() error { return m.err }

// wrong is a mistake in a part.
func wrong(key string, v config.Value, format string, args ...any) error {
	return &mistake{key, v.Line(), fmt.Errorf(format, args...)}
}

// below puts a mistake below the key of what holds it.
func below(key string, v config.Value, err error) error {
	var m *mistake
	if !errors.As(err, &m) {
		return &mistake{key, v.Line(), err}
	}
	dot := "."
	if m.key == "" || strings.HasPrefix(m.key, "[") {
		dot = ""
	}
	m.key = key + dot + m.key
	if m.line == 0 {
		m.line = v.Line()
	}
	return m
}

// decode reads a value into a pointer.
func decode(v config.Value, into any) error { return decodeInto(v, reflect.ValueOf(into).Elem()) }

func decodeInto(v config.Value, into reflect.Value) error {
	if p, ok := into.Addr().Interface().(part); ok {
		return p.read(v)
	}
	switch into.Kind() {
	case reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		return decodeInto(v, into.Elem())
	case reflect.Struct:
		return decodeStruct(v, into)
	case reflect.Slice:
		return decodeList(v, into)
	case reflect.String:
		if k := v.Kind(); k == config.Map || k == config.Seq || k == config.Null {
			return fmt.Errorf("it is %v, not a text", k)
		}
		into.SetString(v.Text())
		return nil
	case reflect.Bool:
		b, ok := v.Bool()
		if !ok {
			return errors.New("it is true or false")
		}
		into.SetBool(b)
		return nil
	case reflect.Int64:
		n, ok := v.Int()
		if !ok || n < 1 {
			return errors.New("it is a whole number, from 1")
		}
		into.SetInt(n)
		return nil
	case reflect.Float64:
		f, ok := v.Float()
		if !ok {
			return errors.New("it is a number")
		}
		into.SetFloat(f)
		return nil
	}
	panic(fmt.Sprintf("declarations have no %v", into.Type()))
}

// decodeList reads a list, or one value in place of a list of one.
func decodeList(v config.Value, into reflect.Value) error {
	items := []config.Value{v}
	if v.Kind() == config.Seq {
		items = items[:0]
		for i := range v.Len() {
			items = append(items, v.Index(i))
		}
	}
	for i, item := range items {
		one := reflect.New(into.Type().Elem()).Elem()
		if err := decodeInto(item, one); err != nil {
			if v.Kind() != config.Seq {
				return err
			}
			return below(fmt.Sprintf("[%d]", i), item, err)
		}
		into.Set(reflect.Append(into, one))
	}
	return nil
}

func decodeStruct(v config.Value, into reflect.Value) error {
	if v.Kind() != config.Map {
		return fmt.Errorf("it is %v, not keys with values; the keys are %s", v.Kind(), strings.Join(keysOf(into.Type()),
			", "))
	}
	fields := fieldsOf(into.Type())
	for _, key := range v.Keys() {
		f, ok := fields[key]
		if !ok {
			return unknown(key, v.Get(key), keysOf(into.Type()))
		}
		if v.Get(key).IsNull() {
			return wrong(key, v.Get(key), "it has no value")
		}
		field := into.FieldByIndex(f.Index)
		if err := decodeInto(v.Get(key), field); err != nil {
			return below(key, v.Get(key), err)
		}
		if group := f.Tag.Get("group"); group != "" && !pattern(field.String()).has(group) {
			return wrong(key, v.Get(key), "it has no group (?P<%s>…)", group)
		}
	}
	for _, key := range keysOf(into.Type()) {
		if fields[key].Tag.Get("need") != "" && !v.Get(key).Exists() {
			return wrong(key, v, "it is missing: %s", fields[key].Tag.Get("doc"))
		}
	}
	return nil
}

// unknown is the mistake of a key that there is not, with the one that may be meant.
func unknown(key string, v config.Value, keys []string) error {
	if near := config.Near(key, keys); near != "" {
		return wrong(key, v, "there is no such key; did you mean %s?", near)
	}
	return wrong(key, v, "there is no such key; there are %s", strings.Join(keys, ", "))
}

// keysOf lists the keys of a struct in the order of its fields.
func keysOf(t reflect.Type) (keys []string) {
	for _, f := range reflect.VisibleFields(t) {
		if key := f.Tag.Get("key"); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

func fieldsOf(t reflect.Type) map[string]reflect.StructField {
	fields := map[string]reflect.StructField{}
	for _, f := range reflect.VisibleFields(t) {
		if key := f.Tag.Get("key"); key != "" {
			fields[key] = f
		}
	}
	return fields
}

// A named is a mapping whose keys are names of the author's.
type named[T any] []entry[T]

type entry[T any] struct {
	name  string
	value T
}

func (n *named[T]) read(v config.Value) error {
	if v.Kind() != config.Map {
		return fmt.Errorf("it is %v, not names with values", v.Kind())
	}
	for _, key := range v.Keys() {
		e := entry[T]{name: key}
		if err := decode(v.Get(key), &e.value); err != nil {
			return below(key, v.Get(key), err)
		}
		*n = append(*n, e)
	}
	return nil
}

// get returns the value of a name.
func (n named[T]) get(name string) (value T, ok bool) {
	for _, e := range n {
		if e.name == name {
			return e.value, true
		}
	}
	return value, false
}

// A scalar is a value of a setting: bool, int64, float64 or string.
type scalar struct {
	any
	text string // as the author spells it
}

func (s *scalar) read(v config.Value) error {
	if s.any, s.text = scalarOf(v), v.Text(); s.any == nil {
		return fmt.Errorf("it is %v, not one value", v.Kind())
	}
	return nil
}

func scalarOf(v config.Value) any {
	if b, ok := v.Bool(); ok {
		return b
	}
	if i, ok := v.Int(); ok {
		return i
	}
	if f, ok := v.Float(); ok {
		return f
	}
	if s, ok := v.Str(); ok {
		return s
	}
	return nil
}
