package nn

// Rearrange is einops.rearrange where the new order cannot be seen as a view: a contiguous copy of that shape, by way
// of more dimensions than a [Tensor] has. It is view, permute and reshape, whose reshape clones.
//
// Saved: nothing (derivatives.yaml, view, permute, clone); the gradient is a permuted view of the result's.
func (t *Tape) Rearrange(x Tensor, shape ...int64) Tensor {
	o := t.op("einops.rearrange", x)
	y := o.out(x.resized(shape...))
	return o.ends(y, func() {
		o.gradient(x, 0, 0)
		t.grads[len(t.grads)-1].flip = true
	}, x)
}

// MulInplace is x.mul_(y): the result is x's storage.
//
// Saved: y, and a copy of what x was (derivatives.yaml, mul.Tensor: the in-place variant that gen_variable_type.py
// writes saves self.clone() where y requires a gradient).
func (t *Tape) MulInplace(x, y Tensor) Tensor {
	o := t.op("torch.Tensor.mul_", x, y)
	z := o.result(x)
	if t.recording(x, y) {
		var copied Tensor
		if y.grad {
			copied = o.out(x.like(x))
		}
		z.grad = true
		if x.grad {
			o.save(y)
		}
		if y.grad {
			o.save(copied)
		}
		o.fresh(x, z)
		o.fresh(y, z)
		o.follows()
	}
	o.end()
	return z
}

// A Function is a torch.autograd.Function: forward runs without a graph, and one node stands for all of it.
type Function struct {
	Name string
	// Forward returns the result, and what it passes to ctx.save_for_backward; its parameters may be left out.
	Forward func() (y Tensor, saved []Tensor)
	// Temps is how many bytes of intermediates backward has beside the gradients that it returns.
	Temps int64
	// Before is how many bytes backward has while it makes no gradient yet.
	Before int64
}

// Apply is Function.apply(xs...). Backward gives each of xs that requires a gradient one of its own, of the result's
// type before it is cast to the input's (validate_outputs in engine.cpp).
func (t *Tape) Apply(f Function, xs ...Tensor) Tensor {
	var y Tensor
	var saved []Tensor
	t.NoGrad(func() {
		t.Scope("", func() {
			y, saved = f.Forward()
		}, xs...)
	})
	o := t.op(f.Name, append([]Tensor{y}, saved...)...)
	z := o.result(y)
	if t.recording(xs...) {
		z.grad = true
		o.save(saved...)
		o.btmp(f.Temps)
		for _, x := range xs {
			computed := x
			computed.dtype = y.dtype
			o.fresh(x, computed)
		}
	}
	o.end()
	if f.Before > 0 && z.grad {
		o = t.op(f.Name, z)
		after := o.result(z)
		after.grad = true
		o.pass(z, z)
		o.btmp(f.Before)
		o.end()
		return after
	}
	return z
}

// HardsigmoidInplace is torch.nn.Hardsigmoid(inplace=True). Saved: a copy of its input (derivatives.yaml, hardsigmoid).
func (t *Tape) HardsigmoidInplace(x Tensor) Tensor {
	return t.inplace(x, saving{name: "torch.nn.functional.hardsigmoid_", input: true})
}

// GroupNormPlain is torch.nn.GroupNorm(groups, channels, affine=False), which autocast runs in float32. Saved: as
// [Tape.GroupNorm].
func (t *Tape) GroupNormPlain(x Tensor, groups int64) Tensor {
	x = t.toFull(x)
	o := t.op("torch.nn.functional.group_norm", x)
	stat := Tensor{}.resized(x.Dim(0) * groups)
	y := o.out(x.dense())
	o.kernel(x, false)
	mean, rstd := o.out(stat), o.out(stat)
	return o.ends(y, func() {
		o.save(x, mean, rstd)
		o.fresh(x, x)
		o.dense()
	}, x)
}

// InplaceOfView is an in-place operation m on the view x of a result that nothing else reads. Autograd puts CopySlices
// between the two (torch/csrc/autograd/functions/tensor.cpp), whose backward copies the gradient of the whole, and
// that copy once more for m's own backward.
func (t *Tape) InplaceOfView(x Tensor, m Module) Tensor {
	y := m(t, x)
	if y.grad {
		recorder{t, len(t.ops) - 1}.btmp(2 * x.bytes())
	}
	return y
}

// VarUnfolded is the variance within each window of k×k of x: torch.var over the last two dimensions of
// x.unfold(2, k, 1).unfold(3, k, 1), which is a view.
//
// Saved: x, by way of that view (derivatives.yaml, var.correction). Backward makes a tensor of k·k times the result's
// size twice over, its distance from the mean and the product of that and the gradient (var_backward in
// FunctionsManual.cpp), and folds it in two steps (unfold_backward).
func (t *Tape) VarUnfolded(x Tensor, k int64) Tensor {
	o := t.op("torch.var", x)
	y := o.out(x.with(2, x.Dim(2)-k+1).with(3, x.Dim(3)-k+1))
	return o.ends(y, func() {
		o.save(x)
		o.btmp(2 * k * k * y.bytes())
		o.gradient(x, x.bytes(), 0)
	}, x)
}

// MaskedFill is x[mask] = 0: x's storage. Saved: the mask (derivatives.yaml, index_put_).
func (t *Tape) MaskedFill(x, mask Tensor) Tensor {
	o := t.op("Tensor.__setitem__", x, mask)
	y := o.result(x)
	return o.ends(y, func() {
		o.save(mask)
		o.fresh(x, x)
	}, x)
}

// StackSecond is torch.stack(xs, dim=1) of equal tensors.
func (t *Tape) StackSecond(xs ...Tensor) Tensor {
	ys := make([]Tensor, len(xs))
	for i, x := range xs {
		s := x.Shape()
		y := x
		copy(y.shape[2:], x.shape[1:x.dims])
		from := x.stride()
		to := layout{from[0], from[0]}
		copy(to[2:], from[1:x.dims])
		y.shape[1] = 1
		y.dims = uint8(len(s) + 1)
		ys[i] = t.view("Tensor.unsqueeze", x, y.laid(to))
	}
	return t.Cat(1, ys...)
}
