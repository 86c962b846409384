package private

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// nest makes files with mode 0755 and links ("a -> b") below a new folder.
func nest(t *testing.T, files ...string) string {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		path := filepath.Join(top, f)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return top
}

func link(t *testing.T, to, at string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(to, at); err != nil {
		t.Fatal(err)
	}
}

func TestGround(t *testing.T) {
	top := nest(t, "clone/.git/HEAD", "clone/venv/bin/python", "clone/src/sub/train.py", "tools/python3.11", "tools/git",
		"alone/train.py", "alone/bin/git", "home/.git/HEAD", "home/conda/bin/python", "home/proj/x.py")
	link(t, filepath.Join(top, "tools/python3.11"), filepath.Join(top, "clone/env/bin/python"))
	link(t, filepath.Join(top, "clone/venv/bin"), filepath.Join(top, "outside"))
	link(t, filepath.Join(top, "clone/venv/bin/python"), filepath.Join(top, "tools/python"))
	t.Setenv("HOME", filepath.Join(top, "home"))
	for _, tt := range []struct{ dir, path, want string }{
		{"clone/src/sub", "clone/venv/bin/python", ""},                // the work tree holds it
		{"clone/src/sub", "clone/env/bin/python", "tools/python3.11"}, // a link out of it
		{"clone/src", "outside/python", ""},
		{"clone/src", "tools/python", ""},
		{"clone", "tools/git", "tools/git"},
		{"alone", "alone/bin/git", ""},
		{"alone", "clone/venv/bin/python", "clone/venv/bin/python"}, // another project, of which nothing was typed
		{"home/proj", "home/conda/bin/python", "home/conda/bin/python"},
		{"home", "home/conda/bin/python", "home/conda/bin/python"},
		{"alone", "alone/missing", ""},
	} {
		want := tt.want
		if want != "" {
			want = filepath.Join(top, want)
		}
		if got := GroundOf(filepath.Join(top, tt.dir)).Start(filepath.Join(top, tt.path)); got != want {
			t.Errorf("in %s for %s: started %q, want %q", tt.dir, tt.path, got, want)
		}
	}
	if got := GroundOf(top).Start("venv/bin/python"); got != "" {
		t.Errorf("a relative path: %q", got)
	}
}

func TestFind(t *testing.T) {
	top := nest(t, "clone/.git/HEAD", "clone/sub/git", "clone/bin/git", "tools/git")
	link(t, filepath.Join(top, "clone/bin"), filepath.Join(top, "bin"))
	t.Setenv("HOME", filepath.Join(top, "nowhere"))
	t.Chdir(filepath.Join(top, "clone/sub"))
	own := []string{"", ".", "../bin", filepath.Join(top, "clone/bin"), filepath.Join(top, "bin")}
	path := func(dirs ...string) { t.Setenv("PATH", joinList(dirs)) }
	path(append(slices.Clone(own), filepath.Join(top, "tools"))...)
	if got, err := Find("git"); err != nil || got != filepath.Join(top, "tools/git") {
		t.Errorf("found %q, %v", got, err)
	}
	cmd := Command(t.Context(), "git", "version")
	if want := "PATH=" + filepath.Join(top, "tools"); !slices.Contains(cmd.Env, want) {
		t.Errorf("no %s in %q", want, cmd.Env)
	}
	path(own...)
	if got, err := Find("git"); err == nil {
		t.Errorf("found %q on the ground", got)
	}
	if err := Command(t.Context(), "git").Run(); err == nil || cmd.Err != nil {
		t.Errorf("started git: %v", err)
	}
	if _, err := Find("git"); !isNotFound(err) {
		t.Errorf("%v is no exec.ErrNotFound", err)
	}
}

func joinList(dirs []string) (out string) {
	for i, d := range dirs {
		if i > 0 {
			out += string(filepath.ListSeparator)
		}
		out += d
	}
	return out
}

func isNotFound(err error) bool {
	e, ok := err.(*exec.Error)
	return ok && e.Err == exec.ErrNotFound
}
