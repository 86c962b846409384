package nn

// ZeroGrad is optimizer.zero_grad(set_to_none=True) of one part, the default from PyTorch 2.0 on: its gradients are let go
// (Optimizer.zero_grad in torch/optim/optimizer.py). Before 2.0 they were filled with zeros and stayed.
func (t *Tape) ZeroGrad(part string) {
	t.Part(part, func() {
		o := t.op("optimizer.zero_grad()")
		t.ops[o.i].kind = opZeroGrad
		o.end()
	})
}
