package record

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/unit"
)

var prunes = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

func names(ps []Pruned) (out []string) {
	for _, p := range ps {
		out = append(out, p.ID)
	}
	return out
}

func TestBeyond(t *testing.T) {
	run := func(id string, days int, bytes unit.Bytes, stays bool) stored {
		return stored{id, bytes, prunes.Add(-time.Duration(days) * day), stays}
	}
	all := []stored{run("a", 200, 10, false), run("b", 150, 10, true), run("c", 50, 30, false), run("d", 40, 30, false), run("e", 300, 30, false)}
	for _, c := range []struct {
		b    Bounds
		want string
	}{
		{Bounds{90 * day, 1000, 0}, "a e"},
		{Bounds{90 * day, 1000, 1}, "a"}, // the newest stays, however old
		{Bounds{90 * day, 70, 1}, "a c"}, // the oldest that may goes first
		{Bounds{900 * day, 1, 2}, "a c"}, // what can be resumed stays, whatever the bounds
		{Bounds{900 * day, 1, 100}, ""},  // no run but the newest is there
		{Bounds{900 * day, 1000, 0}, ""}, // nothing is beyond
		{Bounds{900 * day, 100, 0}, "a"}, // and no more goes than has to
	} {
		if got := strings.Join(names(beyond(all, c.b, prunes)), " "); got != c.want {
			t.Errorf("%+v: %q, want %q", c.b, got, c.want)
		}
	}
}

// old makes runs that ended so many days ago, with so much output.
func old(t *testing.T, s Store, days, bytes int) *Record {
	t.Helper()
	at := prunes.Add(-time.Duration(days) * day)
	rec, err := s.Create(at)
	if err != nil {
		t.Fatal(err)
	}
	rec.Write(Event{Kind: Started, Run: aRun(), Time: at})
	dir, err := rec.Attempt(1)
	if err != nil {
		t.Fatal(err)
	}
	os.WriteFile(filepath.Join(dir, OutputFile), make([]byte, bytes), 0o600)
	return rec
}

// Every attempt of a run may have left something, whatever lies between them.
func TestScratch(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	for _, dir := range []string{"a", "attempt-1", "attempt-2/scratch", "attempt-3", "attempt-4/scratch/models", "b/scratch"} {
		if err := os.MkdirAll(filepath.Join(s.Dir, "r", dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"attempt-4/scratch/models/x.pt", "attempt-5", "b/scratch/x.pt"} {
		if err := os.WriteFile(filepath.Join(s.Dir, "r", file), make([]byte, 5000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, dry := range []bool{true, false} {
		if left, err := s.scratch(root, "r", dry); err != nil || left != 5001 {
			t.Errorf("dry %v: %d bytes, %v; want 5001, an empty folder counts as one", dry, left, err)
		}
	}
	for dir, stays := range map[string]bool{"attempt-2/scratch": false, "attempt-4/scratch": false, "attempt-4": true,
		"b/scratch": true, "attempt-5": true} {
		if _, err := os.Stat(filepath.Join(s.Dir, "r", dir)); (err == nil) != stays {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

func TestPrune(t *testing.T) {
	top := t.TempDir()
	s := Store{Dir: filepath.Join(top, "runs")}
	precious := filepath.Join(top, "precious")
	os.MkdirAll(precious, 0o755)
	os.WriteFile(precious+"/thesis", make([]byte, 1<<20), 0o600)
	var ids []string
	for i, what := range []string{"alive", "resumable", "over", "linked", "rehearsed", "newest"} {
		rec := old(t, s, 200-i, 1000)
		ids = append(ids, rec.ID)
		switch what {
		case "linked": // a program may leave links in what it is given
			os.Symlink(precious, filepath.Join(rec.Dir, "attempt-1", "link"))
			os.Symlink(precious, filepath.Join(rec.Dir, "attempt-1", Scratch))
		case "rehearsed":
			os.MkdirAll(filepath.Join(rec.Dir, "attempt-1", Scratch, "models"), 0o700)
			os.WriteFile(filepath.Join(rec.Dir, "attempt-1", Scratch, "models", "x.pt"), make([]byte, 5000), 0o600)
		}
		if what != "alive" {
			rec.Close()
		} else {
			defer rec.Close()
		}
	}
	os.Mkdir(filepath.Join(s.Dir, gone+"x"), 0o700)
	os.Symlink(precious, filepath.Join(s.Dir, "20200101-000000.000-link"))
	resumable := func(h *History) bool { return h.ID == ids[1] || h.ID == ids[4] }
	prune := func(dry bool) []Pruned {
		t.Helper()
		out, err := s.Prune(context.Background(), Bounds{90 * day, unit.GiB, 1}, prunes, resumable, dry)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	want := fmt.Sprint([]string{ids[4], ids[2], ids[3]})
	if got := fmt.Sprint(names(prune(true))); got != want {
		t.Errorf("it would remove %s, want %s", got, want)
	}
	if left, _ := s.List(); len(left) != 6 {
		t.Errorf("without being told to, it left %v", left)
	}
	if got := fmt.Sprint(names(prune(false))); got != want {
		t.Errorf("it removed %s, want %s", got, want)
	}
	if left, _ := s.List(); !slices.Equal(left, []string{ids[0], ids[1], ids[4], ids[5]}) {
		t.Errorf("it left %v", left)
	}
	if _, err := os.Stat(precious + "/thesis"); err != nil {
		t.Error("a link was followed")
	}
	if _, err := os.Stat(filepath.Join(s.Dir, ids[4], "attempt-1", Scratch)); err == nil {
		t.Error("what a killed rehearsal has left is still there")
	}
	if _, err := os.Stat(filepath.Join(s.Dir, gone+"x")); err == nil {
		t.Error("a half removed run is still there")
	}
	if again := prune(false); len(again) != 0 {
		t.Errorf("again it removed %v", again)
	}
}

func TestDue(t *testing.T) {
	s := Store{Dir: filepath.Join(t.TempDir(), "runs")}
	if !s.Due(prunes) {
		t.Error("never done, and not due")
	}
	s.Done(prunes)
	if s.Due(prunes.Add(time.Hour)) || !s.Due(prunes.Add(25*time.Hour)) {
		t.Error("done, it is due within the day, or not after it")
	}
}

// In a folder that another account can write nothing is noted: it may have been made since the state folder was chosen.
func TestDoneOnlyInAnOwnFolder(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	s := In(state)
	if s.Done(time.Now()); s.Due(time.Now()) {
		t.Error("in a folder of its own it notes nothing")
	}
	shared := filepath.Join(t.TempDir(), "state")
	os.Mkdir(shared, 0o700)
	os.Chmod(shared, 0o777)
	In(shared).Done(time.Now())
	if names, _ := os.ReadDir(shared); len(names) > 0 {
		t.Errorf("another account's folder has %v", names)
	}
}
