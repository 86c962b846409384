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

// sorting is what CUDA takes for each index while backward sorts them: int64 numbers of the index as a line, of the sorted
// one, of a range and of what becomes of it (index_put_with_sort_kernel in aten/src/ATen/native/cuda/Indexing.cu), and cub's own
// second pair of keys and values, since it sorts in more than one pass. No recording has seen it: the CPU adds up without.
const sorting = (4 + 2) * 8

// Lookup is table[index] along the first dimension, with that shape: for an index that the forward has made itself, and as
// torch.nn.Embedding has it. Saved:
// the index (derivatives.yaml, index.Tensor).
func (t *Tape) Lookup(table, index Tensor, shape ...int64) Tensor {
	o := t.op("Tensor.__getitem__", table, index)
	y := o.out(table.resized(shape...))
	return o.ends(y, func() {
		o.save(index)
		o.fresh(table, table)
		if !t.Dispatched && !t.CPU {
			o.btmp(sorting * index.Numel())
		}
	}, table)
}

// AvgPoolBy is torch.nn.AvgPool2d(k, k). Saved: its input (derivatives.yaml, avg_pool2d).
func (t *Tape) AvgPoolBy(x Tensor, k int64) Tensor {
	o := t.op("torch.nn.functional.avg_pool2d", x)
	y := o.out(x.resized(x.Dim(0), x.Dim(1), x.Dim(2)/k, x.Dim(3)/k).suggested(x))
	return o.ends(y, func() {
		o.save(x)
		o.fresh(x, x)
	}, x)
}
