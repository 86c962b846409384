package sweep

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseFile(t *testing.T) {
	a, err := ParseFile([]byte(`name: lrs
command: python train.py -opt 'x y.yml'
grid:
  --lr: [1e-4, 010, yes, [1, 2], "a,b"]
  train.b: 1..3
zip:
  - {x: [1, 2], y: [3, 4]}
seeds: {--seed: 0..1}
where: [x < 2, "train.b != 1"]
only: {y: x=1}
random: 5
seed: 18446744073709551615
jobs: 2
flags: {allow: speed, memory: 8GiB}
same-plan: true
`))
	if err != nil {
		t.Fatal(err)
	}
	list := func(v ...string) []Values { return []Values{{List: v}} }
	want := Asked{Name: "lrs", Command: []string{"python", "train.py", "-opt", "x y.yml"}, Jobs: 2, SamePlan: true,
		Flags: []string{"--allow=speed", "--memory=8GiB"},
		Space: Space{Random: 5, Seed: 18446744073709551615, Where: []Condition{"x < 2", "train.b != 1"}, Only: []Only{{"y",
			"x=1"}},
			Seeds: []Dimension{{[]string{"--seed"}, list("0", "1")}},
			Dimensions: []Dimension{{[]string{"--lr"}, list("1e-4", "010", "yes", "[1, 2]", "a,b")}, {[]string{"train.b"},
				list("1", "2", "3")},
				{[]string{"x", "y"}, []Values{{List: []string{"1", "2"}}, {List: []string{"3", "4"}}}}}}}
	if diff := cmp.Diff(want, a); diff != "" {
		t.Error(diff)
	}
	for text, says := range map[string]string{
		"":                       "empty",
		"gird: {a: [1]}":         `no key "gird"`,
		"grid: [a]":              "mapping",
		"grid: {a: [1], a: [2]}": "twice",
		"jobs: 0":                "at least 1",
		"command: []":            "empty",
		"command: 'echo ''a'":    "command",
		"grid: {a: {b: 1}}":      "values are a list",
		"flags: {allow: [1]}":    "one value",
		"- a":                    "mapping",
		"name: [a":               "yaml",
		"same-plan: 7":           "same-plan",
	} {
		if _, err := ParseFile([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %s", text, err, says)
		}
	}
}
