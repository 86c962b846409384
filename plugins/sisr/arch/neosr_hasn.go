package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// HASN of neosr: neosr/archs/hasn_arch.py at 31c7022.
var _ = networks.add(Neosr, func(s Spec, a *args) Network {
	ownScale(s, a, "upscale")
	n := hasn{scale: s.Scale, in: a.int("in_channels", 3), out: a.int("out_channels", 3),
		feats: a.int("feature_channels", 52)}
	refuse(3*n.feats != hasnESA, "feature_channels: ESA is made for 52")
	// what a convolution of stride 2 leaves, a pooling of 7 takes
	return Network{InCh: n.in, Forward: n.forward, MinLQ: 15}
}, "hasn")

const hasnESA = 156

type hasn struct{ scale, in, out, feats int64 }

// forward is hasn.forward (line 211).
func (n hasn) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	outFeature := t.Hold(t.Conv2d("conv_1", x, conv(n.feats, 3)))
	y := outFeature
	for i := range 6 {
		y = t.Hold(t.Call(fmt.Sprint("block_", i+1), y, n.block))
	}
	low := t.Hold(t.Add(t.Conv2d("conv_2", y, conv(n.feats, 3)), outFeature))
	return t.Sequential("upsampler", low, conv(n.out*n.scale*n.scale, 3).Module(), shuffle(n.scale))
}

// block is Block (line 95).
func (n hasn) block(t *nn.Tape, x nn.Tensor) nn.Tensor {
	const wide = hasnESA
	xOrig := x
	x = t.Hold(t.Conv2d("dwconv.conv", x, depthwise(n.feats, 7)))
	x = t.Rebind(x, t.Contiguous(t.Permute(x, 0, 2, 3, 1)))
	x = t.Rebind(x, t.LayerNorm("ln", x))
	x = t.Rebind(x, t.Contiguous(t.Permute(x, 0, 3, 1, 2)))

	one := func(name string) nn.Tensor { return t.Hold(t.Conv2d(name+".conv", x, conv(wide, 1))) }
	x1, x2, x3 := one("f1"), one("f2"), one("f3")
	x = t.Rebind(x, t.Mul(t.Elementwise("torch.nn.functional.relu6", x1, true, false), x2))
	x3 = t.Rebind(x3, t.Call("esa", x3, esaHASN))
	x = t.Rebind(x, t.Conv2d("dwconv2.conv", t.Conv2d("g.conv", t.Add(x, x3), conv(n.feats, 1)), depthwise(n.feats, 7)))
	x = t.Rebind(x, t.Add(xOrig, x))
	return t.Call("cab", x, n.cab)
}

// esaHASN is ESA (line 50).
func esaHASN(t *nn.Tape, x nn.Tensor) nn.Tensor {
	const f = 16
	first := t.Hold(t.Conv2d("conv1", x, conv(f, 1)))
	c1 := t.Hold(t.Conv2d("conv2", first, nn.Conv{Out: f, K: 3, Stride: 2, Valid: true}))
	vMax := t.Hold(t.MaxPool2d(c1, 7, 3))
	c3 := t.Hold(t.Conv2d("conv3", vMax, conv(f, 3)))
	c3 = t.Rebind(c3, t.Interpolate(c3, x.Dim(2), x.Dim(3)))
	cf := t.Hold(t.Conv2d("conv_f", first, conv(f, 1)))
	c4 := t.Hold(t.Conv2d("conv4", t.Add(c3, cf), conv(x.Dim(1), 1)))
	m := t.Hold(t.Sigmoid(c4))
	return t.Mul(x, m)
}

// cab is CAB (line 35).
func (n hasn) cab(t *nn.Tape, x nn.Tensor) nn.Tensor {
	attention := func(t *nn.Tape, x nn.Tensor) nn.Tensor { // ChannelAttention
		y := t.Hold(t.Sequential("attention", x, (*nn.Tape).AvgPoolAll, conv(n.feats/30, 1).Module(), (*nn.Tape).ReLUInplace,
			conv(n.feats, 1).Module(), (*nn.Tape).Sigmoid))
		return t.Mul(x, y)
	}
	return t.Sequential("cab", x, conv(n.feats/3, 3).Module(), (*nn.Tape).GELU, conv(n.feats, 3).Module(), attention)
}
