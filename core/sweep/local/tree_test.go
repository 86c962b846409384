package local

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
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=x", "-c", "user.email=x@y", "commit",
		"-qm", "x"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return dir
}

func TestRead(t *testing.T) {
	if tree, _, err := ReadTree(t.Context(), t.TempDir()); tree != nil || err != nil {
		t.Errorf("without a repository: %+v, %v", tree, err)
	}
	dir := repository(t)
	read := func() string {
		tree, diff, err := ReadTree(t.Context(), filepath.Join(dir, "sub"))
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
	inside, err := CopyTree(t.Context(), filepath.Join(dir, "sub"), to)
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
	if _, err := CopyTree(t.Context(), t.TempDir(), to); err == nil || !strings.Contains(err.Error(),
		"no git repository") {
		t.Error(err)
	}
}

// hostile is a repository whose configuration, attributes and submodule name programs, each of which would leave a
// file.
func hostile(t *testing.T) (dir, left string) {
	t.Helper()
	dir, left = repository(t), t.TempDir()
	run := func(in string, args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=x", "-c", "user.email=x@y", "-c",
			"protocol.file.allow=always"}, args...)...)
		cmd.Dir = in
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", args, out)
		}
	}
	run(dir, "submodule", "add", "-q", repository(t), "part")
	write(t, filepath.Join(dir, "big.bin"), "as git keeps it")
	write(t, filepath.Join(dir, "part", "mine.py"), "one")
	for _, in := range []string{filepath.Join(dir, "part"), dir} {
		write(t, filepath.Join(in, ".gitattributes"), "*.py filter=x diff=x\n*.bin filter=X.y -diff\n")
		run(in, "add", "-A")
		run(in, "commit", "-qm", "y")
		leave := func(name string) string { return "touch " + filepath.Join(left, name) + "; false" }
		for _, name := range []string{"filter.x.clean", "filter.x.smudge", "filter.X.y.process", "filter.x.process",
			"diff.x.textconv", "diff.x.command", "diff.external", "core.fsmonitor", "core.pager", "gpg.program",
			"core.sshCommand", "credential.helper", "core.editor"} {
			run(in, "config", name, leave(name))
		}
		for _, name := range []string{"filter.x.required", "filter.X.y.required", "commit.gpgSign", "submodule.recurse"} {
			run(in, "config", name, "true")
		}
		hooks := filepath.Join(t.TempDir(), "hooks")
		for _, h := range []string{"post-checkout", "post-index-change", "reference-transaction", "pre-commit"} {
			write(t, filepath.Join(hooks, h), "#!/bin/sh\n"+leave(h)+"\n")
			os.Chmod(filepath.Join(hooks, h), 0o755)
		}
		run(in, "-c", "core.fsmonitor=false", "config", "core.hooksPath", hooks)
	}
	for _, p := range []string{"sub/train.py", "part/mine.py"} {
		write(t, filepath.Join(dir, p), "two")
	}
	write(t, filepath.Join(dir, "big.bin"), "as it is used")
	names, _ := filepath.Glob(filepath.Join(left, "*"))
	for _, name := range names {
		os.Remove(name)
	}
	return dir, left
}

func TestNothingOfTheRepositoryRuns(t *testing.T) {
	dir, left := hostile(t)
	nothing := func(what string) {
		t.Helper()
		if names, _ := filepath.Glob(filepath.Join(left, "*")); len(names) > 0 {
			t.Errorf("%s has run %q", what, names)
		}
	}
	for _, name := range []string{"GIT_EXTERNAL_DIFF", "GIT_SSH_COMMAND", "GIT_PAGER", "GIT_EDITOR"} {
		t.Setenv(name, "touch "+filepath.Join(left, name))
	}
	tree, diff, err := ReadTree(t.Context(), dir)
	if err != nil || tree == nil || !strings.Contains(string(diff), "+two") {
		t.Errorf("%+v, %q, %v", tree, diff, err)
	}
	nothing("Read")
	to := filepath.Join(t.TempDir(), "code")
	if _, err := CopyTree(t.Context(), dir, to); err != nil {
		t.Fatal(err)
	}
	nothing("Copy")
	for name, want := range map[string]string{"sub/train.py": "two", "big.bin": "as it is used"} {
		if text, err := os.ReadFile(filepath.Join(to, name)); err != nil || string(text) != want {
			t.Errorf("the copy has %q in %s, %v", text, name, err)
		}
	}
}

// A repository may name another work tree, and a filter whose name no option could hold.
func TestConfigurationThatIsRefused(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"[filter \"a=b\"]\n clean = touch x\n", "has a filter of the name"},
		{"[core]\n worktree = /usr\n", ""}, // no repository holds the folder then
	} {
		dir := repository(t)
		f, err := os.OpenFile(filepath.Join(dir, ".git", "config"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		f.WriteString(c.text)
		f.Close()
		tree, _, err := ReadTree(t.Context(), dir)
		if tree != nil || (c.want != "" || err != nil) && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %+v, %v", c.text, tree, err)
		}
	}
}

// TestDiff: what differs from the commit in some files, tracked or not, and nothing of the others.
func TestDiff(t *testing.T) {
	if diff, err := DiffTree(t.Context(), t.TempDir(), nil); diff != nil || err != nil {
		t.Errorf("without a repository: %q, %v", diff, err)
	}
	dir := repository(t)
	sub := filepath.Join(dir, "sub")
	script, fresh := filepath.Join(sub, "train.py"), filepath.Join(sub, "[a]*.py")
	elsewhere := filepath.Join(t.TempDir(), "mine.py")
	write(t, elsewhere, "elsewhere")
	diffOf := func(paths ...string) string {
		diff, err := DiffTree(t.Context(), sub, paths)
		if err != nil || diff == nil {
			t.Fatalf("%q, %v", diff, err)
		}
		return string(diff)
	}
	if got := diffOf(script); got != "" {
		t.Errorf("a clean file differs: %s", got)
	}
	large := filepath.Join(sub, "large.so")
	write(t, large, strings.Repeat("x", mostSource+1))
	for path, want := range map[string]string{elsewhere: "outside of the commit's work tree",
		large: "not kept: sub/large.so"} {
		if got := diffOf(script, path); !strings.Contains(got, want) {
			t.Errorf("%s is no part of the diff, which then says that nothing differs: %q", path, got)
		}
	}
	write(t, script, "two")
	write(t, fresh, "three")
	write(t, filepath.Join(sub, "[a]b.py"), "four")
	write(t, filepath.Join(dir, ".gitignore"), "changed")
	got := diffOf(script, fresh, elsewhere)
	for _, want := range []string{"\n-one", "\n+two", "=== not tracked: sub/[a]*.py ===\nthree"} {
		if !strings.Contains(got, want) {
			t.Errorf("the diff has no %q:\n%s", want, got)
		}
	}
	for _, other := range []string{"four", "changed"} {
		if strings.Contains(got, other) {
			t.Errorf("the diff has %q, of a file that is not of the code:\n%s", other, got)
		}
	}
}
