package private

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"
)

const another = 64177 // an account without a name

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mkdir(t *testing.T, path string, mode os.FileMode) string {
	t.Helper()
	must(t, os.MkdirAll(path, 0o755))
	must(t, os.Chmod(path, mode))
	return path
}

// asRoot skips what needs files of another account.
func asRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("files of another account need root")
	}
}

func TestCheck(t *testing.T) {
	top := t.TempDir()
	sticky := mkdir(t, top+"/sticky", 0o777|os.ModeSticky)
	open := mkdir(t, top+"/open", 0o777)
	mkdir(t, open+"/mine", 0o700)
	mkdir(t, sticky+"/mine", 0o700)
	mkdir(t, sticky+"/loose", 0o777)
	must(t, os.Symlink(sticky+"/mine", top+"/link"))
	must(t, os.Symlink("loop", top+"/loop"))
	must(t, os.WriteFile(top+"/file", nil, 0o600))
	for path, want := range map[string]string{
		top:                      "",
		sticky + "/mine":         "",
		sticky + "/mine/not/yet": "",
		sticky + "/not-yet":      "",
		top + "/link":            "", // a link of this user's own
		top + "/link/../mine":    "",
		open + "/mine":           "not sticky",
		open + "/not-yet":        "not sticky",
		sticky + "/loose":        "others can write to",
		sticky + "/loose/below":  "not sticky",
		top + "/file":            "no folder",
		top + "/file/below":      "not a directory",
		top + "/loop":            "too many levels",
	} {
		err := Check(path)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

func TestCheckAnothers(t *testing.T) {
	asRoot(t)
	sticky := mkdir(t, t.TempDir()+"/sticky", 0o777|os.ModeSticky)
	theirs := mkdir(t, sticky+"/theirs", 0o755)
	mkdir(t, theirs+"/mine", 0o700)
	must(t, os.Chown(theirs, another, another))
	mine := mkdir(t, sticky+"/mine", 0o700)
	must(t, os.Symlink(mine, sticky+"/link"))
	must(t, os.Lchown(sticky+"/link", another, another))
	for _, path := range []string{theirs, theirs + "/mine", theirs + "/not-yet", sticky + "/link", sticky + "/link/below"} {
		if err := Check(path); !errors.Is(err, ErrShared) {
			t.Errorf("%s: %v", path, err)
		}
		if err := MkdirAll(path); err == nil {
			t.Errorf("%s was taken", path)
		}
	}
	if _, err := os.Lstat(theirs + "/not-yet"); err == nil {
		t.Error("something was made in another account's folder")
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(dir+"/victim", []byte("thesis"), 0o600))
	must(t, os.Symlink("victim", dir+"/link"))
	must(t, syscall.Mkfifo(dir+"/fifo", 0o600))
	for _, name := range []string{"link", "fifo"} {
		if f, err := Open(filepath.Join(dir, name), os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o600); err == nil {
			f.Close()
			t.Errorf("%s was opened", name)
		}
	}
	f, err := Open(dir+"/victim", os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o600)
	must(t, err)
	f.Close()
	if text, _ := os.ReadFile(dir + "/victim"); string(text) != "thesis" {
		t.Errorf("it was truncated before it was locked: %q", text)
	}
	if os.Geteuid() == 0 {
		must(t, os.Chown(dir+"/victim", another, another))
		if _, err := Open(dir+"/victim", os.O_RDONLY, 0); !errors.Is(err, ErrShared) {
			t.Errorf("another account's file: %v", err)
		}
	}
}

// What is written does not pass through TMPDIR, where another account might exchange it.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	tmp, long := mkdir(t, t.TempDir()+"/tmp", 0o700), time.Unix(1e9, 0)
	t.Setenv("TMPDIR", tmp)
	must(t, os.Chtimes(tmp, long, long))
	must(t, WriteFile(dir+"/a", []byte("b"), 0o600))
	if info, err := os.Stat(tmp); err != nil || !info.ModTime().Equal(long) {
		t.Errorf("it was written to TMPDIR first: %v", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("it left %v", entries)
	}
}

// A temporary folder is not made where others could rename it.
func TestTemp(t *testing.T) {
	open := mkdir(t, t.TempDir()+"/open", 0o777)
	t.Setenv("TMPDIR", open)
	dir, err := Temp("launch-test-")
	must(t, err)
	defer os.Remove(dir)
	if strings.HasPrefix(dir, open) || Check(dir) != nil {
		t.Errorf("it is %s: %v", dir, Check(dir))
	}
	if entries, _ := os.ReadDir(open); len(entries) != 0 {
		t.Errorf("it left %v", entries)
	}
}

func TestFollow(t *testing.T) {
	top := t.TempDir()
	top, err := filepath.EvalSymlinks(top)
	must(t, err)
	must(t, os.WriteFile(top+"/file", nil, 0o600))
	must(t, os.Symlink("file", top+"/link"))
	must(t, os.Symlink("nothing", top+"/dangling"))
	for path, want := range map[string]string{
		top + "/file": top + "/file", top + "/link": top + "/file", top + "/new": top + "/new", top + "/dangling": top + "/dangling",
		top + "/no/new": top + "/no/new", "/dev/null": "/dev/null",
	} {
		if got, err := Follow(path); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", path, got, err, want)
		}
	}
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	if got, err := Follow("/proc/self/fd/" + strconv.Itoa(int(w.Fd()))); err != nil || !strings.Contains(got, "/fd/") {
		t.Errorf("a pipe: %s, %v", got, err)
	}
	asRoot(t)
	sticky := mkdir(t, top+"/sticky", 0o777|os.ModeSticky)
	must(t, os.Symlink(top+"/file", sticky+"/mine"))
	must(t, os.Symlink(top+"/file", sticky+"/theirs"))
	must(t, os.Symlink(top, sticky+"/way"))
	must(t, os.WriteFile(sticky+"/regular", nil, 0o666))
	must(t, syscall.Mkfifo(sticky+"/fifo", 0o666))
	for _, name := range []string{"theirs", "way", "regular", "fifo"} {
		must(t, os.Lchown(sticky+"/"+name, another, another))
	}
	if got, err := Follow(sticky + "/mine"); err != nil || got != top+"/file" {
		t.Errorf("a link of this user's own: %s, %v", got, err)
	}
	for _, path := range []string{sticky + "/theirs", sticky + "/way/file", sticky + "/regular", sticky + "/fifo"} {
		if got, err := Follow(path); !errors.Is(err, ErrShared) {
			t.Errorf("%s is followed to %s: %v", path, got, err)
		}
	}
	must(t, os.Chown(sticky, another, another)) // its owner's links are its own affair, as for the kernel
	if _, err := Follow(sticky + "/theirs"); err != nil {
		t.Errorf("a link of the folder's owner: %v", err)
	}
}

// A group counts as this user's own where nobody else is in it, and the files know everybody.
func TestAlone(t *testing.T) {
	etc := func(nsswitch, passwd, group string) fstest.MapFS {
		return fstest.MapFS{"nsswitch.conf": {Data: []byte(nsswitch)}, "passwd": {Data: []byte(passwd)}, "group": {Data: []byte(group)}}
	}
	const me = "root:x:0:0::/root:/bin/sh\njovyan:x:1000:100::/home/jovyan:/bin/bash\n"
	for name, tt := range map[string]struct {
		etc  fstest.MapFS
		want bool
	}{
		"in a container":               {etc("passwd: files\ngroup: files systemd\n", me, "users:x:100:\n"), true},
		"without nsswitch.conf":        {fstest.MapFS{"passwd": {Data: []byte(me)}}, true},
		"listed by name":               {etc("", me, "users:x:100:jovyan\n"), true},
		"with another of that group":   {etc("", me+"eve:x:1001:100::/:/bin/sh\n", "users:x:100:\n"), false},
		"with another member":          {etc("", me, "users:x:100:jovyan,eve\n"), false},
		"with a directory of accounts": {etc("passwd: files sss\n", me, "users:x:100:\n"), false},
	} {
		if got := alone(tt.etc, 100, 1000); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
