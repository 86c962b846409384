package mem

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/launch-ml/launch/core/unit"
)

// Thousands of blocks, of few sizes and of many: what comes and goes, what serves, and a copy, as a sorted list has it.
func TestFreeList(t *testing.T) {
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 1))
		var l, other freeList
		var want []free
		order := func(a, b free) int {
			if a.before(b.size, b.addr) == 1 {
				return -1
			}
			return 1
		}
		for i := range int32(6000) {
			if grows := i%3000 < 2000; len(want) == 0 || grows && r.IntN(4) > 0 || !grows && r.IntN(4) == 0 {
				f := free{unit.Bytes(r.IntN(1 + int(seed)*700)), unit.Bytes(i), i}
				at, _ := slices.BinarySearchFunc(want, f, order)
				want = slices.Insert(want, at, f)
				l.insert(f)
			} else {
				at := r.IntN(len(want))
				l.remove(want[at].size, want[at].addr)
				want = slices.Delete(want, at, at+1)
			}
			size := unit.Bytes(r.IntN(1 + int(seed)*700))
			at := slices.IndexFunc(want, func(f free) bool { return f.size >= size })
			run, k := l.find(size, 0)
			if l.there(run) != (at >= 0) || l.there(run) && l.runs[run][k] != want[at] {
				t.Fatalf("seed %d, %d: for %v run %d, place %d serves", seed, i, size, run, k)
			}
			if l.there(run) {
				if run, k := l.next(run, k); l.there(run) != (at+1 < len(want)) || l.there(run) && l.runs[run][k] != want[at+1] {
					t.Fatalf("seed %d, %d: behind %+v is run %d, place %d", seed, i, want[at], run, k)
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
