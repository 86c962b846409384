package file

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Where there are no circles a search finds what filepath.Glob finds.
func TestGlob(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "with*star")
	for _, n := range []string{"w/runs/a/1.pt", "w/runs/a/2.pt", "w/runs/b/c/3.pt",
		"w/runs/[x]/4.pt", "w/last -> runs/a", "w/gone -> nowhere",
		"w/out -> ../big", "big/old.pt", "w/train.py"} {
		from, to, link := strings.Cut(n, " -> ")
		path := filepath.Join(dir, from)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if link {
			os.Symlink(to, path)
		} else {
			os.WriteFile(path, nil, 0o644)
		}
	}
	for _, glob1 := range []string{"*", "*/*", "runs/*/*.pt", "runs/*/*/*.pt", "*/*/*.pt", "last/*.pt",
		"l*/?.pt", "gone", "gone/*",
		"g*", `runs/\[x\]/*`, "runs/[ab]/*", "runs/a/1.pt", "none/*", "[",
		"runs/[", "out/*.pt", "o*/*", "**/*.pt", "train.py/*"} {
		pattern := filepath.Join(strings.ReplaceAll(dir, "*", `\*`), "w", glob1)
		want, _ := filepath.Glob(pattern)
		if got := Glob(pattern); !slices.Equal(got, want) {
			t.Errorf("%s: found %q, want %q", glob1, got, want)
		}
	}
}

func TestRelativeGlob(t *testing.T) {
	t.Chdir(t.TempDir())
	os.MkdirAll("a/b", 0o755)
	for _, pattern := range []string{"*", "a/*", "./*/b", "../*/a"} {
		want, _ := filepath.Glob(filepath.Clean(pattern))
		if got := Glob(pattern); !slices.Equal(got, want) || len(got) == 0 {
			t.Errorf("%s: found %q, want %q", pattern, got, want)
		}
	}
}
