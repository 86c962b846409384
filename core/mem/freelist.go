package mem

import (
	"slices"

	"github.com/launch-ml/launch/core/unit"
)

// A free block, with what it is ordered by.
type free struct {
	size, addr unit.Bytes
	id         int32
}

func (f free) before(size, addr unit.Bytes) bool {
	return f.size < size || f.size == size && f.addr < addr
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
	from, to := 0, len(l.runs)
	for from < to {
		mid := int(uint(from+to) >> 1)
		if r := l.runs[mid]; r[len(r)-1].before(size, addr) {
			from = mid + 1
		} else {
			to = mid
		}
	}
	if from == len(l.runs) {
		return from, 0
	}
	run, r := from, l.runs[from]
	from, to = 0, len(r)
	for from < to {
		mid := int(uint(from+to) >> 1)
		if r[mid].before(size, addr) {
			from = mid + 1
		} else {
			to = mid
		}
	}
	return run, from
}

// at is the block at a place, or the first one of the run behind; ok is false behind the last.
func (l *freeList) at(run, i int) (f free, ok bool) {
	if run < len(l.runs) && i == len(l.runs[run]) {
		run, i = run+1, 0
	}
	if run == len(l.runs) {
		return free{}, false
	}
	return l.runs[run][i], true
}

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
func (l *freeList) remove(size, addr unit.Bytes) {
	run, i := l.find(size, addr)
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
