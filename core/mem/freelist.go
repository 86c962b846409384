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

// before is 1 where f stands before a block of that size and address, else 0: a search that cannot be foreseen does not
// branch.
func (f *free) before(size, addr unit.Bytes) uint64 {
	_, less := bits.Sub64(uint64(f.addr), uint64(addr), 0)
	_, less = bits.Sub64(uint64(f.size), uint64(size), less)
	return less
}

// A freeList is free blocks by size, then address. Mostly there are twenty, of twenty sizes, and sometimes thousands of one
// size. So they stand in classes, four to every doubling of the size, and a class in runs, of which one is moved where a
// block comes or goes.
type freeList struct {
	classes [classes][][]free           // no run is empty but a class's only one
	some    [(classes + 63) / 64]uint64 // the classes that have blocks
	spare   [][]free                    // memory of former runs
}

// classes are those of all sizes up to 2 PiB.
const classes = 4 * 43

// maxRun is how long a run may be.
const maxRun = 32

// class is that of a size.
func class(size unit.Bytes) int {
	n := max(uint64(size)/minBlock, 1)
	top := bits.Len64(n) - 1
	return min(4*top+int(n<<2>>top&3), classes-1)
}

// A place is where a block stands: behind the last one it is of no class.
type place struct{ class, run, i int }

func (p place) nowhere() bool { return p.class == classes }

// find is where a block of that size and address stands or would stand in its class, which has a run: a run, and a place in
// it, behind the last block of the last run at most.
func find(runs [][]free, size, addr unit.Bytes) (run, i int) {
	for run < len(runs)-1 && runs[run][len(runs[run])-1].before(size, addr) == 1 {
		run++
	}
	r := runs[run]
	n := len(r)
	for ; n > 1; n -= n / 2 {
		i += n / 2 * int(r[i+n/2-1].before(size, addr))
	}
	if n == 1 {
		i += int(r[i].before(size, addr))
	}
	return run, i
}

// serving is the place of the first block of at least that size.
func (l *freeList) serving(size unit.Bytes) place {
	c := class(size)
	if l.some[c/64]>>(c%64)&1 == 1 {
		if run, i := find(l.classes[c], size, 0); i < len(l.classes[c][run]) {
			return place{c, run, i}
		}
	}
	return place{class: l.behind(c)}
}

// behind is the next class that has blocks.
func (l *freeList) behind(c int) int {
	c++
	for w := c / 64; w < len(l.some); w++ {
		if set := l.some[w] >> (c % 64); set != 0 {
			return c + bits.TrailingZeros64(set)
		}
		c = 64 * (w + 1)
	}
	return classes
}

// next is the place behind another.
func (l *freeList) next(p place) place {
	if p.i++; p.i == len(l.classes[p.class][p.run]) {
		p.i, p.run = 0, p.run+1
	}
	if p.run == len(l.classes[p.class]) {
		return place{class: l.behind(p.class)}
	}
	return p
}

// at is the block at a place.
func (l *freeList) at(p place) free { return l.classes[p.class][p.run][p.i] }

func (l *freeList) insert(f free) {
	c := class(f.size)
	l.some[c/64] |= 1 << (c % 64)
	if l.classes[c] == nil {
		l.classes[c] = [][]free{l.run()}
	}
	runs := l.classes[c]
	run, i := find(runs, f.size, f.addr)
	r := append(runs[run], free{})
	copy(r[i+1:], r[i:])
	r[i] = f
	runs[run] = r
	if len(r) == maxRun {
		runs[run] = r[:maxRun/2]
		l.classes[c] = slices.Insert(runs, run+1, append(l.run(), r[maxRun/2:]...))
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
func (l *freeList) remove(size, addr unit.Bytes) {
	c := class(size)
	run, i := find(l.classes[c], size, addr)
	l.take(place{c, run, i})
}

// take takes out the block at a place.
func (l *freeList) take(p place) {
	runs := l.classes[p.class]
	r := runs[p.run]
	copy(r[p.i:], r[p.i+1:])
	r = r[:len(r)-1]
	runs[p.run] = r
	switch {
	case len(r) > 0:
	case len(runs) > 1:
		l.spare = append(l.spare, r)
		l.classes[p.class] = slices.Delete(runs, p.run, p.run+1)
	default:
		l.some[p.class/64] &^= 1 << (p.class % 64)
	}
}

// all are the blocks in their order.
func (l *freeList) all() (out []free) {
	for c := l.behind(-1); c < classes; c = l.behind(c) {
		out = append(out, slices.Concat(l.classes[c]...)...)
	}
	return out
}

func (l *freeList) clear() {
	for c := l.behind(-1); c < classes; c = l.behind(c) {
		runs := l.classes[c]
		for _, r := range runs[1:] {
			l.spare = append(l.spare, r[:0])
		}
		runs[0] = runs[0][:0]
		l.classes[c] = runs[:1]
	}
	clear(l.some[:])
}

// as makes it a copy of m in its own memory.
func (l *freeList) as(m *freeList) {
	l.clear()
	for c := m.behind(-1); c < classes; c = m.behind(c) {
		if l.classes[c] == nil {
			l.classes[c] = [][]free{l.run()}
		}
		l.classes[c][0] = append(l.classes[c][0], m.classes[c][0]...)
		for _, r := range m.classes[c][1:] {
			l.classes[c] = append(l.classes[c], append(l.run(), r...))
		}
	}
	l.some = m.some
}
