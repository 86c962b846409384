package nn

// PowTensor is x ** y of two tensors, which autocast runs in float32. Saved: both and the result, as each gradient asks for
// them (derivatives.yaml, pow.Tensor_Tensor). Backward makes a mask, y-1, the power of it and its products with y and the gradient
// for x (pow_backward_self in FunctionsManual.cpp), and as much for y (pow_backward_exponent).
func (t *Tape) PowTensor(x, y Tensor) Tensor {
	x, y = t.toFull(x), t.toFull(y)
	o := t.op("torch.pow", x, y)
	z := o.out(broadcast(x, y))
	return o.ends(z, func() {
		o.save(x, y)
		if y.grad {
			o.save(z)
		}
		o.btmp(4*z.bytes() + z.Numel())
		o.fresh(x, z)
		o.fresh(y, z)
	}, x, y)
}
