package ladder

import (
	"fmt"
	"math"
	"testing"

	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
)

func TestSplits(t *testing.T) {
	all := func(Split) bool { return true }
	for _, tt := range []struct {
		split Split
		takes func(Split) bool
		want  string
	}{
		{Split{4, 3}, all, "[{12 1} {6 2}] [{3 4} {2 6} {1 12}]"},
		{Split{4, 3}, func(s Split) bool { return s.Divides(Split{4, 3}) }, "[{12 1}] [{2 6} {1 12}]"},
		{Split{4, 2}, func(s Split) bool { return s.Micro >= 2 }, "[{8 1}] [{2 4}]"},
		{Split{1, 1}, all, "[] []"},
		{Split{0, 2}, all, "[] []"},
		{Split{2, 0}, all, "[] []"},
		{Split{MaxBatch, 1}, func(s Split) bool { return s.Micro > 8000 }, "[] [{8192 2}]"},
		{Split{MaxBatch, 2}, all, "[] []"},
		{Split{math.MaxInt64, math.MaxInt64}, all, "[] []"},
	} {
		larger, smaller := tt.split.Others(tt.takes)
		if got := fmt.Sprint(larger, smaller); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.split, got, tt.want)
		}
	}
}

func TestSplitSlowdown(t *testing.T) {
	for times, want := range map[float64]float64{1: 1, 2: 1.02, 8: 1.14, 0.5: 1 / 1.02, 0.125: 1 / 1.14} {
		if got := SplitSlowdown(times); math.Abs(got-want) > 1e-12 {
			t.Errorf("%v times as many pieces: %v, want %v", times, got, want)
		}
	}
}

// letters has a shared ladder of a rung for each letter, and phases whose rungs need so many MiB at each.
func letters(shared string, asked int, needs ...[]int) *Set {
	s := &Set{Shared: Ladder{Phase: Shared, Asked: asked}}
	for _, name := range shared {
		s.Shared.Rungs = append(s.Shared.Rungs, Rung{Name: string(name), Cost: Speed})
	}
	for i, need := range needs {
		var es []mem.Estimate
		for _, n := range need {
			e := mem.Estimate{Items: []mem.Item{{Kind: mem.Saved, What: "net", Bytes: unit.Bytes(n) * unit.MiB}}}
			if n < 0 {
				e = mem.Estimate{Unknown: "not known"}
			}
			es = append(es, e)
		}
		s.Phases = append(s.Phases, Ladder{Phase: fmt.Sprint(i), Rungs: []Rung{AsAsked(es...)}})
	}
	return s
}

func show(s *Set) (out string) {
	out = fmt.Sprint(s.Shared.Asked)
	for i, r := range s.Shared.Rungs {
		out += " " + r.Name
		for _, l := range s.Phases {
			out += fmt.Sprint(" ", int64(l.Rungs[0].At(i).Total()/unit.MiB))
		}
	}
	return out
}

func TestDropUseless(t *testing.T) {
	for _, tt := range []struct {
		set  *Set
		want string
	}{
		{letters("abc", 0, []int{4, 3, 4}), "0 a 4 b 3"},
		{letters("abc", 0, []int{4, 5, 2}, []int{4, 3, 9}), "0 a 4 4 b 5 3 c 2 9"},
		{letters("abc", 0, []int{4, 5, 4}, []int{4, 4, 9}), "0 a 4 4"},
		{letters("abc", 1, []int{9, 4, 4}), "1 a 9 b 4"}, // what stands above is to fill the card
		{letters("ab", 0, []int{4, -1}), "0 a 4 b 0"},    // it may need less
	} {
		before := show(tt.set)
		shared := tt.set.Phases[0].Rungs[0].Estimates
		if tt.set.DropUseless(); show(tt.set) != tt.want {
			t.Errorf("%s became %s, want %s", before, show(tt.set), tt.want)
		}
		if len(shared) > 1 && shared[len(shared)-1].Items == nil && shared[len(shared)-1].Known() {
			t.Errorf("%s: the estimates of another ladder were changed", before)
		}
	}
	free := letters("ab", 0, []int{4, 4})
	free.Shared.Rungs[1].Cost = None
	if free.DropUseless(); show(free) != "0 a 4 b 4" {
		t.Errorf("a rung that costs nothing was dropped: %s", show(free))
	}
	above := letters("abc", 1, []int{9, 4, 2})
	if above.DropShared(0); show(above) != "0 b 4 c 2" {
		t.Errorf("without the first rung: %s", show(above))
	}
}

func TestIdle(t *testing.T) {
	s := letters("abc", 1, []int{9, 4, 4})
	s.Idle("it runs on the CPU", Training, Validation)
	if err := s.Check(); err != nil || len(s.Phases) != 2 || s.Phases[1].Rungs[0].At(0).Unknown != "it runs on the CPU" || len(s.Shared.Rungs) != 1 {
		t.Errorf("%+v, %v", s, err)
	}
}
