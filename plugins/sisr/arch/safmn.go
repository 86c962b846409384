package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// SAFMN (Sun et al., 2023), as traiNNer-redux builds it from spandrel 0.4.2 (architectures/SAFMN/__arch/safmn.py;
// defaults in traiNNer/archs/safmn_arch.py at 68629319).
var _ = entry(func() {
	safmn := func(dim, blocks int64) builder {
		return func(s Spec, a *args) Network {
			n := safmn{
				scale: s.Scale, dim: a.int("dim", dim), blocks: a.int("n_blocks", blocks), ffn: a.float("ffn_scale", 2),
			}
			return Network{Forward: n.forward, Multiple: 8}
		}
	}
	register(safmn(36, 8), "safmn")
	register(safmn(128, 16), "safmn_l")
})

type safmn struct {
	scale, dim, blocks int64
	ffn                float64
}

func (n safmn) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	x = t.Hold(t.Conv2d("to_feat", x, conv(n.dim, 3)))
	x = t.Rebind(x, t.Add(t.Sequential("feats", x, nn.Repeat(n.attBlock, n.blocks)...), x))
	return t.Sequential("to_img", x, conv(3*n.scale*n.scale, 3).Module(), shuffle(n.scale))
}

func (n safmn) attBlock(t *nn.Tape, x nn.Tensor) nn.Tensor {
	return safmnBlock(t, x, "safm", n.safm, n.dim, n.ffn)
}

// safmnBlock is AttBlock of SAFMN and LMLT, which mix in their own ways.
func safmnBlock(t *nn.Tape, x nn.Tensor, name string, mix nn.Module, dim int64, ffn float64) nn.Tensor {
	x = t.Hold(t.Add(t.Call(name, t.Call("norm1", x, channelLayerNorm), mix), x))
	ccm := func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		hidden := int64(float64(dim) * ffn)
		return t.Sequential("ccm", x, conv(hidden, 3).Module(), (*nn.Tape).GELU, conv(dim, 1).Module())
	}
	return t.Add(t.Call("ccm", t.Call("norm2", x, channelLayerNorm), ccm), x)
}

func (n safmn) safm(t *nn.Tape, x nn.Tensor) nn.Tensor {
	const levels = 4
	h, w := x.Dim(2), x.Dim(3)
	chunk := n.dim / levels
	xc := t.Split(x, 1, chunk, chunk, chunk, chunk)
	outs := make([]nn.Tensor, levels)
	for i := range outs {
		s := xc[i]
		if i > 0 {
			s = t.AdaptiveMaxPool2d(s, h>>i, w>>i)
			s = t.Conv2d(fmt.Sprint("mfr.", i), s, depthwise(chunk, 3))
			s = t.Interpolate(s, h, w)
		} else {
			s = t.Conv2d("mfr.0", s, depthwise(chunk, 3))
		}
		outs[i] = t.Hold(s)
	}
	out := t.Conv2d("aggr", t.Cat(1, outs...), conv(n.dim, 1))
	return t.Mul(t.GELU(out), x)
}
