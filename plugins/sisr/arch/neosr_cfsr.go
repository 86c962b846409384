package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// CFSR of neosr: neosr/archs/cfsr_arch.py at 31c7022, whose constructor merges the kernels of its MLPs (merge_all,
// line 357).
var _ = networks.add(Neosr, func(s Spec, a *args) Network {
	ownScale(s, a, "upscale")
	n := cfsr{
		scale: s.Scale, in: a.int("in_chans", 3), dim: a.int("embed_dim", 48), depths: a.ints("depths", 6, 6),
		kernel: a.int("dw_size", 9), mlp: int64(a.float("mlp_ratio", 2)), direct: a.string("upsampler",
			"pixelshuffledirect") == "pixelshuffledirect",
	}
	a.ignore("img_range")
	refuse(a.bool("mean_norm", false), "mean_norm: %w", ErrUnknown)
	return Network{InCh: n.in, Forward: n.forward}
}, "cfsr")

type cfsr struct {
	scale, in, dim, kernel, mlp int64
	depths                      []int64
	direct                      bool
}

// forward is cfsr.forward (line 333).
func (n cfsr) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	body := func(x nn.Tensor) nn.Tensor {
		features := t.Within("", func() nn.Tensor {
			y := x
			for i, depth := range n.depths {
				z := t.Call(fmt.Sprint("layers.", i), y, func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.layer(t, x, depth) })
				y = t.Assign(i == 0, y, z)
			}
			return t.Call("norm", y, channelLayerNorm)
		}, x)
		return t.Add(t.Conv2d("conv_after_body", features, conv(n.dim, 3)), x)
	}
	if !n.direct {
		first := t.Hold(t.Conv2d("conv_first", x, conv(n.dim, 3)))
		res := t.Hold(body(first))
		return t.Add(x, t.Conv2d("conv_last", res, conv(n.in, 3)))
	}
	x = t.Hold(t.Conv2d("conv_first", x, conv(n.dim, 3)))
	x = t.Rebind(x, body(x))
	return t.Sequential("upsample", x, conv(n.in*n.scale*n.scale, 3).Module(), shuffle(n.scale))
}

// layer is Layer (line 228).
func (n cfsr) layer(t *nn.Tape, x nn.Tensor, depth int64) nn.Tensor {
	for i := range depth {
		y := t.Call(fmt.Sprint("blocks.", i), x, n.block)
		x = t.Assign(i == 0, x, y)
	}
	return t.Add(t.Conv2d("conv", x, conv(n.dim, 1)), x)
}

// block is Block (line 208).
func (n cfsr) block(t *nn.Tape, x nn.Tensor) nn.Tensor {
	scaled := func(name string, y nn.Tensor) nn.Tensor { return t.Mul(t.View(t.Param(name, n.dim), n.dim, 1, 1), y) }
	x = t.Hold(t.Add(x, scaled("layer_scale_1", t.Call("attn", x, n.convMod))))
	return t.Add(x, scaled("layer_scale_2", t.Call("mlp", x, n.mlpOf)))
}

// convMod is ConvMod (line 187).
func (n cfsr) convMod(t *nn.Tape, x nn.Tensor) nn.Tensor {
	x = t.Hold(t.Call("norm", x, channelLayerNorm))
	a := t.Hold(t.Sequential("a", x, conv(n.dim, 1).Module(), (*nn.Tape).GELU, depthwise(n.dim, n.kernel).Module()))
	x = t.Rebind(x, t.Mul(a, t.Conv2d("v", x, conv(n.dim, 1))))
	return t.Conv2d("proj", x, conv(n.dim, 1))
}

// mlpOf is MLP (line 77), merged.
func (n cfsr) mlpOf(t *nn.Tape, x nn.Tensor) nn.Tensor {
	hidden := n.dim * n.mlp
	x = t.Hold(t.Call("norm", x, channelLayerNorm))
	x = t.Rebind(x, t.Conv2d("fc1", x, conv(hidden, 1)))
	x = t.Rebind(x, t.GELU(x))
	out := t.Hold(t.Conv2d("pos", x, depthwise(hidden, 3)))
	x = t.Rebind(x, t.Add(x, t.GELU(out)))
	return t.Conv2d("fc2", x, conv(n.dim, 1))
}
