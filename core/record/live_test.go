package record

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/unit"
)

func open(t *testing.T) (dir string, f *StatusFile) {
	t.Helper()
	dir = t.TempDir()
	f, err := CreateStatus(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir, f
}

// A reader receives the last status, also where it is shorter than the one before.
func TestWriteAndRead(t *testing.T) {
	dir, f := open(t)
	if _, err := ReadStatus(dir); err == nil || errors.Is(err, ErrNoStatus) {
		t.Errorf("before the first status: %v", err)
	}
	for _, phase := range []string{strings.Repeat("validation", 50), "training"} {
		if err := f.Write(Status{Phase: phase, Attempt: 2}); err != nil {
			t.Fatal(err)
		}
		if s, err := ReadStatus(dir); err != nil || s.Phase != phase || s.Attempt != 2 || s.Version != StatusVersion {
			t.Errorf("read %+v, %v", s, err)
		}
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := ReadStatus(dir); !errors.Is(err, ErrNoStatus) {
		t.Errorf("after the end: %v", err)
	}
}

// Nothing is believed of a file that is half written, damaged, or of a newer launch, or that is not this user's file.
func TestReadRefuses(t *testing.T) {
	dir, f := open(t)
	if err := f.Write(Status{Phase: "training", Attempt: 7}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, statusName)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	newer := `{"version":2}`
	for name, text := range map[string]string{
		"half":       string(whole[:len(whole)/2]),
		"mixed":      strings.Replace(string(whole), `"attempt":7`, `"attempt":8`, 1),
		"without it": newer + "\n",
		"newer":      newer + "\n5a1dc9f0\n",
		"empty":      "",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := ReadStatus(dir); err == nil {
			t.Errorf("%s: read %+v", name, s)
		} else if newer := strings.Contains(err.Error(), "newer launch"); newer != (name == "newer") {
			t.Errorf("%s: %v", name, err)
		}
	}
	os.Remove(path)
	if err := os.Symlink("/etc/passwd", path); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadStatus(dir); err == nil {
		t.Error("a link was followed")
	}
}

func TestLeft(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	p := Progress{Iteration: 400, Total: 1000, At: now, Step: time.Second}
	change := func(f func(*Progress)) *Progress {
		q := p
		f(&q)
		return &q
	}
	for _, tt := range []struct {
		name string
		p    *Progress
		left time.Duration
		ok   bool
	}{
		{"known", &p, 10 * time.Minute, true},
		{"some of it has passed", change(func(p *Progress) { p.At = now.Add(-time.Minute) }), 9 * time.Minute, true},
		{"late", change(func(p *Progress) { p.At = now.Add(-time.Hour) }), 0, false},
		{"without an end", change(func(p *Progress) { p.Total = math.MaxInt64 }), 0, false},
		{"at the end", change(func(p *Progress) { p.Iteration = 1000 }), 0, true},
		{"no total", change(func(p *Progress) { p.Total = 0 }), 0, false},
		{"no speed", change(func(p *Progress) { p.Step = 0 }), 0, false},
		{"counted within an epoch", change(func(p *Progress) { p.Epoch = true }), 0, false},
		{"beyond the total", change(func(p *Progress) { p.Iteration = 1001 }), 0, false},
		{"no report", nil, 0, false},
	} {
		if left, ok := tt.p.Left(now); left != tt.left || ok != tt.ok {
			t.Errorf("%s: %v, %v; want %v, %v", tt.name, left, ok, tt.left, tt.ok)
		}
	}
	if part, ok := p.Part(); part != 0.4 || !ok {
		t.Errorf("part %v, %v", part, ok)
	}
	if _, ok := (*Progress)(nil).Part(); ok {
		t.Error("without a report a part is known")
	}
}

func TestExpected(t *testing.T) {
	s := Status{Predicted: map[string]unit.Bytes{"training": 4, "validation": 9}}
	for phase, want := range map[string]unit.Bytes{"": 9, "training": 4, "validation": 9, "sampling": 0} {
		if s.Phase = phase; s.Expected() != want {
			t.Errorf("in phase %q: %v, want %v", phase, s.Expected(), want)
		}
	}
}
