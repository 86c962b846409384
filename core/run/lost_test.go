package run

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
)

// keeper carries out plans that all run out of memory and save two states each. Those in gone have changed.
type keeper struct {
	*script
	gone []string
	told []string
	from []string
}

func (k *keeper) Changed(s State) string {
	if slices.Contains(k.gone, s.Path) {
		return "changed since this run wrote it"
	}
	return ""
}

func (k *keeper) Lost(lost []Loss, from State) {
	k.told = append(k.told, strings.Join(Losses(lost), "; ")+": "+from.Path)
}

func (k *keeper) Execute(ctx context.Context, p *Plan) (Outcome, error) {
	if p.Resume != nil {
		k.from = append(k.from, p.Resume.Path)
	}
	n := len(k.from)
	out := oomIn(ladder.Training, 0, 0)
	out.Saved, out.Earlier = &State{Path: fmt.Sprintf("%d-2.pt", n)}, []State{{Path: fmt.Sprintf("%d-1.pt", n)}}
	return out, nil
}

// A retry resumes from the newest state that is still the run's, and starts nothing if there is none.
func TestRetryFromWhatIsLeft(t *testing.T) {
	for name, tt := range map[string]struct{ gone, from, told, why string }{
		"all are its own":        {"", "0-2.pt 1-2.pt", "", ""},
		"the newest has changed": {"0-2.pt", "0-1.pt 1-2.pt", "0-2.pt changed since this run wrote it: 0-1.pt", ""},
		"those of one attempt": {"1-2.pt 1-1.pt", "0-2.pt 0-2.pt", "1-2.pt, 1-1.pt changed since this run wrote it: 0-2.pt",
			""},
		"none is left": {"0-2.pt 0-1.pt", "", "", "no saved state is left that this run could resume from: 0-2.pt, 0-1.pt " +
			"changed since this run wrote it"},
	} {
		r := eightBit()
		r.Job = &job.Job{}
		k := &keeper{script: &script{}, gone: strings.Fields(tt.gone)}
		r.Ladders.Shared.Rungs = r.Ladders.Shared.Rungs[:1]
		stop, err := r.Carry(t.Context(), k, k.script)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := strings.Join(k.from, " "); got != tt.from || strings.Join(k.told, "|") != tt.told {
			t.Errorf("%s: it resumes from %s, want %s; told %q", name, got, tt.from, k.told)
		}
		if tt.why != "" && (stop.Why != tt.why || stop.Code != OwnTrouble) {
			t.Errorf("%s: it stops with %+v", name, stop)
		}
	}
}

// Only the newest states are looked at, of each form; what an attempt that started over left behind is not.
func TestLost(t *testing.T) {
	state := func(path string, rungs ...string) *State { return &State{Path: path, Digest: path, Rungs: rungs} }
	r := &Run{Job: &job.Job{}, Attempts: []Attempt{
		{Outcome: Outcome{Saved: state("before")}},
		{Outcome: Outcome{Saved: state("b", "8bit"), Earlier: []State{*state("a", "8bit")}}}, // it started over
		{Plan: Plan{Resume: state("b")}, Outcome: Outcome{Saved: state("d"), Earlier: []State{*state("c")}}},
	}}
	var asked []string
	lost := r.Lost(func(s State) string {
		asked = append(asked, s.Path)
		if s.Path == "d" {
			return "no longer exists"
		}
		return ""
	})
	if got := strings.Join(asked, " "); got != "d c b" || len(lost) != 1 {
		t.Errorf("asked %s, lost %+v", got, lost)
	}
	before := r.Attempts
	if r.Forget(lost); r.state().Path != "c" || before[2].Outcome.Saved.Path != "d" {
		t.Errorf("after it the state is %v", r.state())
	}
	r.Left = state("left")
	if r.ForgetAll(); r.state() != nil {
		t.Errorf("it starts over, and has %v", r.state())
	}
	var many []Loss
	for _, path := range strings.Fields("a b c d e f") {
		many = append(many, Loss{*state(path), "x"})
	}
	if got := Losses(append(many, Loss{*state("g"), "y"})); strings.Join(got, "|") != "a, b, c, d and 2 more x|g y" {
		t.Errorf("losses: %q", got)
	}
}
