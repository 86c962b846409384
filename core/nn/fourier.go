package nn

// RFFT2 is torch.fft.rfft2 of (b, c, h, w) in float32, as (b, c, h, w/2+1, 2): a complex number is two float32.
//
// Saved: its input, of which backward asks the width (derivatives.yaml, _fft_r2c). Backward fills the half that is left out with zeros and transforms the
// whole, which is complex: of it the real part is a view (fft_r2c_backward in FunctionsManual.cpp).
func (t *Tape) RFFT2(x Tensor) Tensor {
	o := t.op("torch.fft.rfft2", x)
	y := o.out(x.resized(x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)/2+1, 2))
	return o.ends(y, func() {
		o.save(x)
		o.btmp(3 * x.bytes()) // with the gradient itself, two complex images
		o.gradient(x, x.bytes(), 0)
	}, x)
}
