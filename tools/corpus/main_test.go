package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMeasure(t *testing.T) {
	always := func(map[string]any) bool { return true }
	const death = "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 7.79 GiB total capacity; " +
		"5.47 GiB already allocated; 1.02 GiB free; 5.63 GiB reserved in total by PyTorch)\n"
	fields := func(least float64) []*field {
		return []*field{{name: "oom", min: least, known: always, keys: []string{"oom"}}}
	}
	yes, no := map[string]any{"oom": true}, map[string]any{"oom": false}
	for _, tt := range []struct {
		name   string
		rows   []entry
		least  float64
		alarms int
		want   bool
	}{
		{"agreement", []entry{{ID: "a", Text: death, Expect: yes}, {ID: "b", Text: "step 1\n", Expect: no}}, 100, 0, true},
		{"a miss", []entry{{ID: "a", Text: "step 1\n", Expect: yes}, {ID: "b", Text: death, Expect: yes}}, 60, 0, false},
		{"a miss that is let pass", []entry{{ID: "a", Text: "step 1\n", Expect: yes}, {ID: "b", Text: death, Expect: yes}}, 50, 0, true},
		{"a false alarm", []entry{{ID: "a", Text: death, Expect: no}}, 0, 0, false},
		{"a false alarm that is let pass", []entry{{ID: "a", Text: death, Expect: no}}, 0, 1, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := measure(tt.rows, fields(tt.least), tt.alarms); got != tt.want {
				t.Errorf("good is %v", got)
			}
		})
	}
}

func TestRead(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.jsonl")
	if err := os.WriteFile(name, []byte(`{"id":"a","text":"t","expect":{"oom":false},"confidence":"stated"}`+"\n\n{\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := read(name); err == nil {
		t.Error("a broken line was read")
	}
}
