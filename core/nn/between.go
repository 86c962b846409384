package nn

import "slices"

// Between is the peak of the same program at a size that lies part/whole of the way from p's to q's: of the micro-batch,
// of which every tensor is a line. Nothing is recorded anew, but the sequence is replayed, so the peak is where it is at
// that size. ok is false where the two programs differ in more than their sizes. The peak has no tape of its own, and so
// nothing lies between it and another.
func (p Peak) Between(q Peak, part, whole int64) (r Peak, ok bool) {
	a, b := p.tape, q.tape
	if a == nil || b == nil || len(a.ops) == 0 || len(a.stores) != len(b.stores) || len(a.segs) != len(b.segs) || len(a.grads) != len(b.grads) ||
		a.values != b.values || !slices.Equal(a.uses, b.uses) || !slices.Equal(a.saves, b.saves) || !slices.Equal(a.parts, b.parts) {
		return Peak{}, false
	}
	line := func(x, y int64) int64 { return x + (y-x)*part/whole }
	memory := NewTape()
	t := *a
	t.stores = append(memory.stores[:0], a.stores...)
	t.grads = append(memory.grads[:0], a.grads...)
	t.ops = append(memory.ops[:0], a.ops...)
	t.segs = slices.Clone(a.segs)
	defer func() {
		memory.stores, memory.grads, memory.ops = t.stores, t.grads, t.ops
		spent.Put(memory)
	}()
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
		x.bytes, x.raw = line(x.bytes, y.bytes), line(x.raw, y.raw)
	}
	if !between(t.ops, b.ops, line) {
		return Peak{}, false
	}
	for i := range t.segs {
		t.segs[i].ops = slices.Clone(t.segs[i].ops)
		if !between(t.segs[i].ops, b.segs[i].ops, line) {
			return Peak{}, false
		}
	}
	r = t.Peak()
	r.tape = nil
	return r, true
}

// between moves the sizes of a towards those of b.
func between(a, b []op, line func(x, y int64) int64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := &a[i], &b[i]
		if x.kind != y.kind || x.out != y.out || x.use1 != y.use1 || x.save1 != y.save1 || x.grad1 != y.grad1 || x.part != y.part {
			return false
		}
		x.tmp, x.btmp = line(x.tmp, y.tmp), line(x.btmp, y.btmp)
	}
	return true
}
