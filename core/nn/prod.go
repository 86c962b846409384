package nn

// Prod is x.prod(dim), without keepdim, which autocast runs in float32. Saved: input and result (derivatives.yaml,
// prod.dim_int).
//
// Backward divides the result by the input, once it has looked for zeros. Under a dispatch mode it cannot look, and
// multiplies the products from both ends instead (prod_backward and prod_safe_zeros_backward in FunctionsManual.cpp).
func (t *Tape) Prod(x Tensor, dim int) Tensor {
	x = t.toFull(x)
	shape := x.Shape()
	shape = append(shape[:dim], shape[dim+1:]...)
	o := t.op("torch.prod", x)
	y := o.out(x.resized(shape...))
	return o.ends(y, func() {
		o.save(x, y)
		if t.Dispatched {
			o.btmp(5 * x.bytes())
		} else {
			o.btmp(x.bytes() + x.Numel())
		}
		o.gradient(x, x.bytes(), 0)
	}, x)
}
