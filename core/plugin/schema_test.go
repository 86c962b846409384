package plugin_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/invopop/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/plugin"
)

var update = flag.Bool("update", false, "write docs/protocol anew")

// documents are those of the wire, by the name of their schema.
var documents = map[string]any{
	"manifest": plugin.Manifest{}, "command": job.Command{}, "recognition": plugin.Recognition{},
	"ladders-question": plugin.LaddersQuestion{}, "ladders": ladder.Set{},
	"estimate-question": plugin.EstimateQuestion{}, "estimate": []plugin.Phase{},
}

// edit has the JSON of a config.Edit, which writes itself.
type edit struct {
	Knob string  `json:"knob"`
	Doc  string  `json:"doc"`  // a file's path, argv or env
	Path string  `json:"path"` // of the setting in it
	From *string `json:"from" jsonschema:"nullable"`
	To   *string `json:"to" jsonschema:"nullable"`
	Cost string  `json:"cost"`
	Why  string  `json:"why"`
}

func schema(t *testing.T, document any) []byte {
	t.Helper()
	r := &jsonschema.Reflector{AllowAdditionalProperties: true, Anonymous: true,
		Mapper: func(typ reflect.Type) *jsonschema.Schema {
			switch typ {
			case reflect.TypeFor[config.Edit]():
				own := (&jsonschema.Reflector{AllowAdditionalProperties: true, Anonymous: true,
					DoNotReference: true}).Reflect(edit{})
				own.Version = ""
				return own
			case reflect.TypeFor[ladder.Cost]():
				s := &jsonschema.Schema{Type: "string"}
				for _, c := range ladder.Costs() {
					s.Enum = append(s.Enum, c)
				}
				return s
			case reflect.TypeFor[json.RawMessage]():
				return &jsonschema.Schema{}
			}
			return nil
		}}
	out, err := json.MarshalIndent(r.Reflect(document), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(out, '\n')
}

// The schemas in docs/protocol are those of the Go types. -update writes them.
func TestSchemas(t *testing.T) {
	for name, document := range documents {
		path, want := filepath.Join("..", "..", "docs", "protocol", name+".schema.json"), schema(t, document)
		if *update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not that of the Go type: go test ./core/plugin -run TestSchemas -update (%v)", path, err)
		}
		doc, err := validator.UnmarshalJSON(bytes.NewReader(want))
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
		for doc, valid := range examples[name] {
			v, err := validator.UnmarshalJSON(bytes.NewReader([]byte(doc)))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Validate(v); (err == nil) != valid {
				t.Errorf("%s: %s: %v, want valid: %v", name, doc, err, valid)
			}
		}
	}
}

// examples are documents of the wire, and whether they are valid.
var examples = map[string]map[string]bool{
	"manifest": {`{"name":"x","version":"1","about":"x","marks":[{"script":"t.py"}],"new":1}`: true, `{"name":3}`: false},
	"command": {`{"args":["a"],"dir":"/",` +
		`"formulas":[{"formula":{"file":"/a.py","function":"f","config":{"a":[1]}}}]}`: true,
		`{"args":"a","dir":"/"}`: false},
	"ladders": {`{"shared":{"phase":"shared","asked":0,"rungs":[]},"phases":[` +
		`{"phase":"training","asked":0,"rungs":[{"name":"x","cost":"speed",
		"edits":[{"knob":"k","doc":"argv","path":"-b","from":null,"to":"1","cost":"","why":""}]}]}]}`: true,
		`{"shared":{"phase":"shared","asked":0,"rungs":[]},"phases":[` +
			`{"phase":"training","asked":0,"rungs":[{"name":"x","cost":"cheap"}]}]}`: false},
}
