package private

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func write(t *testing.T, path, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// Who may have written a file, by what stat says of it and of its folder.
func TestJudge(t *testing.T) {
	const me, other = 1000, 1001
	j := judge{me, func(mode uint32, gid int, _ []byte) bool { return mode&0o002 != 0 || mode&0o020 != 0 && gid != me }}
	for _, tt := range []struct {
		what string
		uid  uint32
		gid  uint32
		mode uint32
		file string // why a file is not believed
		dir  string // why a file in such a folder is not
	}{
		{"mine", me, me, 0o755, "", ""},
		{"root's", 0, 0, 0o755, "", ""},
		{"another's", other, me, 0o700, "belongs to user 1001", "belongs to user 1001"},
		{"everybody may write", me, me, 0o757, "every user", "every user"},
		{"my own group", me, me, 0o770, "", ""},
		{"a shared group", me, 7, 0o770, "group 7", "group 7"},
		{"root's, for a group", 0, 7, 0o770, "group 7", "group 7"},
		{"/tmp", 0, 0, 0o1777, "every user", "every user"},
		{"sticky and mine", me, me, 0o1777, "every user", ""},
		{"sticky and another's", other, me, 0o1777, "belongs to", "belongs to"},
	} {
		info := &unix.Stat_t{Uid: tt.uid, Gid: tt.gid, Mode: tt.mode}
		for _, got := range []struct {
			err  error
			want string
		}{{j.file("f", info, -1), tt.file}, {j.folder("/nowhere", info), tt.dir}} {
			if (got.err == nil) != (got.want == "") || got.err != nil && !strings.Contains(got.err.Error(), got.want) {
				t.Errorf("%s: %v, want %q", tt.what, got.err, got.want)
			}
		}
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	f, err := ReadSettings(write(t, filepath.Join(dir, "a"), "text", 0o644))
	if err != nil || f.Foreign != nil || string(f.Text) != "text" {
		t.Fatalf("a file of one's own: %+v, %v", f, err)
	}
	if f, err := ReadSettings(write(t, filepath.Join(dir, "w"), "text", 0o666)); err != nil || f.Foreign == nil {
		t.Errorf("one that all can write: %+v, %v", f, err)
	}
	shared := write(t, filepath.Join(dir, "g"), "text", 0o664)
	if err := os.Chown(shared, -1, 64177); err == nil { // which needs root
		if f, err := ReadSettings(shared); err != nil || f.Foreign == nil {
			t.Errorf("one that a group can write: %+v, %v", f, err)
		}
	}
	open := filepath.Join(dir, "open")
	write(t, filepath.Join(open, "a"), "text", 0o644)
	os.Chmod(open, 0o777)
	if f, err := ReadSettings(filepath.Join(open, "a")); err != nil || f.Foreign == nil {
		t.Errorf("one in an open folder: %+v, %v", f, err)
	}
	os.Symlink(filepath.Join(dir, "a"), filepath.Join(dir, "link"))
	if f, err := ReadSettings(filepath.Join(dir, "link")); err != nil || f.Foreign != nil || string(f.Text) != "text" ||
		filepath.Base(f.Path) != "link" {
		t.Errorf("a link of one's own to one's own: %+v, %v", f, err)
	}
	os.Symlink(filepath.Join(open, "a"), filepath.Join(dir, "out"))
	if f, err := ReadSettings(filepath.Join(dir, "out")); err != nil || f.Foreign == nil {
		t.Errorf("a link into an open folder: %+v, %v", f, err)
	}
	os.Symlink(filepath.Join(dir, "a"), filepath.Join(open, "link"))
	if f, err := ReadSettings(filepath.Join(open, "link")); err != nil || f.Foreign == nil {
		t.Errorf("a link in an open folder: %+v, %v", f, err)
	}
	if _, err := ReadSettings(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("none: %v", err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "large"), strings.Repeat("#", maxSize+1), 0o600)
	os.Symlink("loop", filepath.Join(dir, "loop"))
	for name, says := range map[string]string{"fifo": "is a FIFO", "large": "larger than 1024 KiB", "open": "is a folder", "loop": "too many links"} {
		done := make(chan error, 1)
		go func() { _, err := ReadSettings(filepath.Join(dir, name)); done <- err }()
		select {
		case err := <-done:
			if err == nil || !strings.Contains(err.Error(), says) || errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: %v, want %q", name, err, says)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: it hangs", name)
		}
	}
}

// A file that changed is not the one that was approved; nor is one that others could have put there.
func TestList(t *testing.T) {
	dir := t.TempDir()
	l := Approvals(filepath.Join(dir, "config", "trusted.json"))
	path := write(t, filepath.Join(dir, "a"), "one", 0o644)
	f, _ := ReadSettings(path)
	if l.Has(f) {
		t.Error("it is approved before anything was")
	}
	if err := l.Add(f); err != nil || !l.Has(f) {
		t.Fatalf("approved: %v", err)
	}
	write(t, path, "two", 0o644)
	if changed, _ := ReadSettings(path); l.Has(changed) {
		t.Error("a changed file is approved")
	}
	copied, _ := ReadSettings(write(t, filepath.Join(dir, "b"), "one", 0o644))
	if l.Has(copied) {
		t.Error("the same text elsewhere is approved")
	}
	os.Chmod(string(l), 0o666)
	if _, err := l.Entries(); err == nil || l.Has(f) {
		t.Errorf("a list that all can write approves: %v", err)
	}
	os.Chmod(string(l), 0o600)
	if err := l.Remove(filepath.Join(dir, "b")); err == nil {
		t.Error("what is not on it was removed")
	}
	if err := l.Remove(path); err != nil || l.Has(f) {
		t.Errorf("removed: %v", err)
	}
	if err := Approvals("").Add(f); err == nil {
		t.Error("there is no list, and it was written")
	}
}

func TestNearest(t *testing.T) {
	top := t.TempDir()
	at := func(parts ...string) string { return filepath.Join(append([]string{top}, parts...)...) }
	for _, d := range []string{"out/a/b", "repo/x/y", "home/p/q", "home/r/s", "up"} {
		if err := os.MkdirAll(at(d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	os.Mkdir(at("repo", ".git"), 0o755)
	write(t, at("home", "r", ".git"), "gitdir: elsewhere", 0o644) // as of a worktree
	for _, d := range []string{".", "out/a", "repo", "home", "up"} {
		write(t, at(d, "f"), "", 0o644)
	}
	os.Symlink(at("repo", "x"), at("up", "link"))
	for dir, want := range map[string]string{
		"out/a": "out/a/f", "out/a/b": "", // outside, only its own
		"repo/x/y": "repo/f", "repo": "repo/f", "home/p/q": "home/f", "home": "home/f",
		"home/r/s": "",       // ends at the repository, below the home folder
		"up/link":  "repo/f", // a folder lies where its links lead
		"up":       "up/f",
	} {
		if want != "" {
			want = at(want)
		}
		if got := Nearest(at(dir), "f", at("home")); got != want {
			t.Errorf("from %s: %q, want %q", dir, got, want)
		}
	}
	if got := Nearest(at("out", "a", "b"), "f", "/"); got != "" {
		t.Errorf("with / for a home: %q", got)
	}
	if os.Getuid() == 0 {
		os.Lchown(at("repo", ".git"), 12345, 12345)
		if got := Nearest(at("repo", "x"), "f", at("home")); got != "" {
			t.Errorf("a repository of another's: %q", got)
		}
	}
}
