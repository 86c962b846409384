package nn

// MaskedSelect is x.masked_select(mask), of which n elements are chosen. Saved: both (derivatives.yaml, masked_select);
// backward writes into zeros of x's size.
//
// CUDA's kernel looks the elements up by an index of int64 for each of them and each dimension, made of the mask at x's size
// (nonzero, by index_out in aten/src/ATen/native/cuda/IndexKernel.cpp); backward makes that mask again, and an int64
// for each element of x (maskPrefixSum in masked_scatter__cuda). No recording has seen these: the CPU does without.
func (t *Tape) MaskedSelect(x, mask Tensor, n int64) Tensor {
	o := t.op("Tensor.masked_select", x, mask)
	y := o.out(x.resized(n))
	if !t.CPU {
		o.tmp(x.Numel() + 8*int64(x.Dims())*n)
	}
	return o.ends(y, func() {
		o.save(x, mask)
		switch {
		case t.Dispatched: // a mode makes it write into a copy of the zeros (areAnyTensorSubclassLike in masked_select_backward)
			o.btmp(x.bytes())
		case !t.CPU:
			o.btmp((1 + 8) * x.Numel())
		}
		o.fresh(x, x)
	}, x)
}
