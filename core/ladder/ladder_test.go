package ladder

import (
	"fmt"
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
		items       []mem.Item
		below, room unit.Bytes
		want        Verdict
	}{
		{[]mem.Item{guess}, 0, 200, May}, {[]mem.Item{guess}, 0, 50, May}, {[]mem.Item{counted, guess}, 0, 200, Fits},
		{[]mem.Item{measured}, 0, 200, Fits}, {[]mem.Item{counted}, 0, 20, Not}, {[]mem.Item{measured}, 0, 50, May},
		{[]mem.Item{guess}, 180, 200, Fits}, {[]mem.Item{guess}, 180, 150, May},
	} {
		if got := Told(mem.Estimate{Items: tt.items, Below: tt.below}, tt.room); got != tt.want {
			t.Errorf("%v, below %v, in %v: %v, want %v", tt.items, tt.below, tt.room, got, tt.want)
		}
	}
}

func TestInvariantHolds(t *testing.T) {
	values := map[string]int64{"a": 2, "b": 3, "sum": 12, "none": 0}
	for name, c := range map[string]struct {
		in   Invariant
		want bool
	}{
		"the product":              {Invariant{Factors: []string{"a", "b"}, Equals: 6}, true},
		"another product":          {Invariant{Factors: []string{"a", "b"}, Equals: 7}, false},
		"a knob that is not there": {Invariant{Factors: []string{"a", "c"}, Equals: 7}, true},
		"it divides":               {Invariant{Factors: []string{"a", "b"}, Divides: "sum"}, true},
		"it does not":              {Invariant{Factors: []string{"a", "b", "b"}, Divides: "sum"}, false},
		"of nothing":               {Invariant{Factors: []string{"a"}, Divides: "what"}, true},
		"nothing divides nothing":  {Invariant{Factors: []string{"none"}, Divides: "sum"}, false},
	} {
		if got := c.in.Holds(values); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	for until, want := range map[Cost]bool{None: true, Numerics: false, Metrics: true} {
		if got := (Invariant{Until: until}).Binds(Numerics); got != want {
			t.Errorf("until %v, of a plan that costs numerics: %v, want %v", until, got, want)
		}
	}
}

// The largest set that is taken, and the next one.
func TestLargest(t *testing.T) {
	factors := func(n int) []Invariant { return []Invariant{{Factors: make([]string, n)}} }
	phases := func(n, rungs int) (all []Ladder) {
		for i := range n {
			all = append(all, Ladder{Phase: fmt.Sprint(i), Rungs: make([]Rung, rungs)})
		}
		return all
	}
	values := func(n int) map[string]int64 {
		all := map[string]int64{}
		for i := range n {
			all[fmt.Sprint(i)] = 1
		}
		return all
	}
	for name, of := range map[string]func(more int) Set{
		"factors":    func(more int) Set { return Set{Invariants: factors(maxPerRung + more)} },
		"invariants": func(more int) Set { return Set{Invariants: make([]Invariant, maxInvariants+more)} },
		"phases":     func(more int) Set { return Set{Phases: phases(maxPhases+more, 1)} },
		"shared":     func(more int) Set { return Set{Shared: Ladder{Rungs: make([]Rung, maxShared+more)}} },
		"values":     func(more int) Set { return Set{Values: values(maxPerRung + more)} },
		"rungs": func(more int) Set {
			return Set{Phases: phases(20, maxRungs/20), Shared: Ladder{Rungs: make([]Rung, more)}}
		},
	} {
		if s := of(0); s.bounds() != nil {
			t.Errorf("%s: %v", name, s.bounds())
		}
		if s := of(1); s.bounds() == nil {
			t.Errorf("one more of the %s is taken", name)
		}
	}
	for _, s := range []Set{{Phases: phases(1, 1)}, {Phases: append(phases(1, 1), phases(1, 1)...)},
		{Phases: make([]Ladder, 1)}} {
		if err := s.bounds(); (err == nil) != (len(s.Phases) == 1 && s.Phases[0].Phase != "") {
			t.Errorf("%+v: %v", s, err)
		}
	}
}
