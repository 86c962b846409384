package arch

import (
	"github.com/launch-ml/launch/core/nn"
)

// NinaSR of neosr: neosr/archs/ninasr_arch.py at 31c7022.
var _ = entry(func() {
	networks.add(Neosr, func(s Spec, a *args) Network {
		n := ninasr{
			scale: s.Scale, blocks: a.int("n_resblocks", 26), feats: a.int("n_feats", 32), colors: a.int("n_colors", 3),
			expansion: a.float("expansion", 2),
		}
		return n.network()
	}, "ninasr")
	preset := func(name string, blocks, feats int64) {
		networks.add(Neosr, func(s Spec, a *args) Network {
			a.swallow = true // **kwargs, which it does not pass on (line 119)
			return ninasr{scale: s.Scale, blocks: blocks, feats: feats, colors: 3, expansion: 2}.network()
		}, name)
	}
	preset("ninasr_b0", 10, 16)
	preset("ninasr_b2", 84, 56)
})

type ninasr struct {
	scale, blocks, feats, colors int64
	expansion                    float64
}

func (n ninasr) network() Network { return Network{InCh: n.colors, Forward: n.forward} }

// forward is ninasr.forward (line 112).
func (n ninasr) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	x = t.Hold(t.Sequential("head", x, rescaleNinasr, nn.Conv{Out: n.feats, K: 3, NoBias: true}.Module()))
	res := t.Hold(t.Sequential("body", x, nn.Repeat(n.block, n.blocks)...))
	res = t.AddInplace(res, x)
	return t.Sequential("tail", res, conv(n.colors*n.scale*n.scale, 3).Module(), shuffle(n.scale), rescaleNinasr)
}

// rescaleNinasr is Rescale, whose bias is one number.
func rescaleNinasr(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.Add(x, t.Param("bias")) }

// block is ResBlock (line 39). What its input is multiplied with is a tensor on the CPU.
func (n ninasr) block(t *nn.Tape, x nn.Tensor) nn.Tensor {
	mid := int64(float64(n.feats) * n.expansion)
	res := t.Sequential("body", t.MulScalar(x), conv(mid, 3).Module(), (*nn.Tape).ReLUInplace, attentionNinasr,
		nn.Conv{Out: n.feats, K: 3, NoBias: true}.Module())
	res = t.Hold(t.MulScalar(res))
	return t.AddInplace(res, x)
}

// attentionNinasr is AttentionBlock (line 10): squeeze and excitation of a sixteenth of the size.
func attentionNinasr(t *nn.Tape, x nn.Tensor) nn.Tensor {
	const stride, reduction = 16, 4
	c := x.Dim(1)
	pool := func(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.AvgPool2d(x, 2*stride-1, stride, stride-1) }
	up := func(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.Upsample(x, stride) }
	res := t.Hold(t.Sequential("body", x, pool, conv(c/reduction, 1).Module(), (*nn.Tape).ReLUInplace, conv(c, 1).Module(),
		(*nn.Tape).Sigmoid, up))
	res = t.Narrow(t.Narrow(res, 2, x.Dim(2)), 3, x.Dim(3))
	return t.Mul(res, x)
}
