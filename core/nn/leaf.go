package nn

// RequireGrad is x.requires_grad_() of a tensor outside the graph: from here on operations on it are recorded, and
// backward makes a gradient for it, which is not counted once it is made.
func (t *Tape) RequireGrad(x Tensor) Tensor {
	x.grad = true
	return x
}
