package declared

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the files that are generated from this package")

// golden compares a generated file, or writes it with -update.
func golden(t *testing.T, path string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(have, want) {
		t.Errorf("%s is not what this package generates (%v): go test ./core/plugin/declared -update", path, err)
	}
}

// readyNames are the ready declarations in the folder, which -update may embed only the next time.
func readyNames(t *testing.T) (names []string) {
	t.Helper()
	paths, err := filepath.Glob("ready/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("there are no ready declarations: %v", err)
	}
	for _, path := range paths {
		names = append(names, strings.TrimSuffix(filepath.Base(path), ".yaml"))
	}
	return names
}

// heavy are settings that change memory in some program: momentum adds states, a dataset has the vocabulary, loader
// workers take memory of a CPU's run, a text encoder's rate of 0 leaves it out.
var heavy = regexp.MustCompile(`(?i)momentum|dataset|workers|batch|size|precision|width|encoder|` +
	`optim(izer)?=?$|model=?$`)

func TestReadyIgnores(t *testing.T) {
	for _, name := range readyNames(t) {
		d, err := readReady(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range d.Ignore {
			for _, one := range d.Ignore[i].each() {
				if slices.ContainsFunc(one.names, heavy.MatchString) {
					t.Errorf("%s ignores %v", name, one.names)
				}
			}
		}
	}
}

// Every ready declaration can be read, names itself, and has its marks where launch looks for them.
func TestReady(t *testing.T) {
	var all []readyMark
	for _, name := range readyNames(t) {
		d, err := readReady(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d.About == "" || d.Prefer {
			t.Errorf("%s: a ready declaration has a line about itself, and outranks no plugin", name)
		}
		marks := marksOf(d)
		for _, m := range marks {
			if strings.Trim(strings.TrimSuffix(m.Script, ".py"), "*?") == "" && len(m.Contains) == 0 {
				t.Errorf("%s: a mark matches every script: %+v", name, m)
			}
		}
		all = append(all, readyMark{name, marks})
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "ready/marks.json", append(text, '\n'))
	if err := New().Manifest().Check(); err != nil {
		t.Error(err)
	}
}
