package nn

import "github.com/launch-ml/launch/core/unit"

// ZeroGrad is optimizer.zero_grad(set_to_none=True) of one part, the default from PyTorch 2.0 on: its gradients are let go
// (Optimizer.zero_grad in torch/optim/optimizer.py). Before 2.0 they were filled with zeros and stayed.
func (t *Tape) ZeroGrad(part string) {
	t.Part(part, func() {
		o := t.op("optimizer.zero_grad()")
		t.ops[o.i].kind = opZeroGrad
		o.end()
	})
}

// OptimizerStepAlone is optimizer.step() of one part without the zero_grad that [Tape.OptimizerStep] has after it: the
// gradients stay until [Tape.ZeroGrad], as where a loop clears them before its next backward.
func (t *Tape) OptimizerStepAlone(part string, tmp unit.Bytes) {
	t.OptimizerStep(part, tmp)
	t.ops[len(t.ops)-1].kind = opStepAlone
}
