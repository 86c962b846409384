package declared

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A table records what a project's code says: `make refresh-declarations` writes it from a checkout or a package.
type table struct {
	Commit  string                                     `json:"commit"`
	Version string                                     `json:"version"`
	Files   map[string]map[string]map[string]*recorded `json:"files"` // by file, kind and name
}

type recorded struct {
	Names   []string `json:"names"`
	Default any      `json:"default"`
	Action  string   `json:"action"`
	Line    int      `json:"line"`
}

// tableOf names the tables of a declaration, the first that has an option counts. Without an entry it is the one of its
// own name.
var tableOf = map[string][]string{
	"axolotl":          nil, // its options are the fields of its configuration, which is in no package that is recorded
	"hf-trainer-plain": {"hf-trainer"},
	"kohya-full":       {"kohya"},
	"kohya-network":    {"kohya"},
	"lightning-script": {"lightning-cli"},
	"llamafactory":     {"hf-trainer"},
	"trl":              {"trl", "hf-trainer"},
	"trl-cli":          {"trl", "hf-trainer"},
	"trl-cli-groups":   {"trl", "hf-trainer"},
}

// userOwn are the settings that the user's own code defines, or a project's configuration: no table can have them.
var userOwn = regexp.MustCompile(`^(data|model|train_dataloader|val_dataloader)_|^ckpt_path$`)

// A ready declaration agrees with the recorded tables: the settings that it reads and changes exist, its defaults are
// theirs, and it names the commit or the version that was recorded.
func TestReadyFacts(t *testing.T) {
	used := map[string]bool{}
	for _, name := range readyNames(t) {
		d, err := readReady(name)
		if err != nil {
			t.Fatal(err)
		}
		names, ok := tableOf[name]
		if !ok {
			names = []string{name}
		}
		if names == nil {
			continue
		}
		var tables []table
		for _, n := range names {
			tables, used[n] = append(tables, readTable(t, n)), true
		}
		for _, wrong := range disagree(d, tables) {
			t.Errorf("ready/%s.yaml: %s", name, wrong)
		}
		text, _ := os.ReadFile("ready/" + name + ".yaml")
		head, _, _ := strings.Cut(string(text), "version:")
		of := tables[0]
		if name != "llamafactory" && !(of.Version != "" && strings.Contains(head, of.Version)) &&
			!(of.Commit != "" && strings.Contains(head, of.Commit[:7])) {
			t.Errorf("ready/%s.yaml: its first comment does not name %s%.10s, which was recorded", name, of.Version, of.Commit)
		}
	}
	for _, path := range glob(t, "testdata/ready/*.json") {
		if name := strings.TrimSuffix(filepath.Base(path), ".json"); !used[name] {
			t.Errorf("%s is about no declaration", path)
		}
	}
}

// The check finds what it is for.
func TestFactsDisagree(t *testing.T) {
	of := table{Files: map[string]map[string]map[string]*recorded{"train.py": {"argparse": {
		"--batch-size": {Names: []string{"-b", "--batch-size"}, Default: 8.0, Line: 1}}}}}
	for text, want := range map[string]string{
		"micro-batch: {at: --batch-size, default: 8}":                        "",
		"micro-batch: [-b, --batch-size]":                                    "",
		"micro-batch: {at: --batch-size, default: 16}":                       "--batch-size: its default is 8, not 16",
		"micro-batch: --batch_size_per_gpu":                                  "nothing is recorded of --batch_size_per_gpu",
		"micro-batch: -b\nrungs: [{name: x, at: --amp, to: 1, cost: speed}]": "nothing is recorded of --amp",
		"micro-batch: -b\nresume: {--resume: '*.pt'}":                        "nothing is recorded of --resume",
	} {
		d, err := parse("x.yaml", []byte("script: train.py\n"+text+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(disagree(d, []table{of}), "; "); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func readTable(t *testing.T, name string) (of table) {
	t.Helper()
	text, err := os.ReadFile("testdata/ready/" + name + ".json")
	if err == nil {
		err = json.Unmarshal(text, &of)
	}
	if err != nil {
		t.Fatal(err)
	}
	return of
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// disagree lists what a declaration relies on and the tables do not have.
func disagree(d *declaration, tables []table) (wrong []string) {
	for _, p := range relied(d) {
		for i := range p.each() {
			one := p.each()[i]
			name := plainName(one)
			if name == "" || userOwn.MatchString(name) {
				continue
			}
			fact := factOf(tables, name)
			switch said := declaredDefault(p, one); {
			case fact == nil:
				wrong = append(wrong, "nothing is recorded of "+spelled(one))
			case said.any != nil && fact.Default != nil && fmt.Sprint(said.any) != fmt.Sprint(fact.Default):
				wrong = append(wrong, fmt.Sprintf("%s: its default is %v, not %v", spelled(one), fact.Default, said.any))
			}
		}
	}
	slices.Sort(wrong)
	return slices.Compact(wrong)
}

// relied are the places on which a declaration relies.
func relied(d *declaration) (places []*place) {
	for _, p := range []*place{d.Micro, d.Accumulation, d.Ranks.at(), d.Global.at(), d.SampleTokens.at()} {
		if p != nil {
			places = append(places, p)
		}
	}
	for _, p := range d.Phases {
		if p.value.Micro != nil {
			places = append(places, p.value.Micro)
		}
	}
	for i := range d.Rungs {
		for _, a := range d.Rungs[i].assignments() {
			places = append(places, &a.place)
		}
	}
	if d.Resume != nil && d.Resume.option != nil {
		places = append(places, d.Resume.option)
	}
	if d.Resume != nil {
		for _, a := range d.Resume.set {
			places = append(places, &a.place)
		}
	}
	return places
}

func declaredDefault(p *place, one place) scalar {
	if one.fallback.any != nil {
		return one.fallback
	}
	return p.fallback
}

func spelled(p place) string {
	if p.path != "" {
		return p.path
	}
	return p.names[len(p.names)-1]
}

// plainName is a setting's name without dashes, the group that it is in, and "=": that of the variable.
func plainName(p place) string {
	name := spelled(p)
	for _, group := range []string{"--trainer.", "trainer.", "optim_wrapper.", "datasets.0.", "general."} {
		name = strings.TrimPrefix(name, group)
	}
	return strings.NewReplacer("-", "_", ".", "_", "=", "").Replace(strings.TrimLeft(name, "-"))
}

// factOf is what a table records of a setting.
func factOf(tables []table, name string) *recorded {
	same := func(s string) bool {
		s = s[strings.LastIndexByte(s, '.')+1:]
		return strings.ReplaceAll(strings.TrimLeft(s, "-"), "-", "_") == name
	}
	for _, of := range tables {
		for _, kinds := range of.Files {
			for kind, facts := range kinds {
				for key, fact := range facts {
					if kind != "text" && (same(key) || slices.ContainsFunc(fact.Names, same)) {
						return fact
					}
				}
			}
		}
	}
	return nil
}
