package overlay

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What was read once is known without an interpreter, until the text changes.
func TestCache(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "c.py")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("BATCH = 8\n")
	cache := Cache(filepath.Join(dir, "cache"))
	first := cache.Read(context.Background(), mainPython(t), os.Environ(), dir, []string{path}, nil)
	again := cache.Read(context.Background(), "/nowhere/python", nil, dir, []string{path}, nil)
	if it, ok := again[0].Item("BATCH"); first[0].Problem != "" || again[0].Problem != "" || !ok || string(it.Value) != "8" || string(again[0].Text) != "BATCH = 8\n" || again[0].Path != path {
		t.Errorf("first %+v, from the cache %+v", first[0], again[0])
	}
	if plain := Read(context.Background(), "/nowhere/python", nil, dir, []string{path}); plain[0].Problem == "" {
		t.Error("an interpreter that is not there has read it")
	}
	write("BATCH = 16\n")
	changed := cache.Read(context.Background(), "/nowhere/python", nil, dir, []string{path}, nil)
	if !strings.Contains(changed[0].Problem, "no Python") {
		t.Errorf("the changed file: %+v", changed[0])
	}
	for i := range kept + 1 {
		if err := os.WriteFile(filepath.Join(string(cache), strings.Repeat("x", i%200+1)+string(rune('a'+i/200))), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cache.Read(context.Background(), mainPython(t), os.Environ(), dir, []string{path}, nil)
	if left, _ := os.ReadDir(string(cache)); len(left) > kept/2 {
		t.Errorf("%d files are left", len(left))
	}
	newest := cache.Read(context.Background(), "/nowhere/python", nil, dir, []string{path}, nil)
	if it, _ := newest[0].Item("BATCH"); string(it.Value) != "16" {
		t.Error("what was read last was pruned first")
	}
}
