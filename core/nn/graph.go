package nn

// Dead runs f, whose graph no loss depends on. Autograd keeps what it saves all the same, until Python lets go of the
// last of its results: that moment is drop, which the caller calls where the program rebinds or leaves the variable
// that holds them. A result that goes on outside the graph is detached by the caller.
func (t *Tape) Dead(f func()) (drop func()) {
	first := len(t.ops)
	f()
	var held []int32
	for i := first; i < len(t.ops); i++ {
		o := &t.ops[i]
		held = append(held, t.saves[o.save0:o.save1]...)
		o.save1, o.grad1 = o.save0, o.grad0
	}
	return func() { t.touch(held...) }
}

// CheckpointAll is torch.utils.checkpoint.checkpoint(f, *xs): [Tape.Checkpoint] of a function of several arguments.
func (t *Tape) CheckpointAll(name string, f func(t *Tape, xs []Tensor) Tensor, xs ...Tensor) (y Tensor) {
	run := func(xs []Tensor) (y Tensor) {
		t.Scope(name, func() { y = f(t, xs) }, xs...)
		return y
	}
	if t.noGrad > 0 {
		return run(xs)
	}
	t.NoGrad(func() { y = run(xs) })

	ops, seg, casts, held, frame := t.ops, t.seg, t.casts, t.held, t.frame
	n := t.segment()
	t.ops, t.seg, t.held, t.frame = t.segs[n].ops[:0], int32(n+1), nil, 0
	if casts != nil {
		t.casts = &castCache{}
	}
	in := make([]Tensor, len(xs))
	for i, x := range xs {
		in[i] = t.Detach(x)
		in[i].grad = x.grad
	}
	out := run(in)
	if t.casts != nil {
		t.casts.end(t)
	}
	if s := &t.stores[out.store]; s.seg == t.seg && out.grad {
		s.last = max(s.last, int32(len(t.ops)-1))
	}
	t.segs[n].ops, t.segs[n].in, t.segs[n].out = t.ops, in, out
	t.ops, t.seg, t.casts, t.held, t.frame = ops, seg, casts, held, frame

	o := t.op("torch.utils.checkpoint", append([]Tensor{y}, xs...)...)
	z := o.result(y)
	if out.grad {
		z.grad = true
		t.ops[o.i].kind, t.ops[o.i].seg = opCheckpoint, int32(n)
		o.save(xs...)
		for _, x := range xs {
			g := gradient{value: x.value, param: -1, own: x.bytes(), bytes: x.bytes()}
			if !x.grad { // nothing to pass on, yet the weights inside still want theirs: a value that nobody reads
				g.value = t.newValue()
			}
			t.grads = append(t.grads, g)
		}
	}
	o.end()
	return z
}
