package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// FDAT: traiNNer/archs/fdat_arch.py at 68629319.
var _ = entry(func() {
	type variant struct {
		dim, groups, depth, heads int64
		ffn, dropPath             float64
		upsampler                 string
		mid, unshuffle, noFP16    bool // which arguments there are, and whether float16 is known not to do
	}
	fdat := func(v variant) builder {
		return func(s Spec, a *args) Network {
			n := fdat{
				scale: s.Scale, in: a.int("num_in_ch", 3), dim: a.int("embed_dim", v.dim), groups: a.int("num_groups", v.groups),
				depth: a.int("depth_per_group", v.depth), heads: a.int("num_heads", v.heads), window: a.int("window_size", 8),
				ffn: a.float("ffn_expansion_ratio", v.ffn), reduction: a.int("aim_reduction_ratio", 8),
				dropPath: a.float("drop_path_rate", v.dropPath), pattern: a.texts("group_block_pattern", "spatial", "channel"),
			}
			n.up = upsampler3{a.string("upsampler_type", v.upsampler), s.Scale, a.int("num_out_ch", 3), swinFeat}
			if v.mid {
				n.up.mid = a.int("mid_dim", swinFeat)
			}
			if v.unshuffle && a.bool("unshuffle_mod", false) && s.Scale < 3 {
				n.pad, n.up.scale = 4/max(s.Scale, 1), 4
			}
			a.ignore("img_range")
			refuse(n.heads < 1 || n.window < 1 || n.reduction < 1 || n.dim%n.heads != 0 || n.dim < n.reduction,
				"embed_dim %d, num_heads %d, window_size %d, aim_reduction_ratio %d",
				n.dim, n.heads, n.window, n.reduction)
			n.up.check()
			return Network{InCh: n.in, Forward: n.forward, NoFP16: v.noFP16, Multiple: n.window * max(n.pad, 1)}
		}
	}
	const up = "transpose+conv"
	register(fdat(variant{120, 4, 3, 4, 2, 0.1, "pixelshuffle", true, true, false}), "fdat")
	register(fdat(variant{96, 2, 2, 3, 1.5, 0.05, up, false, true, false}), "fdat_tiny")
	register(fdat(variant{108, 3, 2, 4, 2, 0.08, up, false, true, true}), "fdat_light")
	register(fdat(variant{120, 4, 3, 4, 2, 0.1, up, false, true, true}), "fdat_medium")
	register(fdat(variant{128, 4, 3, 4, 2, 0.1, up, false, true, true}), "fdat_medium_aligned")
	register(fdat(variant{180, 4, 4, 6, 2, 0.1, up, false, false, true}), "fdat_large")
	register(fdat(variant{180, 6, 6, 6, 2, 0.1, up, false, false, true}), "fdat_xl")
})

// texts is a list of strings.
func (a *args) texts(name string, def ...string) []string {
	v, ok := a.get(name)
	if !ok || v == nil {
		return def
	}
	list, ok := v.([]any)
	ss := make([]string, len(list))
	for i, e := range list {
		s, text := e.(string)
		ss[i], ok = s, ok && text
	}
	if !ok {
		a.wrong(name, v, "a list of words")
		return def
	}
	return ss
}

type fdat struct {
	scale, pad, in, dim, groups, depth, heads, window, reduction int64
	ffn, dropPath                                                float64
	pattern                                                      []string
	up                                                           upsampler3
}

// forward is FDAT.forward.
func (n fdat) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	h, w := x.Dim(2), x.Dim(3)
	var shallow nn.Tensor
	if n.pad > 0 { // check_img_size
		x = t.Hold(t.PadTo(x, true, x.Dim(0), x.Dim(1), multiple(h, n.pad), multiple(w, n.pad)))
		unshuffle := func(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.PixelUnshuffle(x, n.pad) }
		shallow = t.Hold(t.Sequential("conv_first", x, unshuffle, conv(n.dim, 3).Module()))
	} else {
		shallow = t.Hold(t.Conv2d("conv_first", x, conv(n.dim, 3)))
	}
	y := n.backbone(t, shallow)
	return t.Narrow(t.Narrow(y, 2, h*n.scale), 3, w*n.scale)
}

// backbone is what follows the shallow features.
func (n fdat) backbone(t *nn.Tape, shallow nn.Tensor) nn.Tensor {
	groups := make([]nn.Module, n.groups)
	for i := range groups {
		groups[i] = func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.residualGroup(t, x, int64(i)) }
	}
	deep := t.Hold(t.Sequential("groups", shallow, groups...))
	deep = t.Rebind(deep, t.Conv2d("conv_after", deep, nn.Conv{Out: n.dim, K: 3, NoBias: true}))
	return t.Hold(t.Call("upsampler", t.Add(deep, shallow), n.up.module))
}

// residualGroup is SimplifiedResidualGroup.
func (n fdat) residualGroup(t *nn.Tape, x nn.Tensor, group int64) nn.Tensor {
	h, w := x.Dim(2), x.Dim(3)
	depth := n.depth * int64(len(n.pattern))
	seq := t.Hold(t.Contiguous(tokens(t, x)))
	for i := range depth {
		dropPath := n.dropPath * float64(group*depth+i) / float64(max(n.groups*depth-1, 1))
		spatial := n.pattern[i%int64(len(n.pattern))] == "spatial"
		seq = t.Rebind(seq, t.Call(fmt.Sprint("blocks.", i), seq, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			return n.block(t, x, h, w, spatial, dropPath)
		}))
	}
	return t.Add(t.Conv2d("conv", image(t, seq, h, w), nn.Conv{Out: n.dim, K: 3, NoBias: true}), x)
}

// block is SimplifiedDATBlock.
func (n fdat) block(t *nn.Tape, x nn.Tensor, h, w int64, spatial bool, dropPath float64) nn.Tensor {
	n1 := t.Hold(t.LayerNorm("n1", x))
	attn := t.Call("attn", n1, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		if spatial {
			return n.spatialAttention(t, x, h, w)
		}
		return n.channelAttention(t, x)
	})
	plain := nn.Conv{Out: n.dim, K: 3, Groups: n.dim, NoBias: true}
	convolved := tokens(t, t.Call("", n1, func(t *nn.Tape, x nn.Tensor) nn.Tensor { // _conv_fwd
		return t.Sequential("conv", image(t, x, h, w), plain.Module(), (*nn.Tape).GELU)
	}))
	fused := t.Hold(t.Within("inter", func() nn.Tensor {
		return n.interaction(t, attn, convolved, h, w, spatial)
	}, attn, convolved))
	x = t.Hold(t.Add(x, dropPathOf(t, fused, dropPath)))
	ffn := t.Call("ffn", t.LayerNorm("n2", x), func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.feedForward(t, x, h, w) })
	return t.Rebind(x, t.Add(x, dropPathOf(t, ffn, dropPath)))
}

// interaction is SimplifiedAIM.
func (n fdat) interaction(t *nn.Tape, attn, convolved nn.Tensor, h, w int64, spatial bool) nn.Tensor {
	b, l, c := attn.Dim(0), attn.Dim(1), n.dim
	one := func(out int64) nn.Module { return nn.Conv{Out: out, K: 1, NoBias: true}.Module() }
	sg := func(x nn.Tensor) nn.Tensor { return t.Sequential("sg", x, one(1), (*nn.Tape).Sigmoid) }
	cg := func(x nn.Tensor) nn.Tensor {
		return t.Sequential("cg", x, (*nn.Tape).AvgPoolAll, one(c/n.reduction), (*nn.Tape).GELU, one(c), (*nn.Tape).Sigmoid)
	}
	// Both gates are there and one of them is used: the other's weights never have a gradient.
	unused := func(name string, out, in int64) {
		t.Scope("unused", func() { t.FrozenParam(name, out, in, 1, 1) })
	}
	if !spatial {
		unused("cg.1.weight", c/n.reduction, c)
		unused("cg.3.weight", c, c/n.reduction)
		sm := t.Hold(t.Transpose(t.View(sg(image(t, attn, h, w)), b, 1, l), 1, 2))
		return t.Add(attn, t.Mul(convolved, sm))
	}
	unused("sg.0.weight", 1, c)
	cm := t.Hold(t.Transpose(t.View(cg(image(t, convolved, h, w)), b, c, 1), 1, 2))
	return t.Add(t.Mul(attn, cm), convolved)
}

// spatialAttention is FastSpatialWindowAttention.
func (n fdat) spatialAttention(t *nn.Tape, x nn.Tensor, h, w int64) nn.Tensor {
	b, l, c, ws := x.Dim(0), x.Dim(1), n.dim, n.window
	ph, pw := multiple(h, ws), multiple(w, ws)
	padded := ph != h || pw != w
	if padded {
		x = t.Hold(t.View(t.PadLike(t.View(x, b, h, w, c), b, ph, pw, c), b, -1, c))
	}
	y := windows(t, t.View(x, b, ph, pw, c), ws)
	if padded {
		y = t.Rebind(x, y)
	}
	x = t.Hold(y)
	q, k, v := unbindQKV(t, t.View(t.Linear("qkv", x, 3*c, false), -1, ws*ws, 3, n.heads, c/n.heads))
	attn := t.Matmul(t.MulScalar(q), t.Transpose(k, -2, -1))
	attn = t.Hold(t.Add(attn, t.Param("bias", n.heads, ws*ws, ws*ws)))
	x = t.Rebind(x, t.View(t.Transpose(t.Matmul(t.Softmax(attn), v), 1, 2), -1, ws*ws, c))
	x = t.Rebind(x, windowReverse(t, t.Linear("proj", x, c, true), ws, b, ph, pw))
	if padded {
		x = t.Rebind(x, t.Contiguous(t.Narrow(t.Narrow(x, 1, h), 2, w)))
	}
	return t.View(x, b, l, c)
}

// unbindQKV is x.permute(2, 0, 3, 1, 4).unbind(0) of (batch, tokens, 3, heads, channels): one node, whose backward
// stacks three gradients (derivatives.yaml, unbind).
func unbindQKV(t *nn.Tape, x nn.Tensor) (q, k, v nn.Tensor) {
	x = t.Hold(t.Permute(x, 2, 0, 3, 1, 4))
	p := t.Split(x, 0, 1, 1, 1)
	for i := range p {
		p[i] = t.View(p[i], p[i].Shape()[1:]...)
	}
	return p[0], p[1], p[2]
}

// channelAttention is FastChannelAttention.
func (n fdat) channelAttention(t *nn.Tape, x nn.Tensor) nn.Tensor {
	b, l, c := x.Dim(0), x.Dim(1), n.dim
	q, k, v := unbindQKV(t, t.View(t.Linear("qkv", x, 3*c, false), b, l, 3, n.heads, c/n.heads))
	q = t.Hold(t.NormalizeDim(t.Transpose(q, -2, -1), -1))
	k = t.Hold(t.NormalizeDim(t.Transpose(k, -2, -1), -1))
	attn := t.Mul(t.Matmul(q, t.Transpose(k, -2, -1)), t.Param("temp", n.heads, 1, 1))
	attn = t.Hold(t.Softmax(attn))
	y := t.View(t.Permute(t.Matmul(attn, t.Transpose(v, -2, -1)), 0, 3, 1, 2), b, l, c)
	return t.Linear("proj", y, c, true)
}

// feedForward is SimplifiedFFN.
func (n fdat) feedForward(t *nn.Tape, x nn.Tensor, h, w int64) nn.Tensor {
	hidden := int64(float64(n.dim) * n.ffn)
	x = t.Hold(t.GELU(t.Linear("fc1", x, hidden, false)))
	y := t.Conv2d("smix", image(t, x, h, w), nn.Conv{Out: hidden, K: 3, Groups: hidden, NoBias: true})
	return t.Linear("fc2", t.Hold(tokens(t, y)), n.dim, false)
}
