package nn

// HuberLoss is torch.nn.functional.huber_loss, in float32 under autocast. Saved: both inputs (derivatives.yaml,
// huber_loss); forward makes a tensor of their size before its mean (huber_loss in native/Loss.cpp).
func (t *Tape) HuberLoss(x, y Tensor) Tensor {
	x, y = t.toFull(x), t.toFull(y)
	o := t.op("torch.nn.functional.huber_loss", x, y)
	z := o.out(x.resized())
	o.tmp(x.bytes())
	return o.ends(z, func() {
		o.save(x, y)
		o.fresh(x, x)
		o.fresh(y, y)
	}, x, y)
}
