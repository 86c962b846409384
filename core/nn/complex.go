package nn

// FFT2 is torch.fft.fftn(x, dim=(-2, -1)) of (b, c, h, w) in float32, as (b, c, h, w, 2): a complex number is two
// float32. It transforms a complex copy (fftn_c2c by way of promote_tensor_fft in native/SpectralOps.cpp).
//
// Saved: nothing (derivatives.yaml, _fft_c2c). Backward transforms the gradient, of which it copies the real part.
func (t *Tape) FFT2(x Tensor) Tensor {
	o := t.op("torch.fft.fftn", x)
	y := o.out(x.resized(x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3), 2))
	o.tmp(y.bytes())
	return o.ends(y, func() {
		o.btmp(y.bytes())
		o.gradient(x, x.bytes(), 0)
	}, x)
}

// AbsComplex is torch.abs of a result of FFT2. Saved: its input, whose sign backward multiplies (derivatives.yaml,
// abs).
func (t *Tape) AbsComplex(z Tensor) Tensor { return t.realOf("torch.abs", z, 2) }

// Angle is torch.angle of a result of FFT2. Saved: its input. Backward makes four complex intermediates
// (angle_backward in FunctionsManual.cpp).
func (t *Tape) Angle(z Tensor) Tensor { return t.realOf("torch.angle", z, 4) }

func (t *Tape) realOf(name string, z Tensor, temps int64) Tensor {
	o := t.op(name, z)
	y := o.out(z.resized(z.Dim(0), z.Dim(1), z.Dim(2), z.Dim(3)))
	return o.ends(y, func() {
		o.save(z)
		o.btmp((temps - 1) * z.bytes())
		o.fresh(z, z)
	}, z)
}

// Sort is torch.sort(x, dim=-1): the values. Its indices, which are int64, live as long as the variable that the
// caller drops. Saved: the indices (derivatives.yaml, sort); backward writes into zeros of x's size.
func (t *Tape) Sort(x Tensor) (values, indices Tensor) {
	o := t.op("torch.sort", x)
	values = o.out(x.dense())
	indices = values
	indices.dtype = I64
	indices = o.out(indices)
	if t.recording(x) {
		values.grad = true
		o.save(indices)
		if t.Dispatched {
			o.btmp(x.bytes())
		}
		o.gradient(x, x.bytes(), 0)
	}
	o.end()
	return values, indices
}
