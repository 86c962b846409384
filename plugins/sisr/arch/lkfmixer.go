package arch

import (
	"github.com/launch-ml/launch/core/nn"
)

// LKFMixer (2025): traiNNer/archs/lkfmixer_arch.py at 68629319.
var _ = entry(func() {
	lkfmixer := func(channels, blocks int64) builder {
		return func(s Spec, a *args) Network {
			n := lkfMixer{
				scale: s.Scale, in: a.int("in_channels", 3), channels: a.int("channels", channels), out: a.int("out_channels", 3),
				blocks: a.int("num_block", blocks), kernel: a.int("large_kernel", 31),
			}
			n.split = int64(float64(n.channels) * a.float("split_factor", 0.25))
			refuse(n.kernel%2 == 0, "large_kernel: an even kernel changes the size of what it is joined with")
			refuse(n.channels < 2 || n.split < 1 || n.split > n.channels,
				"channels and split_factor leave a branch without channels")
			return Network{InCh: n.in, Forward: n.forward, Multiple: 8}
		}
	}
	register(lkfmixer(40, 6), "lkfmixer_t")
	register(lkfmixer(48, 8), "lkfmixer_b")
	register(lkfmixer(64, 12), "lkfmixer_l")
})

type lkfMixer struct {
	scale, in, channels, out, blocks, kernel, split int64
}

// forward is LKFMixer.forward.
func (n lkfMixer) forward(t *nn.Tape, input nn.Tensor) nn.Tensor {
	h, w := input.Dim(2), input.Dim(3)
	input = t.Hold(t.PadTo(input, true, input.Dim(0), input.Dim(1), multiple(h, 8), multiple(w, 8))) // check_img_size
	outFea := t.Hold(t.Conv2d("conv_first", input, conv(n.channels, 3)))
	out := t.Hold(t.Call("layers", outFea, func(t *nn.Tape, x nn.Tensor) nn.Tensor { // Layers
		return t.Sequential("layers", x, nn.Repeat(n.fmb, n.blocks)...)
	}))
	out = t.Rebind(out, t.GELU(t.Conv2d("conv", out, depthwise(n.channels, 3))))
	y := t.Sequential("upsampler.upsampleOneStep", t.Add(out, outFea), conv(n.out*n.scale*n.scale, 3).Module(), shuffle(n.scale))
	return t.Narrow(t.Narrow(y, 2, h*n.scale), 3, w*n.scale)
}

// plkb is PLKB: a large kernel, in two bands, of some of the channels.
func (n lkfMixer) plkb(t *nn.Tape, x nn.Tensor) nn.Tensor {
	p := t.Split(x, 1, n.split, n.channels-n.split)
	x1 := t.Conv2d("DWConv_1xK", p[0], nn.Conv{Out: n.split, K: 1, KW: n.kernel, Groups: n.split})
	x1 = t.Hold(t.Conv2d("DWConv_Kx1", x1, nn.Conv{Out: n.split, K: n.kernel, KW: 1, Groups: n.split}))
	out := t.Hold(t.Cat(1, x1, p[1]))
	return t.Rebind(out, t.GELU(t.Conv2d("conv1", out, conv(n.channels, 1))))
}

// ffb is FFB.
func (n lkfMixer) ffb(t *nn.Tape, x nn.Tensor) nn.Tensor {
	x1 := t.Hold(t.Conv2d("DWConv3", x, depthwise(n.channels, 3)))
	x2 := t.Hold(t.Call("PLKB", x, n.plkb))
	return t.GELU(t.Conv2d("conv1", t.Add(x1, x2), conv(n.channels, 1)))
}

// fdb is FDB.
func (n lkfMixer) fdb(t *nn.Tape, x nn.Tensor) nn.Tensor {
	half := conv(n.channels/2, 1)
	distilled1 := t.Hold(t.GELU(t.Conv2d("c1_d", x, half)))
	r1 := t.Hold(t.Call("c1_r", x, n.ffb))
	distilled2 := t.Hold(t.GELU(t.Conv2d("c2_d", r1, half)))
	r2 := t.Hold(t.Call("c2_r", r1, n.ffb))
	distilled3 := t.Hold(t.GELU(t.Conv2d("c3_d", r2, half)))
	r3 := t.Hold(t.Call("c3_r", r2, n.ffb))
	r4 := t.Hold(t.GELU(t.Conv2d("c4", r3, half)))
	out := t.Hold(t.Cat(1, distilled1, distilled2, distilled3, r4))
	return t.Rebind(out, t.Conv2d("c5", out, conv(n.channels, 1)))
}

// sfmb is SFMB.
func (n lkfMixer) sfmb(t *nn.Tape, x nn.Tensor) nn.Tensor {
	x1 := t.Hold(t.Call("PLKB", x, n.plkb))
	x21 := t.Hold(t.Sigmoid(t.AvgPoolAll(x)))
	x22 := t.Hold(t.MaxPool2d(x, 8, 8))
	x22 = t.Rebind(x22, t.GELU(t.Conv2d("conv1_1", t.Conv2d("DWConv_3", x22, depthwise(n.channels, 3)), conv(n.channels, 1))))
	x22 = t.Rebind(x22, t.Interpolate(x22, x.Dim(2), x.Dim(3)))
	x2 := t.Hold(t.Mul(x21, x22))
	return t.GELU(t.Conv2d("conv1_2", t.Add(x1, x2), conv(n.channels, 1)))
}

// fsb is FSB.
func (n lkfMixer) fsb(t *nn.Tape, x nn.Tensor) nn.Tensor {
	x1 := t.Hold(t.Call("PLKB", x, n.plkb))
	x2 := t.Hold(t.Conv2d("DWConv_3", x, depthwise(n.channels, 3)))
	fused := t.Hold(t.GELU(t.Conv2d("conv1_1", t.Cat(1, x1, x2), conv(n.channels, 1))))
	weight := t.Hold(t.Sigmoid(fused))
	return t.Add(t.Mul(x1, weight), t.Mul(x2, t.Neg(weight)))
}

// fmb is FMB.
func (n lkfMixer) fmb(t *nn.Tape, input nn.Tensor) nn.Tensor {
	out := t.Hold(t.Call("FDB", input, n.fdb))
	out = t.Rebind(out, t.Call("SFMB", out, n.sfmb))
	out = t.Rebind(out, t.Call("FSB", out, n.fsb))
	return t.Rebind(out, t.Add(out, input))
}
