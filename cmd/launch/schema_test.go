package main

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/invopop/jsonschema"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/launch-ml/launch/cmd/launch/internal/root"

	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/oom"
	"github.com/launch-ml/launch/core/sweep"
	"github.com/launch-ml/launch/core/ui"
	"github.com/launch-ml/launch/core/ui/top"
)

// The schemas of docs/schema are made of the Go types of [Documents]:
//
//	go test ./cmd/launch -run TestDocs -update
//
// writes them anew. It refuses to take a field away, or to change its type, while the version of the
// document stays the same.

// schemaFolder is where the schemas lie.
var schemaFolder = filepath.Join("..", "..", "docs", "schema")

// flatEdit is the JSON of a [config.Edit], which writes itself.
type flatEdit struct {
	Knob string  `json:"knob"`
	Doc  string  `json:"doc"`  // a file's path, argv or env
	Path string  `json:"path"` // of the setting in it
	From *string `json:"from"`
	To   *string `json:"to"`
	Cost string  `json:"cost"`
	Why  string  `json:"why"`
}

// written are the types that write themselves as something else.
var written = map[reflect.Type]*jsonschema.Schema{
	reflect.TypeFor[json.RawMessage](): {},
	reflect.TypeFor[oom.Process](): {Type: "array", Items: &jsonschema.Schema{Type: "integer"},
		Description: "process and bytes"},
}

// completed are the packages and types whose documents have no list that is null.
var completed = []string{"cmd/launch/internal/cli", "internal/result", "internal/root", "internal/runs",
	"internal/sbatch", "internal/plugins", "core/ui", "core/record.Diff", "core/record.ComparedRun",
	"core/record.PhasePair", "core/check", "core/plugin/kit"}

// A reflected is a schema in the making.
type reflected struct {
	jsonschema.Reflector
	whole bool
	types map[string]reflect.Type // of the definitions
}

// comments are those of the Go types, which describe the fields.
var comments = sync.OnceValues(func() (map[string]string, error) {
	var r jsonschema.Reflector
	// the paths that it walks are relative to this folder: base and path together are those of the packages
	err := r.AddGoComments("github.com/launch-ml/launch/cmd/launch", filepath.Join("..", "..", "core"))
	return r.CommentMap, err
})

// schemaOf makes the schema of a document. strict forbids fields that the type does not have: what a
// reader must not do, and a test does.
func schemaOf(t testing.TB, d root.Document, strict bool) []byte {
	t.Helper()
	described, err := comments()
	if err != nil {
		t.Fatal(err)
	}
	r := &reflected{whole: d.Whole, types: map[string]reflect.Type{}}
	r.Reflector = jsonschema.Reflector{Anonymous: true, AllowAdditionalProperties: !strict, CommentMap: described,
		Namer: func(t reflect.Type) string {
			if t.Name() == "" || t.PkgPath() == "" {
				return t.Name()
			}
			name := path.Base(t.PkgPath()) + "." + t.Name()
			if strings.Contains(t.PkgPath(), "cmd/launch/internal/") {
				name = strings.ToLower(t.Name()[:1]) + t.Name()[1:]
			}
			r.types[name] = t
			return name
		}, Mapper: mapped}
	s := r.Reflect(d.Type)
	s.Title = d.By
	s.Description = "Fields are added within a version, and never change their meaning."
	for name, def := range s.Definitions {
		r.finish(def, r.types[name])
	}
	if d.Version > 0 {
		root := s.Definitions[strings.TrimPrefix(s.Ref, "#/$defs/")]
		for _, key := range []string{"version", "v"} {
			if p, ok := root.Properties.Get(key); ok {
				p.Const = d.Version
			}
		}
	}
	out, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return append(out, '\n')
}

// mapped are the types that reflection alone gets wrong.
func mapped(t reflect.Type) *jsonschema.Schema {
	switch {
	case t == reflect.TypeFor[config.Edit]():
		r := &reflected{types: map[string]reflect.Type{}}
		r.Reflector = jsonschema.Reflector{Anonymous: true, AllowAdditionalProperties: true, DoNotReference: true}
		s := r.Reflect(flatEdit{})
		s.Version = ""
		r.finish(s, reflect.TypeFor[flatEdit]())
		return s
	case t == reflect.TypeFor[ladder.Cost]():
		s := &jsonschema.Schema{Type: "string"}
		for _, c := range ladder.Costs() {
			s.Enum = append(s.Enum, c)
		}
		return s
	case written[t] != nil:
		s := *written[t]
		return &s
	case t.PkgPath() != "time" && t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return &jsonschema.Schema{Type: "string"}
	case t.PkgPath() != "time" && t.Implements(reflect.TypeFor[json.Marshaler]()) &&
		!slices.Contains([]reflect.Type{reflect.TypeFor[oom.Report](), reflect.TypeFor[root.Explained](),
			reflect.TypeFor[gpu.Device](), reflect.TypeFor[ui.Card](), reflect.TypeFor[top.Card]()}, t):
		panic(t.String() + " writes itself: put what it writes into written")
	}
	return nil
}

// finish marks the fields of a struct that have to be there, and those that may be null.
func (r *reflected) finish(s *jsonschema.Schema, t reflect.Type) {
	if t == nil || t.Kind() != reflect.Struct || s.Properties == nil {
		return
	}
	s.Required = nil
	r.fields(s, t)
}

func (r *reflected) fields(s *jsonschema.Schema, t reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			of := f.Type
			if of.Kind() == reflect.Pointer {
				of = of.Elem()
			}
			r.fields(s, of)
			continue
		}
		if name == "" {
			name = f.Name
		}
		p, ok := s.Properties.Get(name)
		if !ok {
			continue
		}
		optional := strings.Contains(options, "omit")
		if t == reflect.TypeFor[gpu.Device]() && (name == "total_bytes" || name == "used_bytes") {
			s.Properties.Set(name, orNull(p))
		} else if t == reflect.TypeFor[oom.Report]() && name == "frame" {
			optional = false // it is null instead
			s.Properties.Set(name, orNull(p))
		} else if r.null(t, f, optional) {
			s.Properties.Set(name, orNull(p))
		}
		if !optional || r.whole {
			s.Required = append(s.Required, name)
		}
	}
}

// null reports whether a field may be null.
func (r *reflected) null(of reflect.Type, f reflect.StructField, optional bool) bool {
	list := f.Type.Kind() == reflect.Slice || f.Type.Kind() == reflect.Map
	switch {
	case f.Type.Kind() == reflect.Pointer || f.Type.Kind() == reflect.Interface:
		return !optional || r.whole
	case r.whole:
		return optional && f.Type.Kind() != reflect.Slice && f.Type.Kind() != reflect.Bool && f.Type.Kind() != reflect.Int ||
			!optional && list
	case list && !optional:
		return !slices.ContainsFunc(completed, func(p string) bool {
			return strings.HasSuffix(of.PkgPath(), p) || strings.HasSuffix(of.PkgPath()+"."+of.Name(), p)
		})
	}
	return false
}

func orNull(p *jsonschema.Schema) *jsonschema.Schema {
	if reflect.DeepEqual(*p, jsonschema.Schema{}) {
		return p
	}
	out := &jsonschema.Schema{AnyOf: []*jsonschema.Schema{p, {Type: "null"}}, Description: p.Description}
	p.Description = ""
	return out
}

// settingsSchema is the schema of a settings file: .launch.yaml and config.yaml.
func settingsSchema(t testing.TB) []byte {
	t.Helper()
	properties := map[string]any{}
	for _, f := range root.HelpOf(root.Tree(factory())).Settings {
		kinds := map[string][]string{"bool": {"boolean", "string"}, "int": {"integer", "string"}}[f.Type]
		if kinds == nil {
			kinds = []string{"string", "number", "boolean"} // the text is what counts: 0,2 and 010 and true
		}
		p := map[string]any{"description": f.Usage, "type": kinds}
		if f.Default != "" {
			p["default"] = f.Default
		}
		properties[f.Name] = p
	}
	out, err := json.MarshalIndent(map[string]any{"$schema": "https://json-schema.org/draft/2020-12/schema",
		"title":       "settings of launch: .launch.yaml of a project, config.yaml of a user",
		"description": "Settings are added, and never change their meaning.", "type": "object",
		"additionalProperties": false, "properties": properties}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return append(out, '\n')
}

// The schema of a settings file is that of the flags, and tells a right file from a wrong one.
func TestDocsSettingsSchema(t *testing.T) {
	file, now := filepath.Join(schemaFolder, settingsName), settingsSchema(t)
	if *update {
		if err := os.WriteFile(file, now, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if old, err := os.ReadFile(file); err != nil || !bytes.Equal(old, now) {
		t.Errorf("%s is not that of the flags: go test ./cmd/launch -run TestDocs -update (%v)", file, err)
	}
	s := compiled(t, "settings", now)
	for text, valid := range map[string]bool{`{"allow":"speed","rehearse":true}`: true, `{"gpus":2,"reserve":0}`: true,
		`{"alow":"speed"}`: false, `{"allow":["speed"]}`: false, `{"rehearse":null}`: false} {
		doc, err := validator.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(doc); (err == nil) != valid {
			t.Errorf("%s: %v, want valid: %v", text, err, valid)
		}
	}
}

// settingsName is the name of the schema of a settings file.
const settingsName = "settings.schema.json"

// sweepFileName is the name of the schema of the file of a sweep.
const sweepFileName = "sweep-file.schema.json"

// sweepFileSchema is the schema of the file of `launch sweep --file`, whose reader has no Go type with fields.
func sweepFileSchema(t testing.TB) []byte {
	t.Helper()
	type object = map[string]any
	number := func(least int) object { return object{"type": "integer", "minimum": least} }
	scalar, text := object{"type": []string{"string", "number", "boolean"}}, object{"type": "string"}
	scalars, yes := object{"type": "array", "items": scalar}, object{"type": "boolean"}
	words := object{"anyOf": []object{text, {"type": "array", "items": scalar, "minItems": 1}}}
	of := func(values object) object { return object{"type": "object", "additionalProperties": values} }
	values := of(object{"anyOf": []object{scalar, {"type": "array"}}})
	halve := of(values["additionalProperties"].(object))
	halve["minProperties"], halve["maxProperties"] = 1, 1
	properties := map[string]object{
		"name": scalar, "command": words, "grid": values, "seeds": values,
		"zip":   {"anyOf": []object{values, {"type": "array", "items": values}}},
		"where": {"anyOf": []object{text, scalars}}, "only": of(scalar), "random": number(1), "seed": number(0),
		"jobs": number(1), "flags": of(scalar), "metric": text, "halve": halve, "ask": words, "ask-timeout": text,
		"same-plan": yes, "snapshot": yes,
	}
	if has, want := slices.Sorted(maps.Keys(properties)), sweep.FileKeys(); !slices.Equal(has, want) {
		t.Errorf("the schema of a sweep's file has the keys %q, and its reader %q", has, want)
	}
	out, err := json.MarshalIndent(object{"$schema": "https://json-schema.org/draft/2020-12/schema",
		"title":       "the file of launch sweep --file",
		"description": "Keys are added, and never change their meaning. docs/sweeps.md describes them.",
		"type":        "object", "additionalProperties": false, "properties": properties}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return append(out, '\n')
}

// The schema of a sweep's file accepts what the reader accepts, and refuses what it refuses.
func TestDocsSweepFileSchema(t *testing.T) {
	file, now := filepath.Join(schemaFolder, sweepFileName), sweepFileSchema(t)
	if *update {
		if err := os.WriteFile(file, now, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if old, err := os.ReadFile(file); err != nil || !bytes.Equal(old, now) {
		t.Errorf("%s is not up to date: go test ./cmd/launch -run TestDocs -update (%v)", file, err)
	}
	s := compiled(t, "sweep-file", now)
	for text, valid := range map[string]bool{
		`{"name":"a","command":"python train.py","grid":{"--lr":[0.1,1e-4],"b":"1..5","c":[[1,2],[3]]}}`: true,
		`{"command":["python","t.py",1],"zip":[{"a":[1,2],"b":[3,4]}],"seeds":{"seed":"1..3"},"jobs":2}`: true,
		`{"zip":{"a":[1]},"where":["lr < 1"],"only":{"a":"b = 1"},"flags":{"allow":"speed"}}`:            true,
		`{"random":5,"seed":0,"metric":"val/loss","halve":{"--epochs":[1,3]},"snapshot":true}`:           true,
		`{"ask":"python ask.py","ask-timeout":"5m","same-plan":true,"where":"a = 1"}`:                    true,
		`{"gird":{}}`: false, `{"jobs":0}`: false, `{"random":"many"}`: false, `{"grid":["a"]}`: false,
		`{"command":[]}`: false, `{"halve":{}}`: false, `{"halve":{"a":[1],"b":[2]}}`: false, `{"seed":-1}`: false,
		`{"grid":{"a":{"b":1}}}`: false, `{"name":["a"]}`: false, `{"same-plan":[1]}`: false, `{"flags":{"a":[1]}}`: false,
	} {
		doc, err := validator.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(doc); (err == nil) != valid {
			t.Errorf("%s: the schema says %v, want valid: %v", text, err, valid)
		}
		if _, err := sweep.ParseFile([]byte(text)); (err == nil) != valid {
			t.Errorf("%s: the reader says %v, want valid: %v", text, err, valid)
		}
	}
}

func compiled(t testing.TB, name string, text []byte) *validator.Schema {
	t.Helper()
	doc, err := validator.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := validator.NewCompiler()
	if err := c.AddResource(name, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(name)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return s
}

// The schemas in docs/schema are those of the Go types.
func TestDocsSchemas(t *testing.T) {
	there := map[string]bool{settingsName: true, sweepFileName: true}
	for _, d := range root.Documents {
		file := filepath.Join(schemaFolder, d.Name+".schema.json")
		there[filepath.Base(file)] = true
		now := schemaOf(t, d, false)
		compiled(t, d.Name, now)
		old, err := os.ReadFile(file)
		if bytes.Equal(old, now) {
			continue
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if broken := brokenPromises(t, old, now); len(broken) > 0 {
			t.Errorf("%s: scripts rely on what this version of the document has had: raise its version, or leave as it was: %s",
				d.Name, strings.Join(broken, "; "))
		} else if !*update {
			t.Errorf("%s is not that of the Go type: go test ./cmd/launch -run TestDocs -update", file)
		} else if err := os.WriteFile(file, now, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(schemaFolder, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !there[filepath.Base(f)] {
			t.Errorf("no document has the schema %s", f)
		}
	}
}

// Every command that prints JSON has a document.
func TestDocsDocuments(t *testing.T) {
	for _, c := range root.HelpOf(root.Tree(factory())).Commands {
		json := slices.ContainsFunc(c.Flags, func(f root.FlagDoc) bool { return f.Name == "json" })
		if json && len(c.Documents) == 0 {
			t.Errorf("%s prints JSON: add its type to root.Documents, and run go test ./cmd/launch -run TestDocs -update",
				c.Command)
		}
	}
}

// brokenPromises lists what a schema has taken away from an older one of the same version.
func brokenPromises(t testing.TB, old, now []byte) (out []string) {
	if old == nil {
		return nil
	}
	var was, is map[string]any
	if err := errors.Join(json.Unmarshal(old, &was), json.Unmarshal(now, &is)); err != nil {
		t.Fatal(err)
	}
	before := map[string]string{}
	fieldsOf(was, was, "", before, nil)
	return brokenBy(is, before)
}

// brokenBy lists what a schema has taken away from the fields of an older one.
func brokenBy(is map[string]any, before map[string]string) (out []string) {
	after := map[string]string{}
	fieldsOf(is, is, "", after, nil)
	for _, version := range []string{".version", ".v"} {
		if is, there := after[version]; there && is != before[version] {
			return nil
		}
	}
	for _, p := range slices.Sorted(maps.Keys(before)) {
		if kind, ok := after[p]; !ok {
			out = append(out, p+" is gone")
		} else if kind != before[p] {
			out = append(out, p+" was "+before[p]+" and is "+kind)
		}
	}
	return out
}

// fieldsOf lists the fields of a schema with their types, and "?" where a field may be absent.
func fieldsOf(root, s map[string]any, at string, out map[string]string, within []string) {
	if ref, ok := s["$ref"].(string); ok {
		name := strings.TrimPrefix(ref, "#/$defs/")
		if slices.Contains(within, name) {
			return
		}
		defs, _ := root["$defs"].(map[string]any)
		def, _ := defs[name].(map[string]any)
		fieldsOf(root, def, at, out, append(slices.Clone(within), name))
		return
	}
	if either, ok := s["anyOf"].([]any); ok {
		if some, ok := either[0].(map[string]any); ok { // else it is true: any value
			fieldsOf(root, some, at, out, within)
		}
		out[at] += "|null"
	}
	if kind, ok := s["type"].(string); ok {
		out[at] = kind
	}
	if c, ok := s["const"]; ok {
		text, _ := json.Marshal(c)
		out[at] += string(text)
	}
	if items, ok := s["items"].(map[string]any); ok {
		fieldsOf(root, items, at+"[]", out, within)
	}
	if values, ok := s["additionalProperties"].(map[string]any); ok {
		fieldsOf(root, values, at+".*", out, within)
	}
	required, _ := s["required"].([]any)
	fields, _ := s["properties"].(map[string]any)
	for name, p := range fields {
		if p, ok := p.(map[string]any); ok {
			fieldsOf(root, p, at+"."+name, out, within)
		}
		if !slices.Contains(required, any(name)) {
			out[at+"."+name] += "?"
		}
	}
}

func TestBrokenPromises(t *testing.T) {
	of := func(v any, version int) []byte {
		return schemaOf(t, root.Document{Name: "x", Version: version, By: "x", Type: v}, false)
	}
	type inner struct {
		A int `json:"a"`
	}
	type doc struct {
		Version int    `json:"version"`
		Text    string `json:"text"`
		In      *inner `json:"in"`
	}
	type gone struct {
		Version int    `json:"version"`
		In      *inner `json:"in"`
	}
	type changed struct {
		Version int    `json:"version"`
		Text    int    `json:"text"`
		In      *inner `json:"in"`
	}
	type optional struct {
		Version int    `json:"version"`
		Text    string `json:"text,omitempty"`
		In      *inner `json:"in"`
	}
	type more struct {
		Version int    `json:"version"`
		Text    string `json:"text"`
		In      *inner `json:"in"`
		New     string `json:"new"`
	}
	for name, c := range map[string]struct {
		now  []byte
		want string
	}{
		"same": {of(doc{}, 1), ""}, "more": {of(more{}, 1), ""}, "raised": {of(gone{}, 2), ""},
		"gone": {of(gone{}, 1), ".text is gone"}, "changed": {of(changed{}, 1), ".text was string and is integer"},
		"optional": {of(optional{}, 1), ".text was string and is string?"},
	} {
		if got := strings.Join(brokenPromises(t, of(doc{}, 1), c.now), "; "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Whatever field a schema has: without it, the document breaks its promise.
func TestEachFieldIsPromised(t *testing.T) {
	for _, d := range root.Documents {
		var s map[string]any
		if err := json.Unmarshal(schemaOf(t, d, false), &s); err != nil {
			t.Fatal(err)
		}
		before := map[string]string{}
		fieldsOf(s, s, "", before, nil)
		fields := 0
		defs, _ := s["$defs"].(map[string]any)
		for name, def := range defs {
			properties, _ := def.(map[string]any)["properties"].(map[string]any)
			for field, was := range maps.Clone(properties) {
				fields++
				delete(properties, field)
				if len(brokenBy(s, before)) == 0 {
					t.Errorf("%s: nothing reports that %s is gone from %s", d.Name, field, name)
				}
				properties[field] = was
			}
		}
		if fields == 0 {
			t.Errorf("%s has no fields", d.Name)
		}
	}
}

// validate holds a document that launch printed against its schema: `validate NAME FILE`, where FILE may be stdout.
// It also takes each field that has to be there away, and demands that the schema notices.
func validate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: validate NAME FILE")
	}
	at := slices.IndexFunc(root.Documents, func(d root.Document) bool { return d.Name == args[0] })
	if at < 0 {
		ts.Fatalf("no document %s", args[0])
	}
	text := ts.ReadFile(args[1])
	strict, open := strictSchemas()[args[0]], openSchemas()[args[0]]
	doc, err := validator.UnmarshalJSON(strings.NewReader(text))
	ts.Check(err)
	if err := strict.Validate(doc); err != nil {
		ts.Fatalf("%s: %v\n%s", args[0], err, text)
	}
	one, ok := doc.(map[string]any)
	if list, is := doc.([]any); is && len(list) > 0 {
		one, ok = list[0].(map[string]any)
	}
	if !ok {
		ts.Fatalf("%s is empty:\n%s", args[0], text)
	}
	for _, name := range slices.Sorted(maps.Keys(one)) {
		value := one[name]
		delete(one, name)
		missed := open.Validate(doc) == nil
		one[name] = value
		if missed && requiredField(args[0], name) {
			ts.Fatalf("%s: its schema does not notice that %s is gone", args[0], name)
		}
	}
}

// requiredField reports whether the Go type of a document always writes a field.
func requiredField(name, field string) bool {
	at := slices.IndexFunc(root.Documents, func(d root.Document) bool { return d.Name == name })
	t := reflect.TypeOf(root.Documents[at].Type)
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	for _, f := range reflect.VisibleFields(t) {
		if tag, options, _ := strings.Cut(f.Tag.Get("json"), ","); tag == field {
			return root.Documents[at].Whole || !strings.Contains(options, "omit")
		}
	}
	return false
}

var strictSchemas = sync.OnceValue(func() map[string]*validator.Schema { return allSchemas(true) })
var openSchemas = sync.OnceValue(func() map[string]*validator.Schema { return allSchemas(false) })

// allSchemas compiles the schemas of all documents; of the open ones those of docs/schema.
func allSchemas(strict bool) map[string]*validator.Schema {
	var t testing.T // its Fatal is not reached: TestDocsSchemas has made the same
	out := map[string]*validator.Schema{}
	for _, d := range root.Documents {
		text := schemaOf(&t, d, strict)
		if !strict {
			if file, err := os.ReadFile(filepath.Join(schemaFolder, d.Name+".schema.json")); err == nil {
				text = file
			}
		}
		out[d.Name] = compiled(&t, d.Name, text)
	}
	return out
}
