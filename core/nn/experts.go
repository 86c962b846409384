package nn

// TopK is torch.topk(x, k) over the last dimension: the values, and their places as int64. Saved: the places
// (derivatives.yaml, topk); backward writes into zeros of x's size.
func (t *Tape) TopK(x Tensor, k int64) (values, indices Tensor) {
	o := t.op("torch.topk", x)
	values = o.out(x.with(-1, k).dense())
	indices = values
	indices.dtype = I64
	indices = o.out(indices)
	if t.recording(x) {
		values.grad = true
		o.save(indices)
		if t.Dispatched { // scatter is out of place under a dispatch mode (value_selecting_reduction_backward)
			o.btmp(x.bytes())
		}
		o.gradient(x, x.bytes(), 0)
	}
	o.end()
	return values, indices
}

// DivInplace is x.div_(y): the result is x's storage.
//
// Saved: y, and a copy of what x was where y requires a gradient (derivatives.yaml, div.Tensor, as
// gen_variable_type.py writes its in-place variant).
func (t *Tape) DivInplace(x, y Tensor) Tensor {
	o := t.op("torch.Tensor.div_", x, y)
	z := o.result(x)
	return o.ends(z, func() {
		o.save(y)
		if y.grad {
			copied := o.out(x.like(x))
			o.save(copied)
			o.btmp(2 * x.bytes())
		}
		o.fresh(x, z)
		o.fresh(y, z)
	}, x, y)
}

// GroupedMM is torch.nn.functional.grouped_mm(x, w.transpose(-2, -1), offs=ends): rows of x (rows, in), sorted by their
// group, each times its group's weight of w (groups, out, in). It is on none of autocast's lists (torch 2.15). How many
// rows a group has changes no size.
//
// Saved: the ends of the groups, and both operands, each for the other's gradient (derivatives.yaml, _grouped_mm). The
// gradient of w is of all groups.
func (t *Tape) GroupedMM(x, w, ends Tensor) Tensor {
	o := t.op("torch.nn.functional.grouped_mm", x, w, ends)
	y := o.out(x.with(-1, w.Dim(-2)).dense())
	return o.ends(y, func() {
		o.save(ends)
		if x.grad {
			o.save(w)
		}
		if w.grad {
			o.save(x)
		}
		o.fresh(x, x)
		o.fresh(w, w)
	}, x, w)
}

// SumRows is x.view(n, k, channels).sum(dim=1) of x (n * k, channels), which autocast runs in float32: a card's kernel
// reads half tensors as they are. Saved: nothing but sizes (derivatives.yaml, sum.dim_IntList); the view copies its
// gradient, which the sum has only expanded.
func (t *Tape) SumRows(x Tensor, n int64) Tensor {
	o := t.op("torch.sum", x)
	y := x.resized(n, x.Dim(-1))
	if t.auto && y.dtype.Floating() {
		y.dtype = F32
	}
	y = o.out(y)
	return o.ends(y, func() { o.gradient(x, x.bytes(), 0) }, x)
}
