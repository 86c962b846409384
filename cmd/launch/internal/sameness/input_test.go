package sameness

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/launch-ml/launch/core/job"
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
	var in Stdin
	in.Begin(f)
	io.ReadAll(f)
	if what := in.Again(); len(what) > 0 {
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
		var in Stdin
		in.Begin(r)
		if what := in.Again(); len(what) > 0 {
			t.Errorf("a pipe that was not read: %v", what)
		}
		io.ReadAll(r)
		if what := in.Again(); len(what) != says {
			t.Errorf("a pipe with %q that was read: %v", text, what)
		}
	}
}

// A pipe that an argument names is told once it was read; one that is written to, and a file, are none. Rows of a sweep
// read neither a pipe nor standard input.
func TestPipes(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w.WriteString("lr: 1")
	reads, writes := fmt.Sprintf("/dev/fd/%d", r.Fd()), fmt.Sprintf("/dev/fd/%d", w.Fd())
	c := job.Command{Dir: dir, Args: []string{"t.py", "--config=" + reads, "--log", writes, "file", "-", "--x=", "fifo"}}
	found := PipesOf(c)
	if len(found) != 2 || found[0].name != reads || found[1].name != "fifo" {
		t.Fatalf("found %+v", found)
	}
	if what := found[0].Again(); len(what) > 0 {
		t.Errorf("a pipe that was not read: %v", what)
	}
	w.Close()
	io.ReadAll(r)
	for _, p := range found {
		if what := p.Again(); len(what) != 1 {
			t.Errorf("%s was read: %v", p.name, what)
		}
	}
	refuses := map[string]bool{reads: true, "fifo": true, "--in=/dev/stdin": true, "file": false, "-": false}
	for arg, refused := range refuses {
		if err := NoPipes(job.Command{Dir: dir, Args: []string{"t.py", arg}}); (err != nil) != refused {
			t.Errorf("%s: %v", arg, err)
		}
	}
}
