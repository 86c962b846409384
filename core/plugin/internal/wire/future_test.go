package wire_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/plugin"
	"github.com/launch-ml/launch/core/plugin/internal/wire"
)

// newer adds a field that nobody knows to every object of a document. Objects whose keys are names, such as those of
// knobs, have no fields.
func newer(v any, key string) (added int) {
	switch v := v.(type) {
	case map[string]any:
		for k, sub := range v {
			added += newer(sub, k)
		}
		if !slices.Contains([]string{"values", "codes", "projects", "settings", "calls"}, key) {
			v["from_a_newer_version"] = map[string]any{"a": []any{1, "x", nil}}
			added++
		}
	case []any:
		for _, sub := range v {
			added += newer(sub, key)
		}
	}
	return added
}

// filled is a value of which every field is set, to a depth: what a document may hold.
func filled(t reflect.Type, depth int) reflect.Value {
	v := reflect.New(t).Elem()
	switch {
	case t == reflect.TypeFor[config.Edit]():
		return reflect.ValueOf(edit("doc", "path", "to"))
	case t == reflect.TypeFor[json.RawMessage]():
		return reflect.ValueOf(json.RawMessage(`1`))
	case t == reflect.TypeFor[ladder.Cost]():
		return reflect.ValueOf(ladder.Speed)
	case depth == 0:
		return v
	}
	switch t.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		v.Elem().Set(filled(t.Elem(), depth-1))
	case reflect.Struct:
		for i := range t.NumField() {
			if t.Field(i).IsExported() {
				v.Field(i).Set(filled(t.Field(i).Type, depth-1))
			}
		}
	case reflect.Slice:
		v.Set(reflect.Append(v, filled(t.Elem(), depth-1)))
	case reflect.Map:
		v.Set(reflect.MakeMap(t))
		v.SetMapIndex(filled(t.Key(), depth-1), filled(t.Elem(), depth-1))
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt(7)
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(7)
	case reflect.Float64:
		v.SetFloat(1.5)
	}
	return v
}

// A field that the reader does not know is ignored, at every depth of every document, and the rest reads as before.
func TestUnknownFieldsAreIgnored(t *testing.T) {
	for _, zero := range []any{plugin.Manifest{}, job.Command{}, plugin.Recognition{}, plugin.LaddersQuestion{},
		ladder.Set{},
		[]plugin.Phase{}, plugin.EstimateQuestion{}, gpu.Device{}} {
		of := reflect.TypeOf(zero)
		t.Run(of.String(), func(t *testing.T) {
			sent := doc(t, filled(of, 12).Interface())
			var any any
			if err := json.Unmarshal(sent, &any); err != nil {
				t.Fatal(err)
			}
			objects := strings.Count(string(sent), "{")
			if added := newer(any, ""); added < max(1, objects-8) {
				t.Fatalf("%d fields were added to %d objects", added, objects)
			}
			plain, extended := reflect.New(of), reflect.New(of)
			if err := wire.Read(sent, plain.Interface()); err != nil {
				t.Fatal(err)
			}
			if err := wire.Read(doc(t, any), extended.Interface()); err != nil {
				t.Fatalf("a newer document cannot be read: %v", err)
			}
			if !reflect.DeepEqual(plain.Interface(), extended.Interface()) {
				t.Errorf("a newer document reads differently:\n%s\n%s", doc(t, plain.Interface()), doc(t, extended.Interface()))
			}
		})
	}
}

// A document without a single field reads as its zero value: what an older writer does not send.
func TestAbsentFieldsAreZero(t *testing.T) {
	for _, zero := range []any{plugin.Manifest{}, job.Command{}, plugin.Recognition{}, plugin.LaddersQuestion{},
		ladder.Set{}, mem.Estimate{}} {
		read := reflect.New(reflect.TypeOf(zero))
		if err := wire.Read([]byte("{}"), read.Interface()); err != nil || !read.Elem().IsZero() {
			t.Errorf("%T: %v, %+v", zero, err, read.Elem())
		}
	}
}

// The older side is named, and every version of this program has the same handshake but for the number.
func TestOtherVersion(t *testing.T) {
	for line, says := range map[string]string{
		"1|1|unix|/tmp/s|grpc":                                "",
		fmt.Sprint("1|", wire.Version+1, "|unix|/tmp/s|grpc"): "launch is older, so update launch",
		"1|0|unix|/tmp/s|grpc\n":                              "the plugin is older, so build it again with a newer SDK",
		"1|x|unix|/tmp/s|grpc":                                "",
		"hello":                                               "",
		"":                                                    "",
	} {
		if err := wire.OtherVersion(line); (err == nil) != (says == "") || err != nil &&
			!strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", line, err, says)
		}
	}
}
