package record

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

// fill sets what of v a coin says.
func fill(v reflect.Value, r *rand.Rand, depth int) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Unix(r.Int64N(1<<32), r.Int64N(1e9))))
		return
	}
	if depth > 9 || r.IntN(4) == 0 {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), r, depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), r, depth+1)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(3), 3))
		for i := range v.Len() {
			fill(v.Index(i), r, depth+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, r, depth)
		fill(value, r, depth+1)
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString([]string{"", "a", "<&>\u2028\"\\", "\xff", "ü"}[r.IntN(5)])
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int, reflect.Int64, reflect.Int32, reflect.Int16, reflect.Int8:
		v.SetInt(r.Int64N(100))
	case reflect.Uint, reflect.Uint64, reflect.Uint32, reflect.Uint16, reflect.Uint8:
		v.SetUint(r.Uint64N(100))
	case reflect.Float64, reflect.Float32:
		v.SetFloat(float64(r.IntN(1000)) / 8)
	case reflect.Interface:
		if v.NumMethod() == 0 {
			v.Set(reflect.ValueOf(map[string]any{"b": 1, "a": []string{"<"}}))
		}
	}
}

// A line is what package json would write, for whatever an event holds.
func TestLine(t *testing.T) {
	written := 0
	for seed := range uint64(3000) {
		var e Event
		fill(reflect.ValueOf(&e).Elem(), rand.New(rand.NewPCG(seed, 1)), 0)
		want, wrong := json.Marshal(e)
		got, err := line(e)
		if (err == nil) != (wrong == nil) {
			t.Fatalf("seed %d: %v, and package json: %v", seed, err, wrong)
		}
		if err == nil && string(got) != string(want) {
			t.Fatalf("seed %d:\n%s\nwant\n%s", seed, got, want)
		}
		if err == nil {
			written += len(want)
		}
	}
	if written < 1e6 {
		t.Errorf("%d bytes were compared in all", written)
	}
}
