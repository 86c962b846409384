package arch

import (
	"github.com/launch-ml/launch/core/nn"
)

// OmniSR (Wang et al., 2023), as traiNNer-redux builds it from spandrel 0.4.2 (architectures/OmniSR/__arch/OmniSR.py,
// OSAG.py, OSA.py, esa.py, layernorm.py; defaults in traiNNer/archs/omnisr_arch.py at 68629319).
var _ = register(func(s Spec, a *args) Network {
	n := omniSR{
		scale: s.Scale, inCh: a.int("num_in_ch", 3), outCh: a.int("num_out_ch", 3), feat: a.int("num_feat", 64),
		blocks: a.int("block_num", 1), pe: a.bool("pe", true), window: a.int("window_size", 8),
		res: a.int("res_num", 5), bias: a.bool("bias", true),
	}
	refuse(n.feat < 4 || n.feat%(n.feat/4) != 0, "num_feat: dimension should be divisible by dimension per head")
	refuse(n.feat%4 != 0, "num_feat: %d channels cannot be split into 4 heads", n.feat)
	refuse(n.window < 1, "window_size: %d", n.window)
	// ESA halves and then pools by 7, so the padded image needs 15 pixels.
	return Network{
		InCh: n.inCh, Forward: n.forward, Multiple: n.window, MinLQ: 14/n.window*n.window + 1,
	}
}, "omnisr")

type omniSR struct {
	scale, inCh, outCh, feat, blocks, window, res int64
	pe, bias                                      bool
}

func (n omniSR) conv(out, k int64) nn.Conv { return nn.Conv{Out: out, K: k, NoBias: !n.bias} }

// forward is OmniSR.forward.
func (n omniSR) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	h, w := x.Dim(2), x.Dim(3)
	up := func(k int64) int64 { return (k + n.window - 1) / n.window * n.window }
	if up(h) != h || up(w) != w { // check_image_size
		x = t.Hold(t.PadTo(x, false, x.Dim(0), x.Dim(1), up(h), up(w)))
	}

	residual := t.Hold(t.Conv2d("input", x, n.conv(n.feat, 3)))
	out := t.Hold(t.Sequential("residual_layer", residual, nn.Repeat(n.osag, n.res)...))

	out = t.Rebind(out, t.Add(t.Conv2d("output", out, n.conv(n.feat, 3)), residual))
	out = t.Rebind(out, t.Sequential("up", out, n.conv(n.outCh*n.scale*n.scale, 3).Module(), shuffle(n.scale)))
	return t.Narrow(t.Narrow(out, 2, h*n.scale), 3, w*n.scale)
}

// osag is OSAG.
func (n omniSR) osag(t *nn.Tape, x nn.Tensor) nn.Tensor {
	ms := nn.Repeat(n.block, n.blocks)
	ms = append(ms, n.conv(n.feat, 1).Module())
	out := t.Hold(t.Sequential("residual_layer", x, ms...))
	out = t.Rebind(out, t.Add(out, x))
	return t.Call("esa", out, esa(max(n.feat/4, 16)))
}

// block is OSA_Block: attention in blocks, attention between channels of a block, and the same over a grid.
func (n omniSR) block(t *nn.Tape, x nn.Tensor) nn.Tensor {
	w := n.window
	local := func(dims ...int) nn.Module {
		return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			b, d, h, wd := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
			if dims[1] == 2 {
				return t.Permute(t.View(x, b, d, h/w, w, wd/w, w), dims...)
			}
			return t.Permute(t.View(x, b, d, w, h/w, w, wd/w), dims...)
		}
	}
	global := func(dims ...int) nn.Module {
		return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			b, d, h, wd := x.Dim(0), x.Dim(5), x.Dim(1)*w, x.Dim(2)*w
			return t.Reshape(t.Permute(x, dims...), b, d, h, wd)
		}
	}
	preNorm := func(fn nn.Module) nn.Module { // PreNormResidual
		return func(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.Add(t.Call("fn", t.LayerNorm("norm", x), fn), x) }
	}
	convPreNorm := func(fn nn.Module) nn.Module { // Conv_PreNormResidual
		return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			return t.Add(t.Call("fn", t.Call("norm", x, layerNormFunction), fn), x)
		}
	}
	return t.Sequential("layer", x,
		n.mbConv,
		local(0, 2, 4, 3, 5, 1), preNorm(n.attention), global(0, 5, 1, 3, 2, 4),
		convPreNorm(n.feedForward), convPreNorm(n.channelAttention(false)), convPreNorm(n.feedForward),
		local(0, 3, 5, 2, 4, 1), preNorm(n.attention), global(0, 5, 3, 1, 4, 2),
		convPreNorm(n.feedForward), convPreNorm(n.channelAttention(true)), convPreNorm(n.feedForward))
}

// mbConv is MBConv of expansion 1, in its MBConvResidual.
func (n omniSR) mbConv(t *nn.Tape, x nn.Tensor) nn.Tensor {
	out := t.Sequential("fn", x, conv(n.feat, 1).Module(), (*nn.Tape).GELU, depthwise(n.feat, 3).Module(), (*nn.Tape).GELU,
		func(t *nn.Tape, x nn.Tensor) nn.Tensor { // SqueezeExcitation
			b, c := x.Dim(0), x.Dim(1)
			mean := func(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.View(t.MeanDim(x, 2, 3), b, c) }
			y := t.Sequential("gate", x, mean, nn.Linear{Out: c / 4, NoBias: true}.Module(), (*nn.Tape).SiLU,
				nn.Linear{Out: c, NoBias: true}.Module(), (*nn.Tape).Sigmoid)
			return t.Mul(x, t.View(y, b, c, 1, 1))
		}, conv(n.feat, 1).Module())
	return t.Add(out, x)
}

// attention is Attention of (b, x, y, w1, w2, d) with 4 heads.
func (n omniSR) attention(t *nn.Tape, x nn.Tensor) nn.Tensor {
	const heads = 4
	shape, w := x.Shape(), n.window
	d := x.Dim(-1)
	x = t.View(x, -1, w*w, d)
	p := t.Split(t.Linear("to_qkv", x, 3*d, false), -1, d, d, d)
	split := func(x nn.Tensor) nn.Tensor { return t.Transpose(t.View(x, x.Dim(0), w*w, heads, d/heads), 1, 2) }
	q, k, v := split(p[0]), t.Hold(split(p[1])), t.Hold(split(p[2]))
	q = t.Hold(t.MulScalar(q))

	sim := t.Hold(t.Matmul(q, t.Transpose(k, -2, -1)))
	if n.pe {
		t.Buffer("rel_pos_indices", nn.I64, w*w, w*w)
		table := t.Param("rel_pos_bias.weight", (2*w-1)*(2*w-1), heads)
		bias := t.Hold(t.View(t.Copy("torch.nn.functional.embedding", table, w*w*w*w, heads), w*w, w*w, heads))
		sim = t.Rebind(sim, t.Add(sim, t.Permute(bias, 2, 0, 1)))
	}
	attn := t.Hold(t.Softmax(sim))

	out := t.Hold(t.Matmul(attn, v))
	out = t.Rebind(out, t.Reshape(t.Transpose(out, 1, 2), out.Dim(0), w, w, d))
	out = t.Rebind(out, t.Linear("to_out.0", out, d, false))
	return t.View(out, shape...)
}

// feedForward is Gated_Conv_FeedForward.
func (n omniSR) feedForward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	x = t.Conv2d("project_in", x, nn.Conv{Out: 2 * n.feat, K: 1, NoBias: true})
	p := t.Split(t.Conv2d("dwconv", x, nn.Conv{Out: 2 * n.feat, K: 3, Groups: 2 * n.feat, NoBias: true}), 1, n.feat, n.feat)
	t.Hold(x)
	x1, x2 := t.Hold(p[0]), t.Hold(p[1])
	x = t.Rebind(x, t.Mul(t.GELU(x1), x2))
	return t.Conv2d("project_out", x, nn.Conv{Out: n.feat, K: 1, NoBias: true})
}

// channelAttention is Channel_Attention, or Channel_Attention_grid, with 4 heads.
func (n omniSR) channelAttention(grid bool) nn.Module {
	const heads = 4
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		b, c, h, w := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
		outer, inner := h*w/(n.window*n.window), n.window*n.window
		if grid {
			outer, inner = inner, outer
		}
		qkv := t.Conv2d("qkv", x, nn.Conv{Out: 3 * c, K: 1, NoBias: true})
		p := t.Split(t.Hold(t.Conv2d("qkv_dwconv", qkv, nn.Conv{Out: 3 * c, K: 3, Groups: 3 * c, NoBias: true})), 1, c, c, c)
		temperature := t.Param("temperature", heads, 1, 1)

		rearrange := func(x nn.Tensor) nn.Tensor { return t.Rearrange(x, b, outer, heads, c/heads, inner) }
		q, k, v := t.Hold(rearrange(p[0])), t.Hold(rearrange(p[1])), t.Hold(rearrange(p[2]))
		q = t.Rebind(q, t.NormalizeDim(q, -1))
		k = t.Rebind(k, t.NormalizeDim(k, -1))

		attn := t.Hold(t.Mul(t.Matmul(q, t.Transpose(k, -2, -1)), temperature))
		attn = t.Rebind(attn, t.Softmax(attn))
		out := t.Hold(t.Matmul(attn, v))
		out = t.Rebind(out, t.Rearrange(out, b, c, h, w))
		return t.Conv2d("project_out", out, nn.Conv{Out: c, K: 1, NoBias: true})
	}
}

// layerNormFunction is LayerNorm2d over LayerNormFunction: what is saved is the normalized image and its variance.
func layerNormFunction(t *nn.Tape, x nn.Tensor) nn.Tensor {
	c := x.Dim(1)
	weight, bias := t.Param("weight", c), t.Param("bias", c)
	return t.Apply(nn.Function{
		Name: "LayerNormFunction.apply",
		Forward: func() (nn.Tensor, []nn.Tensor) {
			mu := t.Hold(t.MeanDim(x, 1))
			variance := t.Hold(t.MeanDim(t.Pow(t.Sub(x, mu)), 1))
			y := t.Hold(t.Div(t.Sub(x, mu), t.Sqrt(t.AddScalar(variance))))
			return t.Add(t.Mul(t.View(weight, 1, c, 1, 1), y), t.View(bias, 1, c, 1, 1)), []nn.Tensor{y, variance}
		},
		// g; then g - y * mean_gy and the difference of that and mean_g, of which gx takes the place of one; and three
		// planes: mean_g, mean_gy, the inverse deviation.
		Temps: (2*x.Numel() + 3*x.Numel()/c) * int64(nn.F32.Size()),
	}, x, weight, bias)
}

// esa is ESA with f channels.
func esa(f int64) nn.Module {
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		feats := x.Dim(1)
		c1_ := t.Hold(t.Conv2d("conv1", x, conv(f, 1)))
		c1 := t.Hold(t.Conv2d("conv2", c1_, nn.Conv{Out: f, K: 3, Stride: 2, Valid: true}))
		vMax := t.Hold(t.MaxPool2d(c1, 7, 3))
		c3 := t.Hold(t.Conv2d("conv3", vMax, conv(f, 3)))
		c3 = t.Rebind(c3, t.Interpolate(c3, x.Dim(2), x.Dim(3)))
		cf := t.Hold(t.Conv2d("conv_f", c1_, conv(f, 1)))
		c4 := t.Hold(t.Conv2d("conv4", t.Add(c3, cf), conv(feats, 1)))
		m := t.Hold(t.Sigmoid(c4))
		return t.Mul(x, m)
	}
}
