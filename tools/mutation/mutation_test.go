package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestFaults(t *testing.T) {
	for text, want := range map[string]string{
		"if a < b { f() }":                      "< → <=, < → >=",
		"return a == b || c":                    "== → !=, || → &&",
		"if ok { f() }":                         "ok → !(ok)",
		"for range x { if !ok() { continue } }": "!ok() → !(!ok()), continue → break",
		"return true":                           "true → false",
		"a += b - c; i++":                       "+= → -=, - → +, ++ → --",
		`return "a" + b + "c"`:                  "",
		"var _ = x * y / z":                     "* → /, / → *",
		"switch { case n%2 > 0: return n + 1 }": "% → *, > → >=, > → <=, + → -",
		"//go:build windows":                    "", // in the body it is only a comment
	} {
		found, err := faults("x.go", []byte("package x\n\nfunc x() {\n"+text+"\n}\n"))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		var got []string
		for _, f := range found {
			got = append(got, f.was+" → "+f.now)
		}
		if s := strings.Join(got, ", "); s != want {
			t.Errorf("%s: %s, want %s", text, s, want)
		}
	}
	found, err := faults("x.go", []byte("//go:build windows\n\npackage x\n\nvar y = true\n"))
	if err != nil || len(found) > 0 {
		t.Errorf("a file of another system: %v, %v", found, err)
	}
}

// A package that was moved is missed.
func TestDeciding(t *testing.T) {
	for _, p := range deciding {
		dir, patterns, _ := strings.Cut(p, ":")
		if found, err := packageFaults(filepath.Join("..", "..", dir), patterns); err != nil || len(found) < 50 {
			t.Errorf("%s: %d faults, %v", p, len(found), err)
		}
	}
}

func TestDraw(t *testing.T) {
	var all []fault
	for i := range 100 {
		all = append(all, fault{file: "x.go", line: i, from: i, was: "<", now: "<="})
	}
	first, again, other := draw(all, 10, 1), draw(all, 10, 1), draw(all, 10, 2)
	same := func(a, b []fault) bool {
		for i := range a {
			if a[i] != b[i] {
				return false
			}
		}
		return len(a) == len(b)
	}
	if len(first) != 10 || !same(first, again) || same(first, other) {
		t.Errorf("%v, %v, %v", first, again, other)
	}
	if got := draw(all[:3], 10, 1); !same(got, all[:3]) {
		t.Errorf("of three: %v", got)
	}
}

// Each end is told apart from the others, and the tree stays as it is.
func TestEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("builds seven programs of tests")
	}
	dir := t.TempDir()
	files := map[string]string{
		"go.mod": "module example.com/x\n\ngo 1.26\n",
		"p/p.go": `package p

func More(a, b int) bool { return a > b }

func Last(n int) (last int) {
	for i := 0; i < n; i++ {
		last = i
	}
	return last
}

func Joined(a, b string) string { return a + b }
`,
		"p/p_test.go": `package p

import (
	"os"
	"testing"
)

func Test(t *testing.T) {
	if err := os.WriteFile("beside", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if !More(2, 1) || More(1, 2) || Last(3) != 2 {
		t.Fail()
	}
}
`,
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	if out, err := exec.Command("git", "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var out bytes.Buffer
	m := mutation{n: 100, seed: 1, until: time.Now().Add(time.Hour), out: &out}
	m.least = time.Second
	if err := m.run(context.Background(), []string{"p"}, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"survived     p/p.go:3: > → >=\n", "timed out    p/p.go:6: ++ → --\n",
		"p               80 % killed: 3 killed, 1 timed out, 1 survived, 1 not compiled, of 6 faults\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no line %q in\n%s", want, out.String())
		}
	}
	if _, err := os.Stat("p/beside"); err == nil {
		t.Error("the test wrote into the tree")
	}
}
