package arch

import "github.com/launch-ml/launch/core/nn"

// readPhi is PhiConfig (models/phi/configuration_phi.py).
func readPhi(r raw) Config {
	c := Config{
		Vocab: or(r.Vocab, 51200), Hidden: or(r.Hidden, 2048), Inner: or(r.Inner, 8192), Layers: or(r.Layers,
			24), Heads: or(r.Heads, 32),
		KVHeads: or(r.KVHeads, 0), HeadDim: or(r.HeadDim, 0), Positions: or(r.Positions, 2048), Activation: or(r.Act,
			"gelu_new"),
		Tied: or(r.Tied, false), AttentionBias: true, OutputBias: true, Attention: or(r.AttnDropout,
			0), Embed: or(r.EmbdPdrop, 0),
		Residual: or(r.ResidPdrop, 0),
	}
	if c.Heads > 0 {
		partial := first(r.Rope.Partial, r.Partial, 0.5)
		c.Rotary = int64(float64(c.Hidden/c.Heads) * partial)
	}
	return c
}

// phi is PhiModel.forward (models/phi/modeling_phi.py).
func (d *decoder) phi(ids nn.Tensor) (x nn.Tensor) {
	b, n := ids.Dim(0), ids.Dim(1)
	d.Scope("model", func() {
		embeds := d.Hold(d.embed("embed_tokens", ids, d.Vocab, b, n, d.Hidden))
		d.Hold(d.Zeros(nn.I64, 1, n)) // position_ids
		d.masks(embeds)
		embeds = d.Rebind(embeds, d.Dropout(embeds, d.Embed))
		h := d.Hold(embeds)
		d.rotary(h)
		h = d.layers("layers", h, d.phiLayer)
		x = d.Hold(d.LayerNorm("final_layernorm", h))
		d.outlives(embeds)
	}, ids)
	return x
}

// phiLayer is PhiDecoderLayer.forward: attention and MLP side by side, of one norm.
func (d *decoder) phiLayer(layer int64, x nn.Tensor) nn.Tensor {
	h := d.Hold(d.LayerNorm("input_layernorm", x))
	attended := d.Hold(d.Call("self_attn", h, func(_ *nn.Tape, h nn.Tensor) nn.Tensor {
		return d.phiAttention(layer,
			h)
	}))
	d.unnamed()
	attended = d.Rebind(attended, d.Dropout(attended, d.Residual))
	forward := d.Call("mlp", h, func(_ *nn.Tape, h nn.Tensor) nn.Tensor {
		y := d.Hold(d.linear("fc1", h, d.Inner, true))
		y = d.Rebind(y, d.activate(y))
		return d.linear("fc2", y, d.Hidden, true)
	})
	forward = d.Hold(d.Dropout(forward, d.Residual))
	d.Line("attn_outputs + feed_forward_hidden_states + residual")
	return d.Add(d.Add(attended, forward), x)
}

// phiAttention is PhiAttention.forward, which turns the first channels of a head only.
func (d *decoder) phiAttention(layer int64, x nn.Tensor) nn.Tensor {
	b, n := x.Dim(0), x.Dim(1)
	heads := func(name string, count int64) nn.Tensor {
		return d.Hold(d.Transpose(d.View(d.linear(name, x, count*d.HeadDim, true), b, n, count, d.HeadDim), 1, 2))
	}
	q, k, v := heads("q_proj", d.Heads), heads("k_proj", d.KVHeads), heads("v_proj", d.KVHeads)
	d.layerRotary(v)
	part := func(x nn.Tensor, channels int64) nn.Tensor { return d.Hold(d.Narrow(x, -1, channels)) }
	qRot, qPass := part(q, d.Rotary), part(q, d.HeadDim-d.Rotary)
	kRot, kPass := part(k, d.Rotary), part(k, d.HeadDim-d.Rotary)
	turnedQ, turnedK := d.rotate(qRot, kRot)
	turnedQ, turnedK = d.Hold(turnedQ), d.Hold(turnedK)
	q = d.Rebind(q, d.Cat(-1, turnedQ, qPass))
	k = d.Rebind(k, d.Cat(-1, turnedK, kPass))
	y := d.Hold(d.attend(layer, q, k, v))
	return d.linear("dense", y, d.Hidden, true)
}
