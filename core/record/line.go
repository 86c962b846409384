package record

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// line is the JSON of an event: the same bytes as json.Marshal's. That would first get ready for all types that an
// event can hold, for 1.5 ms before the program starts; here only the fields that are set cost anything.
func line(e Event) ([]byte, error) { return appendSet(nil, reflect.ValueOf(e)) }

func appendSet(b []byte, v reflect.Value) ([]byte, error) {
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return append(b, "null"...), nil
	}
	if v.Kind() == reflect.Pointer && isPlain(v.Type().Elem()) {
		v = v.Elem()
	}
	if isPlain(v.Type()) {
		return appendFields(b, v)
	}
	if v.CanAddr() { // as package json does, for methods of the pointer
		v = v.Addr()
	}
	text, err := json.Marshal(v.Interface())
	return append(b, text...), err
}

func appendFields(b []byte, v reflect.Value) (_ []byte, err error) {
	b = append(b, '{')
	for i := range v.NumField() {
		name, omit, written := field(v.Type().Field(i))
		if !written || omit && isEmpty(v.Field(i)) {
			continue
		}
		if b[len(b)-1] != '{' {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), name...), '"', ':')
		if b, err = appendSet(b, v.Field(i)); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// field is how a field is written. Other options than omitempty make a type that is not plain.
func field(f reflect.StructField) (name string, omit, written bool) {
	tag := f.Tag.Get("json")
	name, options, _ := strings.Cut(tag, ",")
	return name, options == "omitempty", f.IsExported() && tag != "-"
}

var marshalers = []reflect.Type{reflect.TypeFor[json.Marshaler](), reflect.TypeFor[encoding.TextMarshaler]()}

// isPlain reports whether the JSON of t is an object of its fields, one by one.
func isPlain(t reflect.Type) bool {
	if t.Kind() != reflect.Struct || slices.ContainsFunc(marshalers, reflect.PointerTo(t).Implements) {
		return false
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, written := field(f)
		_, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || written && (name == "" || options != "" && options != "omitempty") {
			return false
		}
	}
	return true
}

// isEmpty is package json's meaning of empty.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}
