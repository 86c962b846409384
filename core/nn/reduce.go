package nn

// reduce is an op whose result is smaller than its input and whose backward makes a tensor of the input's size.
func (t *Tape) reduce(name string, x Tensor, save bool, shape ...int64) Tensor {
	return t.reduced(name, x, x.resized(shape...), save)
}

func (t *Tape) reduced(name string, x, shape Tensor, save bool) Tensor {
	o := t.op(name, x)
	y := o.out(shape)
	return o.ends(y, func() {
		if save {
			o.save(x)
		}
		o.gradient(x, x.bytes(), 0)
	}, x)
}

// Mean is x.mean(): a scalar. Saved: nothing but sizes (derivatives.yaml, mean).
func (t *Tape) Mean(x Tensor) Tensor { return t.reduce("torch.mean", x, false) }

// Sum is x.sum(), which autocast runs in float32. Saved: nothing but sizes (derivatives.yaml, sum). Its gradient is
// an expanded view, which takes no memory.
func (t *Tape) Sum(x Tensor) Tensor {
	x = t.toFull(x)
	o := t.op("torch.sum", x)
	y := o.out(x.resized())
	return o.ends(y, func() { o.gradient(x, dtypes[x.dtype].size, 0) }, x)
}

// MeanDim is x.mean(dim, keepdim=True). Saved: nothing but sizes (derivatives.yaml, mean.dim).
func (t *Tape) MeanDim(x Tensor, dims ...int) Tensor {
	y := x
	for _, d := range dims {
		y = y.with(d, 1)
	}
	return t.reduce("torch.mean", x, t.Torch1, y.Shape()...)
}

// AvgPoolAll is torch.nn.AdaptiveAvgPool2d(1), which ATen runs as a mean over the last two dimensions
// (adaptive_avg_pool2d in AdaptiveAveragePooling.cpp).
func (t *Tape) AvgPoolAll(x Tensor) Tensor { return t.MeanDim(x, 2, 3) }

// AvgPool2d is torch.nn.functional.avg_pool2d, laid out as its input. Saved: its input (derivatives.yaml, avg_pool2d).
func (t *Tape) AvgPool2d(x Tensor, k, stride, pad int64) Tensor {
	y := x.with(2, (x.Dim(2)+2*pad-k)/stride+1).with(3, (x.Dim(3)+2*pad-k)/stride+1).suggested(x)
	return t.reduced("torch.nn.functional.avg_pool2d", x, y, true)
}

// Norm is x.norm(2, dim, keepdim=True), which autocast runs in float32. Saved: input and result (derivatives.yaml,
// linalg_vector_norm); backward makes a mask and an intermediate of the result's size.
func (t *Tape) Norm(x Tensor, dim int) Tensor {
	x = t.toFull(x)
	o := t.op("Tensor.norm", x)
	y := o.out(x.with(dim, 1).like(x))
	return o.ends(y, func() {
		o.save(x, y)
		o.btmp(y.bytes() + y.Numel())
		o.gradient(x, x.bytes(), 0)
	}, x)
}

// L1Loss is torch.nn.functional.l1_loss: (x - y).abs().mean() (l1_loss in Loss.cpp), in float32 under autocast.
func (t *Tape) L1Loss(x, y Tensor) Tensor {
	var z Tensor
	t.Scope("", func() { // one C++ expression, whose intermediates live to its end
		z = t.Mean(t.Hold(t.Abs(t.Hold(t.Sub(t.Hold(t.toFull(x)), t.Hold(t.toFull(y)))))))
	}, x, y)
	return z
}

// MSELoss is torch.nn.functional.mse_loss, in float32 under autocast. Saved: both inputs (derivatives.yaml,
// mse_loss). The result is a scalar in the storage that was made for the squares (resize_ in the meta function of
// mse_loss, Loss.cpp), and forward makes the squares once more before their mean.
func (t *Tape) MSELoss(x, y Tensor) Tensor {
	x, y = t.toFull(x), t.toFull(y)
	o := t.op("torch.nn.functional.mse_loss", x, y)
	z := o.out(x.resized())
	t.stores[z.store].bytes = x.bytes()
	o.tmp(x.bytes())
	return o.ends(z, func() {
		o.save(x, y)
		o.fresh(x, x)
		o.fresh(y, y)
	}, x, y)
}

// BCEWithLogits is torch.nn.functional.binary_cross_entropy_with_logits, in float32 under autocast, against a target
// outside the graph. Saved: both (derivatives.yaml, binary_cross_entropy_with_logits); forward makes two
// intermediates.
func (t *Tape) BCEWithLogits(x, y Tensor) Tensor {
	x, y = t.toFull(x), t.toFull(y)
	o := t.op("torch.nn.functional.binary_cross_entropy_with_logits", x, y)
	z := o.out(x.resized())
	o.tmp(2 * x.bytes())
	return o.ends(z, func() {
		o.save(x, y)
		o.btmp(x.bytes())
		o.fresh(x, x)
	}, x)
}

// MinDim is x.min(dim).values, or max. Saved: the int64 indices (derivatives.yaml, min.dim).
func (t *Tape) MinDim(x Tensor, dim int) Tensor {
	shape := append([]int64(nil), x.Shape()...)
	shape = append(shape[:dim], shape[dim+1:]...)
	o := t.op("torch.min", x)
	y := o.out(x.resized(shape...))
	idx := y
	idx.dtype = I64
	idx = o.out(idx)
	return o.ends(y, func() {
		o.save(idx)
		o.gradient(x, x.bytes(), 0)
	}, x)
}

// MaxAll is x.max(): a scalar. Saved: input and result (derivatives.yaml, max); backward makes a mask.
func (t *Tape) MaxAll(x Tensor) Tensor {
	o := t.op("torch.max", x)
	y := o.out(x.resized())
	return o.ends(y, func() {
		o.save(x, y)
		o.btmp(x.Numel())
		o.gradient(x, x.bytes(), 0)
	}, x)
}

// SumDim is x.sum(dim, keepdim=True), which autocast runs in float32. Saved: nothing but sizes; its gradient is an
// expanded view, which takes no memory (derivatives.yaml, sum.dim_IntList).
func (t *Tape) SumDim(x Tensor, dims ...int) Tensor {
	x = t.toFull(x)
	y := x
	for _, d := range dims {
		y = y.with(d, 1)
	}
	o := t.op("torch.sum", x)
	y = o.out(y.dense())
	return o.ends(y, func() { o.gradient(x, y.bytes(), 0) }, x)
}

// Cumsum is torch.cumsum over the last dimension, which autocast runs in float32. Saved: nothing (derivatives.yaml,
// cumsum); backward flips twice.
func (t *Tape) Cumsum(x Tensor) Tensor {
	return t.unary(t.toFull(x), saving{name: "torch.cumsum", temps: 2})
}
