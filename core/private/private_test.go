package private

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
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
	dir, err := Temp("launch-")
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
	const group = "root:x:0:\nann:x:1000:\nbob:x:1001:ann\nops:x:50:root\n"
	people := etc("passwd: files sss\n", "root:x:0:0::/:/bin/sh\noperator:x:11:0::/:/sbin/nologin\nann:x:1000:1000::/:/bin/sh\nbob:x:1001:1001::/:/bin/sh\n", group)
	for _, tt := range []struct {
		gid, uid int
		want     bool
	}{{1000, 1000, true}, {1001, 1001, false}, {0, 0, true}, {0, 1000, true}, {4242, 4242, true}, {50, 1000, false}} {
		if got := alone(people, tt.gid, tt.uid); got != tt.want {
			t.Errorf("group %d of user %d: %v", tt.gid, tt.uid, got)
		}
	}
	if alone(etc("", me, "root:x:0:eve\n"), 0, 0) {
		t.Error("root's group with another in it counts as root's alone")
	}
}

// An access list counts as what it grants, whatever group a file is of.
func TestGrants(t *testing.T) {
	entry := func(tag, may, id int) []byte {
		return []byte{byte(tag), 0, byte(may), 0, byte(id), byte(id >> 8), 0, 0}
	}
	own := func(gid int) bool { return gid == 1000 }
	for name, tt := range map[string]struct {
		entries [][]byte
		want    bool
	}{
		"another reads":      {[][]byte{entry(1, 7, 0), entry(2, 5, 1001), entry(4, 5, 0), entry(0x10, 7, 0)}, false},
		"another writes":     {[][]byte{entry(1, 7, 0), entry(2, 7, 1001), entry(4, 5, 0), entry(0x10, 7, 0)}, true},
		"this user and root": {[][]byte{entry(2, 7, 1000), entry(2, 7, 0), entry(4, 7, 0)}, false},
		"a shared group":     {[][]byte{entry(4, 5, 0), entry(8, 7, 7)}, true},
		"its own group":      {[][]byte{entry(4, 7, 0), entry(8, 7, 1000)}, false},
	} {
		if got := grants(slices.Concat(append([][]byte{{2, 0, 0, 0}}, tt.entries...)...), 1000, 1000, own); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A file that is run lies where nobody else can put one beside it.
func TestCheckFile(t *testing.T) {
	top := t.TempDir()
	sticky, good := mkdir(t, top+"/sticky", 0o777|os.ModeSticky), mkdir(t, top+"/good", 0o755)
	mkdir(t, sticky+"/mine", 0o700)
	for _, path := range []string{sticky + "/a", sticky + "/mine/a", good + "/a", good + "/open"} {
		must(t, os.WriteFile(path, nil, 0o700))
	}
	must(t, os.Chmod(good+"/open", 0o702))
	must(t, os.Symlink(good+"/a", sticky+"/link"))
	must(t, os.Symlink(sticky+"/mine/a", good+"/link"))
	for path, says := range map[string]string{
		good + "/a": "", sticky + "/mine/a": "", good + "/link": "", sticky + "/a": "others can write to", sticky + "/link": "others can write to",
		good + "/open": "others can write to", good: "is no file", good + "/none": "no such file",
	} {
		if err := CheckFile(path); (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", path, err, says)
		}
	}
}

// What comes with the system may be another account's, and not everybody's.
func TestCheckOpen(t *testing.T) {
	top := t.TempDir()
	sticky, open := mkdir(t, top+"/sticky", 0o777|os.ModeSticky), mkdir(t, top+"/open", 0o777)
	good := mkdir(t, top+"/good", 0o775)
	mkdir(t, sticky+"/mine", 0o755)
	mkdir(t, open+"/below", 0o755)
	files := []string{good + "/a", sticky + "/a", sticky + "/mine/a", open + "/a", open + "/below/a", good + "/open"}
	for _, path := range files {
		must(t, os.WriteFile(path, nil, 0o755))
	}
	must(t, os.Chmod(good+"/open", 0o757))
	for name, to := range map[string]string{
		"one": "a", "two": "one", "up": "../open/a", "back": open + "/back", "loop": "loop", "none": "nothing", "dir": open,
	} {
		must(t, os.Symlink(to, good+"/"+name))
	}
	must(t, os.Symlink(good+"/a", open+"/back"))
	if os.Geteuid() == 0 {
		must(t, os.Chown(good, another, another))
	}
	for path, says := range map[string]string{
		good + "/a": "", good + "/two": "", sticky + "/mine/a": "", good + "/none": "", "/bin/sh": "", good: "",
		sticky + "/a": "write to " + sticky, open + "/a": "write to " + open, open + "/below/a": "write to " + open,
		good + "/open": "write to " + good + "/open", good + "/up": "write to " + open, good + "/back": "write to " + open,
		good + "/dir": "write to " + open, good + "/loop": "too many levels",
	} {
		err := CheckOpen(path)
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", path, err, says)
		}
	}
}

// It is not made where that cannot be, where others could replace it, or where its path is of no use.
func TestTempPlaces(t *testing.T) {
	top, err := os.MkdirTemp("/tmp", "t")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(top)
	long := filepath.Join(top, strings.Repeat("long", 30))
	file := filepath.Join(top, "file")
	colon := filepath.Join(top, "a:b")
	open := filepath.Join(top, "open")
	for _, d := range []string{long, colon, open} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	os.Chmod(open, 0o777)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	bad := []string{"", "relative", filepath.Join(top, "none"), file, long, colon, open, "/proc"}
	if dir, err := tempIn("launch-", bad); err == nil {
		t.Errorf("a folder was made at %s", dir)
	}
	dir, err := tempIn("launch-", append(bad, top))
	if err != nil || filepath.Dir(dir) != top {
		t.Fatalf("%s, %v", dir, err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	if left, _ := os.ReadDir(long); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	for _, tmp := range []string{long, "/nowhere", colon, "relative", ""} {
		t.Setenv("TMPDIR", tmp)
		t.Setenv("XDG_RUNTIME_DIR", tmp)
		dir, err := Temp("launch-")
		if err != nil {
			t.Fatal(err)
		}
		deep := filepath.Join(dir, "plugin-dir4294967295")
		os.Mkdir(deep, 0o700)
		l, err := net.Listen("unix", filepath.Join(deep, "plugin4294967295"))
		if err != nil {
			t.Errorf("TMPDIR=%s: %v", tmp, err)
		} else {
			l.Close()
		}
		os.RemoveAll(dir)
	}
}
