package nn

// parallelImages is how many images deform_conv2d's kernel takes at once, at most (kMaxParallelImgs in
// torchvision/csrc/ops/cuda/deform_conv2d_kernel.cu at 0d7913da).
const parallelImages = 32

// DeformConv is torchvision.ops.deform_conv2d(x, offset, w, b, padding=pad, mask=mask) of stride 1, in float32.
//
// Saved: all of them (DeformConv2dFunction in torchvision/csrc/ops/autograd/deform_conv2d_kernel.cpp). On a card the
// kernel unfolds as many images as it takes at once into columns, forward and backward. Forward has the result twice
// more (out and out_buf in deform_conv2d_forward_kernel), and backward a copy of its gradient (grad_out_buf in
// backward_gradient_parameters).
func (t *Tape) DeformConv(x, offset, mask, w, b Tensor, pad int64) Tensor {
	size := func(n, k int64) int64 { return n + 2*pad - k + 1 }
	o := t.op("torchvision.ops.deform_conv2d", x, offset, mask, w, b)
	y := o.out(x.resized(x.Dim(0), w.Dim(0), size(x.Dim(2), w.Dim(2)), size(x.Dim(3), w.Dim(3))))
	together := min(x.Dim(0), parallelImages)
	for together > 1 && x.Dim(0)%together != 0 {
		together--
	}
	columns := x.Dim(1) * w.Dim(2) * w.Dim(3) * together * y.Dim(2) * y.Dim(3) * int64(x.dtype.Size())
	o.tmp(columns + 2*y.bytes())
	return o.ends(y, func() {
		o.save(x, offset, mask, w)
		for _, z := range []Tensor{x, offset, mask, w, b} {
			o.fresh(z, z)
		}
		if !t.Dispatched { // a recording does not see into the kernel
			o.btmp(columns + y.bytes())
		}
	}, x, offset, mask, w, b)
}
