package tree

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func repository(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git here")
	}
	dir := t.TempDir()
	t.Setenv("GIT_CONFIG_GLOBAL", "/dev/null")
	write(t, filepath.Join(dir, "sub", "train.py"), "one")
	write(t, filepath.Join(dir, ".gitignore"), "ignored.py\n")
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=x", "-c", "user.email=x@y", "commit", "-qm", "x"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return dir
}

func TestRead(t *testing.T) {
	if tree, _, err := Read(t.Context(), t.TempDir()); tree != nil || err != nil {
		t.Errorf("without a repository: %+v, %v", tree, err)
	}
	dir := repository(t)
	read := func() string {
		tree, diff, err := Read(t.Context(), filepath.Join(dir, "sub"))
		if err != nil || tree == nil || len(tree.Commit) != 40 || (tree.Changes == "") != (len(diff) == 0) {
			t.Fatalf("%+v, %v", tree, err)
		}
		return tree.Changes
	}
	if got := read(); got != "" {
		t.Errorf("a clean tree has changes %s", got)
	}
	write(t, filepath.Join(dir, "results.csv"), "x")
	write(t, filepath.Join(dir, "ignored.py"), "x")
	if got := read(); got != "" {
		t.Errorf("results of a trial are a change of the code: %s", got)
	}
	write(t, filepath.Join(dir, "sub", "train.py"), "two")
	changed := read()
	write(t, filepath.Join(dir, "new.py"), "x")
	if added := read(); changed == "" || added == changed {
		t.Errorf("changes %q, with a new file %q", changed, added)
	}
}

func TestCopy(t *testing.T) {
	dir := repository(t)
	write(t, filepath.Join(dir, "sub", "train.py"), "two")
	write(t, filepath.Join(dir, "new.py"), "x")
	write(t, filepath.Join(dir, "data.bin"), "x")
	status := func() string {
		out, err := exec.Command("git", "-C", dir, "status", "--porcelain").Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	before, to := status(), filepath.Join(t.TempDir(), "code")
	inside, err := Copy(t.Context(), filepath.Join(dir, "sub"), to)
	if err != nil {
		t.Fatal(err)
	}
	if inside != filepath.Join(to, "sub") {
		t.Error(inside)
	}
	if text, err := os.ReadFile(filepath.Join(inside, "train.py")); err != nil || string(text) != "two" {
		t.Errorf("the copy has %q, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(to, "new.py")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(to, "data.bin")); err == nil {
		t.Error("data was copied")
	}
	if after := status(); after != before {
		t.Errorf("the repository has changed from %q to %q", before, after)
	}
	if _, err := Copy(t.Context(), t.TempDir(), to); err == nil || !strings.Contains(err.Error(), "no git repository") {
		t.Error(err)
	}
}
