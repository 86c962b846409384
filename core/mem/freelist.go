package mem

import (
	"math/bits"
	"slices"

	"github.com/launch-ml/launch/core/unit"
)

// A free block, with what it is ordered by.
type free struct {
	size, addr unit.Bytes
	id         int32
}

// before is 1 where f stands before a block of that size and address, else 0.
func (f *free) before(size, addr unit.Bytes) uint64 {
	_, less := bits.Sub64(uint64(f.addr), uint64(addr), 0)
	_, less = bits.Sub64(uint64(f.size), uint64(size), less)
	return less
}

// A freeList is free blocks by size, then address. Mostly there are twenty, and sometimes thousands: they stand in runs, of
// which one is moved where a block comes or goes.
type freeList struct {
	runs  [][]free // none is empty
	spare [][]free // memory of former runs
}

// maxRun is how long a run may be.
const maxRun = 32

// find is where a block of that size and address stands or would stand: a run, and a place in it. Behind the last block it
// is the run that is not there.
func (l *freeList) find(size, addr unit.Bytes) (run, i int) {
	for run < len(l.runs) {
		r := l.runs[run]
		if r[len(r)-1].before(size, addr) == 0 {
			break
		}
		run++
	}
	if run == len(l.runs) {
		return run, 0
	}
	// Half a million of these are one plan. No step of the search is foreseen, so it must not be a branch.
	r := l.runs[run]
	for n := len(r); n > 1; {
		half := n / 2
		i += half * int(r[i+half-1].before(size, addr))
		n -= half
	}
	return run, i
}

// next is the place behind another.
func (l *freeList) next(run, i int) (int, int) {
	if i++; i == len(l.runs[run]) {
		return run + 1, 0
	}
	return run, i
}

// there reports whether a block stands at a place that was found.
func (l *freeList) there(run int) bool { return run < len(l.runs) }

func (l *freeList) insert(f free) {
	run, i := l.find(f.size, f.addr)
	if run == len(l.runs) {
		if run == 0 {
			l.runs = append(l.runs, l.run())
		} else {
			run--
		}
		i = len(l.runs[run])
	}
	r := append(l.runs[run], free{})
	copy(r[i+1:], r[i:])
	r[i] = f
	l.runs[run] = r
	if len(r) == maxRun {
		l.runs[run] = r[:maxRun/2]
		l.runs = slices.Insert(l.runs, run+1, append(l.run(), r[maxRun/2:]...))
	}
}

// run is an empty one.
func (l *freeList) run() []free {
	if n := len(l.spare); n > 0 {
		r := l.spare[n-1]
		l.spare = l.spare[:n-1]
		return r
	}
	return make([]free, 0, maxRun)
}

// remove takes a block out that is there.
func (l *freeList) remove(size, addr unit.Bytes) { l.take(l.find(size, addr)) }

// take takes out the block at a place.
func (l *freeList) take(run, i int) {
	r := l.runs[run]
	copy(r[i:], r[i+1:])
	if r = r[:len(r)-1]; len(r) > 0 {
		l.runs[run] = r
		return
	}
	l.spare = append(l.spare, r)
	l.runs = slices.Delete(l.runs, run, run+1)
}

// all are the blocks in their order.
func (l *freeList) all() []free { return slices.Concat(l.runs...) }

func (l *freeList) clear() {
	for _, r := range l.runs {
		l.spare = append(l.spare, r[:0])
	}
	l.runs = l.runs[:0]
}

// as makes it a copy of m in its own memory.
func (l *freeList) as(m *freeList) {
	l.clear()
	for _, r := range m.runs {
		l.runs = append(l.runs, append(l.run(), r...))
	}
}
