package arch

import (
	"github.com/launch-ml/launch/core/nn"
)

// RealPLKSR: traiNNer/archs/realplksr_arch.py at 68629319. neosr's realplksr is the same forward with GroupNorm
// always, which is layer_norm: false here.
var _ = entry(func() {
	realplksr := func(dim, blocks, kernel int64, ea bool) builder {
		return func(s Spec, a *args) Network {
			n := realplksr{
				scale: s.Scale, inCh: a.int("in_ch", 3), outCh: a.int("out_ch", 3), dim: a.int("dim", dim),
				blocks: a.int("n_blocks", blocks), kernel: a.int("kernel_size", kernel), ea: a.bool("use_ea", ea),
				groups: a.int("norm_groups", 4), dropout: a.float("dropout", 0),
				upsampler: a.string("upsampler", "pixelshuffle"), layerNorm: a.bool("layer_norm", true),
			}
			n.pdim = int64(float64(n.dim) * a.float("split_ratio", 0.25))
			refuse(n.upsampler != "pixelshuffle" && n.upsampler != "dysample", "invalid upsampler: %s", n.upsampler)
			return Network{InCh: n.inCh, Forward: n.forward}
		}
	}
	register(realplksr(64, 28, 17, true), "realplksr")
	register(realplksr(64, 12, 13, false), "realplksr_tiny")
	register(realplksr(96, 28, 17, true), "realplksr_large")
})

type realplksr struct {
	scale, inCh, outCh, dim, blocks, kernel, pdim, groups int64
	dropout                                               float64
	upsampler                                             string
	ea, layerNorm                                         bool
}

func (n realplksr) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	r2 := n.scale * n.scale
	ms := []nn.Module{conv(n.dim, 3).Module()}
	ms = append(ms, nn.Repeat(n.block, n.blocks)...)
	ms = append(ms, func(t *nn.Tape, x nn.Tensor) nn.Tensor { return dropout2d(t, x, n.dropout) },
		conv(n.outCh*r2, 3).Module())
	x = t.Rebind(x, t.Add(t.Sequential("feats", x, ms...), repeatInterleave(t, x, r2)))

	if n.upsampler == "dysample" {
		groups := int64(4)
		if n.scale%2 != 0 {
			groups = n.outCh
		}
		return t.Call("to_img", x, dySample(n.outCh, n.scale, groups, n.scale != 1))
	}
	return t.PixelShuffle(x, n.scale)
}

// dropout2d is torch.nn.Dropout2d: noise of one value a channel, multiplied (_dropout_impl in Dropout.cpp).
func dropout2d(t *nn.Tape, x nn.Tensor, p float64) nn.Tensor {
	if p == 0 || !t.Training {
		return x
	}
	return t.Mul(x, t.Zeros(x.DType(), x.Dim(0), x.Dim(1), 1, 1))
}

// block is PLKBlock.
func (n realplksr) block(t *nn.Tape, x nn.Tensor) nn.Tensor {
	xSkip := x
	if n.layerNorm {
		x = t.Call("layer_norm", x, channelLayerNorm)
	}
	x = t.Rebind(x, t.Sequential("channel_mixer", x, conv(2*n.dim, 3).Module(), (*nn.Tape).Mish, conv(n.dim, 3).Module()))
	x = t.Call("lk", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		return partialConv(t, x, n.pdim, func(x nn.Tensor) nn.Tensor { return t.Conv2d("conv", x, conv(n.pdim, n.kernel)) })
	})
	if n.ea {
		x = t.Call("attn", x, elementwiseAttention)
	}
	x = t.Conv2d("refine", x, conv(n.dim, 1))
	if !n.layerNorm {
		x = t.GroupNorm("norm", x, n.groups)
	}
	return t.Add(x, xSkip)
}

// channelLayerNorm is the LayerNorm over channels that several architectures write out by hand. pow is on autocast's
// float32 list, so what follows it is float32.
func channelLayerNorm(t *nn.Tape, x nn.Tensor) nn.Tensor {
	c := x.Dim(1)
	weight, bias := t.Param("weight", c), t.Param("bias", c)
	u := t.Hold(t.MeanDim(x, 1))
	s := t.Hold(t.MeanDim(t.Pow(t.Sub(x, u)), 1))
	x = t.Hold(t.Div(t.Sub(x, u), t.Sqrt(t.AddScalar(s))))
	return t.Add(t.Mul(t.View(weight, c, 1, 1), x), t.View(bias, c, 1, 1))
}

// dySample is DySample (spandrel 0.4.2, architectures/__arch_helpers/dysample.py).
func dySample(outCh, scale, groups int64, endConvolution bool) nn.Module {
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		out := 2 * groups * scale * scale
		initPos := t.Buffer("init_pos", nn.F32, 1, out, 1, 1)
		offset := t.MulScalar(t.Mul(t.Conv2d("offset", x, conv(out, 1)),
			t.Sigmoid(t.Conv2d("scope", x, nn.Conv{Out: out, K: 1, NoBias: true}))))
		offset = t.Hold(t.Add(offset, initPos))
		b, h, w := offset.Dim(0), offset.Dim(2), offset.Dim(3)
		offset = t.View(offset, b, 2, -1, h, w)
		coords := t.Zeros(x.DType(), 1, 2, 1, h, w)
		normalizer := t.Hold(t.Zeros(x.DType(), 1, 2, 1, 1, 1))
		coords = t.Hold(t.AddScalar(t.Div(t.MulScalar(t.Add(coords, offset)), normalizer)))

		shuffled := t.PixelShuffle(t.View(coords, b, -1, h, w), scale)
		shuffled = t.Permute(t.View(shuffled, b, 2, -1, scale*h, scale*w), 0, 2, 3, 4, 1)
		coords = t.Hold(t.Rebind(coords, t.View(t.Contiguous(shuffled), b*groups, scale*h, scale*w, 2)))
		output := t.GridSample(t.Reshape(x, b*groups, -1, h, w), coords)
		output = t.View(output, b, -1, scale*h, scale*w)

		if endConvolution {
			output = t.Conv2d("end_conv", output, conv(outCh, 1))
		}
		return output
	}
}
