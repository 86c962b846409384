package arch

import "github.com/launch-ml/launch/core/nn"

// readGemma is GemmaConfig (models/gemma/configuration_gemma.py).
func readGemma(r raw) Config {
	bias := or(r.AttentionBias, false)
	return Config{
		Vocab: or(r.Vocab, 256000), Hidden: or(r.Hidden, 3072), Inner: or(r.Inner, 24576), Layers: or(r.Layers,
			28), Heads: or(r.Heads, 16),
		KVHeads: or(r.KVHeads, 16), HeadDim: or(r.HeadDim, 256), Positions: or(r.Positions, 8192), Activation: or(r.Act,
			"gelu_pytorch_tanh"),
		Tied: or(r.Tied, true), AttentionBias: bias, OutputBias: bias, Attention: or(r.AttnDropout, 0),
	}
}

// gemma is GemmaModel.forward (models/gemma/modeling_gemma.py), whose embedding is scaled.
func (d *decoder) gemma(ids nn.Tensor) (x nn.Tensor) {
	b, n := ids.Dim(0), ids.Dim(1)
	d.Scope("model", func() {
		d.Scope("embed_tokens", func() {
			d.wrapped("embed_tokens", d.Vocab, func() {
				var rows nn.Tensor
				d.upcast(func() { rows = d.Lookup(d.Param("weight", d.Vocab, d.Hidden), ids, b, n, d.Hidden) })
				x = d.MulScalar(rows) // by a buffer of one number
				d.Buffer("embed_scale", nn.F32)
			})
		}, ids)
		embeds := d.Hold(x)
		d.Hold(d.Zeros(nn.I64, 1, n)) // position_ids
		d.masks(embeds)
		d.rotary(embeds)
		h := d.Hold(embeds)
		h = d.layers("layers", h, d.gemmaLayer)
		x = d.Hold(d.gemmaNorm("norm", h))
		d.outlives(embeds)
	}, ids)
	return x
}

// gemmaLayer is GemmaDecoderLayer.forward, which is llama's with another norm.
func (d *decoder) gemmaLayer(layer int64, x nn.Tensor) nn.Tensor {
	h := d.Hold(d.gemmaNorm("input_layernorm", x))
	h = d.Rebind(h, d.Call("self_attn", h, func(_ *nn.Tape, h nn.Tensor) nn.Tensor { return d.llamaAttention(layer, h) }))
	d.unnamed()
	h = d.Rebind(h, d.Add(x, h))
	residual := d.Hold(h)
	h = d.Rebind(h, d.gemmaNorm("post_attention_layernorm", h))
	h = d.Rebind(h, d.Call("mlp", h, d.gated))
	return d.Add(residual, h)
}

// gemmaNorm is GemmaRMSNorm.forward: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps), times 1.0 + weight.
func (d *decoder) gemmaNorm(name string, x nn.Tensor) (y nn.Tensor) {
	if d.s.Liger.Norm {
		return d.ligerNorm(name, x)
	}
	d.Scope(name, func() {
		var out nn.Tensor
		wide := d.To(x, nn.F32)
		d.Scope("", func() {
			d.Line("return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)")
			out = d.Mul(wide, d.Elementwise("torch.rsqrt", d.AddScalar(d.MeanDim(d.Pow(wide), -1)), false, true))
		}, wide)
		d.Line("output = output * (1.0 + self.weight.float())")
		out = d.Hold(out)
		d.upcast(func() { out = d.Rebind(out, d.Mul(out, d.AddScalar(d.To(d.Param("weight", x.Dim(-1)), nn.F32)))) })
		y = d.To(out, x.DType())
	}, x)
	return y
}
