package arch

import (
	"github.com/launch-ml/launch/core/nn"
)

// RCAN (Zhang et al., 2018): traiNNer/archs/rcan_arch.py at 68629319.
var _ = entry(func() {
	rcan := func(feats int64, unshuffle bool) builder {
		return func(s Spec, a *args) Network {
			n := rcan{
				scale: s.Scale, groups: a.int("n_resgroups", 10), blocks: a.int("n_resblocks", 20),
				feats: a.int("n_feats", feats), colors: a.int("n_colors", 3), kernel: a.int("kernel_size", 3),
				reduction: a.int("reduction", 16), norm: a.bool("norm", false), down: 1, up: s.Scale,
			}
			a.ignore("rgb_range", "res_scale")
			act := a.string("act_mode", "relu")
			refuse(act != "relu", "act_mode %q: %w", act, ErrUnknown)
			if a.bool("unshuffle_mod", unshuffle) && s.Scale <= 2 {
				n.down, n.up = 4/s.Scale, 4
			}
			upsamples(n.up)
			return Network{InCh: n.colors, Forward: n.forward, NoFP16: true, Multiple: n.down}
		}
	}
	register(rcan(64, false), "rcan")
	register(rcan(64, true), "rcan_unshuffle")
	register(rcan(96, false), "rcan_l")
})

type rcan struct {
	scale, groups, blocks, feats, colors, kernel, reduction int64
	down, up                                                int64
	norm                                                    bool
}

func (n rcan) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	h, w := x.Dim(2), x.Dim(3)
	up := func(k int64) int64 { return (k + n.down - 1) / n.down * n.down }
	if up(h) != h || up(w) != w {
		x = t.PadTo(x, true, x.Dim(0), x.Dim(1), up(h), up(w))
	}
	c := conv(n.feats, n.kernel)
	if n.norm {
		x = t.Rebind(x, t.Conv2d("sub_mean", x, conv(3, 1)))
	}
	head := []nn.Module{c.Module()}
	if n.down > 1 {
		head = []nn.Module{func(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.PixelUnshuffle(x, n.down) }, c.Module()}
	}
	x = t.Hold(t.Rebind(x, t.Sequential("head", x, head...)))

	groups := nn.Repeat(n.residualGroup, n.groups)
	res := t.Hold(t.Sequential("body", x, append(groups, c.Module())...))
	res = t.AddInplace(res, x)

	x = t.Rebind(x, t.Sequential("tail", res, upsample(n.up, n.feats), conv(n.colors, n.kernel).Module()))
	if n.norm {
		x = t.Rebind(x, t.Conv2d("add_mean", x, conv(3, 1)))
	}
	x = t.DivScalar(t.Hold(x))
	return t.Narrow(t.Narrow(x, 2, h*n.scale), 3, w*n.scale)
}

func (n rcan) residualGroup(t *nn.Tape, x nn.Tensor) nn.Tensor {
	blocks := nn.Repeat(n.rcab, n.blocks)
	res := t.Sequential("body", x, append(blocks, conv(n.feats, n.kernel).Module())...)
	return t.AddInplace(res, x)
}

func (n rcan) rcab(t *nn.Tape, x nn.Tensor) nn.Tensor {
	c := conv(n.feats, n.kernel)
	res := t.Sequential("body", x, c.Module(), (*nn.Tape).ReLUInplace, c.Module(), n.caLayer)
	return t.AddInplace(res, x)
}

func (n rcan) caLayer(t *nn.Tape, x nn.Tensor) nn.Tensor {
	y := t.AvgPoolAll(x)
	y = t.Sequential("conv_du", y, conv(n.feats/n.reduction, 1).Module(), (*nn.Tape).ReLUInplace, conv(n.feats, 1).Module(),
		(*nn.Tape).Sigmoid)
	return t.Mul(x, y)
}
