package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// KRGN of neosr: neosr/archs/krgn_arch.py at 31c7022.
var _ = networks.add(Neosr, func(s Spec, a *args) Network {
	n := krgn{
		scale: s.Scale, colors: a.int("n_colors", 3), feats: a.int("n_feats", 64), groups: a.int("n_resgroups", 9),
		dilation: a.int("dilation", 3),
	}
	a.ignore("rgb_range")
	switch name := a.string("act", "lrelu"); {
	case name != "lrelu":
		reject("act %q: %w", name, ErrUnknown)
	case n.colors != 3: // MeanShift is a convolution from 3 to 3
		reject("n_colors: MeanShift wants 3")
	case n.feats < 32 || n.feats%32 != 0:
		reject("n_feats: its convolutions have 32 groups")
	}
	return Network{Forward: n.forward}
}, "krgn")

type krgn struct{ scale, colors, feats, groups, dilation int64 }

// forward is krgn.forward (line 271).
func (n krgn) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	lrelu := (*nn.Tape).LeakyReLUInplace
	x = t.Hold(t.Conv2d("sub_mean", x, conv(3, 1)))
	x = t.Rebind(x, t.Conv2d("head_conv", x, conv(n.feats, 3)))
	now := x
	outs := []nn.Tensor{now}
	for i := range n.groups {
		now = t.Hold(t.Call(fmt.Sprint("body.", i), now, n.pmrb))
		outs = append(outs, now)
	}
	joined := t.Hold(t.Cat(1, outs...))
	// the name of the list is the tensor's now; the first and the last have their own
	for _, f := range outs[1:max(1, len(outs)-1)] {
		t.Rebind(f, joined)
	}
	y := t.Sequential("features_fusion_module", joined, conv(n.feats, 1).Module(), lrelu, conv(n.feats, 3).Module())
	y = t.Hold(t.Add(y, x))
	y = t.Rebind(y, t.Sequential("upsampler", y, conv(n.colors*n.scale*n.scale, 3).Module(), shuffle(n.scale)))
	return t.Conv2d("add_mean", y, conv(3, 1))
}

// pmrb is PMRB (line 181).
func (n krgn) pmrb(t *nn.Tape, x nn.Tensor) nn.Tensor {
	const num = 3
	lrelu := (*nn.Tape).LeakyReLUInplace
	now := x
	var features []nn.Tensor
	for i := range num {
		features = append(features, t.Hold(t.Sequential(fmt.Sprint("conv1x1s.", i), now, conv(n.feats/2, 1).Module(), lrelu)))
		y := t.Call(fmt.Sprint("blocks.", i), now, n.rcg)
		now = t.Assign(i == 0, now, y)
	}
	features = append(features, t.Hold(t.Sequential("conv3x3", now, conv(n.feats/2, 3).Module(), lrelu)))
	joined := t.Hold(t.Cat(1, features...))
	for _, f := range features { // the name of the list is the tensor's now
		t.Rebind(f, joined)
	}
	out := t.Hold(t.Sequential("conv1x1_act", joined, conv(n.feats, 1).Module(), lrelu))
	out = t.Rebind(out, t.Call("cca", out, n.cca))
	return t.Add(out, x)
}

// rcg is RCG (line 138): pairs of grouped convolutions, of which the second is dilated.
func (n krgn) rcg(t *nn.Tape, x nn.Tensor) nn.Tensor {
	const groups, pairs = 32, 3
	out := x
	for i := range pairs {
		one := func(k int, dilation int64) nn.Tensor {
			return t.Conv2d(fmt.Sprint("conv_acts.", k, ".0"), out, nn.Conv{Out: n.feats, K: 3, Groups: groups,
				Dilation: dilation})
		}
		first := one(2*i, 1)
		y := t.Add(first, one(2*i+1, n.dilation))
		out = t.Assign(i == 0, out, y)
	}
	return t.Add(out, x)
}

// cca is CCALayer (line 105): the contrast and the mean of each channel.
func (n krgn) cca(t *nn.Tape, x nn.Tensor) nn.Tensor {
	mean := func(x nn.Tensor) nn.Tensor { return t.DivScalar(t.SumDim(t.SumDim(x, 3), 2)) }
	contrast := t.Within("", func() nn.Tensor { // stdv_channels
		fMean := t.Hold(mean(x))
		variance := t.Hold(mean(t.Pow(t.Sub(x, fMean))))
		return t.Pow(variance)
	}, x)
	y := t.Hold(t.Add(contrast, t.AvgPoolAll(x)))
	y = t.Rebind(y, t.Sequential("conv_du", y, conv(n.feats/8, 1).Module(), (*nn.Tape).LeakyReLUInplace, conv(n.feats,
		1).Module(), (*nn.Tape).Sigmoid))
	return t.Mul(x, y)
}
