package ui

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"reflect"
	"strings"

	"github.com/launch-ml/launch/core/oom"
)

// whole returns a document as JSON with every field of its types, so that a script finds each. A field that its tag would omit is
// null, a list [], a boolean false and a count 0. Types with their own MarshalJSON or MarshalText use that.
func whole(v any) ([]byte, error) {
	var b bytes.Buffer
	err := write(&b, reflect.ValueOf(v))
	return b.Bytes(), err
}

func write(b *bytes.Buffer, v reflect.Value) error {
	switch t := v.Type(); {
	case t == reflect.TypeFor[oom.Report](): // which writes itself for a record, without what is empty
		return writeFields(b, v)
	case t.Implements(reflect.TypeFor[json.Marshaler]()) || t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
	case v.Kind() == reflect.Pointer && !v.IsNil():
		return write(b, v.Elem())
	case v.Kind() == reflect.Slice && !v.IsNil() && t.Elem().Kind() != reflect.Uint8:
		b.WriteByte('[')
		for i := range v.Len() {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := write(b, v.Index(i)); err != nil {
				return err
			}
		}
		b.WriteByte(']')
		return nil
	case v.Kind() == reflect.Struct:
		return writeFields(b, v)
	}
	text, err := json.Marshal(v.Interface())
	b.Write(text)
	return err
}

func writeFields(b *bytes.Buffer, v reflect.Value) error {
	b.WriteByte('{')
	err := eachField(v, func(name string, optional bool, f reflect.Value) error {
		if b.Bytes()[b.Len()-1] != '{' {
			b.WriteByte(',')
		}
		b.WriteString(`"` + name + `":`)
		switch empty := optional && f.IsZero() || f.Kind() == reflect.Slice && optional && f.Len() == 0; {
		case empty && f.Kind() == reflect.Slice:
			b.WriteString("[]")
		case empty && f.Kind() != reflect.Bool && f.Kind() != reflect.Int: // a count is 0
			b.WriteString("null")
		default:
			return write(b, f)
		}
		return nil
	})
	b.WriteByte('}')
	return err
}

// eachField calls f for each field in order, with its name in JSON; fields of embedded structs come in their place.
func eachField(v reflect.Value, f func(name string, optional bool, v reflect.Value) error) error {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		var err error
		switch {
		case name == "-" || !field.IsExported():
		case field.Anonymous && name == "":
			err = eachField(v.Field(i), f)
		default:
			name = cmp.Or(name, field.Name)
			err = f(name, strings.Contains(options, "omit"), v.Field(i))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
