package nn

// FlashSDPA is [Tape.SDPA] by the kernel of FlashAttention, which a card has for half types without a mask. k and v may
// have fewer heads than q. On a card backward has scratch memory besides: the gradient of q in float32, of tokens in
// multiples of 128 and channels of 32 (of 64 above 128), the sum of each token's result times its gradient, and, of
// fewer heads, the gradients of k and v once for each head of q (mha_bwd in
// aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp). No card has shown this scratch memory.
func (t *Tape) FlashSDPA(q, k, v Tensor) Tensor {
	y := t.SDPA(q, k, v)
	if !y.grad || t.CPU || t.Dispatched || t.MathSDPA {
		return y
	}
	up := func(n, of int64) int64 { return (n + of - 1) / of * of }
	b, heads, n, channels := q.Dim(0), q.Dim(1), up(q.Dim(2), 128), q.Dim(3)
	wide := up(channels, 32)
	if channels > 128 {
		wide = up(channels, 64)
	}
	scratch := 4 * b * heads * n * (wide + 1)
	if k.Dim(1) < heads {
		scratch += 2 * b * heads * k.Dim(2) * channels * dtypes[y.dtype].size
	}
	recorder{t, len(t.ops) - 1}.btmp(scratch)
	return y
}
