package arch

import (
	"slices"

	"github.com/launch-ml/launch/core/nn"
)

// Cut cross entropy, by the source of axolotl's fork (axolotl-ai-cloud/ml-cross-entropy at 5f0c7a7,
// cut_cross_entropy/…). Its kernels of Triton fold the logits where they compute them, so that none are made; no card
// has measured it.

// cutModels are the models whose forward the fork replaces by that of llama (transformers/llama.py:40), of those that
// have a formula.
var cutModels = []string{"llama", "mistral", "qwen2", "qwen3", "gemma", "arcee", "exaone4", "glm", "glm4",
	"hunyuan_v1_dense", "ministral", "olmo2", "olmo3", "phi3", "seed_oss", "smollm3"}

// ofCut says what of cut cross entropy has no formula; "" for nothing.
func (s Step) ofCut() string {
	switch {
	case !s.Cut:
		return ""
	case s.CPU && !s.Dispatched:
		return "the kernels of cut cross entropy are of Triton, which has no CPU"
	case !slices.Contains(cutModels, s.Model.Type):
		return "cut cross entropy has no formula for " + s.Model.Type
	case s.Weights == nn.F32: // cce_backward.py:349, 353
		return "cut cross entropy fails with weights in float32: bf16 or fp16 makes them half"
	case s.FSDP != nil:
		return "cut cross entropy has no formula with FSDP"
	case s.Shards != nil && s.Shards.Stage == 3:
		return "cut cross entropy has no formula with ZeRO 3"
	}
	return ""
}

// cutLoss is cce_linear_cross_entropy (cce.py:238) of the last hidden states: the tokens that have a label, the next of
// each, are chosen by their places. An evaluation has it, too (train_only is False, transformers/patch.py).
func (d *decoder) cutLoss(hidden nn.Tensor) (loss nn.Tensor) {
	b, n, h := hidden.Dim(0), hidden.Dim(1), hidden.Dim(2)
	tokens := b * (n - 1)
	d.Scope("", func() {
		var valids nn.Tensor
		d.Scope("", func() { // _build_flat_valids (utils.py:25)
			d.Line("valids = (targets != ignore_index).nonzero().to(torch.int32)")
			mask := d.Zeros(nn.Bool, b, n-1)
			places := d.Zeros(nn.I64, tokens, 2)
			short := d.Hold(d.Zeros(nn.F32, tokens, 2)) // int32
			d.outlives(mask)
			d.outlives(places)
			d.Line("return valids.sum(1)")
			valids = d.Zeros(nn.I64, tokens)
			d.outlives(short)
		})
		d.Hold(valids)
		states, w := d.View(hidden, b*n, h), d.headWeight()
		loss = d.cutHead(states, w, valids)
	}, hidden)
	return loss
}

// cutHead is LinearCrossEntropyFunction (cce.py:47). Backward sorts the words by their mean logit, and then makes the
// gradients of the hidden states and, where it is trained, of the last layer in their own types, with locks.
func (d *decoder) cutHead(states, w, valids nn.Tensor) nn.Tensor {
	tokens, v, h := valids.Dim(0), d.Vocab, states.Dim(-1)
	locks, gradients := 4*blocks(tokens, 128)*blocks(h, 64), states.Numel()*int64(states.DType().Size())
	if !d.Frozen || d.whole(head) {
		locks += 4 * blocks(v, 128) * blocks(h, 64)
		gradients += w.Numel() * int64(w.DType().Size())
	}
	order, sorted := 4*v, (4+8)*v // in int32, of values and places in int64
	return d.ApplyKernel(nn.Kernel{Name: "LinearCrossEntropyFunction", Temps: order + max(locks, sorted-gradients),
		Over: []nn.Over{nn.OverNothing, nn.OverNothing}, Forward: func() (ys, saved []nn.Tensor) {
			d.Line("lse = e.new_full((B,), -float('inf'), dtype=torch.float32)")
			lse := d.Hold(d.Zeros(nn.F32, tokens))
			mean := d.Hold(d.Zeros(nn.F32, v)) // logit_avg
			d.Line("neg_dot = indexed_neg_dot_forward_kernel(…)")
			each := d.Hold(d.Zeros(nn.F32, tokens))
			return []nn.Tensor{d.Mean(each)}, []nn.Tensor{states, w, lse, valids, mean}
		}}, states, w)[0]
}
