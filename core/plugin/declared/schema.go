package declared

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// An object is a part of a JSON Schema.
type object = map[string]any

// definitions are the schemas that others refer to, by name.
type definitions map[string]object

// use refers to a definition, which it makes on its first use.
func (d definitions) use(name string, make func() object) object {
	if _, ok := d[name]; !ok {
		d[name] = nil // a definition may refer to itself
		d[name] = make()
	}
	return object{"$ref": "#/$defs/" + name}
}

// Schema returns the JSON Schema of declarations, for editors.
func Schema() ([]byte, error) {
	defs := definitions{}
	root := schemaOf(reflect.TypeFor[declaration](), defs)
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = File
	root["description"] = "how launch finds and changes the settings of a training script"
	root["$defs"] = defs
	text, err := json.MarshalIndent(root, "", "  ")
	return append(text, '\n'), err
}

// schemaOf is the schema of what [decode] reads into a type.
func schemaOf(t reflect.Type, d definitions) object {
	if p, ok := reflect.New(t).Interface().(part); ok {
		return p.schema(d)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem(), d)
	case reflect.Slice:
		one := schemaOf(t.Elem(), d)
		return object{"anyOf": []object{one, {"type": "array", "items": one}}}
	case reflect.Struct:
		return structSchema(t, d)
	case reflect.String:
		return object{"type": []string{"string", "number", "boolean"}}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int64:
		return object{"type": "integer", "minimum": 1}
	case reflect.Float64:
		return object{"type": "number"}
	}
	panic(fmt.Sprintf("declarations have no %v", t))
}

func schemaFor[T any](d definitions) object { return schemaOf(reflect.TypeFor[T](), d) }

func structSchema(t reflect.Type, d definitions) object {
	properties, needed := object{}, []string{}
	fields := fieldsOf(t)
	for _, key := range keysOf(t) {
		f := fields[key]
		s := schemaOf(f.Type, d)
		if doc := f.Tag.Get("doc"); doc != "" {
			s["description"] = doc
		}
		properties[key] = s
		if f.Tag.Get("need") != "" {
			needed = append(needed, key)
		}
	}
	o := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(needed) > 0 {
		o["required"] = needed
	}
	return o
}

func (*named[T]) schema(d definitions) object {
	return object{"type": "object", "additionalProperties": schemaFor[T](d)}
}

func (*scalar) schema(definitions) object {
	return object{"type": []string{"string", "number", "boolean"}}
}

// choice is the schema of one of some words.
func choice(words ...string) object { return object{"enum": words} }

// text is the schema of a text that matches an expression.
func text(pattern string) object { return object{"type": "string", "pattern": pattern} }

// oneOf joins forms.
func oneOf(forms ...object) object { return object{"anyOf": forms} }

// alternatives are texts between "|".
func alternatives(s string) []string { return strings.Split(s, "|") }
