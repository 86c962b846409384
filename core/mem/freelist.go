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
// size. So they stand in classes, four to every doubling of the size: alone, as most do, or in runs, of which one is moved
// where a block comes or goes.
type freeList struct {
	some, ones set               // the classes that have blocks, and those of which the block stands alone
	one        [classes]free     // by class of ones
	classes    [classes][][]free // no run is empty but a class's only one
	spare      [][]free          // memory of former runs
}

// A set is of classes.
type set [(classes + 63) / 64]uint64

func (s *set) has(c int) bool { return s[uint(c)/64]>>(uint(c)%64)&1 == 1 }
func (s *set) add(c int)      { s[uint(c)/64] |= 1 << (uint(c) % 64) }
func (s *set) remove(c int)   { s[uint(c)/64] &^= 1 << (uint(c) % 64) }

// behind is the first class of the set behind another.
func (s *set) behind(c int) int {
	c++
	w := uint(c) / 64
	if w >= uint(len(s)) {
		return classes
	}
	for rest := s[w] >> (uint(c) % 64) << (uint(c) % 64); ; rest = s[w] {
		if rest != 0 {
			return int(64*w) + bits.TrailingZeros64(rest)
		}
		if w++; w == uint(len(s)) {
			return classes
		}
	}
}

// classes are those of all sizes up to 2 PiB.
const classes = 4 * 43

// maxRun is how long a run may be.
const maxRun = 32

// class is that of a size.
func class(size unit.Bytes) int {
	n := max(uint64(size)/minBlock, 1)
	top := bits.Len64(n) - 1
	return min(4*top+int(n<<2>>(uint(top)%64)&3), classes-1)
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
	switch {
	case l.ones.has(c):
		if l.one[c].size >= size {
			return place{class: c}
		}
	case l.some.has(c):
		if run, i := find(l.classes[c], size, 0); i < len(l.classes[c][run]) {
			return place{c, run, i}
		}
	}
	return place{class: l.some.behind(c)}
}

// pop takes out the first block of at least that size. ok is false where there is none.
func (l *freeList) pop(size unit.Bytes) (id int32, ok bool) {
	c := class(size)
	if !l.some.has(c) || l.ones.has(c) && l.one[c].size < size {
		c = l.some.behind(c)
	}
	if c < classes && l.ones.has(c) { // as mostly
		l.ones.remove(c)
		l.some.remove(c)
		return l.one[c].id, true
	}
	at := l.serving(size)
	if at.nowhere() {
		return 0, false
	}
	id = l.at(at).id
	l.take(at)
	return id, true
}

// next is the place behind another.
func (l *freeList) next(p place) place {
	if l.ones.has(p.class) {
		return place{class: l.some.behind(p.class)}
	}
	if p.i++; p.i == len(l.classes[p.class][p.run]) {
		p.i, p.run = 0, p.run+1
	}
	if p.run == len(l.classes[p.class]) {
		return place{class: l.some.behind(p.class)}
	}
	return p
}

// at is the block at a place.
func (l *freeList) at(p place) free {
	if l.ones.has(p.class) {
		return l.one[p.class]
	}
	return l.classes[p.class][p.run][p.i]
}

func (l *freeList) insert(f free) {
	c := class(f.size)
	if !l.some.has(c) {
		l.some.add(c)
		l.ones.add(c)
		l.one[c] = f
		return
	}
	if l.classes[c] == nil {
		l.classes[c] = [][]free{l.run()}
	}
	runs := l.classes[c]
	if l.ones.has(c) {
		l.ones.remove(c)
		runs[0] = append(runs[0], l.one[c])
	}
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
	p := place{class: class(size)}
	if !l.ones.has(p.class) {
		p.run, p.i = find(l.classes[p.class], size, addr)
	}
	l.take(p)
}

// take takes out the block at a place.
func (l *freeList) take(p place) {
	if l.ones.has(p.class) {
		l.ones.remove(p.class)
		l.some.remove(p.class)
		return
	}
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
		l.some.remove(p.class)
	}
}

// all are the blocks in their order.
func (l *freeList) all() (out []free) {
	for c := l.some.behind(-1); c < classes; c = l.some.behind(c) {
		if l.ones.has(c) {
			out = append(out, l.one[c])
		} else {
			out = append(out, slices.Concat(l.classes[c]...)...)
		}
	}
	return out
}

func (l *freeList) clear() {
	for c := l.some.behind(-1); c < classes; c = l.some.behind(c) {
		if l.ones.has(c) {
			continue
		}
		runs := l.classes[c]
		for _, r := range runs[1:] {
			l.spare = append(l.spare, r[:0])
		}
		runs[0] = runs[0][:0]
		l.classes[c] = runs[:1]
	}
	l.some, l.ones = set{}, set{}
}

// as makes it a copy of m in its own memory.
func (l *freeList) as(m *freeList) {
	l.clear()
	for c := m.some.behind(-1); c < classes; c = m.some.behind(c) {
		if m.ones.has(c) {
			l.one[c] = m.one[c]
			continue
		}
		if l.classes[c] == nil {
			l.classes[c] = [][]free{l.run()}
		}
		l.classes[c][0] = append(l.classes[c][0], m.classes[c][0]...)
		for _, r := range m.classes[c][1:] {
			l.classes[c] = append(l.classes[c], append(l.run(), r...))
		}
	}
	l.some, l.ones = m.some, m.ones
}
