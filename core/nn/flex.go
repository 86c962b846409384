package nn

// FlexAttention is torch.compile(flex_attention)(q, k, v, score_mod=…) of (batch, heads, tokens, channels), whose function of
// the score has captured those tensors.
//
// Saved: q, k, v, what is captured, the result, and the logarithm of the sum of exponentials in float32
// (FlexAttentionAutogradOp in torch/_higher_order_ops/flex_attention.py). Backward makes the sum of the result times its
// gradient for each token, in float32 (delta in torch/_inductor/kernel/flex/flex_attention.py).
func (t *Tape) FlexAttention(q, k, v Tensor, captured ...Tensor) Tensor {
	q, k, v = t.toLow(q), t.toLow(k), t.toLow(v)
	all := append([]Tensor{q, k, v}, captured...)
	o := t.op("torch.nn.attention.flex_attention", all...)
	y := o.out(q.with(-1, v.Dim(-1)).like(q))
	lse := q.resized(q.Shape()[:q.Dims()-1]...)
	lse.dtype = F32
	lse = o.out(lse)
	return o.ends(y, func() {
		o.save(y, lse)
		o.save(all...)
		o.btmp(lse.bytes())
		for _, x := range all {
			o.fresh(x, x)
		}
	}, all...)
}

// SDPABiased is [Tape.SDPA] with attn_mask, which may broadcast, by the memory-efficient kernel, as sdpa_kernel asks for it.
//
// Saved: as by SDPA, and the mask, expanded, which is a view (preprocess_mask in transformers/attention.cpp;
// derivatives.yaml, _scaled_dot_product_efficient_attention). Its gradient is computed at the expanded size (grad_bias in
// transformers/cuda/attention_backward.cu).
func (t *Tape) SDPABiased(q, k, v, bias Tensor) Tensor {
	q, k, v, bias = t.toLow(q), t.toLow(k), t.toLow(v), t.toLow(bias)
	bias = t.Expand(bias, q.Dim(0), q.Dim(1), q.Dim(2), k.Dim(2))
	o := t.op("torch.nn.functional.scaled_dot_product_attention", q, k, v, bias)
	y := q.with(-1, v.Dim(-1))
	y = o.out(y.like(y.permuted(0, 2, 1, 3).dense().permuted(0, 2, 1, 3)))
	lse := q.with(-1, 1)
	lse.dtype = F32
	lse = o.out(lse)
	return o.ends(y, func() {
		o.save(q, k, v, bias, y, lse)
		o.scratch(q)
		for _, x := range []Tensor{q, k, v, bias} {
			o.fresh(x, x.dense())
		}
	}, q, k, v, bias)
}

// LookupHost is table[i, j] by n pairs of indices that lie in the host's memory. Saved: the indices, there. The kernels copy
// them to the card for as long as they run, and in backward sort them as [Tape.Lookup] says.
func (t *Tape) LookupHost(table Tensor, n int64, shape ...int64) Tensor {
	const pair = 2 * 8
	o := t.op("Tensor.__getitem__", table)
	y := o.out(table.resized(shape...))
	if !t.CPU {
		o.tmp(pair * n)
	}
	return o.ends(y, func() {
		o.fresh(table, table)
		if !t.Dispatched && !t.CPU {
			o.btmp((pair + sorting) * n)
		}
	}, table)
}
