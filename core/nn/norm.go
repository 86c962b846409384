package nn

// LayerNorm is torch.nn.LayerNorm under that name over the last dimension, which autocast runs in float32.
//
// Saved: input, mean and inverse deviation in float32, weight (derivatives.yaml, native_layer_norm).
func (t *Tape) LayerNorm(name string, x Tensor) Tensor {
	return t.normalize(name, "torch.nn.functional.layer_norm", x, x.Dim(-1), x.Numel()/x.Dim(-1))
}

// GroupNorm is torch.nn.GroupNorm under that name over channels, which autocast runs in float32.
//
// Saved: input, mean and inverse deviation of each group, weight (derivatives.yaml, native_group_norm).
func (t *Tape) GroupNorm(name string, x Tensor, groups int64) Tensor {
	return t.normalize(name, "torch.nn.functional.group_norm", x, x.Dim(1), x.Dim(0)*groups)
}

// normalize is either of them: the result is contiguous, and made of a contiguous copy of what is not
// (native_layer_norm in aten/src/ATen/native/cuda/layer_norm_kernel.cu, native_group_norm in group_norm.cpp).
func (t *Tape) normalize(name, op string, x Tensor, weights, statistics int64) Tensor {
	defer t.under(name)()
	w, b := t.Param("weight", weights), t.Param("bias", weights)
	x = t.toFull(x)
	o := t.op(op, x, w, b)
	stat := Tensor{}.resized(statistics)
	y := o.out(x.dense())
	o.kernel(x, false)
	mean, rstd := o.out(stat), o.out(stat)
	return o.ends(y, func() {
		o.save(x, mean, rstd)
		o.fresh(x, x)
		o.fresh(w, w)
		o.fresh(b, b)
		o.dense()
	}, x, w, b)
}

// BatchNorm2d is torch.nn.BatchNorm2d under that name. It is on none of autocast's lists: the result has the
// input's type.
//
// Saved: input, the batch's mean and inverse deviation in float32 (derivatives.yaml, native_batch_norm). Buffers:
// running mean, running variance, and the count of batches.
func (t *Tape) BatchNorm2d(name string, x Tensor) Tensor {
	defer t.under(name)()
	c := x.Dim(1)
	w, b := t.Param("weight", c), t.Param("bias", c)
	t.Buffer("running_mean", F32, c)
	t.Buffer("running_var", F32, c)
	t.Buffer("num_batches_tracked", I64)
	o := t.op("torch.nn.functional.batch_norm", x, w, b)
	y := o.out(x.like(x))
	mean, rstd := o.out(Tensor{}.resized(c)), o.out(Tensor{}.resized(c))
	return o.ends(y, func() {
		o.save(x, mean, rstd)
		o.fresh(x, x)
		o.fresh(w, w)
		o.fresh(b, b)
	}, x, w, b)
}
