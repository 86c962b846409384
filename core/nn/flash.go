package nn

// FlashSDPA is [Tape.SDPA] by the kernel of FlashAttention, which a card has for half types without a mask. k and v may
// have fewer heads than q: then backward makes the gradients of k and v once for each head of q (mha_bwd in
// aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp).
func (t *Tape) FlashSDPA(q, k, v Tensor) Tensor {
	y := t.SDPA(q, k, v)
	if y.grad && !t.MathSDPA && !t.CPU && !t.Dispatched && k.Dim(1) < q.Dim(1) {
		recorder{t, len(t.ops) - 1}.btmp(2 * q.Dim(0) * q.Dim(1) * k.Dim(2) * q.Dim(3) * dtypes[y.dtype].size)
	}
	return y
}

// scratch enters what the backward pass of a fused attention has on a card beside its results: the gradient of q in
// float32, in whole tiles, and the sum of each token's result times its gradient. FlashAttention has tiles of 128
// tokens and 32 channels (of 64 above 128: mha_bwd). The memory-efficient kernel has some of 64 and 64 at least
// (workspace_elements_gq in transformers/cuda/mem_eff_attention/kernel_backward.h, from PyTorch 2.1 on for float32,
// too). No recording has seen it.
func (r recorder) scratch(q Tensor) {
	if r.t.CPU || r.t.Dispatched {
		return
	}
	up := func(n, of int64) int64 { return (n + of - 1) / of * of }
	rows, channels := up(q.Dim(-2), 128), up(q.Dim(-1), 32)
	if q.dtype == F32 {
		rows = up(q.Dim(-2), 64)
	}
	if q.dtype == F32 || q.Dim(-1) > 128 {
		channels = up(q.Dim(-1), 64)
	}
	r.btmp(4 * q.Numel() / (q.Dim(-2) * q.Dim(-1)) * rows * (channels + 1))
}
