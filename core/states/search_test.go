package states

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Links in circles, a fan of links at each depth, and a large folder are left after a bounded time.
func TestSearchEnds(t *testing.T) {
	dir := top(t)
	var names []string
	for i := range 7 {
		names = append(names, fmt.Sprintf("w/circle/l%d -> .", i), fmt.Sprintf("w/up/l%d -> ..", i))
		for depth := range 12 {
			names = append(names, fmt.Sprintf("w/fan%d/l%d -> ../fan%d", depth, i, depth+1))
		}
	}
	tree(t, dir, append(names, "w/circle/1.pt", "w/fan12/1.pt")...)
	for _, glob1 := range []string{"circle" + strings.Repeat("/*", 12), "circle" + strings.Repeat("/l*", 12) + "/*.pt",
		"up" + strings.Repeat("/*", 14), "fan0" + strings.Repeat("/*", 12) + "/*.pt", strings.Repeat("*/", 16) + "x"} {
		began := time.Now()
		j := asked(dir)
		j.Signs.States = []string{glob1}
		r := NewRoots(j)
		r.Glob(glob1)
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%s took %v", glob1, took)
		}
		if strings.HasPrefix(glob1, "fan") && !strings.Contains(r.Warning(), "too many files") {
			t.Errorf("%s: the warning is %q", glob1, r.Warning())
		}
	}
}

func FuzzGlob(f *testing.F) {
	for _, s := range []string{"*", "*/*", "l*/l*/*", "[[[[", `\`, `a\`, "../*", "/**", "{a}", "\x00",
		"[!-]*", "?/./../*"} {
		f.Add(s)
	}
	dir := f.TempDir()
	for _, n := range []string{"a", "b/c", "b/d"} {
		os.MkdirAll(filepath.Join(dir, n), 0o755)
	}
	os.Symlink(".", filepath.Join(dir, "b", "l"))
	f.Fuzz(func(t *testing.T, pattern string) {
		if len(pattern) > 4096 {
			return
		}
		began := time.Now()
		j := asked(dir)
		j.Command.Dir = dir
		j.Signs.States, j.Resume.InTheWay = []string{pattern}, []string{pattern}
		r := NewRoots(j)
		for _, hit := range append(r.Glob(pattern), func() (p []string) {
			for _, f := range r.Movable(pattern) {
				p = append(p, f.Path)
			}
			return p
		}()...) {
			if !strings.HasPrefix(hit, dir) {
				t.Errorf("%q leads to %s", pattern, hit)
			}
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%q took %v", pattern, took)
		}
	})
}
