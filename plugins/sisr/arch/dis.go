package arch

import (
	"github.com/launch-ml/launch/core/nn"
)

// DIS, Direct Image Supersampling: traiNNer/archs/dis_arch.py at 68629319.
var _ = entry(func() {
	disOf := func(blocks int64) builder {
		return func(s Spec, a *args) Network {
			n := dis{
				scale: s.Scale, in: a.int("in_channels", 3), out: a.int("out_channels", 3), feat: a.int("num_features", 32),
				blocks: a.int("num_blocks", blocks), depthwise: a.bool("use_depthwise", false),
			}
			refuse(n.scale < 1 || n.scale > 4, "unsupported scale factor: %d", n.scale)
			return Network{InCh: n.in, Forward: n.forward}
		}
	}
	register(disOf(12), "dis_balanced")
	register(disOf(8), "dis_fast")
})

type dis struct {
	scale, in, out, feat, blocks int64
	depthwise                    bool
}

// forward is DIS.forward.
func (n dis) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	base := x
	if n.scale != 1 {
		base = t.Hold(t.Bilinear(x, n.scale))
	}
	feat := t.Hold(t.PReLU("head_act", t.Conv2d("head", x, conv(n.feat, 3)), n.feat))
	block := n.fastResBlock
	if n.depthwise {
		block = n.lightBlock
	}
	bodyOut := t.Hold(t.Sequential("body", feat, nn.Repeat(block, n.blocks)...))
	bodyOut = t.Rebind(bodyOut, t.Add(t.Conv2d("fusion", bodyOut, conv(n.feat, 3)), feat))

	out := bodyOut
	switch n.scale {
	case 4:
		out = t.Hold(t.Sequential("upsampler", bodyOut, n.upsampler(2), n.upsampler(2)))
	case 2, 3:
		out = t.Hold(t.Call("upsampler", bodyOut, n.upsampler(n.scale)))
	}
	out = t.Hold(t.Rebind(out, t.Conv2d("tail", out, conv(n.out, 3))))
	return t.Add(out, base)
}

// upsampler is PixelShuffleUpsampler.
func (n dis) upsampler(scale int64) nn.Module {
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		return t.PReLU("act", t.PixelShuffle(t.Conv2d("conv", x, conv(n.feat*scale*scale, 3)), scale), n.feat)
	}
}

// fastResBlock is FastResBlock.
func (n dis) fastResBlock(t *nn.Tape, x nn.Tensor) nn.Tensor {
	c := nn.Conv{Out: n.feat, K: 3, NoBias: true}
	out := t.Hold(t.PReLU("act", t.Conv2d("conv1", x, c), n.feat))
	out = t.Rebind(out, t.Conv2d("conv2", out, c))
	return t.Add(out, x)
}

// lightBlock is LightBlock.
func (n dis) lightBlock(t *nn.Tape, x nn.Tensor) nn.Tensor {
	y := t.Call("dw_conv", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor { // DepthwiseSeparableConv
		y := t.Conv2d("depthwise", x, nn.Conv{Out: n.feat, K: 3, Groups: n.feat, NoBias: true})
		return t.Conv2d("pointwise", y, nn.Conv{Out: n.feat, K: 1, NoBias: true})
	})
	return t.Add(x, t.PReLU("act", y, n.feat))
}
