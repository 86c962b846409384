package ladder

import (
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
)

func priced(name string, cost Cost, slow float64, saved unit.Bytes, edits ...string) Rung {
	r := Rung{Name: name, Cost: cost, Slowdown: slow, Estimates: []mem.Estimate{{Items: []mem.Item{{Kind: mem.Saved, What: "net", Bytes: saved}}}}}
	for _, knob := range edits {
		r.Edits = append(r.Edits, config.Edit{Knob: knob})
	}
	return r
}

func TestDescend(t *testing.T) {
	asked := priced("asked", None, 1, 100)
	got := Descend(asked, []Rung{
		priced("crop", Recipe, 1, 20, "crop"),
		priced("split 4", Speed, 1.2, 30, "batch"),
		priced("split 2", Speed, 1.1, 60, "batch"),
		priced("checkpointing", Speed, 1.33, 40, "ckpt"), // saves less than split 4 and takes longer
		priced("half", Numerics, 0.8, 30, "amp"),         // costs more and saves nothing
	}, 0)
	var names []string
	for _, r := range got {
		names = append(names, r.Name)
	}
	if s := strings.Join(names, ", "); s != "asked, split 2, split 4, crop" {
		t.Errorf("the ladder is %s", s)
	}
}

func set() *Set {
	return &Set{
		Shared: Ladder{Phase: Shared, Rungs: []Rung{{Name: "asked"}}},
		Phases: []Ladder{
			{Phase: Training, Rungs: []Rung{priced("asked", None, 1, 100), priced("split", Speed, 1.1, 50, "batch")}},
			{Phase: Validation, Rungs: []Rung{priced("asked", None, 1, 100), priced("tiles", Metrics, 1.1, 50, "tile")}},
		},
		Values:     map[string]int64{"batch": 16, "accumulation": 1},
		Invariants: []Invariant{{Name: "global batch", Factors: []string{"batch", "accumulation"}, Equals: 16, Until: Recipe}},
	}
}

// A plugin is another program: each lie is caught, and named.
func TestCheck(t *testing.T) {
	if err := set().Check(); err != nil {
		t.Fatalf("a good set: %v", err)
	}
	for name, tt := range map[string]struct {
		lie  func(*Set)
		says string
	}{
		"no rungs":             {func(s *Set) { s.Phases[0].Rungs = nil }, "of 0 rungs"},
		"asked out of range":   {func(s *Set) { s.Phases[0].Asked = 7 }, "rung 7"},
		"asked that edits":     {func(s *Set) { s.Phases[0].Asked = 1 }, "as asked and edits it"},
		"a rung that grows":    {func(s *Set) { s.Phases[0].Rungs[1] = priced("split", Speed, 1, 200, "batch") }, "no less than"},
		"a cheaper rung below": {func(s *Set) { s.Phases[1].Rungs = append(s.Phases[1].Rungs, priced("x", None, 1, 10)) }, "costs less"},
		"a knob on two":        {func(s *Set) { s.Phases[1].Rungs[1].Edits[0].Knob = "batch" }, "on the training ladder and on the validation"},
		"a broken invariant":   {func(s *Set) { s.Phases[0].Rungs[1].Values = map[string]int64{"batch": 8} }, "breaks the invariant"},
		"a missing price":      {func(s *Set) { s.Phases[0].Rungs[1].Estimates = nil }, "0 estimates for 1"},
		"negative bytes":       {func(s *Set) { s.Phases[0].Rungs[1] = priced("split", Speed, 1, -5, "batch") }, "-5 bytes"},
		"a kind of its own":    {func(s *Set) { s.Phases[0].Rungs[1].Estimates[0].Items[0].Kind = "weights" }, "no kind of memory"},
		"uncounted":            {func(s *Set) { s.Phases[0].Rungs[1].Estimates[0].Items[0].Kind = mem.Parameters }, "no count"},
		"no part":              {func(s *Set) { s.Phases[0].Rungs[1].Estimates[0].Items[0].What = "" }, "belong to no part"},
		"no phase":             {func(s *Set) { s.Phases = nil }, "no phase"},
		"no shared rung":       {func(s *Set) { s.Shared.Rungs = nil }, "shared ladder has no rung"},
		"a cost beyond":        {func(s *Set) { s.Phases[0].Rungs[1].Cost = 42 }, "no cost that exists"},
	} {
		s := set()
		tt.lie(s)
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want it to say %q", name, err, tt.says)
		}
	}
}

func TestUnknownIsNeverZero(t *testing.T) {
	e := mem.Estimate{Unknown: "no formula"}
	if v := Judge(e, 10); v != Unknown {
		t.Errorf("no estimate is judged %v", v)
	}
	e.Items = []mem.Item{{Kind: mem.Saved, Bytes: 20}} // a lower bound that is too much already
	if v := Judge(e, 10); v != Not {
		t.Errorf("a lower bound of 20 in a room of 10 is judged %v", v)
	}
	e.Items[0].Kind, e.Learned = mem.Correction, []string{"r1"} // what failed before may have failed for another reason
	if v := Judge(e, 10); v != May {
		t.Errorf("what failed with 20 is judged %v in a room of 10", v)
	}
	if v := Judge(e, 30); v != Unknown {
		t.Errorf("what failed with 20 is judged %v in a room of 30", v)
	}
}

func TestInvariant(t *testing.T) {
	queue := Invariant{Factors: []string{"batch"}, Divides: "queue"}
	if !queue.Binds(Model) {
		t.Error("an invariant without an end does not bind the costliest plan")
	}
	for batch, holds := range map[int64]bool{8: true, 16: false, 0: false} {
		if got := queue.Holds(map[string]int64{"batch": batch, "queue": 120}); got != holds {
			t.Errorf("a queue of 120 and a micro-batch of %d: %v, want %v", batch, got, holds)
		}
	}
}

// Nothing fits by a guess alone; a measurement, or lines that were counted, can show that it does.
func TestTold(t *testing.T) {
	guess := mem.Item{Kind: mem.Correction, What: "training", Bytes: 100, Guess: true}
	counted := mem.Item{Kind: mem.Saved, What: "net", Bytes: 50}
	measured := mem.Item{Kind: mem.Correction, What: "training", Bytes: 100}
	for _, tt := range []struct {
		items []mem.Item
		room  unit.Bytes
		want  Verdict
	}{
		{[]mem.Item{guess}, 200, May}, {[]mem.Item{guess}, 50, May}, {[]mem.Item{counted, guess}, 200, Fits},
		{[]mem.Item{measured}, 200, Fits}, {[]mem.Item{counted}, 20, Not}, {[]mem.Item{measured}, 50, May},
	} {
		if got := Told(mem.Estimate{Items: tt.items}, tt.room); got != tt.want {
			t.Errorf("%v in %v: %v, want %v", tt.items, tt.room, got, tt.want)
		}
	}
}
