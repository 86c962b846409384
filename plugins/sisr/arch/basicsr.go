package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// BasicSR's networks for images (basicsr/archs at 8d56e3a0), where their class is not traiNNer-redux's.
var _ = entry(func() {
	networks.share(BasicSR) // what is not listed is unknown
	networks.add(BasicSR, func(s Spec, a *args) Network {
		n := residual(s, a)
		n.resScale = true // a multiplication, by 1 too
		return n.network(n.edsr)
	}, "edsr")
	networks.add(BasicSR, func(s Spec, a *args) Network {
		n := residual(s, a)
		refuse(n.scale < 2 || n.scale > 4, "upscale: %d is none of 2, 3, 4", n.scale)
		return n.network(n.msrResNet)
	}, "msrresnet")
	networks.add(BasicSR, func(s Spec, a *args) Network {
		n := residual(s, a)
		n.groups, n.squeeze = a.int("num_group", 10), a.int("squeeze_factor", 16)
		return n.network(n.rcan)
	}, "rcan")
	networks.add(BasicSR, func(s Spec, a *args) Network {
		scale := a.upscale("scale", s)
		n := rrdbnet{
			scale: 4, inNC: a.int("num_in_ch", 3), outNC: a.int("num_out_ch", 3),
			filters: a.int("num_feat", 64), blocks: a.int("num_block", 23), grow: a.int("num_grow_ch", 32),
		}
		inNC := n.inNC
		if scale == 1 || scale == 2 { // pixel_unshuffle, before a network of scale 4
			n.shuffle = 4 / scale
			n.inNC *= n.shuffle * n.shuffle
		}
		return Network{InCh: inNC, Forward: n.basic, Multiple: max(n.shuffle, 1)}
	}, "rrdbnet")
	networks.add(BasicSR, func(s Spec, a *args) Network {
		scale := a.upscale("upscale", s)
		n := srvgg{
			numInCh: a.int("num_in_ch", 3), numOutCh: a.int("num_out_ch", 3), numFeat: a.int("num_feat", 64),
			numConv: a.int("num_conv", 16), upscale: scale, actType: a.string("act_type", "prelu"), learnResidual: true,
		}
		return n.network()
	}, "srvggnetcompact")
	networks.add(BasicSR, func(s Spec, a *args) Network {
		s.Scale = a.upscale("upscale", s)
		a.swallow = true // **kwargs
		four := []int64{6, 6, 6, 6}
		return swinIR{img: 64, dim: 96, depths: four, heads: four, window: 7, mlp: 4, resi: "1conv"}.build(s, a)
	}, "swinir")
})

// upscale is the network's own argument for the scale. Its class has a default of its own, where a recipe without it
// gets results of another size than its images; what such a recipe asks for is taken for meant.
func (a *args) upscale(name string, s Spec) int64 {
	n := a.int(name, s.Scale)
	refuse(n != s.Scale,
		"%s is %d, and the recipe's scale is %d: the loss of the first step stops at it", name, n, s.Scale)
	return n
}

// residualNet is what EDSR, MSRResNet and RCAN are made of.
type residualNet struct {
	scale, in, out, feat, blocks int64
	groups, squeeze              int64
	resScale                     bool
}

func residual(s Spec, a *args) residualNet {
	a.ignore("res_scale", "img_range", "rgb_mean")
	return residualNet{
		scale: a.upscale("upscale", s), in: a.int("num_in_ch", 3), out: a.int("num_out_ch", 3), feat: a.int("num_feat", 64),
		blocks: a.int("num_block", 16),
	}
}

func (n residualNet) network(forward nn.Module) Network {
	upsamples(n.scale)
	return Network{InCh: n.in, Forward: forward}
}

// edsr is EDSR.forward (edsr_arch.py).
func (n residualNet) edsr(t *nn.Tape, x nn.Tensor) nn.Tensor {
	return n.around(t, x, n.body(n.blocks, n.residualBlockNoBN))
}

// rcan is RCAN.forward (rcan_arch.py).
func (n residualNet) rcan(t *nn.Tape, x nn.Tensor) nn.Tensor {
	return n.around(t, x, n.body(n.groups, n.residualGroup))
}

// body is make_layer.
func (n residualNet) body(count int64, block nn.Module) nn.Module {
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		return t.Sequential("", x, nn.Repeat(block, count)...)
	}
}

// around is the forward that EDSR and RCAN share: the mean is taken off and the range applied, and both undone.
func (n residualNet) around(t *nn.Tape, x nn.Tensor, body nn.Module) nn.Tensor {
	mean := t.Zeros(x.DType(), 1, 3, 1, 1) // an attribute, not a buffer
	x = t.Hold(t.MulScalar(t.Sub(x, mean)))
	x = t.Rebind(x, t.Conv2d("conv_first", x, conv(n.feat, 3)))
	res := t.Hold(t.Conv2d("conv_after_body", t.Call("body", x, body), conv(n.feat, 3)))
	res = t.AddInplace(res, x)
	x = t.Rebind(x, t.Conv2d("conv_last", t.Call("upsample", res, upsample(n.scale, n.feat)), conv(n.out, 3)))
	return t.Add(t.DivScalar(x), mean)
}

// residualBlockNoBN is ResidualBlockNoBN (arch_util.py), which multiplies by res_scale whatever it is.
func (n residualNet) residualBlockNoBN(t *nn.Tape, x nn.Tensor) nn.Tensor {
	out := t.Hold(t.Conv2d("conv2", t.ReLUInplace(t.Conv2d("conv1", x, conv(n.feat, 3))), conv(n.feat, 3)))
	return t.Add(x, t.MulScalar(out))
}

func (n residualNet) residualGroup(t *nn.Tape, x nn.Tensor) nn.Tensor {
	res := t.Hold(t.Conv2d("conv", t.Call("residual_group", x, n.body(n.blocks, n.rcab)), conv(n.feat, 3)))
	return t.Add(res, x)
}

func (n residualNet) rcab(t *nn.Tape, x nn.Tensor) nn.Tensor {
	c := conv(n.feat, 3).Module()
	attention := func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		y := t.Sequential("attention", x, (*nn.Tape).AvgPoolAll, conv(n.feat/n.squeeze, 1).Module(), (*nn.Tape).ReLUInplace,
			conv(n.feat, 1).Module(), (*nn.Tape).Sigmoid)
		return t.Mul(x, t.Hold(y))
	}
	res := t.Hold(t.MulScalar(t.Sequential("rcab", x, c, (*nn.Tape).ReLUInplace, c, attention)))
	return t.Add(res, x)
}

// msrResNet is MSRResNet.forward (srresnet_arch.py).
func (n residualNet) msrResNet(t *nn.Tape, x nn.Tensor) nn.Tensor {
	lrelu := (*nn.Tape).LeakyReLUInplace
	feat := t.Hold(lrelu(t, t.Conv2d("conv_first", x, conv(n.feat, 3))))
	out := t.Hold(t.Call("body", feat, n.body(n.blocks, n.residualBlockNoBN)))
	by, times := n.scale, 1
	if n.scale == 4 {
		by, times = 2, 2
	}
	for i := range times {
		up := t.Conv2d(fmt.Sprint("upconv", i+1), out, conv(n.feat*by*by, 3))
		out = t.Rebind(out, lrelu(t, t.PixelShuffle(up, by)))
	}
	out = t.Rebind(out, t.Conv2d("conv_last", lrelu(t, t.Conv2d("conv_hr", out, conv(n.feat, 3))), conv(n.out, 3)))
	base := t.Hold(t.Interpolate(x, x.Dim(2)*n.scale, x.Dim(3)*n.scale))
	return t.AddInplace(out, base)
}

// basic is RRDBNet.forward (rrdbnet_arch.py), whose variables hold the features of the body and the sum of them.
func (n rrdbnet) basic(t *nn.Tape, x nn.Tensor) nn.Tensor {
	feat := x
	if n.shuffle > 0 {
		feat = t.PixelUnshuffle(x, n.shuffle)
	}
	lrelu, c := (*nn.Tape).LeakyReLUInplace, conv(n.filters, 3)
	feat = t.Hold(t.Rebind(feat, t.Conv2d("conv_first", feat, c)))
	bodyFeat := t.Hold(t.Conv2d("conv_body", t.Sequential("body", feat, nn.Repeat(n.rrdb, n.blocks)...), c))
	feat = t.Rebind(feat, t.Add(feat, bodyFeat))
	for i := range 2 {
		feat = t.Rebind(feat, lrelu(t, t.Conv2d(fmt.Sprint("conv_up", i+1), t.Upsample(feat, 2), c)))
	}
	return t.Conv2d("conv_last", lrelu(t, t.Conv2d("conv_hr", feat, c)), conv(n.outNC, 3))
}
