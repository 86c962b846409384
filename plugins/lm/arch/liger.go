package arch

import (
	"slices"

	"github.com/launch-ml/launch/core/nn"
)

// A Liger is which of Liger's kernels a model has. Files and lines are of liger-kernel 0.8.5 (liger_kernel/…), and no
// card has measured them.
type Liger struct {
	Rope, Norm, MLP bool
	// Head is the fused linear cross entropy, which makes no logits; in an evaluation where Evaluates says so, and
	// otherwise in a training alone (transformers/model/llama.py:115).
	Head, Evaluates bool
	Cross           bool // the loss of logits writes its gradient over them
	// Old is a release before 0.8.5: two pieces of the logits are there at once, and each piece's gradient of a last layer
	// in half is a tensor of its own, and again in float32 (ops/fused_linear_cross_entropy.py:105, 237 of 0.8.1).
	Old bool
	// Wide: so is that of a last layer in float32 under mixed precision, with torch before 2.8 or a card before 8.0
	// (line 375).
	Wide bool
}

// ligerModels are the models that Liger has kernels for, of those that have a formula
// (MODEL_TYPE_TO_APPLY_LIGER_FN in transformers/monkey_patch.py:3904), with the activations that its MLP has.
var ligerModels = map[string][]string{"llama": silu, "mistral": silu, "qwen2": silu, "qwen3": silu,
	"gemma": {"gelu_pytorch_tanh"}}

var silu = []string{"silu", "swish"} // transformers/swiglu.py:31

// ligerUnread are the models that Liger has kernels for, and that have a formula without them alone.
var ligerUnread = []string{"gemma2", "gemma3_text", "glm4", "granite", "ministral", "olmo2", "olmo3", "smollm3", "phi3",
	"hunyuan_v1_dense", "exaone4"}

// HasLiger reports whether Liger has kernels for the model.
func (c Config) HasLiger() bool { return ligerModels[c.Type] != nil }

// LigerUnread reports whether it has some that have no formula.
func (c Config) LigerUnread() bool { return slices.Contains(ligerUnread, c.Type) }

// ofLiger says what of Liger's kernels has no formula; "" for nothing.
func (s Step) ofLiger() string {
	l, known := s.Liger, false
	for _, name := range ligerModels[s.Model.Type] {
		known = known || name == s.Model.Activation
	}
	switch {
	case l == Liger{}:
		return ""
	case s.CPU:
		return "Liger's kernels are of Triton, which has no CPU"
	case !s.Model.HasLiger():
		return "Liger has no kernels for " + s.Model.Type
	case l.MLP && (s.Model.MLPBias || !known):
		return "Liger's MLP with a bias or with the activation " + s.Model.Activation + " has no formula"
	}
	return ""
}

// headless reports whether the step makes no logits.
func (d *decoder) headless() bool {
	return d.s.Fused || d.s.Cut || d.s.Liger.Head && (d.Training || d.s.Liger.Evaluates)
}

// multiprocessors is the most that a card has: the gradient of a norm's weight has a row for each
// (ops/rms_norm.py:544).
const multiprocessors = 192

// ligerNorm is LigerRMSNormFunction (ops/rms_norm.py:634): it keeps its input and one number of each row, and writes
// the input's gradient over the result's (in_place, line 556).
func (d *decoder) ligerNorm(name string, x nn.Tensor) (y nn.Tensor) {
	d.Scope(name, func() {
		var w nn.Tensor
		d.upcast(func() { w = d.Param("weight", x.Dim(-1)) })
		d.Line("LigerRMSNormFunction.apply")
		y = d.ApplyKernel(nn.Kernel{Name: "LigerRMSNormFunction", Dense: true, Temps: 4 * (multiprocessors + 1) * x.Dim(-1),
			Over: []nn.Over{nn.OverResult, nn.OverNothing}, Forward: func() (ys, saved []nn.Tensor) {
				y := d.Hold(d.Zeros(x.DType(), x.Shape()...))
				return []nn.Tensor{y}, []nn.Tensor{x, d.Zeros(nn.F32, x.Numel()/x.Dim(-1))}
			}}, x, w)[0]
	}, x)
	return y
}

// ligerRotate is LigerRopeFunction (ops/rope.py:270): it writes over queries and keys, and keeps cosines and sines.
// Backward writes over their gradients, and copies those first that lie head by head (lines 233, 234).
func (d *decoder) ligerRotate(q, k nn.Tensor) (nn.Tensor, nn.Tensor) {
	var copied int64
	switch {
	case d.s.Eager:
		copied = size(q) + size(k)
	case d.s.masked() && d.KVHeads < d.Heads && !d.s.Flash:
		copied = size(k)
	}
	d.Line("LigerRopeFunction.apply")
	ys := d.ApplyKernel(nn.Kernel{Name: "LigerRopeFunction", Temps: copied, Over: []nn.Over{nn.OverResult, nn.OverResult},
		Forward: func() (ys, saved []nn.Tensor) { return []nn.Tensor{q, k}, []nn.Tensor{d.cos, d.sin} }}, q, k)
	return ys[0], ys[1]
}

func size(x nn.Tensor) int64 { return x.Numel() * int64(x.DType().Size()) }

// ligerGated is LigerSwiGLUMLP.forward (transformers/swiglu.py), and LigerGEGLUMLP's: the product of the activation and
// the other half is one function, which keeps the two layers' results, and whose backward writes over them
// (ops/swiglu.py:237, 272; ops/geglu.py:130, 138).
func (d *decoder) ligerGated(x nn.Tensor) (y nn.Tensor) {
	d.Scope("", func() {
		gate := d.Hold(d.linear("gate_proj", x, d.Inner, d.MLPBias))
		up := d.Hold(d.linear("up_proj", x, d.Inner, d.MLPBias))
		product := d.ApplyKernel(nn.Kernel{Name: "LigerSiLUMulFunction", Dense: true,
			Over: []nn.Over{nn.OverSaved, nn.OverSaved}, Forward: func() (ys, saved []nn.Tensor) {
				return []nn.Tensor{d.Zeros(gate.DType(), gate.Shape()...)}, []nn.Tensor{gate, up}
			}}, gate, up)[0]
		y = d.linear("down_proj", product, d.Hidden, d.MLPBias)
	}, x)
	return y
}

// ligerLoss is LigerForCausalLMLoss (transformers/model/loss_utils.py) of the last hidden states.
func (d *decoder) ligerLoss(hidden nn.Tensor) (loss nn.Tensor) {
	b, n, h := hidden.Dim(0), hidden.Dim(1), hidden.Dim(2)
	d.Scope("loss_function", func() {
		d.Line("labels = nn.functional.pad(labels, (0, 1), value=ignore_index)")
		d.Hold(d.Zeros(nn.I64, b, n+1))
		d.Hold(d.Zeros(nn.I64, b*n))
		loss = d.DivScalar(d.ligerHead(d.View(hidden, b*n, h)))
	}, hidden)
	return loss
}

// ligerHead is LigerFusedLinearCrossEntropyFunction (ops/fused_linear_cross_entropy.py): logits of a piece of the
// tokens become their gradient where they lie, so that forward makes all gradients, and keeps them: of the hidden
// states, and of the last layer where it is trained, in their own types (lines 108 and 116). Backward scales them
// where they lie.
func (d *decoder) ligerHead(states nn.Tensor) nn.Tensor {
	n, h := states.Dim(0), states.Dim(1)
	w := d.headWeight()
	trained := !d.Frozen && d.Training
	return d.ApplyKernel(nn.Kernel{Name: "LigerFusedLinearCrossEntropyFunction",
		Over: []nn.Over{nn.OverSaved, nn.OverSaved}, Forward: func() (ys, saved []nn.Tensor) {
			d.Line("_input_chunk @ weight.t()")
			saved = []nn.Tensor{d.Hold(d.Zeros(states.DType(), n, h))}
			if trained {
				saved = append(saved, d.Hold(d.Zeros(w.DType(), d.Vocab, h)))
			}
			tokens := d.Hold(d.Zeros(nn.F32, n))
			d.Hold(d.Zeros(nn.Bool, n)) // target != ignore_index
			d.Zeros(nn.Bool, d.ligerPiece(states, w, trained)/1024+1, 1024)
			return []nn.Tensor{d.Sum(tokens)}, saved
		}}, states, w)[0]
}

// ligerTokens is how many tokens a piece has: so many that its logits are as large as all hidden states, up to the next
// power of two (ops/fused_linear_cross_entropy.py:103).
func ligerTokens(tokens, vocab, hidden int64) int64 {
	up := func(n, by int64) int64 { return (n + by - 1) / by }
	piece, want := int64(1), up(tokens, up(vocab, hidden))
	for piece < want {
		piece *= 2
	}
	return min(piece, tokens)
}

// ligerPiece is the most bytes that a piece has at once beside the gradients: its logits; under autocast its states and
// the weight in the lower type, as the view that the product takes and, of a trained weight, as autocast's copy; and
// the piece's gradient of a weight that no product can be added to (lines 341 to 375).
func (d *decoder) ligerPiece(states, w nn.Tensor, trained bool) int64 {
	n, h := states.Dim(0), states.Dim(1)
	low := d.Low(states)
	one, tokens := int64(low.Size()), ligerTokens(n, d.Vocab, h)
	logits, weight := tokens*d.Vocab*one, d.Vocab*h*one
	bytes := logits
	if d.s.Liger.Old && tokens < n {
		bytes += logits
	}
	held := int64(0) // of the weight
	if w.DType() != low {
		held = weight
		if trained {
			held += weight
		}
	}
	added := int64(0)
	switch {
	case !trained:
	case low == nn.F32:
		added = weight
	case w.DType() == low && d.s.Liger.Old:
		added = weight + 2*weight
	case w.DType() != low && d.s.Liger.Wide: // beside autocast's copy
		added = weight + weight + 2*weight
	}
	if states.DType() != low || d.s.Liger.Old {
		bytes += tokens * h * one
	}
	return bytes + max(held, added)
}

// ligerCross is LigerCrossEntropyFunction (ops/cross_entropy.py:565), whose forward writes the gradient over the
// logits.
func (d *decoder) ligerCross(logits nn.Tensor) nn.Tensor {
	n := logits.Dim(0)
	return d.ApplyKernel(nn.Kernel{Name: "LigerCrossEntropyFunction", Over: []nn.Over{nn.OverSaved},
		Forward: func() (ys, saved []nn.Tensor) {
			tokens := d.Hold(d.Zeros(nn.F32, n))
			d.Hold(d.Zeros(nn.Bool, n))
			return []nn.Tensor{d.Sum(tokens)}, []nn.Tensor{logits}
		}}, logits)[0]
}
