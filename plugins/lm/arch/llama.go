package arch

import "github.com/launch-ml/launch/core/nn"

// readLlama is LlamaConfig (models/llama/configuration_llama.py).
func readLlama(r raw) Config {
	bias := or(r.AttentionBias, false)
	return Config{
		Vocab: or(r.Vocab, 32000), Hidden: or(r.Hidden, 4096), Inner: or(r.Inner, 11008), Layers: or(r.Layers,
			32), Heads: or(r.Heads, 32),
		KVHeads: or(r.KVHeads, 0), HeadDim: or(r.HeadDim, 0), Positions: or(r.Positions, 2048), Activation: or(r.Act,
			"silu"),
		Tied: or(r.Tied, false), AttentionBias: bias, OutputBias: bias, MLPBias: or(r.MLPBias,
			false), Attention: or(r.AttnDropout, 0),
	}
}

// readMistral is MistralConfig (models/mistral/configuration_mistral.py). A window of null is none.
func readMistral(r raw) Config {
	c := Config{
		Vocab: or(r.Vocab, 32000), Hidden: or(r.Hidden, 4096), Inner: or(r.Inner, 14336), Layers: or(r.Layers,
			32), Heads: or(r.Heads, 32),
		KVHeads: or(r.KVHeads, 8), HeadDim: or(r.HeadDim, 0), Positions: or(r.Positions, 4096*32), Activation: or(r.Act,
			"silu"),
		Tied: or(r.Tied, false), Attention: or(r.AttnDropout, 0),
	}
	c.Window = or(r.Window, 0)
	return c
}

// readQwen2 is Qwen2Config (models/qwen2/configuration_qwen2.py): q, k and v have a bias.
func readQwen2(r raw) Config {
	c := qwen(r)
	c.AttentionBias = true
	return c
}

// readQwen3 is Qwen3Config (models/qwen3/configuration_qwen3.py): it normalises queries and keys.
func readQwen3(r raw) Config {
	c := qwen(r)
	bias := or(r.AttentionBias, false)
	c.QueryNorm, c.HeadDim, c.AttentionBias, c.OutputBias = true, or(r.HeadDim, 128), bias, bias
	return c
}

func qwen(r raw) Config {
	c := Config{
		Vocab: or(r.Vocab, 151936), Hidden: or(r.Hidden, 4096), Inner: or(r.Inner, 22016), Layers: or(r.Layers,
			32), Heads: or(r.Heads, 32),
		KVHeads: or(r.KVHeads, 32), HeadDim: or(r.HeadDim, 0), Positions: or(r.Positions, 32768), Activation: or(r.Act,
			"silu"),
		Tied: or(r.Tied, false), Attention: or(r.AttnDropout, 0),
	}
	if !or(r.UseSliding, false) {
		return c
	}
	c.Window = or(r.Window, 4096)
	after := or(r.MaxWindow, 28)
	for i := range min(max(c.Layers, 0), most) {
		slides := i >= after
		if i < int64(len(r.LayerTypes)) {
			slides = r.LayerTypes[i] == "sliding_attention"
		}
		c.Sliding = append(c.Sliding, slides)
	}
	return c
}

// llama is LlamaModel.forward (models/llama/modeling_llama.py:356), which the others copy.
func (d *decoder) llama(ids nn.Tensor) (x nn.Tensor) {
	d.Scope("model", func() {
		embeds := d.Hold(d.tokens(ids))
		d.Hold(d.Zeros(nn.I64, 1, ids.Dim(1))) // position_ids
		d.masks(embeds)
		d.rotary(embeds)
		h := d.Hold(d.Dropout(embeds, d.Embed))
		h = d.layers("layers", h, d.llamaLayer)
		x = d.Hold(d.norm("norm", h))
		d.outlives(embeds)
	}, ids)
	return x
}

// llamaLayer is LlamaDecoderLayer.forward (modeling_llama.py:284), and that of models whose norms come after attention
// and MLP (Olmo2DecoderLayer), or before and after (Gemma2DecoderLayer).
func (d *decoder) llamaLayer(layer int64, x nn.Tensor) nn.Tensor {
	before, after, names := d.Around != normAfter, d.Around != normBefore, d.normNames()
	h := d.Hold(x)
	if before {
		h = d.Rebind(h, d.norm(names[0], x))
	}
	h = d.Rebind(h, d.Call("self_attn", h, func(_ *nn.Tape, h nn.Tensor) nn.Tensor { return d.llamaAttention(layer, h) }))
	d.unnamed()
	if after {
		h = d.Rebind(h, d.norm(names[1], h))
	}
	h = d.Rebind(h, d.Add(x, d.branch(h)))
	residual := d.Hold(h)
	if before {
		h = d.Rebind(h, d.norm(names[2], h))
	}
	h = d.Rebind(h, d.Call("mlp", h, d.mlp(layer)))
	if after {
		h = d.Rebind(h, d.norm(names[3], h))
	}
	if d.DropsByFunction && d.fusesMLP() { // the dropout is the MLP's own
		return d.Add(residual, h)
	}
	return d.Add(residual, d.branch(h))
}

// branch is what a layer adds to its input, of what attention or the MLP returns.
func (d *decoder) branch(h nn.Tensor) nn.Tensor {
	if d.Factors {
		return d.MulScalar(h)
	}
	return d.Dropout(h, d.Residual)
}

// mlp is a layer's own.
func (d *decoder) mlp(layer int64) func(*nn.Tape, nn.Tensor) nn.Tensor {
	switch {
	case !d.Experts.dense(layer):
		return d.mixture
	case d.Ungated:
		return d.ungated
	case d.JoinedGate:
		return d.joinedGate
	}
	return d.gated
}

// gated is LlamaMLP.forward (modeling_llama.py:163): self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x)).
func (d *decoder) gated(_ *nn.Tape, x nn.Tensor) (y nn.Tensor) {
	if d.fusesMLP() {
		return d.fusedMLP(x)
	}
	if d.s.Liger.MLP {
		return d.ligerGated(x)
	}
	return d.gatedBy(x, d.Inner)
}

// gatedBy is the same with so many channels, by torch's own layers.
func (d *decoder) gatedBy(x nn.Tensor, inner int64) nn.Tensor {
	gate := d.activate(d.linear("gate_proj", x, inner, d.MLPBias))
	return d.linear("down_proj", d.Mul(gate, d.linear("up_proj", x, inner, d.MLPBias)), d.Hidden, d.MLPBias)
}

// llamaAttention is LlamaAttention.forward (modeling_llama.py:232).
func (d *decoder) llamaAttention(layer int64, x nn.Tensor) nn.Tensor {
	var q, k, v nn.Tensor
	if d.JoinedHeads {
		q, k, v = d.joinedHeads(x)
	} else {
		q, k, v = d.splitHeads(x)
	}
	d.layerRotary(v)
	q, k = d.turned(layer, q, k)
	if d.NormTurned { // HunYuanDenseV1Attention.forward
		q, k = d.Rebind(q, d.norm("query_layernorm", q)), d.Rebind(k, d.norm("key_layernorm", k))
	}
	y := d.Hold(d.attend(layer, q, k, v))
	if l := d.s.LoRA; l != nil && l.O && l.all("o_proj") {
		return d.fusedO(y)
	}
	return d.linear("o_proj", y, d.Hidden, d.OutputBias)
}

// turned are queries and keys with their positions, where the layer turns them.
func (d *decoder) turned(layer int64, q, k nn.Tensor) (nn.Tensor, nn.Tensor) {
	if d.Unturned != nil && d.Unturned[layer] {
		return q, k
	}
	if d.TwoRotaries {
		own := d.turns[0]
		if d.slides(layer) {
			own = d.turns[1]
		}
		d.cos, d.sin = own[0], own[1]
	}
	turnedQ, turnedK := d.rotate(q, k)
	if d.JoinedHeads { // parts of a variable that stays
		return d.Hold(turnedQ), d.Hold(turnedK)
	}
	return d.Rebind(q, turnedQ), d.Rebind(k, turnedK)
}

// splitHeads are queries, keys and values, each by a layer of its own. Qwen3Attention.forward normalises the first two
// by heads, and those of olmo all heads at once (OlmoeAttention.forward, models/olmoe/modeling_olmoe.py:238).
func (d *decoder) splitHeads(x nn.Tensor) (q, k, v nn.Tensor) {
	b, n := x.Dim(0), x.Dim(1)
	var fused map[string]nn.Tensor
	if l := d.s.LoRA; l != nil && l.QKV && l.all("q_proj", "k_proj", "v_proj") {
		q, k, v := d.fusedQKV(x)
		fused = map[string]nn.Tensor{"q_proj": d.Hold(q), "k_proj": d.Hold(k), "v_proj": d.Hold(v)}
	}
	heads := func(name, norm string, count int64) nn.Tensor {
		y, ok := fused[name]
		if !ok {
			y = d.linear(name, x, count*d.HeadDim, d.AttentionBias)
		}
		norms := d.QueryNorm && norm != ""
		if norms && d.WholeNorm {
			y = d.norm(norm, y)
		}
		y = d.View(y, b, n, count, d.HeadDim)
		if norms && !d.WholeNorm {
			y = d.norm(norm, y)
		}
		return d.Hold(d.Transpose(y, 1, 2))
	}
	return heads("q_proj", "q_norm", d.Heads), heads("k_proj", "k_norm", d.KVHeads), heads("v_proj", "", d.KVHeads)
}
