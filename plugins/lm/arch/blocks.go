package arch

import (
	"strconv"

	"github.com/launch-ml/launch/core/nn"
)

// A decoder is a model on the tape of one step.
type decoder struct {
	Config
	*nn.Tape
	s Step
	// plain says that the adapters are switched off.
	plain bool

	cos, sin nn.Tensor
	turns    [2][2]nn.Tensor // those of layers without a window and with one, where they differ
	full     nn.Tensor       // the mask of attention over all tokens, where there is one
	window   nn.Tensor       // and over a window
	masked   [2]bool         // whether these are there
	shared   []nn.Tensor     // what all layers are passed: cos, sin, masks
	blocks   nn.Tensor       // a mask that the batch has
	returned nn.Tensor       // the weights of the last eager attention
	outputs  []nn.Tensor     // what the model returns beside its logits
}

// linear is a torch.nn.Linear under that name, with an adapter where LoRA has one.
func (d *decoder) linear(name string, x nn.Tensor, out int64, bias bool) nn.Tensor {
	adapted := d.s.LoRA != nil && d.s.LoRA.has(name)
	switch {
	case adapted && d.plain:
		return d.switchedOff(name, x, out, bias)
	case adapted && d.s.Quant != nil:
		return d.adaptedQuant(name, x, out, bias)
	case adapted:
		return d.adapted(name, x, out, bias)
	case d.s.Quant != nil:
		return d.quantised(name, x, out, bias)
	}
	return d.Linear(name, x, out, bias)
}

// norm is the model's own, of the last dimension.
func (d *decoder) norm(name string, x nn.Tensor) nn.Tensor {
	switch {
	case d.s.Liger.Norm:
		return d.ligerNorm(name, x)
	case d.Norms == centredNorm:
		return d.gemmaNorm(name, x)
	case d.Norms == layerNorm:
		return d.LayerNorm(name, x)
	}
	return d.rmsNorm(name, x)
}

// rmsNorm is LlamaRMSNorm.forward (modeling_llama.py:61), which the other models copy, and Olmo2RMSNorm.forward, which
// returns (self.weight * hidden_states).to(input_dtype).
func (d *decoder) rmsNorm(name string, x nn.Tensor) (y nn.Tensor) {
	d.Scope(name, func() {
		d.Line("variance = hidden_states.pow(2).mean(-1, keepdim=True)")
		h := d.Hold(d.To(x, nn.F32))
		v := d.Hold(d.MeanDim(d.Pow(h), -1))
		d.Line("hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)")
		h = d.Rebind(h, d.Mul(h, d.Elementwise("torch.rsqrt", d.AddScalar(v), false, true)))
		d.Line("return self.weight * hidden_states.to(input_dtype)")
		d.upcast(func() {
			w := d.Param("weight", x.Dim(-1))
			if d.Norms == wideNorm {
				y = d.To(d.Mul(w, h), x.DType())
			} else {
				y = d.Mul(w, d.To(h, x.DType()))
			}
		})
	}, x)
	return y
}

// upcast runs f with parameters in float32 where the step has norms, embedding and last layer in that type.
func (d *decoder) upcast(f func()) {
	own := d.ParamType
	if d.s.Upcast {
		d.ParamType = nn.F32
	}
	f()
	d.ParamType = own
}

// embed is torch.nn.Embedding under that name.
func (d *decoder) embed(name string, ids nn.Tensor, rows int64, shape ...int64) (x nn.Tensor) {
	d.upcast(func() {
		d.Scope(name, func() {
			d.wrapped(name, rows, func() { x = d.Lookup(d.Param("weight", rows, d.Hidden), ids, shape...) })
		}, ids)
	})
	return x
}

// rotary makes the cos and sin that all layers share, where they do.
func (d *decoder) rotary(x nn.Tensor) {
	if d.s.Release.before(d.era().shares) {
		return
	}
	for i, windows := range []bool{false, true} {
		if d.TwoRotaries && !d.has(windows) || windows && !d.TwoRotaries {
			continue
		}
		d.cosines(x, x.Dim(1))
		d.turns[i] = [2]nn.Tensor{d.cos, d.sin}
		d.shared = append(d.shared, d.cos, d.sin)
	}
}

// cosines is LlamaRotaryEmbedding.forward (modeling_llama.py:110): cos and sin of the positions, in the type of the
// hidden states.
func (d *decoder) cosines(x nn.Tensor, n int64) {
	d.NoGrad(func() {
		d.Scope("rotary_emb", func() {
			freqs := d.Hold(d.Zeros(nn.F32, 1, n, d.Rotary/2))
			emb := d.Hold(d.Cat(-1, freqs, freqs))
			d.cos = d.Hold(d.MulScalar(d.Elementwise("torch.cos", emb, false, false)))
			d.sin = d.Hold(d.MulScalar(d.Elementwise("torch.sin", emb, false, false)))
			if !d.WideRotary {
				d.cos, d.sin = d.To(d.cos, x.DType()), d.To(d.sin, x.DType())
			}
		}, x)
	})
	d.cos, d.sin = d.Hold(d.View(d.cos, 1, 1, n, d.Rotary)), d.Hold(d.View(d.sin, 1, 1, n, d.Rotary))
}

// rotate is apply_rotary_pos_emb (modeling_llama.py:127): q * cos + rotate_half(q) * sin, of both; where cos and sin
// are float32 the results become the type of q again (models/olmo2/modeling_olmo2.py).
func (d *decoder) rotate(q, k nn.Tensor) (nn.Tensor, nn.Tensor) {
	if d.s.Liger.Rope {
		return d.ligerRotate(q, k)
	}
	kind, cos, sin := q.DType(), d.cos, d.sin
	d.Scope("", func() {
		if d.Interleaved {
			d.cos, d.sin = d.interleaved(cos), d.interleaved(sin)
		}
		switch {
		case d.Anew:
			q, k = d.turnedAnew(q, k)
		case d.WideRotary:
			q, k = d.Hold(d.turn(q)), d.Hold(d.turn(k))
			q, k = d.To(q, kind), d.To(k, kind)
		default:
			q, k = d.Hold(d.turn(q)), d.Hold(d.turn(k))
		}
	}, q, k)
	d.cos, d.sin = cos, sin
	return q, k
}

// repeatKV is repeat_kv (modeling_llama.py:168): a view that expands, which reshape copies unless there is one head of
// keys alone.
func (d *decoder) repeatKV(x nn.Tensor) nn.Tensor {
	b, n := x.Dim(0), x.Dim(2)
	switch x.Dim(1) {
	case d.Heads:
		return x
	case 1:
		return d.Expand(x, b, d.Heads, n, d.HeadDim)
	}
	return d.Copy("repeat_kv", x, b, d.Heads, n, d.HeadDim)
}

// attend is the attention itself, of (batch, heads, tokens, channels), to (batch, tokens, hidden): eager or SDPA. The
// weights that eager attention returns are a variable of its caller's, and of the layer's ("_"): see
// [decoder.unnamed].
func (d *decoder) attend(layer int64, q, k, v nn.Tensor) (y nn.Tensor) {
	k, v = d.remember(k, v)
	mask, masked := d.full, d.masked[0]
	if d.slides(layer) {
		mask, masked = d.window, d.masked[1]
	}
	d.Scope("", func() {
		if d.s.Eager {
			y, d.returned = d.eager(q, k, v, mask)
		} else if d.s.Flash {
			y = d.flash(q, k, v)
		} else {
			y = d.sdpa(q, k, v, mask, masked)
		}
		y = d.Contiguous(d.Transpose(y, 1, 2))
	}, q, k, v)
	d.unnamed()
	return d.Reshape(y, q.Dim(0), q.Dim(2), d.Heads*d.HeadDim)
}

// unnamed holds the weights of eager attention in the function that runs.
func (d *decoder) unnamed() {
	if d.s.Eager && !d.s.Release.before(functions) {
		d.Hold(d.returned)
	}
}

// sdpa is sdpa_attention_forward (integrations/sdpa_attention.py:95) on a card: without a mask FlashAttention takes the
// groups of heads as they are, and where there is none for the type or the card no fused kernel does; a mask makes keys
// and values be repeated, and the memory-efficient kernel keeps it.
func (d *decoder) sdpa(q, k, v, mask nn.Tensor, masked bool) nn.Tensor {
	q, k, v = d.aligned(q, k, v, masked)
	d.Line("torch.nn.functional.scaled_dot_product_attention")
	flash := !d.s.Old && (d.CPU || d.Low(q) != nn.F32)
	switch {
	case !masked && !flash && k.Dim(1) < d.Heads:
		return d.GroupedMathSDPA(q, k, v)
	case !masked && flash && d.s.Varlen:
		return d.varlen(q, k, v)
	case !masked && flash && (d.Type == "phi" || d.Anew || d.aligns(masked)):
		// FlashAttention lays out its result as q, which was put together anew: contiguous() then copies it.
		return d.Clone(d.FlashSDPA(q, k, v))
	case !masked && flash:
		return d.FlashSDPA(q, k, v)
	case !masked:
		return d.SDPA(q, k, v)
	}
	k, v = d.Hold(d.repeatKV(k)), d.Hold(d.repeatKV(v))
	// convert_boolean_attn_mask in transformers/attention.cpp: the mask in the type of the query, anew in each layer
	bias := mask
	if mask.DType() == nn.Bool {
		bias = d.Zeros(d.Low(q), mask.Shape()...)
	}
	y := d.SDPABiased(q, k, v, bias)
	if d.CPU && d.aligns(masked) { // whose kernel is FlashAttention's here, too
		y = d.Clone(y)
	}
	return y
}

// varlen is axolotl's sdpa_varlen_forward (monkeypatch/attention/sdpa_varlen.py): varlen_attn knows no groups of
// heads, and what repeats keys and values is laid out anew, head by head within a token.
func (d *decoder) varlen(q, k, v nn.Tensor) nn.Tensor {
	repeat := func(x nn.Tensor) nn.Tensor {
		if d.KVHeads == d.Heads {
			return x
		}
		shape := []int64{x.Dim(0), d.Heads, x.Dim(2), d.HeadDim}
		return d.Copy("reshape", d.Copy("repeat_interleave", x, shape...), shape...)
	}
	k, v = d.Hold(repeat(k)), d.Hold(repeat(v))
	return d.FlashSDPA(q, k, v)
}

// eager is eager_attention_forward (modeling_llama.py:180).
func (d *decoder) eager(q, k, v, mask nn.Tensor) (y, weights nn.Tensor) {
	k, v = d.Hold(d.repeatKV(k)), d.Hold(d.repeatKV(v))
	kind := q.DType()
	if d.Type == "phi" && d.s.Release.before(functions) { // modeling_phi.py:358 of 4.40.2
		q, k, kind = d.To(q, nn.F32), d.To(k, nn.F32), v.DType()
	}
	d.Line("attn_weights = torch.matmul(query, key_states.transpose(2, 3)) * scaling")
	w := d.Hold(d.MulScalar(d.Matmul(q, d.Transpose(k, 2, 3))))
	if d.ScoreCap {
		d.Line("attn_weights = torch.tanh(attn_weights / softcap) * softcap")
		w = d.bounded(w)
	}
	d.Line("attn_weights = attn_weights + attention_mask")
	w = d.Rebind(w, d.Add(w, mask))
	if d.s.Release.before(31) { // modeling_llama.py:228 of 4.30.2, whose function keeps its input
		d.Line("attn_weights = torch.max(attn_weights, torch.tensor(torch.finfo(attn_weights.dtype).min))")
		w = d.Rebind(w, d.Elementwise("torch.max", w, true, false))
	}
	d.Line("nn.functional.softmax(attn_weights, dim=-1, dtype=torch.float32).to(query.dtype)")
	if d.Type == "gpt2" { // modeling_gpt2.py:63: without a type of its own
		w = d.Rebind(w, d.To(d.Softmax(w), v.DType()))
	} else {
		w = d.Rebind(w, d.To(d.SoftmaxAs(d.To(w, nn.F32)), kind))
	}
	w = d.Rebind(w, d.Dropout(w, d.Attention))
	d.Line("attn_output = torch.matmul(attn_weights, value_states)")
	return d.Matmul(w, v), w
}

// masks are the masks of attention that the model makes before its layers (masking_utils.py). Eager attention always
// has one, in the type of the embedding (eager_mask, line 567). SDPA has none where nothing is padded and no window is
// shorter than the tokens (_ignore_causal_mask_sdpa, line 267); otherwise one of bool.
func (d *decoder) masks(x nn.Tensor) {
	b, n := x.Dim(0), x.Dim(1)
	make := func(needed bool) (m nn.Tensor, ok bool) {
		switch {
		case d.s.Flash, !d.s.Eager && !needed: // flash_attention_mask (masking_utils.py) leaves the collator's as it is
			return m, false
		case d.s.Blocks: // a mask of four dimensions is taken as it is (_preprocess_mask_arguments)
			return d.blocks, true
		}
		d.NoGrad(func() {
			d.Scope("", func() {
				if d.s.Release.before(boolMasks) {
					m = d.oldMask(x)
					return
				}
				m = d.Hold(d.Zeros(nn.Bool, b, 1, n, n))
				if d.s.Eager {
					m = d.Zeros(x.DType(), b, 1, n, n)
				}
			})
		})
		d.shared = append(d.shared, m)
		return d.Hold(m), true
	}
	if d.has(false) {
		d.full, d.masked[0] = make(d.s.masked())
	}
	if d.has(true) {
		d.window, d.masked[1] = make(d.s.masked() || n >= d.Window)
	}
}

// has reports whether a layer's attention has a window, or has none.
func (d *decoder) has(window bool) bool {
	for i := range d.Layers {
		if d.slides(i) == window {
			return true
		}
	}
	return false
}

// asksInput reports whether the embedding asks for a gradient (enable_input_require_grads): a reentrant checkpoint with
// adapters needs that (modeling_utils.py:3189), and trl does it without one, too (sft_trainer.py:900,
// dpo_trainer.py:718). axolotl does it without checkpointing, too: InputGrad.
func (d *decoder) asksInput() bool {
	return d.Training && d.s.LoRA != nil && (d.s.InputGrad || d.s.Checkpointing && (d.s.Reentrant || d.s.Fused))
}

// layers runs the decoder's layers, each under activation checkpointing where that is on
// (GradientCheckpointingLayer in modeling_layers.py).
func (d *decoder) layers(name string, x nn.Tensor, layer func(i int64, x nn.Tensor) nn.Tensor) nn.Tensor {
	if d.asksInput() {
		x = d.RequireGrad(x)
	}
	for i := range d.Layers {
		path := name + "." + strconv.FormatInt(i, 10)
		run := func(_ *nn.Tape, x nn.Tensor) nn.Tensor { return layer(i, x) }
		switch {
		case d.s.Checkpointing && d.Training && d.s.Reentrant:
			x = d.Rebind(x, d.CheckpointReentrantAll(path, run, x, d.shared...))
		case d.s.Checkpointing && d.Training: // what the layer is passed beside x is kept for its second run, too
			again := func(_ *nn.Tape, xs []nn.Tensor) nn.Tensor { return layer(i, xs[0]) }
			x = d.Rebind(x, d.CheckpointAll(path, again, append([]nn.Tensor{x}, d.shared...)...))
		default:
			x = d.Rebind(x, d.Call(path, x, run))
		}
	}
	return x
}

// outlives is the end of a local variable whose value another variable had, too, which was assigned anew since.
func (d *decoder) outlives(x nn.Tensor) { d.Scope("", func() {}, x) }
