package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("five"), []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(at("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("five", at("link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"five", "link"} {
		if text, err := Read(at(name), 5); err != nil || string(text) != "12345" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	for name, says := range map[string]string{"five": "more than 4 bytes", "fifo": "not an ordinary file", ".": "not an ordinary file", "/dev/zero": "not an ordinary file"} {
		path := name
		if !filepath.IsAbs(name) {
			path = at(name)
		}
		var unread *Unread
		if _, err := Read(path, 4); !errors.As(err, &unread) || !strings.Contains(unread.Why, says) {
			t.Errorf("%s: %v, want %q", name, err, says)
		}
	}
	if _, err := Read(at("none"), 5); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// To look at a FIFO must not let its writer go on: what it writes is the program's.
func TestWriterOfAFIFOWaitsOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	wrote := make(chan error, 1)
	go func() { wrote <- os.WriteFile(path, []byte("recipe"), 0o600) }()
	for range 10 {
		if _, err := Read(path, 100); err == nil {
			t.Fatal("a FIFO was read")
		}
	}
	text, err := os.ReadFile(path)
	if err != nil || string(text) != "recipe" || <-wrote != nil {
		t.Errorf("the program reads %q, %v", text, err)
	}
}
