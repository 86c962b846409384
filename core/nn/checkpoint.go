package nn

// Checkpoint is torch.utils.checkpoint.checkpoint(m, x): the forward runs without a graph and keeps only its input;
// the backward runs it again. A recomputation has a cache of weight copies of its own
// (CheckpointFunction.backward and _checkpoint_without_reentrant re-enter autocast).
func (t *Tape) Checkpoint(name string, x Tensor, m Module) Tensor {
	if t.noGrad > 0 {
		return t.Call(name, x, m)
	}
	var y Tensor
	t.NoGrad(func() { y = t.Call(name, x, m) })

	ops, seg, casts, held, frame := t.ops, t.seg, t.casts, t.held, t.frame
	n := t.segment()
	t.ops, t.seg, t.held, t.frame = t.segs[n].ops[:0], int32(n+1), nil, 0
	if casts != nil {
		t.casts = &castCache{}
	}
	in := t.Detach(x)
	in.grad = x.grad
	out := t.Call(name, in, m)
	if t.casts != nil {
		t.casts.end(t)
	}
	if s := &t.stores[out.store]; s.seg == t.seg && out.grad {
		s.last = max(s.last, int32(len(t.ops)-1))
	}
	t.segs[n].ops, t.segs[n].in, t.segs[n].out = t.ops, []Tensor{in}, out
	t.ops, t.seg, t.casts, t.held, t.frame = ops, seg, casts, held, frame

	o := t.op("torch.utils.checkpoint", x, y)
	z := o.result(y)
	if out.grad {
		z.grad = true
		t.ops[o.i].kind, t.ops[o.i].seg = opCheckpoint, int32(n)
		o.save(x)
		g := gradient{value: x.value, param: -1, own: x.bytes(), bytes: x.bytes()}
		if x.grad {
			t.grads = append(t.grads, g)
		} else {
			// Nothing to pass on, yet the weights inside still want theirs: a value that nobody reads.
			g.value = t.newValue()
			t.grads = append(t.grads, g)
		}
	}
	o.end()
	return z
}

// CheckpointIf is Checkpoint where on is true, and Call elsewhere.
func (t *Tape) CheckpointIf(on bool, name string, x Tensor, m Module) Tensor {
	if on {
		return t.Checkpoint(name, x, m)
	}
	return t.Call(name, x, m)
}

// segment begins a segment, in the memory of one of a tape before if there is one.
func (t *Tape) segment() int {
	n := len(t.segs)
	if n < cap(t.segs) {
		t.segs = t.segs[:n+1]
	} else {
		t.segs = append(t.segs, segment{})
	}
	t.segs[n] = segment{ops: t.segs[n].ops[:0]}
	return n
}
