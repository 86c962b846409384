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
		Form: Form{Norms: centredNorm, EmbedScale: true},
	}
}

// scaledTokens is GemmaTextScaledWordEmbedding.forward (models/gemma/modeling_gemma.py).
func (d *decoder) scaledTokens(ids nn.Tensor) (x nn.Tensor) {
	d.Scope("embed_tokens", func() {
		d.wrapped("embed_tokens", d.Vocab, func() {
			var rows nn.Tensor
			d.upcast(func() {
				rows = d.Lookup(d.Param("weight", d.Vocab, d.Hidden), ids, ids.Dim(0), ids.Dim(1), d.Hidden)
			})
			x = d.MulScalar(rows) // by a buffer of one number
			d.Buffer("embed_scale", nn.F32)
		})
	}, ids)
	return x
}

// gemmaNorm is GemmaRMSNorm.forward: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps), times 1.0 + weight.
func (d *decoder) gemmaNorm(name string, x nn.Tensor) (y nn.Tensor) {
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
