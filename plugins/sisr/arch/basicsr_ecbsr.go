package arch

import (
	"github.com/launch-ml/launch/core/nn"
)

// ECBSR (Zhang et al., 2021): basicsr/archs/ecbsr_arch.py at 8d56e3a0.
var _ = networks.add(BasicSR, func(s Spec, a *args) Network {
	n := ecbsr{
		in: a.int("num_in_ch", 3), out: a.int("num_out_ch", 3), blocks: a.int("num_block", 4),
		feat: a.int("num_channel", 16), idt: a.bool("with_idt", false), act: a.string("act_type", "prelu"), scale: s.Scale,
	}
	switch n.act {
	case "prelu", "relu", "linear":
	case "rrelu", "softplus":
		reject("act_type %q: %w", n.act, ErrUnknown)
	default:
		reject("act_type: %q is none of prelu, relu, rrelu, softplus, linear", n.act)
	}
	return Network{InCh: n.in, Forward: n.forward}
}, "ecbsr")

type ecbsr struct {
	in, out, blocks, feat, scale int64
	idt                          bool
	act                          string
}

func (n ecbsr) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	shuffled := n.scale * n.scale
	shortcut := x // repeats in the channels by broadcasting
	if n.in > 1 {
		shortcut = t.Hold(t.Copy("torch.repeat_interleave", x, x.Dim(0), n.in*shuffled, x.Dim(2), x.Dim(3)))
	}
	ms := []nn.Module{n.block(n.feat, n.act)}
	for range n.blocks {
		ms = append(ms, n.block(n.feat, n.act))
	}
	ms = append(ms, n.block(n.out*shuffled, "linear"))
	y := t.Hold(t.Add(t.Sequential("backbone", x, ms...), shortcut))
	return t.PixelShuffle(y, n.scale)
}

// block is ECB: five branches while it trains, one convolution otherwise.
func (n ecbsr) block(out int64, act string) nn.Module {
	return func(t *nn.Tape, x nn.Tensor) (y nn.Tensor) {
		if t.Training {
			y = t.Conv2d("conv3x3", x, conv(out, 3))
			y = t.Add(y, t.Call("conv1x1_3x3", x, seqConv(2*out, out, false)))
			for _, mask := range []string{"conv1x1_sbx", "conv1x1_sby", "conv1x1_lpl"} {
				y = t.Add(y, t.Call(mask, x, seqConv(out, out, true)))
			}
			y = t.Hold(y)
			if n.idt && x.Dim(1) == out {
				y = t.AddInplace(y, x)
			}
		} else { // rep_params: of the branches' weights one
			y = t.Hold(t.Conv2d("conv3x3", x, conv(out, 3)))
			for i, name := range []string{"conv1x1_3x3", "conv1x1_sbx", "conv1x1_sby", "conv1x1_lpl"} {
				mid := out
				if i == 0 {
					mid = 2 * out
				}
				t.Scope(name, func() { seqParams(t, x.Dim(1), mid, out, i > 0) }, x)
			}
		}
		switch act {
		case "prelu":
			y = t.Rebind(y, t.PReLU("act", y, out))
		case "relu":
			y = t.ReLUInplace(y)
		}
		return y
	}
}

// seqParams are the parameters of a SeqConv3x3 in the order of its constructor. The masks of edges are constant.
func seqParams(t *nn.Tape, in, mid, out int64, masked bool) (k0, b0, k1, b1 nn.Tensor) {
	k0, b0 = t.Param("k0", mid, in, 1, 1), t.Param("b0", mid)
	if masked {
		scale, bias := t.Param("scale", out, 1, 1, 1), t.Param("bias", out)
		return k0, b0, t.Mul(scale, t.FrozenParam("mask", out, 1, 3, 3)), bias
	}
	return k0, b0, t.Param("k1", out, mid, 3, 3), t.Param("b1", out)
}

// seqConv is SeqConv3x3: a 1×1 convolution, its bias around it as padding, and a 3×3 one.
func seqConv(mid, out int64, masked bool) nn.Module {
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		k0, b0, k1, b1 := seqParams(t, x.Dim(1), mid, out, masked)
		b, h, w := x.Dim(0), x.Dim(2), x.Dim(3)
		y0 := t.Hold(t.ConvWeight(x, k0, b0, nn.Conv{Out: mid, K: 1}))
		y0 = t.Rebind(y0, t.PadTo(y0, false, b, mid, h+2, w+2))
		edge := t.View(b0, 1, mid, 1, 1)
		for range 2 {
			y0 = t.WriteSlice(y0, t.Expand(edge, b, mid, 1, w+2), false)
		}
		for range 2 {
			y0 = t.WriteSlice(y0, t.Expand(edge, b, mid, h+2, 1), false)
		}
		c := nn.Conv{Out: out, K: 3, Valid: true}
		if masked {
			c.Groups = out
		}
		return t.ConvWeight(y0, k1, b1, c)
	}
}
