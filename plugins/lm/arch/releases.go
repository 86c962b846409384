package arch

import (
	"fmt"
	"slices"

	"github.com/launch-ml/launch/core/nn"
)

// A Release is one of transformers 4, by its second number: 44 for 4.44. Zero is transformers 5.
type Release int64

// before reports whether it is older than that release of transformers 4.
func (r Release) before(other Release) bool { return r > 0 && r < other }

// An era is since which releases of transformers 4 a model does what it does in 5 (models/NAME/modeling_NAME.py of
// each).
type era struct {
	first  Release // that has a formula
	sdpa   Release // the model has attention by SDPA, which is then the default
	loss   Release // the loss is the library's function; before, the model itself makes its logits float32 and shifts them
	shares Release // cos and sin are made once for all layers; before, in each of them
	tables Release // cos and sin are computed; before, each layer has them as buffers, of all positions
}

// eras are those of the models that transformers 4 has a formula for. 4.38 and 4.39 keep a mask of all positions in
// llama and gemma, which has none (modeling_llama.py:931 of 4.38.2).
var eras = map[string]era{
	"llama":   {first: 30, sdpa: 36, loss: 46, shares: 43, tables: 41},
	"mistral": {first: 34, sdpa: 37, loss: 48, shares: 48, tables: 42},
	"qwen2":   {first: 37, sdpa: 37, loss: 46, shares: 45, tables: 45},
	"gemma":   {first: 40, sdpa: 40, loss: 46, shares: 48},
	"phi":     {first: 40, sdpa: 40, loss: 46, shares: 45, tables: 45},
	"qwen3":   {first: 51},
	"gpt2":    {first: 43, sdpa: 43, loss: 48},

	"phi3": {first: 55}, "gemma2": {first: 55}, "gemma3_text": {first: 55}, "granite": {first: 55},
	"smollm3": {first: 55}, "olmo2": {first: 55}, "olmo3": {first: 57}, "glm4": {first: 55}, "starcoder2": {first: 55},
	"arcee": {first: 57}, "seed_oss": {first: 57}, "glm": {first: 57}, "hunyuan_v1_dense": {first: 57},
	"exaone4": {first: 57}, "ernie4_5": {first: 57}, "ministral": {first: 57},
}

// Releases of transformers 4 since which all models do what they do in 5.
const (
	boolMasks  Release = 53 // masks are of bool (masking_utils.py); before, in the type of the embedding
	groupedKV  Release = 54 // SDPA takes groups of heads as they are (use_gqa_in_sdpa in integrations/sdpa_attention.py)
	functions  Release = 48 // attention is a function of the library, to which the model hands queries, keys and values
	paddedLoss Release = 49 // labels are padded (loss/loss_utils.py:40 of 4.49.0); before, the logits are shifted
)

// era is that of the step's model.
func (d *decoder) era() era { return eras[d.Type] }

// Dated says what of a step has no formula in its release of transformers 4; "" for nothing.
func (s Step) Dated() string {
	r, name := s.Release, s.Model.Type
	e, ok := eras[name]
	gap := (name == "llama" || name == "gemma") && (r == 38 || r == 39)
	switch {
	case r == 0 || s.Model.Experts != nil: // which the plugin has a reason of its own for
		return ""
	case !ok || r < e.first || gap || r < 31 && (s.Model.KVHeads < s.Model.Heads || s.Weights != nn.F32):
		return fmt.Sprintf("%s has no formula with transformers 4.%d", name, r)
	case r < e.sdpa && !s.Eager && !s.Flash:
		return fmt.Sprintf("%s has no attention by SDPA in transformers 4.%d", name, r)
	case name == "phi" && r < 57 && s.LoRA != nil && s.Checkpointing: // rows are 24 % below it, and nothing says why
		return fmt.Sprintf("adapters of phi with activation checkpointing have no formula with transformers 4.%d", r)
	case r < 57 && s.Liger != Liger{}:
		return fmt.Sprintf("Liger's kernels have no formula with transformers 4.%d", r)
	}
	return ""
}

// EagerBefore reports whether attention is eager by default: in releases before the model has it by SDPA.
func (c Config) EagerBefore(r Release) bool { return r.before(eras[c.Type].sdpa) }

// OwnLoss reports whether the model's own forward makes the loss, the mean over a micro-batch's tokens.
func (c Config) OwnLoss(r Release) bool { return r.before(eras[c.Type].loss) }

// keepsKV reports whether the outputs have keys and values of all layers: use_cache of the configuration is on in a
// training, too, except under activation checkpointing, and in 4.43 and 4.44 (modeling_llama.py:954 of 4.44.2).
func (d *decoder) keepsKV() bool {
	r := d.s.Release
	without := d.Training && (d.s.Checkpointing || d.Type != "gpt2" && (r == 43 || r == 44))
	return r > 0 && !without
}

// remember makes the outputs keep a layer's keys and values (DynamicCache.update in cache_utils.py). Since 4.56 they
// are joined with none, and so copied (DynamicLayer.lazy_initialization): of gpt2 and phi3, whose own are parts of one
// tensor, which stays with the queries.
func (d *decoder) remember(k, v nn.Tensor) (nn.Tensor, nn.Tensor) {
	if !d.keepsKV() {
		return k, v
	}
	if d.s.Release >= 56 && (d.Type == "gpt2" || d.JoinedHeads) {
		k, v = d.Hold(d.Copy("torch.cat", k, k.Shape()...)), d.Hold(d.Copy("torch.cat", v, v.Shape()...))
	}
	d.outputs = append(d.outputs, k, v)
	return k, v
}

// widenKV is what ConvertOutputsToFp32 makes of keys and values in tuples, which they are before 4.48
// (modeling_llama.py:1050 of 4.36.2, to_legacy_cache), and gpt2's before 4.56. A DynamicCache it leaves alone
// (recursively_apply in accelerate/utils/operations.py).
func (d *decoder) widenKV() {
	tuples := functions
	if d.Type == "gpt2" {
		tuples = 56
	}
	if !d.s.Release.before(tuples) {
		return
	}
	before := slices.Clone(d.outputs)
	for i, x := range before {
		d.outputs[i] = d.Hold(d.To(x, nn.F32))
	}
	d.Scope("", func() {}, before...)
}

// aligned are queries, keys and values as the function of SDPA of transformers 4 is given them. Keys and values of
// fewer heads are repeated (integrations/sdpa_attention.py:31 of 4.48.3); contiguous they are made from 4.48 to 4.55
// (line 41), and before that on a card with a mask (modeling_llama.py:652 of 4.44.2).
func (d *decoder) aligned(q, k, v nn.Tensor, masked bool) (nn.Tensor, nn.Tensor, nn.Tensor) {
	r := d.s.Release
	if r.before(groupedKV) || r > 0 && masked {
		k, v = d.Hold(d.repeatKV(k)), d.Hold(d.repeatKV(v))
	}
	if d.aligns(masked) {
		q, k, v = d.Hold(d.Contiguous(q)), d.Hold(d.Contiguous(k)), d.Hold(d.Contiguous(v))
	}
	return q, k, v
}

// aligns reports whether queries, keys and values are made contiguous.
func (d *decoder) aligns(masked bool) bool {
	r := d.s.Release
	return r >= functions && r < 56 || r.before(functions) && masked && !d.CPU && !d.Dispatched
}

// oldMask is _prepare_4d_causal_attention_mask_with_cache_position (modeling_llama.py:1010 of 4.46.3), in the type of
// the embedding.
func (d *decoder) oldMask(x nn.Tensor) nn.Tensor {
	b, n := x.Dim(0), x.Dim(1)
	d.Hold(d.Zeros(x.DType(), n, n))
	m := d.Hold(d.Zeros(x.DType(), b, 1, n, n))
	d.Line("padding_mask = causal_mask[:, :, :, :mask_length] + attention_mask[:, None, None, :]")
	sum := d.Hold(d.Zeros(x.DType(), b, 1, n, n))
	padding := d.Rebind(sum, d.Zeros(nn.Bool, b, 1, n, n))
	d.Line("causal_mask[:, :, :, :mask_length].masked_fill(padding_mask, min_dtype)")
	d.Zeros(x.DType(), b, 1, n, n)
	d.outlives(padding)
	return m
}

// layerRotary is a layer's own cos and sin, where the layers do not share them: from its buffers (cos[position_ids] in
// apply_rotary_pos_emb, modeling_llama.py:231 of 4.36.2), or computed; in the type of the values.
func (d *decoder) layerRotary(v nn.Tensor) {
	e, n, kind := d.era(), v.Dim(2), d.s.Weights
	if d.s.Quant != nil {
		kind = d.s.Quant.Loaded
	}
	switch {
	case !d.s.Release.before(e.shares):
	case d.s.Release.before(e.tables):
		d.NoGrad(func() {
			d.Scope("rotary_emb", func() {
				for _, part := range []struct {
					name string
					to   *nn.Tensor
				}{{"cos_cached", &d.cos}, {"sin_cached", &d.sin}} {
					rows := d.To(d.Buffer(part.name, kind, d.Positions, d.Rotary), v.DType())
					*part.to = d.Hold(d.Lookup(rows, d.Zeros(nn.I64, 1, n), 1, n, d.Rotary))
				}
			}, v)
		})
		d.cos, d.sin = d.Hold(d.View(d.cos, 1, 1, n, d.Rotary)), d.Hold(d.View(d.sin, 1, 1, n, d.Rotary))
	default:
		d.cosines(v, n)
	}
}

// shiftedLoss is the loss before transformers 4.49, of logits without the last token's, in a copy: of the model's own
// forward (modeling_llama.py:1200 of 4.36.2), or ForCausalLMLoss (loss/loss_utils.py:33 of 4.46.3).
func (d *decoder) shiftedLoss(wide nn.Tensor) (loss nn.Tensor) {
	b, n, v := wide.Dim(0), wide.Dim(1), wide.Dim(2)
	d.Scope("loss_function", func() {
		d.Line("shift_logits = logits[..., :-1, :].contiguous()")
		shifted := d.Hold(d.Contiguous(d.Narrow(wide, 1, n-1))) // of one sequence it is
		labels := d.Hold(d.Zeros(nn.I64, b*(n-1)))
		d.Line("loss = loss_fct(shift_logits, shift_labels)")
		loss = d.CrossEntropy(d.View(shifted, b*(n-1), v), labels)
	}, wide)
	return loss
}
