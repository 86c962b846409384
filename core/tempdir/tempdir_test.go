package tempdir

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestNew(t *testing.T) {
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
	if dir, err := in(bad); err == nil {
		t.Errorf("a folder was made at %s", dir)
	}
	dir, err := in(append(bad, top))
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
		dir, err := New()
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
