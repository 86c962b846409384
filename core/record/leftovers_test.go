package record

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// What a killed launch noted is removed by the next, and nothing else is, whatever stands in a note.
func TestTidy(t *testing.T) {
	top := t.TempDir()
	s := Store{Dir: filepath.Join(top, "state", "runs")}
	project := filepath.Join(top, "project")
	at := func(name string) string { return filepath.Join(project, name) }
	for _, d := range []string{"launch-trial-1", "launch-trial-2/models", "precious", "target", "scratch"} {
		if err := os.MkdirAll(at(d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(at("target/weights"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"launch-trial-link": at("target"), "launch-trial-2/link": at("target")} {
		if err := os.Symlink(to, at(link)); err != nil {
			t.Fatal(err)
		}
	}
	scratch := filepath.Join(s.Dir, "r", "attempt-1", "scratch")
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		t.Fatal(err)
	}
	forget, err := s.Note(at("launch-trial-1"))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Tidy(); len(got) > 0 {
		t.Errorf("of a launch that is under way %q was removed", got)
	}
	forget()
	if entries, _ := os.ReadDir(s.notes()); len(entries) > 0 {
		t.Errorf("%v is left of a note", entries)
	}
	b, _ := json.Marshal([]string{at("launch-trial-2"), at("launch-trial-3"), scratch, at("precious"), project + "/launch-trial-2/../precious",
		at("launch-trial-link"), at("scratch"), "launch-trial-1", project + "/launch-trial-9/../launch-trial-1", project + "/launch-trial-9/../precious", "/"})
	if err := os.WriteFile(filepath.Join(s.notes(), "1"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := s.Tidy(); !slices.Equal(got, []string{at("launch-trial-2"), scratch}) {
		t.Errorf("removed %q", got)
	}
	for _, name := range []string{"launch-trial-1", "precious", "target/weights", "launch-trial-link", "scratch"} {
		if _, err := os.Lstat(at(name)); err != nil {
			t.Error(err)
		}
	}
	if entries, _ := os.ReadDir(s.notes()); len(entries) > 0 {
		t.Errorf("%v is left of a note", entries)
	}
}
