package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// MSDAN of neosr: neosr/archs/msdan_arch.py at 31c7022.
var _ = networks.add(Neosr, func(s Spec, a *args) Network {
	ownScale(s, a, "upscale_factor")
	n := msdan{scale: s.Scale, channels: a.int("channels", 48), blocks: a.int("num_DFEB", 8)}
	refuse(s.Scale < 2 || s.Scale > 4, "upscale_factor: %d: it is 2, 3 or 4", s.Scale)
	refuse(n.channels < 4 || n.channels%4 != 0, "channels: %d is no multiple of 4", n.channels)
	return Network{Forward: n.forward, MinLQ: 8}
}, "msdan")

type msdan struct{ scale, channels, blocks int64 }

// bsConvU is BSConvU (line 31): a pointwise convolution, then a depthwise one.
func bsConvU(out, k int64) nn.Module {
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		x = t.Conv2d("pw", x, nn.Conv{Out: out, K: 1, NoBias: true})
		return t.Conv2d("dw", x, depthwise(out, k))
	}
}

// forward is msdan.forward (line 449).
func (n msdan) forward(t *nn.Tape, x0 nn.Tensor) nn.Tensor {
	x1 := t.Hold(t.Call("BSConv_first", x0, bsConvU(n.channels, 3)))
	x := t.Hold(t.Sequential("layers", x1, nn.Repeat(n.dfeb, n.blocks)...))
	x = t.Rebind(x, t.Add(x, x1))
	x = t.Rebind(x, t.Call("upsampler", x, n.upsampler))
	up := t.Hold(t.Interpolate(x0, x0.Dim(2)*n.scale, x0.Dim(3)*n.scale))
	return t.Hold(t.Add(up, t.Call("BSConv_last", x, bsConvU(3, 3))))
}

// upsampler is upsampler (line 350). It has the convolutions of every scale.
func (n msdan) upsampler(t *nn.Tape, x nn.Tensor) nn.Tensor {
	const mid = 54
	for _, c := range [...]struct {
		name       string
		in, out, k int64
		by         int64
	}{
		{"BSConv_2", n.channels, n.channels, 3, 2}, {"BSConv1_2", n.channels / 4, n.channels, 3, 2},
		{"BSConv_3", n.channels, mid, 3, 3}, {"BSConv1_3", mid / 9, n.channels, 3, 3},
	} {
		if (n.scale == 3) != (c.by == 3) {
			t.Scope(c.name, func() { // never called, so never given a gradient
				t.FrozenParam("pw.weight", c.out, c.in, 1, 1)
				t.FrozenParam("dw.weight", c.out, 1, c.k, c.k)
				t.FrozenParam("dw.bias", c.out)
			})
		}
	}
	r, times, first, second, wide := int64(2), n.scale/2, "BSConv_2", "BSConv1_2", n.channels
	if n.scale == 3 {
		r, times, first, second, wide = 3, 1, "BSConv_3", "BSConv1_3", mid
	}
	for i := range times {
		y := t.Call(first, x, bsConvU(wide, 3))
		x = t.Assign(i == 0, x, y)
		x = t.Rebind(x, t.PixelShuffle(x, r))
		x = t.Rebind(x, t.Call(second, x, bsConvU(n.channels, 3)))
		x = t.Rebind(x, t.GELU(x))
	}
	return x
}

// dfeb is DFEB (line 402).
func (n msdan) dfeb(t *nn.Tape, x0 nn.Tensor) nn.Tensor {
	x := t.Hold(t.Call("EBFB", x0, n.ebfb))
	x = t.Rebind(x, t.Call("EMSSA", x, n.emssa))
	return t.Rebind(x, t.Add(x, x0))
}

// ebfb is EBFB (line 202), whose conv1 is one convolution.
func (n msdan) ebfb(t *nn.Tape, x nn.Tensor) nn.Tensor {
	one := func(x nn.Tensor) nn.Tensor { return t.Conv2d("conv1", x, conv(n.channels, 1)) }
	gate := func(x nn.Tensor, k int64) nn.Tensor {
		return t.Mul(t.Sigmoid(one(x)), t.GELU(t.Call(fmt.Sprint("BSConv", k), x, bsConvU(n.channels, k))))
	}
	x1 := t.Hold(one(x))
	x2 := t.Hold(gate(x, 3))
	out1 := t.Hold(t.Add(x1, x2))
	x3 := t.Hold(one(out1))
	x4 := t.Hold(gate(out1, 5))
	out2 := t.Hold(t.Add(x3, x4))
	x5 := t.Hold(one(out2))
	x6 := t.Hold(gate(out2, 7))
	return t.Hold(t.Conv2d("conv1_down", t.Cat(1, x1, x3, x5, x6), conv(n.channels, 1)))
}

// emssa is EMSSA (line 75): attention at four sizes.
func (n msdan) emssa(t *nn.Tape, x0 nn.Tensor) nn.Tensor {
	h, w, c := x0.Dim(2), x0.Dim(3), n.channels/4
	x := t.Hold(t.Conv2d("conv1_down", x0, conv(c, 1)))
	parts := []nn.Tensor{t.Hold(t.Conv2d("conv1_mid", x, conv(c, 1)))}
	for i, k := range [...]int64{7, 5, 3} {
		s := t.Hold(t.AdaptiveMaxPool2d(x, h>>(i+1), w>>(i+1)))
		s = t.Rebind(s, t.Call(fmt.Sprint("BSConv", k), s, bsConvU(c, k)))
		parts = append(parts, t.Rebind(s, t.Interpolate(s, h, w)))
	}
	out := t.Hold(t.Add(t.Conv2d("conv1", t.Cat(1, parts...), conv(n.channels, 1)), t.Conv2d("conv1_up", x,
		conv(n.channels, 1))))
	out = t.Rebind(out, t.Sigmoid(t.Conv2d("conv1", out, conv(n.channels, 1))))
	return t.Rebind(out, t.Mul(x0, out))
}
