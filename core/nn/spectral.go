package nn

// SpectralLinear is torch.nn.utils.spectral_norm of a torch.nn.Linear(…, out), as a module: [Conv] with Spectral, over the
// last dimension.
func SpectralLinear(out int64) Module {
	return func(t *Tape, x Tensor) Tensor {
		w := t.spectral(true, out, x.Dim(-1), 1, 1)
		b := t.toLow(t.Param("bias", out))
		x, w = t.toLow(x), t.toLow(w)
		if _, ok := x.viewed(x.Numel()/x.Dim(-1), x.Dim(-1)); !ok {
			x = t.Contiguous(x)
		}
		return t.mm("torch.nn.functional.linear", x.with(-1, out).dense(), x, w, b)
	}
}

// RMSNorm is torch.nn.RMSNorm under that name over the last dimension, which autocast runs in float32 (rms_norm in
// autocast_mode.h), by the fused kernel that CUDA has for it since PyTorch 2.8.
//
// Saved: input, inverse root mean square in float32, weight (derivatives.yaml, _fused_rms_norm).
func (t *Tape) RMSNorm(name string, x Tensor) Tensor {
	defer t.under(name)()
	w := t.Param("weight", x.Dim(-1))
	x = t.toFull(x)
	o := t.op("torch.nn.functional.rms_norm", x, w)
	y, rstd := o.out(x.dense()), o.out(x.with(-1, 1).dense())
	return o.ends(y, func() {
		o.save(x, rstd)
		o.fresh(x, x)
		o.fresh(w, w)
		o.dense()
	}, x, w)
}
