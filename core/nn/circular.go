package nn

// PadCircular is torch.nn.functional.pad(x, (n, n, n, n), mode="circular") of (b, c, h, w): the image is written into a new
// one, and its edges from there (_pad_circular_symint in PadNd.cpp).
//
// Saved: nothing. Each write is one of a slice, whose backward copies the gradient of the whole (CopySlices in
// autograd/functions/tensor.cpp).
func (t *Tape) PadCircular(x Tensor, n int64) Tensor {
	o := t.op("torch.nn.functional.pad", x)
	y := o.out(x.resized(x.Dim(0), x.Dim(1), x.Dim(2)+2*n, x.Dim(3)+2*n))
	return o.ends(y, func() {
		o.btmp(y.bytes())
		o.gradient(x, x.bytes(), 0)
	}, x)
}
