package arch

import "github.com/launch-ml/launch/core/nn"

// Tiles of trl's fused head: tokens (trl/kernels/chunked_logprob.py, TOKEN_CHUNK_SIZE) by columns of the vocabulary
// (trl/trainer/utils.py, _CHUNKED_LOGPROB_CHUNK_SIZE).
const (
	tokenTile = 4096
	vocabTile = 32768
)

// fusedLoss is _fused_forward (trl/trainer/utils.py:1599, trl 1.16.0): the logarithms of probabilities of the next
// tokens, their entropy, and whether they are the likeliest, in tiles, without the logits; and compute_loss
// (sft_trainer.py:1611).
//
// On a card the tokens that have a label are chosen first, here all of them, and a kernel of Triton folds a tile where
// it lies. No card has shown it. On a CPU torch makes intermediates of a tile's size (_forward_tile, _backward_tile).
func (d *decoder) fusedLoss(last nn.Tensor) (loss nn.Tensor) {
	d.Scope("", func() {
		placed := d.Hold(d.placed(last))
		d.Line("-log_probs.sum() / num_items_in_batch")
		each := d.Hold(d.Neg(placed))
		if d.s.Weighted { // sft_trainer.py:1615: the probability is detached
			var p nn.Tensor
			d.NoGrad(func() { p = d.Hold(d.Exp(placed)) })
			each = d.Rebind(each, d.Mul(each, p))
		}
		loss = d.DivScalar(d.Sum(each))
	}, last)
	return loss
}

// placed are the logarithms of the probabilities of all next tokens.
func (d *decoder) placed(last nn.Tensor) (logps nn.Tensor) {
	b, n, h := last.Dim(0), last.Dim(1), last.Dim(2)
	tokens := b * (n - 1)
	d.Scope("", func() {
		d.Line("hidden_states = backbone_outputs.last_hidden_state[:, :-1]")
		states := d.Hold(d.Narrow(last, 1, n-1))
		mask := d.Hold(d.Zeros(nn.Bool, b, n-1))
		targets := d.Hold(d.Zeros(nn.I64, tokens))
		var chosen nn.Tensor
		if d.CPU {
			chosen = d.Reshape(states, tokens, h)
		} else {
			d.Line("hidden_states[mask]")
			d.Zeros(nn.Bool, tokens) // of nonzero
			chosen = d.Lookup(states, d.Zeros(nn.I64, tokens, 2), tokens, h)
		}
		out := d.logProbs(chosen, targets)
		d.Line("x.view(mask.shape).masked_fill(~mask, 0)")
		logps = d.Where(mask, d.View(out, b, n-1), d.Zeros(nn.F32, b, n-1))
	}, last)
	return logps
}

// logProbs is ChunkedLogProbFunction (trl/kernels/chunked_logprob.py:299) of n tokens. Backward sums the gradients of
// the states and of the weight in float32.
func (d *decoder) logProbs(states, targets nn.Tensor) nn.Tensor {
	n, h := states.Dim(0), states.Dim(1)
	w := d.headWeight()
	xs := []nn.Tensor{states, w}
	if d.Type == "phi" {
		d.Scope(head, func() { xs = append(xs, d.Param("bias", d.Vocab)) })
	}
	rows, columns := min(n, tokenTile), min(d.columns(), d.Vocab)
	low := d.Low(states)
	tile, buffer := 4*rows*columns, int64(low.Size())*rows*d.columns()
	cast := int64(0) // of a piece of the states and of the weight
	if low != states.DType() {
		cast += int64(low.Size()) * rows * h
	}
	if low != w.DType() {
		cast += int64(low.Size()) * columns * h
	}
	forward, backward := buffer+cast, buffer+cast
	// z, its exponential, a product of the two, and a mask; y, z, log_p, p, grad, and is_target with three of its
	// products
	if d.CPU {
		forward, backward = forward+3*tile, backward+7*tile+tile/4
	}
	return d.Apply(nn.Function{Name: "ChunkedLogProbFunction", Temps: backward, Forward: func() (nn.Tensor, []nn.Tensor) {
		d.Line("torch.mm(hidden_chunk, weight[start:end].to(compute_dtype).t(), out=tile)")
		for range 7 { // running statistics
			d.Hold(d.Zeros(nn.F32, n))
		}
		d.Hold(d.Zeros(nn.Bool, forward))
		y, logZ, entropy := d.Zeros(nn.F32, n), d.Zeros(nn.F32, n), d.Zeros(nn.F32, n)
		return y, []nn.Tensor{states, targets, logZ, entropy}
	}}, xs...)
}

// headWeight is the last layer's weight, which may be the embedding's.
func (d *decoder) headWeight() (w nn.Tensor) {
	own := d.ParamType
	if d.s.loose() {
		d.ParamType = d.s.FSDP.Frozen
	}
	d.upcast(func() {
		if d.borrows() {
			w = d.tied()
			return
		}
		d.Scope(head, func() {
			d.wrapped(head, d.Vocab, func() { w = d.Param("weight", d.Vocab, d.Hidden) })
		})
	})
	d.ParamType = own
	return w
}

// nested runs f in the module of that path.
func (d *decoder) nested(path []string, f func()) {
	if len(path) == 0 {
		f()
		return
	}
	d.Scope(path[0], func() { d.nested(path[1:], f) })
}
