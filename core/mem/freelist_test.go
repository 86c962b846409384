package mem

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/launch-ml/launch/core/unit"
)

// Thousands of blocks, of few sizes and of many: what comes and goes, what serves, and a copy, as a sorted list has it.
func TestFreeList(t *testing.T) {
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 1))
		var l, other freeList
		var want []free
		some := func() unit.Bytes { // of a few sizes or many, all small or of every magnitude
			return unit.Bytes(r.IntN(1+int(seed/2)*700)) << (seed % 2 * 13 * uint64(r.IntN(3)))
		}
		order := func(a, b free) int {
			if a.before(b.size, b.addr) == 1 {
				return -1
			}
			return 1
		}
		for i := range int32(6000) {
			if grows := i%3000 < 1400; len(want) == 0 || grows && r.IntN(4) > 0 || !grows && r.IntN(4) == 0 {
				f := free{some(), unit.Bytes(i), i}
				at, _ := slices.BinarySearchFunc(want, f, order)
				want = slices.Insert(want, at, f)
				l.insert(f)
			} else {
				at := r.IntN(len(want))
				l.remove(want[at].size, want[at].addr)
				want = slices.Delete(want, at, at+1)
			}
			size := some()
			at := slices.IndexFunc(want, func(f free) bool { return f.size >= size })
			p := l.serving(size)
			if p.nowhere() != (at < 0) || at >= 0 && l.at(p) != want[at] {
				t.Fatalf("seed %d, %d: for %v what stands at %+v serves", seed, i, size, p)
			}
			if at >= 0 {
				if next := l.next(p); next.nowhere() != (at+1 == len(want)) || at+1 < len(want) && l.at(next) != want[at+1] {
					t.Fatalf("seed %d, %d: behind %+v comes %+v", seed, i, want[at], next)
				}
			}
			if i%500 == 0 {
				other.as(&l)
				if !slices.Equal(l.all(), want) || !slices.Equal(other.all(), want) {
					t.Fatalf("seed %d, %d: %d blocks, a copy of %d, want %d", seed, i, len(l.all()), len(other.all()), len(want))
				}
			}
		}
		l.clear()
		if len(l.all()) != 0 || len(other.all()) == 0 {
			t.Error("a copy is the list itself")
		}
	}
}
