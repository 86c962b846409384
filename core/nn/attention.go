package nn

// SoftmaxAs is torch.softmax(x, dim=-1, dtype=x.dtype). Autocast leaves alone what names a type of its own
// (AT_FORALL_FP32_SET_OPT_DTYPE in autocast_mode.h), so what is half stays half.
//
// Saved: its result (derivatives.yaml, _softmax).
func (t *Tape) SoftmaxAs(x Tensor) Tensor { return t.softmax(x) }

// NormalizeDim is torch.nn.functional.normalize(x, dim=dim): the norm, its lower bound, their quotient.
//
// Saved: the input, by the norm and by the division, the norm, and what it was clamped to (derivatives.yaml,
// linalg_vector_norm, clamp_min, div.Tensor). Under autocast the norm is told float32 and makes no copy of what it
// reads (AT_FORALL_FP32_SET_OPT_DTYPE), and the quotient is float32.
func (t *Tape) NormalizeDim(x Tensor, dim int) Tensor {
	norm := x.with(dim, 1).like(x)
	if t.auto {
		norm.dtype = F32
	}
	o := t.op("torch.linalg.vector_norm", x)
	norm = o.out(norm)
	if t.recording(x) {
		norm.grad = true
		o.save(x, norm)
		wide := x
		wide.dtype = norm.dtype
		o.btmp(norm.bytes() + norm.Numel()) // the gradient over the norm, and where the norm is zero
		o.fresh(x, wide)
	}
	o.end()
	denom := t.Hold(t.unary(norm, saving{name: "torch.clamp_min", input: true, masks: 1}))
	var y Tensor
	t.Scope("", func() { y = t.Div(x, t.Expand(denom, x.Shape()...)) }, denom)
	return y
}

// PadLike is torch.nn.functional.pad with a constant, to a shape: a copy in the input's memory format, even where
// nothing is added (constant_pad_nd in native/PadNd.cpp). Saved: nothing (derivatives.yaml, constant_pad_nd).
func (t *Tape) PadLike(x Tensor, shape ...int64) Tensor {
	y := x
	for i, n := range shape {
		y = y.with(i, n)
	}
	o := t.op("torch.nn.functional.pad", x)
	y = y.suggested(x)
	if y.Numel() == x.Numel() {
		y = y.like(x) // a clone
	}
	y = o.out(y)
	return o.ends(y, func() {
		o.gradient(x, x.bytes(), 0)
		o.follows()
	}, x)
}

// Integers are the int64 results of torch.argmax over the last dimension, or of sort, topk and the like on integers: n
// tensors of that shape outside the graph.
func (t *Tape) Integers(name string, x Tensor, n int, shape ...int64) []Tensor {
	o := t.op(name, x)
	ys := make([]Tensor, n)
	for i := range ys {
		ys[i] = o.out(Tensor{dtype: I64}.resized(shape...))
	}
	o.end()
	return ys
}

// Gather is torch.gather(x, dim, index) for an index of the result's shape, or a view that expands to it. Saved: the
// input, whose sizes backward asks for, and the index (derivatives.yaml, gather).
func (t *Tape) Gather(x, index Tensor, shape ...int64) Tensor {
	o := t.op("torch.gather", x, index)
	y := o.out(x.resized(shape...))
	return o.ends(y, func() {
		o.save(x, index)
		if t.Dispatched { // scatter_add is out of place under a dispatch mode (gather_backward in FunctionsManual.cpp)
			o.btmp(x.bytes())
		}
		o.gradient(x, x.bytes(), 0)
	}, x)
}

// InstanceNorm is torch.nn.InstanceNorm1d(affine=True) under that name, of (batch, channels, tokens): a batch norm of
// one sample of batch times channels, with weight and bias repeated (instance_norm in native/Normalization.cpp). It
// is on none of autocast's lists.
//
// Saved: the input, contiguous, the repeated weight, mean and inverse deviation (derivatives.yaml, native_batch_norm).
func (t *Tape) InstanceNorm(name string, x Tensor) (y Tensor) {
	t.Scope(name, func() {
		n := x.Dim(0) * x.Dim(1)
		w := t.Hold(t.Copy("Tensor.repeat", t.Param("weight", x.Dim(1)), n))
		b := t.Hold(t.Copy("Tensor.repeat", t.Param("bias", x.Dim(1)), n))
		z := t.Hold(t.Contiguous(x))
		o := t.op("torch.nn.functional.instance_norm", z, w, b)
		y = o.out(z)
		mean, rstd := o.out(Tensor{}.resized(n)), o.out(Tensor{}.resized(n))
		if t.recording(z, w, b) {
			y.grad = true
			o.save(z, w, mean, rstd)
			o.fresh(z, z)
			o.fresh(w, w)
			o.fresh(b, b)
		}
		o.end()
	}, x)
	return y
}

// VarDim is x.var(dim, keepdim=True). Saved: its input (derivatives.yaml, var.correction), from which backward subtracts
// the mean.
func (t *Tape) VarDim(x Tensor, dim int) Tensor {
	o := t.op("torch.var", x)
	y := o.out(x.with(dim, 1).like(x))
	return o.ends(y, func() {
		o.save(x)
		o.btmp(x.bytes() + y.bytes())
		o.gradient(x, x.bytes(), 0)
	}, x)
}

// MaxPoolSame is torch.nn.MaxPool2d(k, 1, k // 2) of an odd k, which keeps the size. Saved: as MaxPool2d.
func (t *Tape) MaxPoolSame(x Tensor) Tensor {
	return t.maxPool("torch.nn.functional.max_pool2d", x, x.Dim(2), x.Dim(3))
}
