package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// The next attempt reads a file from where the first one did; a pipe that was read is told.
func TestInput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(path, []byte("abc"), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.Seek(1, io.SeekStart)
	var in stdin
	in.begin(f)
	io.ReadAll(f)
	if what := in.again(); len(what) > 0 {
		t.Errorf("a file: %v", what)
	}
	if text, _ := io.ReadAll(f); string(text) != "bc" {
		t.Errorf("again: %q", text)
	}
	for text, says := range map[string]int{"": 0, "abc": 1} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		w.WriteString(text)
		w.Close()
		var in stdin
		in.begin(r)
		if what := in.again(); len(what) > 0 {
			t.Errorf("a pipe that was not read: %v", what)
		}
		io.ReadAll(r)
		if what := in.again(); len(what) != says {
			t.Errorf("a pipe with %q that was read: %v", text, what)
		}
	}
}
