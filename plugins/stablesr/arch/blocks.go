package arch

import "github.com/launch-ml/launch/core/nn"

// A style is how the blocks of a network compute, beside their sizes.
type style struct {
	xformers   bool // memory-efficient attention instead of the product of all queries with all keys
	frozen     bool // no parameter requires a gradient but SPADE's, and gradients go through (ddpm.py:1627)
	checkpoint bool // use_checkpoint
	kept       bool // checkpoint of util.py recomputes nothing
}

// freeze runs f while parameters do not require gradients, where the network is frozen.
func (s style) freeze(t *nn.Tape, f func()) {
	if s.frozen {
		t.FreezeParams(f)
		return
	}
	f()
}

// normalization is GroupNorm32 of util.py: it computes in float32, which everything here is.
func normalization(t *nn.Tape, name string, x nn.Tensor) nn.Tensor { return t.GroupNorm(name, x, 32) }

// timeEmbed is timestep_embedding and time_embed: (batch, 4·channels).
func timeEmbed(t *nn.Tape, batch, channels int64) (emb nn.Tensor) {
	tEmb := t.Zeros(nn.F32, batch, channels)
	return t.Sequential("time_embed", tEmb, nn.Linear{Out: 4 * channels}.Module(), (*nn.Tape).SiLU, nn.Linear{Out: 4 * channels}.Module())
}

// resBlock is ResBlock, and with a map of conditions ResBlockDual (openaimodel.py:218 and 343).
type resBlock struct {
	style
	out        int64
	dropout    float64
	scaleShift bool
	updown     int                 // 1 doubles the size, -1 halves it
	cond       map[int64]nn.Tensor // by width; nil without SPADE
}

func (b resBlock) call(t *nn.Tape, name string, x, emb nn.Tensor) nn.Tensor {
	forward := func(t *nn.Tape, x nn.Tensor) nn.Tensor { return b.forward(t, x, emb) }
	return t.CheckpointIf(b.checkpoint, name, x, forward)
}

func (b resBlock) forward(t *nn.Tape, x, emb nn.Tensor) (y nn.Tensor) {
	in := x
	var h nn.Tensor
	b.freeze(t, func() {
		if b.updown != 0 {
			h = t.SiLU(normalization(t, "in_layers.0", x))
			h, x = b.resample(t, h), t.Hold(b.resample(t, x))
			h = t.Hold(t.Conv2d("in_layers.2", h, conv(b.out, 3)))
		} else {
			h = t.Hold(t.Sequential("in_layers", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor { return normalization(t, "", x) },
				(*nn.Tape).SiLU, conv(b.out, 3).Module()))
		}
		width := b.out
		if b.scaleShift {
			width *= 2
		}
		embOut := t.Hold(t.Sequential("emb_layers", emb, (*nn.Tape).SiLU, nn.Linear{Out: width}.Module()))
		embOut = t.View(embOut, embOut.Dim(0), width, 1, 1)
		groups := int64(32)
		if b.out%32 != 0 && b.cond == nil { // ResBlock alone gives such a norm as many groups as channels
			groups = b.out
		}
		rest := func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			return t.Conv2d("out_layers.3", t.Dropout(t.SiLU(x), b.dropout), conv(b.out, 3))
		}
		if b.scaleShift {
			parts := t.Split(embOut, 1, b.out, b.out)
			h = t.Rebind(h, t.Add(t.Mul(t.GroupNorm("out_layers.0", h, groups), t.AddScalar(parts[0])), parts[1]))
			h = t.Rebind(h, rest(t, h))
		} else {
			h = t.Rebind(h, t.Add(h, embOut))
			h = t.Rebind(h, rest(t, t.GroupNorm("out_layers.0", h, groups)))
		}
	})
	if b.cond != nil {
		t.Part(partSPADE, func() { h = t.Rebind(h, b.spade(t, h)) })
	}
	b.freeze(t, func() {
		if in.Dim(1) != b.out {
			x = t.Conv2d("skip_connection", x, conv(b.out, 1))
		}
	})
	return t.Add(x, h)
}

func (b resBlock) resample(t *nn.Tape, x nn.Tensor) nn.Tensor {
	if b.updown > 0 {
		return t.Upsample(x, 2)
	}
	return t.AvgPool2d(x, 2, 2, 0)
}

// spade is SPADE.forward (spade.py:68), whose parameters are the only ones of a frozen network that are trained.
func (b resBlock) spade(t *nn.Tape, x nn.Tensor) nn.Tensor {
	const nhidden = 128
	segmap, ok := b.cond[x.Dim(3)]
	if !ok {
		panic("SPADE has no condition of that width")
	}
	c := x.Dim(1)
	normalized := t.Hold(normalization(t, "param_free_norm", x))
	actv := t.Hold(t.Sequential("mlp_shared", segmap, conv(nhidden, 3).Module(), (*nn.Tape).ReLU))
	gamma := t.Hold(t.Conv2d("mlp_gamma", actv, conv(c, 3)))
	beta := t.Hold(t.Conv2d("mlp_beta", actv, conv(c, 3)))
	return t.Add(t.Mul(normalized, t.AddScalar(gamma)), beta)
}

// attentionBlock is AttentionBlock, whose checkpoint is on whatever use_checkpoint says (openaimodel.py:500).
func (s style) attentionBlock(t *nn.Tape, name string, x nn.Tensor, heads int64) (y nn.Tensor) {
	s.freeze(t, func() {
		recomputed := t.Checkpoint
		if s.kept {
			recomputed = t.Call
		}
		y = recomputed(name, x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			b, c, h, w := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
			x = t.View(x, b, c, 1, h*w)
			qkv := t.Hold(t.Conv2d("qkv", normalization(t, "norm", x), conv(3*c, 1)))
			a := t.Call("attention", qkv, func(t *nn.Tape, qkv nn.Tensor) nn.Tensor { return s.qkvAttention(t, qkv, heads) })
			a = t.Conv2d("proj_out", t.View(a, b, c, 1, h*w), conv(c, 1))
			return t.View(t.Add(x, a), b, c, h, w)
		})
	})
	return y
}

// qkvAttention is QKVAttentionLegacy.forward; the other order of splitting differs in views only.
func (s style) qkvAttention(t *nn.Tape, qkv nn.Tensor, heads int64) nn.Tensor {
	b, length := qkv.Dim(0), qkv.Dim(3)
	ch := qkv.Dim(1) / 3 / heads
	parts := t.Split(t.View(qkv, b*heads, 3*ch, length), 1, ch, ch, ch)
	q, k, v := parts[0], parts[1], parts[2]
	if s.xformers {
		flat := func(x nn.Tensor) nn.Tensor {
			return t.Hold(t.View(t.Contiguous(t.Permute(x, 0, 2, 1)), b*heads, 1, length, ch))
		}
		a := t.SDPA(flat(q), flat(k), flat(v))
		return t.View(t.Permute(t.View(a, b*heads, length, ch), 0, 2, 1), b, heads*ch, length)
	}
	weight := t.Hold(t.Bmm(t.Permute(t.MulScalar(q), 0, 2, 1), t.MulScalar(k)))
	weight = t.Rebind(weight, t.Softmax(weight))
	return t.View(t.Bmm(v, t.Permute(weight, 0, 2, 1)), b, heads*ch, length)
}

// crossAttention is CrossAttention.forward, or MemoryEfficientCrossAttention's (attention.py). context is the zero Tensor
// for self-attention.
func (s style) crossAttention(t *nn.Tape, name string, x, context nn.Tensor, heads, dimHead int64) (out nn.Tensor) {
	return t.Within(name, func() nn.Tensor {
		query := x.Dim(2)
		if context.Dims() == 0 {
			context = x
		}
		q := t.Hold(t.Linear("to_q", x, heads*dimHead, false))
		k := t.Hold(t.Linear("to_k", context, heads*dimHead, false))
		v := t.Hold(t.Linear("to_v", context, heads*dimHead, false))
		split := func(x nn.Tensor) nn.Tensor { // 'b n (h d) -> (b h) n d'
			x = t.Permute(t.View(x, x.Dim(0), x.Dim(1), heads, dimHead), 0, 2, 1, 3)
			return t.View(x, x.Dim(0)*heads, x.Dim(2), dimHead)
		}
		q, k, v = t.Rebind(q, split(q)), t.Rebind(k, split(k)), t.Rebind(v, split(v))
		b, n := x.Dim(0), x.Dim(1)
		if s.xformers {
			flat := func(x nn.Tensor) nn.Tensor { return t.View(x, x.Dim(0), 1, x.Dim(1), dimHead) }
			out = t.Hold(t.View(t.SDPA(flat(q), flat(k), flat(v)), b*heads, n, dimHead))
		} else {
			t.Line("sim = einsum('b i d, b j d -> b i j', q, k) * self.scale")
			sim := t.Hold(t.MulScalar(t.Bmm(q, t.Transpose(k, 1, 2))))
			t.Line("attn = sim.softmax(dim=-1)")
			attn := t.Hold(t.Softmax(sim))
			t.Line("out = einsum('b i j, b j d -> b i d', attn, v)")
			out = t.Hold(t.Bmm(attn, v))
		}
		t.Line("") // '(b h) n d -> b n (h d)'
		merged := t.Permute(t.View(out, b, heads, n, dimHead), 0, 2, 1, 3)
		out = t.Rebind(out, t.View(merged, b, n, heads*dimHead))
		return t.Linear("to_out.0", out, query, true)
	}, x, context)
}

// transformer is SpatialTransformerV2, and SpatialTransformer where linear is false (attention.py).
type transformer struct {
	style
	heads, dimHead, depth, contextDim int64
	linear                            bool // use_linear_in_transformer
	noSelf                            bool // disable_self_attn: both attentions look at the context
	checkpoints                       bool // checkpoint of its blocks
}

func (n transformer) call(t *nn.Tape, name string, x, context nn.Tensor) (y nn.Tensor) {
	n.freeze(t, func() {
		y = t.Call(name, x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			b, c, h, w := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
			inner := n.heads * n.dimHead
			xIn := x
			x = t.Hold(t.GroupNorm("norm", x, 32))
			if !n.linear {
				x = t.Rebind(x, t.Conv2d("proj_in", x, conv(inner, 1)))
			}
			x = t.Rebind(x, t.Contiguous(t.Permute(t.View(x, b, x.Dim(1), h*w), 0, 2, 1))) // 'b c h w -> b (h w) c'
			if n.linear {
				x = t.Rebind(x, t.Linear("proj_in", x, inner, true))
			}
			for i := range int(n.depth) {
				x = t.Rebind(x, n.block(t, named("transformer_blocks", i), x, context))
			}
			if n.linear {
				x = t.Rebind(x, t.Linear("proj_out", x, c, true))
			}
			x = t.Rebind(x, t.View(t.Contiguous(t.Permute(x, 0, 2, 1)), b, x.Dim(2), h, w))
			if !n.linear {
				x = t.Rebind(x, t.Conv2d("proj_out", x, conv(c, 1)))
			}
			return t.Add(x, xIn)
		})
	})
	return y
}

// block is BasicTransformerBlockV2._forward, with gated_ff.
func (n transformer) block(t *nn.Tape, name string, x, context nn.Tensor) nn.Tensor {
	forward := func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		first := nn.Tensor{}
		if n.noSelf {
			first = context
		}
		x = t.Rebind(x, t.Add(n.crossAttention(t, "attn1", t.LayerNorm("norm1", x), first, n.heads, n.dimHead), x))
		x = t.Rebind(x, t.Add(n.crossAttention(t, "attn2", t.LayerNorm("norm2", x), context, n.heads, n.dimHead), x))
		return t.Rebind(x, t.Add(t.Call("ff", t.LayerNorm("norm3", x), feedForward), x))
	}
	return t.CheckpointIf(n.checkpoints, name, x, forward)
}

// feedForward is FeedForward with GEGLU.
func feedForward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	dim := x.Dim(2)
	h := t.Within("net.0", func() nn.Tensor {
		parts := t.Split(t.Linear("proj", x, 8*dim, true), 2, 4*dim, 4*dim)
		return t.Mul(t.Hold(parts[0]), t.GELU(t.Hold(parts[1])))
	}, x)
	return t.Linear("net.2", h, dim, true)
}
