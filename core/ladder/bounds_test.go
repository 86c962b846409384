package ladder

import (
	"math"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
)

// A set that no plugin can mean is refused, whatever its sums would come to.
func TestBounds(t *testing.T) {
	good := func() *Set {
		e := func(b unit.Bytes) []mem.Estimate {
			return []mem.Estimate{{Items: []mem.Item{{Kind: mem.Saved, What: "net", Bytes: b, From: "counted"}}}}
		}
		return &Set{
			Shared: Ladder{Phase: Shared, Rungs: []Rung{{Name: "as asked"}}},
			Phases: []Ladder{{Phase: Training, Rungs: []Rung{{Name: "as asked", Estimates: e(2)}, {Name: "less", Cost: Speed, Estimates: e(1)}}}},
			Host:   &HostLadder{Rungs: []HostRung{{Name: "as asked", Lines: []mem.HostLine{{Item: mem.Item{Kind: mem.Loaders, Bytes: 1}}}}}},
		}
	}
	if err := good().Check(); err != nil {
		t.Fatal(err)
	}
	with := good()
	with.Absent = &Absent{Package: "liger-kernel_0.8", Set: good()}
	if err := with.Check(); err != nil {
		t.Error(err)
	}
	last := func(s *Set) *Rung { return &s.Phases[0].Rungs[1] }
	for name, spoil := range map[string]func(*Set){
		"many rungs":             func(s *Set) { s.Phases[0].Rungs = append(s.Phases[0].Rungs, make([]Rung, 30_000)...) },
		"many phases":            func(s *Set) { s.Phases = append(s.Phases, make([]Ladder, 100)...) },
		"a phase twice":          func(s *Set) { s.Phases = append(s.Phases, s.Phases[0]) },
		"a phase without a name": func(s *Set) { s.Phases[0].Phase = "" },
		"many invariants":        func(s *Set) { s.Invariants = make([]Invariant, 200) },
		"no number":              func(s *Set) { last(s).Slowdown = math.NaN() },
		"for ever":               func(s *Set) { last(s).Slowdown = math.Inf(1) },
		"back in time":           func(s *Set) { last(s).Slowdown = -1 },
		"a line of 8 EiB":        func(s *Set) { s.Phases[0].Rungs[0].Estimates[0].Items[0].Bytes = math.MaxInt64 },
		"a correction of -8 EiB": func(s *Set) {
			last(s).Estimates[0].Items[0] = mem.Item{Kind: mem.Correction, What: "x", Bytes: math.MinInt64}
		},
		"lines that overflow": func(s *Set) {
			it := mem.Item{Kind: mem.Saved, What: "net", Bytes: maxAmount, From: "x"}
			s.Phases[0].Rungs[0].Estimates[0].Items = []mem.Item{it, it}
		},
		"a request of -1": func(s *Set) { last(s).Estimates[0].Allocs = []mem.Alloc{{Bytes: -1}} },
		"reserved 8 EiB":  func(s *Set) { last(s).Estimates[0].Reserved = math.MaxInt64 },
		"a zero byte": func(s *Set) {
			last(s).Edits = []config.Edit{{Knob: "k", At: config.Address{Doc: config.ArgvDoc, Path: "-b"}, To: "\x00"}}
		},
		"many edits":                func(s *Set) { last(s).Edits = make([]config.Edit, 2000) },
		"the host's of 8 EiB":       func(s *Set) { s.Host.Rungs[0].Lines[0].Bytes = math.MaxInt64 },
		"the host's per sample":     func(s *Set) { s.Host.Rungs[0].Lines[0].PerSample = 1 << 60 },
		"the host's many lines":     func(s *Set) { s.Host.Rungs[0].Lines = make([]mem.HostLine, 2000) },
		"a package's without a set": func(s *Set) { s.Absent = &Absent{Package: "one"} },
		"a package's within another": func(s *Set) {
			inner := *good()
			inner.Absent = &Absent{Package: "two", Set: good()}
			s.Absent = &Absent{Package: "one", Set: &inner}
		},
		"a package's with a fault": func(s *Set) {
			inner := good()
			inner.Phases = nil
			s.Absent = &Absent{Package: "one", Set: inner}
		},
		"no package":              func(s *Set) { s.Absent = &Absent{Package: "one; rm -r x", Set: good()} },
		"an option":               func(s *Set) { s.Absent = &Absent{Package: "--pre", Set: good()} },
		"the host's without rung": func(s *Set) { s.Host.Rungs = nil },
	} {
		s := good()
		spoil(s)
		if err := s.Check(); err == nil || strings.Contains(err.Error(), "%!") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
