package record

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/run"
)

func aRun() *run.Run {
	return &run.Run{
		Job:     &job.Job{Plugin: "sisr", Command: job.Command{Args: []string{"python", "train.py"}, Dir: "/w"}},
		Ladders: &ladder.Set{Shared: ladder.Ladder{Phase: ladder.Shared, Rungs: []ladder.Rung{{Name: "as asked"}}}},
		Room:    123,
	}
}

// What was written can be read, also when launch died while it wrote, and appended to after that.
func TestTornRecord(t *testing.T) {
	s := Store{Dir: filepath.Join(t.TempDir(), "runs")}
	rec, err := s.Create(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := rec.Write(Event{Kind: Started, Run: aRun()}); err != nil {
		t.Fatal(err)
	}
	rec.Planned(&run.Plan{Attempt: 1})
	rec.Ended(&run.Attempt{Plan: run.Plan{Attempt: 1}, Outcome: run.Outcome{Ending: run.OutOfMemory}})
	rec.Planned(&run.Plan{Attempt: 2})
	rec.Close()
	path := filepath.Join(rec.Dir, events)
	b, _ := os.ReadFile(path)
	for cut := len(b); cut > len(b)-40; cut-- {
		if err := os.WriteFile(path, b[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		h, err := s.Read(rec.ID)
		if err != nil {
			t.Fatalf("cut to %d bytes: %v", cut, err)
		}
		r := h.Run()
		if r == nil || len(r.Attempts) != 1 || r.Room != 123 || r.Attempts[0].Outcome.Ending != run.OutOfMemory {
			t.Fatalf("cut to %d bytes: the run is %+v", cut, r)
		}
		if h.Torn != (cut < len(b)-1) {
			t.Errorf("cut to %d of %d bytes: torn is %v", cut, len(b), h.Torn)
		}
	}
	again, err := s.Append(rec.ID)
	if err != nil {
		t.Fatal(err)
	}
	again.Write(Event{Kind: Stopped, Stop: &run.Stop{Why: "over"}})
	again.Close()
	h, err := s.Read(rec.ID)
	if err != nil || h.Stop() == nil || h.Stop().Why != "over" {
		t.Errorf("after appending to a torn record: stop %+v, %v", h.Stop(), err)
	}
}

func TestFind(t *testing.T) {
	s := Store{Dir: filepath.Join(t.TempDir(), "runs")}
	if _, err := s.Find("last"); err == nil || !strings.Contains(err.Error(), "no run yet") {
		t.Errorf("in an empty store: %v", err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var ids []string
	for i := range 3 {
		rec, err := s.Create(at.Add(time.Duration(i) * time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		rec.Close()
		ids = append(ids, rec.ID)
	}
	for name, want := range map[string]string{"last": ids[2], "": ids[2], ids[0]: ids[0], ids[1][:len(ids[1])-2]: ids[1]} {
		if got, err := s.Find(name); err != nil || got != want {
			t.Errorf("Find(%q) = %q, %v; want %q", name, got, err, want)
		}
	}
	if _, err := s.Find("2026"); err == nil || !strings.Contains(err.Error(), "could be any of") {
		t.Errorf("an ambiguous name: %v", err)
	}
	for _, name := range []string{"../../etc", "nobody"} {
		if _, err := s.Find(name); err == nil {
			t.Errorf("Find(%q) found one", name)
		}
		if _, err := s.Read(name); err == nil {
			t.Errorf("Read(%q) read one", name)
		}
	}
}

func TestMask(t *testing.T) {
	args := []string{"python", "t.py", "--wandb-token", "abc", "--api_key=def", "PASSWORD=ghi", "-opt", "x.yml", "https://me:jkl@host/x", "--tokenizer", "bert"}
	want := []string{"python", "t.py", "--wandb-token", Masked, "--api_key=" + Masked, "PASSWORD=" + Masked, "-opt", "x.yml", "https://me:" + Masked + "@host/x", "--tokenizer", "bert"}
	if got := MaskArgs(args); !slices.Equal(got, want) {
		t.Errorf("masked to %q\nwant      %q", got, want)
	}
	if args[3] != "abc" {
		t.Error("the command itself was changed")
	}
	env := MaskEnv([]string{"HOME=/h", "CUDA_VISIBLE_DEVICES=0", "AWS_SECRET_ACCESS_KEY=x", "LAUNCH_SECRET=y", "PYTORCH_CUDA_ALLOC_CONF=a:b"})
	if want := []string{"CUDA_VISIBLE_DEVICES=0", "LAUNCH_SECRET=" + Masked, "PYTORCH_CUDA_ALLOC_CONF=a:b"}; !slices.Equal(env, want) {
		t.Errorf("environment %q, want %q", env, want)
	}
}

func TestLock(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s := Store{Dir: filepath.Join(t.TempDir(), "runs")}
	unlock, err := s.Lock("/w/experiments/x", "run 1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Lock("/w/experiments/x", "run 2"); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "run 1 holds /w/experiments/x") {
		t.Errorf("a second launch in the same experiment: %v", err)
	}
	if other, err := s.Lock("/w/experiments/y", "run 2"); err != nil {
		t.Errorf("another experiment: %v", err)
	} else {
		other()
	}
	unlock()
	if again, err := s.Lock("/w/experiments/x", "run 3"); err != nil {
		t.Errorf("after the first has ended: %v", err)
	} else {
		again()
	}
}
