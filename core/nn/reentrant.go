package nn

// CheckpointReentrant is torch.utils.checkpoint.checkpoint(m, x) with use_reentrant=True, which is what leaving the
// argument out means: as [Tape.Checkpoint], but the backward holds the result of its recomputation, for which it calls
// backward anew (outputs in CheckpointFunction.backward, torch/utils/checkpoint.py), until that is over.
func (t *Tape) CheckpointReentrant(name string, x Tensor, m Module) Tensor {
	return t.Checkpoint(name, x, func(t *Tape, x Tensor) Tensor { return t.reentered(x, m) })
}

// ReentrantIf is CheckpointReentrant where on is true, and Call elsewhere.
func (t *Tape) ReentrantIf(on bool, name string, x Tensor, m Module) Tensor {
	if on {
		return t.CheckpointReentrant(name, x, m)
	}
	return t.Call(name, x, m)
}

// CheckpointReentrantAll is [Tape.CheckpointReentrant] of a function that keeps other tensors for its second run: what
// a functools.partial or a closure holds.
func (t *Tape) CheckpointReentrantAll(name string, m Module, x Tensor, held ...Tensor) Tensor {
	again := func(t *Tape, xs []Tensor) Tensor { return t.reentered(xs[0], m) }
	return t.CheckpointAll(name, again, append([]Tensor{x}, held...)...)
}

// reentered is m(x) as the backward of a reentrant checkpoint runs it.
func (t *Tape) reentered(x Tensor, m Module) Tensor {
	if t.noGrad > 0 {
		return m(t, x)
	}
	o := t.op("torch.utils.checkpoint", x) // its backward is the segment's last
	in := o.result(x)
	in.grad = true
	o.gradient(x, 0, 0)
	held := len(t.saves)
	t.saves = append(t.saves, 0)
	o.end()
	out := m(t, in)
	t.saves[held] = out.store
	return out
}
