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

// llama is LlamaModel.forward (models/llama/modeling_llama.py:356), which those of mistral and qwen copy.
func (d *decoder) llama(ids nn.Tensor) (x nn.Tensor) {
	b, n := ids.Dim(0), ids.Dim(1)
	d.Scope("model", func() {
		embeds := d.Hold(d.embed("embed_tokens", ids, d.Vocab, b, n, d.Hidden))
		d.Hold(d.Zeros(nn.I64, 1, n)) // position_ids
		d.masks(embeds)
		d.rotary(embeds)
		h := d.Hold(embeds)
		h = d.layers("layers", h, d.llamaLayer)
		x = d.Hold(d.rmsNorm("norm", h))
		d.outlives(embeds)
	}, ids)
	return x
}

// llamaLayer is LlamaDecoderLayer.forward (modeling_llama.py:284).
func (d *decoder) llamaLayer(layer int64, x nn.Tensor) nn.Tensor {
	h := d.Hold(d.rmsNorm("input_layernorm", x))
	h = d.Rebind(h, d.Call("self_attn", h, func(_ *nn.Tape, h nn.Tensor) nn.Tensor { return d.llamaAttention(layer, h) }))
	d.unnamed()
	h = d.Rebind(h, d.Add(x, h))
	residual := d.Hold(h)
	h = d.Rebind(h, d.rmsNorm("post_attention_layernorm", h))
	mlp := d.mixture
	if d.Experts.dense(layer) {
		mlp = d.gated
	}
	h = d.Rebind(h, d.Call("mlp", h, mlp))
	return d.Add(residual, h)
}

// gated is LlamaMLP.forward (modeling_llama.py:163): self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x)).
func (d *decoder) gated(_ *nn.Tape, x nn.Tensor) (y nn.Tensor) {
	if l := d.s.LoRA; l != nil && l.MLP && l.all("gate_proj", "up_proj", "down_proj") {
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

// llamaAttention is LlamaAttention.forward (modeling_llama.py:232), and Qwen3Attention.forward, which normalises
// queries and keys first.
func (d *decoder) llamaAttention(layer int64, x nn.Tensor) nn.Tensor {
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
		whole := d.Type == "olmoe" // OlmoeAttention.forward (models/olmoe/modeling_olmoe.py:238): of all heads at once
		if whole && norm != "" {
			y = d.rmsNorm(norm, y)
		}
		y = d.View(y, b, n, count, d.HeadDim)
		if d.QueryNorm && !whole && norm != "" {
			y = d.rmsNorm(norm, y)
		}
		return d.Hold(d.Transpose(y, 1, 2))
	}
	q, k, v := heads("q_proj", "q_norm", d.Heads), heads("k_proj", "k_norm", d.KVHeads), heads("v_proj", "", d.KVHeads)
	d.layerRotary(v)
	turnedQ, turnedK := d.rotate(q, k)
	q, k = d.Rebind(q, turnedQ), d.Rebind(k, turnedK)
	y := d.Hold(d.attend(layer, q, k, v))
	if l := d.s.LoRA; l != nil && l.O && l.all("o_proj") {
		return d.fusedO(y)
	}
	return d.linear("o_proj", y, d.Hidden, d.OutputBias)
}
