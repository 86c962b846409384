package ui

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/launch-ml/launch/core/oom"
)

// The document has the same fields whatever was found: no script has to ask whether one is there.
func TestExplanationIsWhole(t *testing.T) {
	keys := func(x Explanation) (names []string, all map[string]any) {
		b, err := json.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &all); err != nil {
			t.Fatalf("%v: %s", err, b)
		}
		for k := range all {
			names = append(names, k)
		}
		slices.Sort(names)
		return names, all
	}
	rank := int64(3)
	nothing, empty := keys(Explanation{})
	full := Explanation{Run: &RunDoc{}, Remedies: []RemedyDoc{{}}}
	full.Report = oom.Report{OOM: true, Rank: &rank, Part: oom.Save, NotMemory: "x", Confidence: oom.Likely, Survived: 2, Needs: 1, Limit: true,
		Evidence: []oom.Evidence{{}}, HeldBy: []oom.Holder{{PID: 1}}, Frame: "a.py:1 in f"}
	something, told := keys(full)
	if !slices.Equal(nothing, something) || len(nothing) < 30 {
		t.Errorf("of nothing %q, of something %q", nothing, something)
	}
	for name, want := range map[string]any{"rank": nil, "frame": nil, "part": nil, "not_memory": nil, "run": nil,
		"limit": false, "possible": false, "survived": 0.0} {
		if got, there := empty[name]; !there || got != want {
			t.Errorf("%s of nothing is %v", name, got)
		}
	}
	if told["rank"] != 3.0 || told["part"] != "save" || told["survived"] != 2.0 || told["limit"] != true {
		t.Errorf("what was found is lost: %v", told)
	}
	holder := told["held_by"].([]any)[0].(map[string]any)
	if _, there := holder["name"]; !there {
		t.Errorf("a list's members are not whole: %v", holder)
	}
	if r := told["run"].(map[string]any); r["go_on"] == nil || r["cause"] != nil || r["lied"] != false {
		t.Errorf("the run: %v", r)
	}
}
