package nn

// LinearWeight is torch.nn.functional.linear of x with a weight, and a bias unless it is the zero Tensor. What is no
// leaf, such as a bias put together from several, autocast copies anew each time (cached_cast in autocast_mode.cpp).
//
// Saved: input and weight (derivatives.yaml, addmm and mm), each for the other's gradient.
func (t *Tape) LinearWeight(x, w, b Tensor) Tensor {
	if b.dims > 0 {
		b = t.toLow(b)
	}
	x, w = t.toLow(x), t.toLow(w)
	if _, ok := x.viewed(x.Numel()/x.Dim(-1), x.Dim(-1)); !ok {
		x = t.Contiguous(x)
	}
	return t.mm("torch.nn.functional.linear", x.with(-1, w.Dim(0)).dense(), x, w, b)
}
