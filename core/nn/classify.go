package nn

// LogSoftmax is torch.log_softmax over the last dimension, which autocast runs in float32.
//
// Saved: its result (derivatives.yaml, _log_softmax). As for Softmax, CUDA's kernel reads float16 as it is
// (log_softmax in SoftMax.cpp, half_to_float), and bfloat16 needs a copy first.
func (t *Tape) LogSoftmax(x Tensor) Tensor {
	if !t.auto || x.dtype != F16 {
		x = t.toFull(x)
	}
	o := t.op("torch.log_softmax", x)
	y := x
	if t.auto {
		y.dtype = F32
	}
	y = o.out(y.dense())
	return o.ends(y, func() {
		o.save(y)
		o.gradient(x, x.bytes(), 0)
		o.dense()
	}, x)
}

// CrossEntropy is torch.nn.functional.cross_entropy of logits (n, classes) against n class indices
// (cross_entropy_loss in LossNLL.cpp): the mean of the negative logarithms of the softmax, in float32 under autocast.
//
// Saved beside the softmax's: the target (derivatives.yaml, nll_loss_forward). Backward makes a tensor of zeros of the
// logits' size before the softmax's own gradient.
func (t *Tape) CrossEntropy(logits, target Tensor) (loss Tensor) {
	t.Scope("", func() { // the C++ function holds what it was passed
		y := t.LogSoftmax(logits)
		o := t.op("torch.nn.functional.nll_loss", y, target)
		loss = o.out(y.resized())
		weight := o.out(y.resized()) // total_weight
		if t.recording(y) {
			loss.grad = true
			o.save(y, target, weight)
			o.fresh(y, y)
		}
		o.end()
	}, logits, target)
	return loss
}

// Indices is a tensor of n int64 indices outside the graph: class labels, a permutation.
func (t *Tape) Indices(n int64) Tensor { return t.Zeros(I64, n) }
