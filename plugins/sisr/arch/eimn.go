package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// EIMN (Liu et al., 2023): traiNNer/archs/eimn_arch.py at 68629319.
var _ = entry(func() {
	eimn := func(stages int64) builder {
		return func(s Spec, a *args) Network {
			n := eimn{
				scale: s.Scale, dim: a.int("embed_dims", 64), depths: a.int("depths", 1), ratio: a.float("mlp_ratios", 2.66),
				drop: a.float("drop_rate", 0), dropPath: a.float("drop_path_rate", 0), stages: a.int("num_stages", stages),
			}
			refuse(a.bool("freeze_param", false), "freeze_param: %w", ErrUnknown)
			refuse(n.dim%8 != 0, "embed_dims: the large kernels want three, one and four eighths of it")
			return Network{Forward: n.forward, BatchNorm: true}
		}
	}
	register(eimn(16), "eimn", "eimn_l")
	register(eimn(14), "eimn_a")
})

type eimn struct {
	scale, dim, depths, stages int64
	ratio, drop, dropPath      float64
}

// forward is EIMN.forward.
func (n eimn) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	x = t.Hold(t.Sequential("head", x, conv(n.dim, 3).Module()))
	identity := t.Hold(x)
	total := n.stages * n.depths
	for i := range n.stages {
		for j := range n.depths {
			dropPath := n.dropPath * float64(i*n.depths+j) / float64(max(total-1, 1))
			x = t.Rebind(x, t.Call(fmt.Sprintf("block%d.%d", i+1, j), x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
				return n.block(t, x, dropPath)
			}))
			if i+j == 0 {
				t.Hold(identity)
			}
		}
		x = t.Rebind(x, t.LayerNorm(fmt.Sprint("norm", i+1), t.Permute(x, 0, 2, 3, 1)))
		x = t.Rebind(x, t.Contiguous(t.Permute(x, 0, 3, 1, 2)))
	}
	return t.Sequential("tail", t.Add(identity, x), conv(3*n.scale*n.scale, 3).Module(), shuffle(n.scale))
}

// block is EIMNBlock.
func (n eimn) block(t *nn.Tape, x nn.Tensor, dropPath float64) nn.Tensor {
	scaled := func(name string, y nn.Tensor) nn.Tensor {
		y = t.Mul(t.View(t.Param(name, n.dim), n.dim, 1, 1), y)
		return dropPathOf(t, y, dropPath)
	}
	x = t.Hold(t.Add(x, scaled("layer_scale_1", t.Call("attn", t.BatchNorm2d("norm1", x), n.molrcm))))
	return t.Add(x, scaled("layer_scale_2", t.Call("mlp", t.BatchNorm2d("norm2", x), n.sadffm)))
}

// molrcm is MOLRCM.
func (n eimn) molrcm(t *nn.Tape, x nn.Tensor) nn.Tensor {
	c1, c2, c3 := n.dim*3/8, n.dim/8, n.dim/2
	value := t.Hold(t.Sequential("proj_value", x, conv(n.dim, 1).Module()))
	query := t.Hold(t.Sequential("proj_query", x, conv(n.dim, 1).Module(), (*nn.Tape).GELU))
	query = t.Rebind(query, t.Conv2d("region", query, depthwise(n.dim, 5)))
	query1 := t.Hold(t.Conv2d("spatial_1", t.Narrow(query, 1, c1), nn.Conv{Out: c1, K: 5, Dilation: 2, Groups: c1}))
	query2 := t.Narrow(query, 1, c2)
	query3 := t.Hold(t.Conv2d("spatial_2", t.Narrow(query, 1, c3), nn.Conv{Out: c3, K: 7, Dilation: 3, Groups: c3}))
	out := t.Conv2d("fusion", t.Cat(1, query1, query2, query3), conv(n.dim, 1))
	out = t.Hold(t.MulInplace(out, t.Sigmoid(out))) // Silu
	return t.Conv2d("out", t.Mul(out, value), conv(n.dim, 1))
}

// sadffm is SADFFM.
func (n eimn) sadffm(t *nn.Tape, x nn.Tensor) nn.Tensor {
	hidden := int64(float64(n.dim) * n.ratio)
	x = t.Hold(t.Conv2d("linear_in", x, conv(2*hidden, 1)))
	p := t.Split(t.Conv2d("SAL", x, depthwise(2*hidden, 3)), 1, hidden, hidden)
	x1, x2 := t.Hold(p[0]), t.Hold(p[1])
	x = t.Rebind(x, t.Mul(t.GELU(x1), x2))
	x = t.Rebind(x, t.Conv2d("linear_out", x, conv(n.dim, 1)))
	x = t.Rebind(x, t.Call("DFFM", x, n.dffm))
	return t.Dropout(x, n.drop)
}

// dffm is DFFM.
func (n eimn) dffm(t *nn.Tape, x nn.Tensor) nn.Tensor {
	identity := x
	reduce := n.dim / 4
	x = t.Hold(t.Call("norm", x, channelLayerNorm))
	xGlobal := t.Hold(t.GELU(t.Conv2d("global_reduce", t.AvgPoolAll(x), conv(reduce, 1))))
	xLocal := t.Hold(t.GELU(t.Conv2d("local_reduce", x, conv(reduce, 1))))
	cAttn := t.Hold(t.Sigmoid(t.Conv2d("channel_expand", xGlobal, conv(n.dim, 1))))
	both := t.Cat(1, xLocal, t.Expand(xGlobal, x.Dim(0), reduce, x.Dim(2), x.Dim(3)))
	sAttn := t.Hold(t.Sigmoid(t.Conv2d("spatial_expand", both, conv(1, 1))))
	attn := t.Hold(t.Mul(cAttn, sAttn))
	return t.Mul(identity, attn)
}
