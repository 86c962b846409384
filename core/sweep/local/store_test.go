package local

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/launch-ml/launch/core/sweep"
)

func create(t *testing.T, s Folders, name string) *Journal {
	t.Helper()
	j, err := s.Create(sweep.Spec{Name: name, Command: []string{"true"}})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func TestStore(t *testing.T) {
	s := In(t.TempDir())
	if _, err := s.Find(""); err == nil || !strings.Contains(err.Error(), "no sweeps yet") {
		t.Error(err)
	}
	j := create(t, s, "a")
	if _, err := s.Create(sweep.Spec{Name: "a"}); err == nil || !strings.Contains(err.Error(),
		"there is a sweep a already") {
		t.Error(err)
	}
	if _, _, err := s.Open("a"); !errors.Is(err, ErrDriven) {
		t.Errorf("two processes drive one sweep: %v", err)
	}
	if s.Driver("a") != os.Getpid() {
		t.Error("nobody drives the sweep")
	}
	if err := j.Write(sweep.Event{Version: 1, Time: time.Now(), Kind: sweep.Listed, Trials: []sweep.Trial{{Number: 1},
		{Number: 2}}}); err != nil {
		t.Fatal(err)
	}
	j.Close()
	if s.Driver("a") != 0 {
		t.Error("a closed journal is driven")
	}
	time.Sleep(time.Millisecond)
	create(t, s, "B").Close()
	if name, err := s.Find("last"); err != nil || name != "B" {
		t.Errorf("the last sweep is %q: %v", name, err)
	}
	if _, err := s.Read("../a"); err == nil {
		t.Error("a name leads out of the folder")
	}
	if _, err := s.Read("c"); err == nil || !strings.Contains(err.Error(), "no sweep c") {
		t.Error(err)
	}
}

// Whatever part of the last line a crash leaves: what was written before is read, and what is written after it, too.
func TestTorn(t *testing.T) {
	s := In(t.TempDir())
	j := create(t, s, "a")
	j.Write(sweep.Event{Version: 1, Kind: sweep.Listed, Trials: []sweep.Trial{{Number: 1}}})
	before, err := os.ReadFile(filepath.Join(s.Folder("a"), journalFile))
	if err != nil {
		t.Fatal(err)
	}
	j.Write(sweep.Event{Version: 1, Kind: sweep.Started, Trial: 1, Start: 1})
	j.Close()
	whole, _ := os.ReadFile(filepath.Join(s.Folder("a"), journalFile))
	for cut := len(before); cut <= len(whole); cut++ {
		if err := os.WriteFile(filepath.Join(s.Folder("a"), journalFile), whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		j, h, err := s.Open("a")
		if err != nil {
			t.Fatal(err)
		}
		if complete := cut >= len(whole)-1; len(h.Rows) != 1 || (h.Rows[0].State == sweep.Running) != complete {
			t.Fatalf("cut at %d of %d: %+v", cut, len(whole), h.Rows[0])
		}
		j.Write(sweep.Event{Version: 1, Kind: sweep.Listed, Trials: []sweep.Trial{{Number: 2}}})
		j.Close()
		if h, err := s.Read("a"); err != nil || len(h.Rows) != 2 {
			t.Fatalf("cut at %d: what was written after it is lost: %v", cut, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"v":1,"event":"sweep","spec":{"name":"a"}}` + "\n" +
		`{"v":1,"event":"trials","trials":[{"trial":1}],"done":true}` + "\n" +
		`{"v":1,"event":"started","trial":1,"start":1}` + "\n" +
		`{"v":1,"event":"ended","trial":1,"start":1,"result":{"ending":"succeeded"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		events, _ := Parse(text)
		h, err := sweep.Replay(events)
		if err != nil {
			return
		}
		for i, r := range h.Rows {
			if r.Number != i+1 {
				t.Errorf("row %d is trial %d", i, r.Number)
			}
		}
		h.Code()
		h.Waiting()
	})
}

// A sweep of the same name that cannot be read is told as that.
func TestCreateAgain(t *testing.T) {
	s := Folders{Dir: filepath.Join(t.TempDir(), "sweeps")}
	create(t, s, "s").Close()
	if err := os.Truncate(filepath.Join(s.Folder("s"), journalFile), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(sweep.Spec{Name: "s"}); err == nil || !strings.Contains(err.Error(), "or remove") {
		t.Error(err)
	}
}
