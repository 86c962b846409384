package arch

import (
	"github.com/launch-ml/launch/core/nn"
)

// RTMoSR (umzi2): traiNNer/archs/rtmosr_arch.py at 68629319.
var _ = entry(func() {
	rtmosr := func(expansion float64, unshuffle, dccm bool) builder {
		return func(s Spec, a *args) Network {
			n := rtMoSR{
				scale: s.Scale, dim: a.int("dim", 32), blocks: a.int("n_blocks", 2),
				expansion: a.float("ffn_expansion", expansion), dccm: a.bool("dccm", dccm), se: a.bool("se", true),
			}
			n.inner = n.scale
			if a.bool("unshuffle_mod", unshuffle) && n.scale < 4 {
				refuse(n.scale == 3, "unshuffle_mod does not support 3x")
				n.unshuffle, n.inner = 4/n.scale, 4
			}
			n.pad = 2 * max(n.unshuffle, 1)
			return Network{Forward: n.forward, Multiple: n.pad}
		}
	}
	register(rtmosr(2, false, true), "rtmosr")
	register(rtmosr(2, true, true), "rtmosr_l")
	register(rtmosr(1.5, true, false), "rtmosr_ul")
})

type rtMoSR struct {
	scale, inner, dim, blocks, unshuffle, pad int64
	expansion                                 float64
	dccm, se                                  bool
}

// forward is RTMoSR.forward.
func (n rtMoSR) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	h, w := x.Dim(2), x.Dim(3)
	modPad := func(k int64) int64 { return (n.pad - k%n.pad) % n.pad }
	out := t.Hold(t.Pad(x, modPad(h), modPad(w), true)) // check_img_size
	var toFeat nn.Module = repConv(n.dim)
	if n.unshuffle > 0 {
		toFeat = func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			return t.Sequential("", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.PixelUnshuffle(x, n.unshuffle) },
				repConv(n.dim))
		}
	}
	out = t.Rebind(out, t.Call("to_feat", out, toFeat))
	body := nn.Repeat(n.block, n.blocks)
	out = t.Rebind(out, t.Sequential("body", out, body...))
	y := t.Sequential("to_img", out, repConv(3*n.inner*n.inner), shuffle(n.inner))
	return t.Add(t.Narrow(t.Narrow(y, 2, h*n.scale), 3, w*n.scale), t.Upsample(x, n.scale))
}

// block is GatedCNNBlock.
func (n rtMoSR) block(t *nn.Tape, x nn.Tensor) nn.Tensor {
	hidden := int64(n.expansion * float64(n.dim))
	shortcut := x
	x = t.Hold(t.Call("norm", x, rmsNormFlat))
	p := t.Split(t.Call("fc1", x, repConv(2*hidden)), 1, hidden, hidden-n.dim, n.dim)
	g, i := t.Hold(p[0]), p[1]
	ms := []nn.Module{n.parPixelUnshuffle, omniShift}
	if n.se {
		ms = append(ms, cseLayer)
	} else {
		ms = append(ms, func(t *nn.Tape, x nn.Tensor) nn.Tensor { return x })
	}
	c := t.Hold(t.Sequential("conv", p[2], append(ms, shuffle(2))...))
	fc2 := conv(n.dim, 1).Module()
	if n.dccm {
		fc2 = repConv(n.dim)
	}
	x = t.Rebind(x, t.Mish(t.Call("fc2", t.Mul(t.Mish(g), t.Cat(1, i, c)), fc2)))
	return t.Add(x, shortcut)
}

// rmsNormFlat is RMSNorm with parameters of one dimension.
func rmsNormFlat(t *nn.Tape, x nn.Tensor) nn.Tensor {
	c := x.Dim(1)
	scale, offset := t.Param("scale", c), t.Param("offset", c)
	normX := t.Hold(t.Norm(x, 1))
	rmsX := t.Hold(t.MulScalar(normX))
	xNormed := t.Hold(t.Div(x, t.AddScalar(rmsX)))
	return t.Add(t.Mul(t.View(scale, c, 1, 1), xNormed), t.View(offset, c, 1, 1))
}

// parPixelUnshuffle is ParPixelUnshuffle by 2.
func (n rtMoSR) parPixelUnshuffle(t *nn.Tape, x nn.Tensor) nn.Tensor {
	pool := func(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.MaxPool2d(x, 2, 2) }
	return t.Add(t.PixelUnshuffle(x, 2), t.Sequential("poll", x, pool, repConv(4*n.dim)))
}

// omniShift is OmniShift: three depthwise convolutions and their input, each with a factor, while training; one
// convolution in eval, which training never reaches.
func omniShift(t *nn.Tape, x nn.Tensor) nn.Tensor {
	c := x.Dim(1)
	names := [...]string{"conv1x1", "conv3x3", "conv5x5"}
	for i, name := range names {
		k := int64(2*i + 1)
		t.Scope(name, func() { t.Param("weight", c, 1, k, k); t.Param("bias", c) })
	}
	var alphas [4]nn.Tensor
	for i, name := range [...]string{"alpha1", "alpha2", "alpha3", "alpha4"} {
		alphas[i] = t.Param(name, 1, c, 1, 1)
	}
	t.Scope("conv5x5_reparam", func() { t.FrozenParam("weight", c, 1, 5, 5); t.FrozenParam("bias", c) })
	if !t.Training {
		return t.Conv2d("conv5x5_reparam", x, nn.Conv{Out: c, K: 5, Groups: c, Frozen: true})
	}
	var outs [3]nn.Tensor
	for i, name := range names {
		outs[i] = t.Hold(t.Conv2d(name, x, depthwise(c, int64(2*i+1))))
	}
	out := t.Mul(alphas[0], x)
	for i := range outs {
		out = t.Add(out, t.Mul(alphas[i+1], outs[i]))
	}
	return out
}

// cseLayer is CSELayer.
func cseLayer(t *nn.Tape, x nn.Tensor) nn.Tensor {
	c := x.Dim(1)
	squeeze := t.Hold(t.MeanDim(x, 2, 3))
	return t.Mul(x, t.Sequential("squeezing", squeeze, conv(c/2, 1).Module(), (*nn.Tape).ReLUInplace, conv(c, 1).Module(),
		(*nn.Tape).HardsigmoidInplace))
}

// repConv is RepConv: three branches with a factor each while training, of which two are several convolutions; one
// convolution in eval, which training never reaches.
func repConv(out int64) nn.Module {
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		in := x.Dim(1)
		mid := 2 * out
		k0, b0 := t.Param("conv1.k0", mid, in, 1, 1), t.Param("conv1.b0", mid)
		k1, b1 := t.Param("conv1.k1", out, mid, 3, 3), t.Param("conv1.b1", out)
		alpha := t.Param("alpha", 3)
		t.Scope("conv2", func() { t.Param("weight", out, in, 3, 3); t.Param("bias", out) })
		conv3XCParams(t, "conv3", in, out)
		t.Scope("conv_3x3_rep", func() { t.FrozenParam("weight", out, in, 3, 3); t.FrozenParam("bias", out) })
		if !t.Training {
			return t.Conv2d("conv_3x3_rep", x, nn.Conv{Out: out, K: 3, Frozen: true})
		}

		x1 := t.Within("conv1", func() nn.Tensor { // SeqConv3x3
			y0 := t.Hold(t.ConvWeight(x, k0, b0, nn.Conv{Valid: true}))
			y0 = t.Rebind(y0, t.Pad(y0, 2, 2, false))
			b0Pad := t.View(b0, 1, mid, 1, 1)
			row := t.Expand(b0Pad, y0.Dim(0), mid, 1, y0.Dim(3))
			column := t.Expand(b0Pad, y0.Dim(0), mid, y0.Dim(2), 1)
			for _, edge := range [...]nn.Tensor{row, row, column, column} {
				y0 = t.Rebind(y0, t.WriteSlice(y0, edge, false))
			}
			return t.ConvWeight(y0, k1, b1, nn.Conv{Valid: true})
		}, x)
		t.Hold(x1)
		x2 := t.Hold(t.Conv2d("conv2", x, conv(out, 3)))
		x3 := t.Hold(t.Call("conv3", x, conv3XC(out)))
		a := func() nn.Tensor { return t.Select(alpha, 0) }
		return t.Add(t.Add(t.Mul(a(), x1), t.Mul(a(), x2)), t.Mul(a(), x3))
	}
}

// conv3XCParams makes the parameters of Conv3XC.
func conv3XCParams(t *nn.Tape, name string, in, out int64) {
	const gain = 2
	for _, p := range [...]struct {
		name       string
		out, in, k int64
	}{{"sk", out, in, 1}, {"conv.0", in * gain, in, 1}, {"conv.1", out * gain, in * gain, 3}, {"conv.2", out, out * gain, 1}} {
		t.Scope(name, func() {
			t.Scope(p.name, func() { t.Param("weight", p.out, p.in, p.k, p.k); t.Param("bias", p.out) })
		})
	}
	t.Scope(name, func() {
		t.Scope("eval_conv", func() { t.FrozenParam("weight", out, in, 3, 3); t.FrozenParam("bias", out) })
	})
}
