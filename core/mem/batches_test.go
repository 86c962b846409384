package mem

import (
	"reflect"
	"testing"

	"github.com/launch-ml/launch/core/unit"
)

// The peak of a phase with two moments: one that hardly grows and one that does. What is interpolated is what would have
// been priced, and only some sizes are.
func TestAtBatches(t *testing.T) {
	priced := 0
	price := func(n int64) Tensors {
		priced++
		flat, steep := 1000+unit.Bytes(n), 100*unit.Bytes(n)
		var e Tensors
		if flat > steep {
			e.Add(Item{Kind: Saved, What: "net", Bytes: flat, From: "forward"})
		} else {
			e.Add(Item{Kind: Saved, What: "net", Bytes: steep, From: "backward"})
		}
		e.Largest(Alloc{Bytes: 10 * unit.Bytes(n), What: "q @ k"})
		return e
	}
	batches := []int64{64, 1, 2, 4, 8, 16, 32, 48, 24, 12, 6, 3, 40, 56, 20, 28, 36, 44}
	got := AtBatches(price, batches...)
	some := priced
	for i, n := range batches {
		want := price(n)
		if got[i].Total() != want.Total() || got[i].Items[0].From != want.Items[0].From || got[i].Allocs[0] != want.Allocs[0] {
			t.Errorf("at %d: %+v, want %+v", n, got[i], want)
		}
	}
	if some >= len(batches)/2 {
		t.Errorf("%d of %d sizes were priced", some, len(batches))
	}
	if len(AtBatches(price)) != 0 {
		t.Error("no sizes have estimates")
	}
}

func TestAlike(t *testing.T) {
	words := []string{"b", "a", "b", "c", "a", "b"}
	got := Alike(len(words), func(i int) string { return words[i] })
	if want := [][]int{{0, 2, 5}, {1, 4}, {3}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := Alike(0, func(int) int { return 0 }); got != nil {
		t.Errorf("of nothing: %v", got)
	}
}
