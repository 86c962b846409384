package nn

// SafeSoftmax is torch._safe_softmax over the last dimension, which scaled_dot_product_attention computes without a
// fused kernel: a softmax, a mask of what is minus infinity, and a choice between the softmax and zero
// (native/transformers/attention.cpp).
//
// Saved: its result (derivatives.yaml, _safe_softmax).
func (t *Tape) SafeSoftmax(x Tensor) Tensor {
	o := t.op("torch._safe_softmax", x)
	y := o.out(x.dense())
	o.tmp(x.bytes() + 2*x.Numel())
	return o.ends(y, func() {
		o.save(y)
		o.product(y)
		o.fresh(x, x)
		o.dense()
	}, x)
}

// Low is the type to which autocast casts x for an operation of its lower list: x's own outside of it.
func (t *Tape) Low(x Tensor) DType {
	if t.auto && x.dtype.Floating() {
		return t.low
	}
	return x.dtype
}
