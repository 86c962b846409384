package mem

import (
	"math/rand/v2"
	"testing"

	"github.com/launch-ml/launch/core/unit"
)

// Worked by hand from the source: what each sequence reserves. "+n" asks for n, "-i" gives the i-th request back.
func TestAllocator(t *testing.T) {
	const KiB, MiB = unit.KiB, unit.MiB
	type step struct {
		ask  unit.Bytes
		free int // the request, from 1
	}
	ask := func(n unit.Bytes) step { return step{ask: n} }
	free := func(i int) step { return step{free: i} }
	for name, c := range map[string]struct {
		steps      []step
		limit      unit.Bytes
		want       Usage
		expandable Usage
	}{
		"one byte takes 512 of a segment of 2 MiB": {
			[]step{ask(1)}, 0, Usage{512, 2 * MiB}, Usage{512, 2 * MiB}},
		"requests are rounded to 512": {
			[]step{ask(513), ask(512)}, 0, Usage{1536, 2 * MiB}, Usage{1536, 2 * MiB}},
		"two of 1 MiB share a small segment": {
			[]step{ask(MiB), ask(MiB)}, 0, Usage{2 * MiB, 2 * MiB}, Usage{2 * MiB, 2 * MiB}},
		"a third needs another": {
			[]step{ask(MiB), ask(MiB), ask(1)}, 0, Usage{2*MiB + 512, 4 * MiB}, Usage{2*MiB + 512, 4 * MiB}},
		"above 1 MiB a segment of 20": {
			[]step{ask(MiB + 1)}, 0, Usage{MiB + 512, 20 * MiB}, Usage{MiB + 512, 20 * MiB}},
		"from 10 MiB on, segments are rounded to 2": {
			[]step{ask(10*MiB + 512*KiB)}, 0, Usage{10*MiB + 512*KiB, 12 * MiB}, Usage{10*MiB + 512*KiB, 20 * MiB}},
		"a rest of up to 1 MiB is not split off": { // 12 MiB in use for 11.5 asked; pages are split at 512 bytes
			[]step{ask(11*MiB + 512*KiB)}, 0, Usage{12 * MiB, 12 * MiB}, Usage{11*MiB + 512*KiB, 20 * MiB}},
		"what was given back serves again": {
			[]step{ask(30 * MiB), free(1), ask(20 * MiB), ask(10 * MiB)}, 0, Usage{30 * MiB, 30 * MiB}, Usage{30 * MiB, 40 * MiB}},
		"neighbours join": {
			[]step{ask(6 * MiB), ask(6 * MiB), free(1), free(2), ask(12 * MiB)}, 0, Usage{12 * MiB, 20 * MiB}, Usage{12 * MiB, 20 * MiB}},
		"not across segments, but in a growing one": {
			[]step{ask(30 * MiB), ask(30 * MiB), free(1), free(2), ask(60 * MiB)}, 0, Usage{60 * MiB, 120 * MiB}, Usage{60 * MiB, 60 * MiB}},
		"near the limit what is cached goes back first": {
			[]step{ask(30 * MiB), ask(30 * MiB), free(1), free(2), ask(60 * MiB)}, 100 * MiB, Usage{60 * MiB, 60 * MiB}, Usage{60 * MiB, 60 * MiB}},
		"a segment in use does not; of a growing one, whole pages do": {
			[]step{ask(30 * MiB), ask(6 * MiB), ask(30 * MiB), free(1), ask(60 * MiB)}, 100 * MiB, Usage{96 * MiB, 110 * MiB}, Usage{96 * MiB, 120 * MiB}},
		"the smallest that serves is taken": {
			[]step{ask(40 * MiB), ask(30 * MiB), free(1), free(2), ask(30 * MiB), ask(40 * MiB)}, 0, Usage{70 * MiB, 70 * MiB}, Usage{70 * MiB, 80 * MiB}},
	} {
		for expandable, want := range map[bool]Usage{false: c.want, true: c.expandable} {
			a := Allocator{Caching: Caching{Expandable: expandable}, Limit: c.limit}
			var ids []int32
			for _, s := range c.steps {
				if s.free > 0 {
					a.Free(ids[s.free-1])
				} else {
					ids = append(ids, a.Ask(s.ask))
				}
			}
			if got := a.Usage(); got != want {
				t.Errorf("%s (expandable %v): %+v, want %+v", name, expandable, got, want)
			}
		}
	}
}

// Whatever is asked: blocks do not overlap, segments hold what is in use, and with everything back and a limit all of it
// is cached as whole segments again.
func TestAllocatorHolds(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 0))
		a := Allocator{Caching: Caching{Expandable: seed%2 == 1}}
		if seed%3 == 0 {
			a.Limit = 600 * unit.MiB
		}
		var ids []int32
		for i := range 1000 {
			if len(ids) > 0 && r.IntN(5) < 2 {
				i := r.IntN(len(ids))
				a.Free(ids[i])
				ids = append(ids[:i], ids[i+1:]...)
			} else if len(ids) < 200 {
				ids = append(ids, a.Ask(unit.Bytes(1)<<r.IntN(25)+unit.Bytes(r.IntN(1000))))
			}
			if i%20 == 0 {
				a.check(t)
			}
		}
		for _, id := range ids {
			a.Free(id)
		}
		a.check(t)
		if a.now.Allocated != 0 {
			t.Fatalf("seed %d: %v in use at the end", seed, a.now.Allocated)
		}
		a.release(&a.small)
		a.release(&a.large)
		if a.now.Reserved != 0 {
			t.Fatalf("seed %d: %v reserved after all of it was released", seed, a.now.Reserved)
		}
	}
}

// check holds the blocks against the sums.
func (a *Allocator) check(t *testing.T) {
	t.Helper()
	type space struct {
		small bool
		at    unit.Bytes
	}
	var used, mapped unit.Bytes
	seen := map[space]bool{}
	visit := func(id int32) {
		for ; id != 0; id = a.blocks[id].next {
			b := a.blocks[id]
			if seen[space{b.small, b.addr}] {
				return
			}
			seen[space{b.small, b.addr}] = true
			if b.next != 0 && (a.blocks[b.next].prev != id || a.blocks[b.next].addr != b.addr+b.size) {
				t.Fatalf("block %d of %v at %v is followed by one at %v", id, b.size, b.addr, a.blocks[b.next].addr)
			}
			if b.used {
				used += b.size
			}
			if b.mapped {
				mapped += b.size
			}
		}
	}
	head := func(id int32) int32 {
		for a.blocks[id].prev != 0 {
			id = a.blocks[id].prev
		}
		return id
	}
	for _, p := range []*pool{&a.small, &a.large} {
		for i, f := range p.free.all() {
			id, b := f.id, a.blocks[f.id]
			if f.size != b.size || f.addr != b.addr {
				t.Fatalf("%+v is among the free blocks as %+v", b, f)
			}
			if b.used || !b.mapped {
				t.Fatalf("%+v is among the free blocks", b)
			}
			if i > 0 {
				if before := a.blocks[p.free.all()[i-1].id]; before.size > b.size || before.size == b.size && before.addr >= b.addr {
					t.Fatal("the free blocks are out of order")
				}
			}
			visit(head(id))
		}
	}
	live := map[int32]bool{}
	for id := int32(1); int(id) < len(a.blocks); id++ {
		if a.blocks[id].used && !live[id] {
			visit(head(id))
		}
	}
	if used != a.now.Allocated {
		t.Fatalf("%v in use, said to be %v", used, a.now.Allocated)
	}
	if mapped != a.now.Reserved {
		t.Fatalf("%v of segments, said to be %v", mapped, a.now.Reserved)
	}
}
