package stablesr

import (
	"testing"

	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
	"github.com/launch-ml/launch/plugins/stablesr/arch"
)

// Rungs are priced together: by two micro-batches of each kind, by one pool. Each is what it would be by itself, line by
// line, the logging of at most eight images too.
func TestRungsArePricedAsByThemselves(t *testing.T) {
	j, d := stock(t), card(80*unit.GiB)
	set := laddersOf(t, j, d)
	r, err := readCommand(j.Command)
	if err != nil {
		t.Fatal(err)
	}
	b := newBuilder(r, j, d)
	rungs, _ := b.shared(variant{micro: b.micro, accum: b.accum, queue: b.queue, size: b.size})
	for phase, p := range map[string]struct {
		price func(arch.Step) mem.Estimate
		most  int64
	}{
		ladder.Training: {arch.Step.Training, 1 << 20}, ladder.Validation: {arch.Step.Validation, 1 << 20},
		images: {func(s arch.Step) mem.Estimate { return s.Images(8) }, 1 << 20}, // which bounds them itself
	} {
		seen := 0
		for _, s := range rungs {
			for i, rung := range set.Shared.Rungs {
				if rung.Name != s.Name {
					continue
				}
				seen++
				got, want := set.Ladder(phase).Rungs[0].At(i), b.price([]variant{s.variant}, p.price, p.most)[0]
				if len(got.Items) != len(want.Items) || got.Reserved != want.Reserved {
					t.Errorf("%s, %s: %d lines, %v reserved; by itself %d, %v", phase, s.Name, len(got.Items), got.Reserved, len(want.Items), want.Reserved)
					continue
				}
				for k := range want.Items {
					if got.Items[k] != want.Items[k] {
						t.Errorf("%s, %s: %+v; by itself %+v", phase, s.Name, got.Items[k], want.Items[k])
					}
				}
			}
		}
		if seen < 8 {
			t.Errorf("%s: only %d rungs were compared", phase, seen)
		}
	}
}

// A pool of another size is priced at any micro-batch, also between two that were recorded.
func TestPoolsAtAnyMicroBatch(t *testing.T) {
	j, d := stock(t), card(80*unit.GiB)
	r, err := readCommand(j.Command)
	if err != nil {
		t.Fatal(err)
	}
	b := newBuilder(r, j, d)
	of := func(micro, queue int64) variant { return variant{micro: micro, accum: 1, queue: queue, size: b.size} }
	vs := []variant{of(6, 60), of(1, 60), of(2, 60), of(3, 24), of(1, 12)}
	for i, got := range b.price(vs, arch.Step.Training, maxBatch) {
		want := b.price(vs[i:i+1], arch.Step.Training, maxBatch)[0]
		if !got.Known() || got.Total() != want.Total() || got.Total() == 0 || got.Reserved != want.Reserved {
			t.Errorf("%+v: %v, %v reserved; by itself %v, %v", vs[i], got.Total(), got.Reserved, want.Total(), want.Reserved)
		}
	}
}
