package config

import (
	"os"
	"path/filepath"
	"testing"
)

func TestNear(t *testing.T) {
	names := []string{"plan", "sweep", "micro-batch", "json", "lr", "vram"}
	for typed, want := range map[string]string{
		"plann": "plan", "PLAN": "plan", "swep": "sweep", "sweeping": "", "micro_bacth": "micro-batch", "jsno": "json",
		"l": "lr", "wd": "", "vrm": "vram", "seep": "sweep", "": "",
	} {
		if got := Near(typed, names); got != want {
			t.Errorf("%q: %q, want %q", typed, got, want)
		}
	}
}

func TestNearFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "options"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"train.py", "options/demo.yml"} {
		if err := os.WriteFile(filepath.Join(dir, f), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for typed, want := range map[string]string{
		"trian.py": "train.py", "options/dem.yml": "options/demo.yml", "option/demo.yml": "options/demo.yml",
		"option/dmo.yml": "options/demo.yml", "test.yaml": "", "data/x/y.yml": "",
	} {
		if want != "" {
			want = filepath.Join(dir, want)
		}
		if got := NearFile(filepath.Join(dir, typed)); got != want {
			t.Errorf("%s: %q, want %q", typed, got, want)
		}
	}
	if got := NearFile("/nosuchfolder0/x"); got != "" {
		t.Errorf("%q", got)
	}
}
