package nn

import (
	"slices"
	"sync"
)

// Between is the peak of the same program at a size that lies part/whole of the way from p's to q's, such as a micro-batch;
// every tensor's size has to be a linear function of that size. It records nothing anew but replays the sequence, so the peak
// is where it is at that size. ok is false where the two programs differ in more than their sizes. The result has no tape of
// its own, so it cannot be an end of another Between.
func (p Peak) Between(q Peak, part, whole int64) (r Peak, ok bool) {
	a, b := p.tape, q.tape
	if a == nil || b == nil || len(a.ops) == 0 || !a.sameProgram(b) {
		return Peak{}, false
	}
	line := func(x, y int64) int64 {
		if x == y {
			return x
		}
		return x + (y-x)*part/whole
	}
	t, done := a.resizable()
	defer done()
	for i := range t.stores {
		x, y := &t.stores[i], &b.stores[i]
		if x.last != y.last || x.seg != y.seg || x.part != y.part || x.kind != y.kind || x.kind == isParam && x.bytes != y.bytes {
			return Peak{}, false
		}
		x.bytes = line(x.bytes, y.bytes)
	}
	for i := range t.grads {
		x, y := &t.grads[i], &b.grads[i]
		if x.value != y.value || (x.bytes == 0) != (y.bytes == 0) || (x.raw == 0) != (y.raw == 0) {
			return Peak{}, false
		}
		x.own, x.bytes, x.raw = line(x.own, y.own), line(x.bytes, y.bytes), line(x.raw, y.raw)
	}
	for i := range t.temps {
		x, y := &t.temps[i], &b.temps[i]
		x.forward, x.backward = line(x.forward, y.forward), line(x.backward, y.backward)
		x.copies.input, x.copies.result = line(x.copies.input, y.copies.input), line(x.copies.result, y.copies.result)
		x.blocked.input, x.blocked.result = line(x.blocked.input, y.blocked.input), line(x.blocked.result, y.blocked.result)
	}
	return t.peak(p.Trace.Parts), true
}

// sameProgram reports whether two tapes hold the same operations on the same values, of whatever sizes.
func (t *Tape) sameProgram(u *Tape) bool {
	if len(t.stores) != len(u.stores) || len(t.segs) != len(u.segs) || len(t.grads) != len(u.grads) || t.values != u.values ||
		!slices.Equal(t.uses, u.uses) || !slices.Equal(t.saves, u.saves) || !slices.Equal(t.parts, u.parts) {
		return false
	}
	if len(t.temps) != len(u.temps) || !alike(t.ops, u.ops) {
		return false
	}
	for i := range t.segs {
		if !alike(t.segs[i].ops, u.segs[i].ops) {
			return false
		}
	}
	return true
}

// Resized is the peak of the same program where what the operations of one line of Python make has part/whole of its size:
// tensors whose size is a setting of its own, and from which nothing else is made. ok is false where there is no such line.
func (p Peak) Resized(python string, part, whole int64) (r Peak, ok bool) {
	if p.tape == nil || len(p.tape.ops) == 0 {
		return Peak{}, false
	}
	t, done := p.tape.resizable()
	defer done()
	for i := range t.ops {
		if o := &t.ops[i]; o.line == python {
			ok = true
			for _, s := range t.uses[o.use0:o.use1] {
				t.stores[s].bytes = t.stores[s].bytes * part / whole
			}
		}
	}
	if !ok {
		return Peak{}, false
	}
	return t.peak(p.Trace.Parts), true
}

// A scratch is the memory of what has sizes.
type scratch struct {
	stores []store
	grads  []gradient
	temps  []temp
}

var scratches = sync.Pool{New: func() any { return &scratch{} }}

// resizable is the tape with sizes of its own, in memory that done gives back.
func (t *Tape) resizable() (c *Tape, done func()) {
	own, m := *t, scratches.Get().(*scratch)
	m.stores, m.grads, m.temps = append(m.stores[:0], t.stores...), append(m.grads[:0], t.grads...), append(m.temps[:0], t.temps...)
	own.stores, own.grads, own.temps = m.stores, m.grads, m.temps
	return &own, func() { scratches.Put(m) }
}

// alike reports whether two lists of ops differ at most in sizes.
func alike(a, b []op) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := &a[i], &b[i]
		if x.kind != y.kind || x.out != y.out || x.use1 != y.use1 || x.save1 != y.save1 || x.grad1 != y.grad1 || x.part != y.part || x.temp != y.temp {
			return false
		}
	}
	return true
}
