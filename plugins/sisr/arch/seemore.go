package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// SeeMoRe (Zamfir et al., 2024), as traiNNer-redux builds it from spandrel 0.4.2 (architectures/SeemoRe/__arch/SeemoRe.py;
// defaults in traiNNer/archs/seemore_arch.py at 68629319).
var _ = register(func(s Spec, a *args) Network {
	n := seemore{
		scale: s.Scale, in: a.int("in_chans", 3), experts: a.int("num_experts", 3), layers: a.int("num_layers", 6),
		dim: a.int("embedding_dim", 36), shuffle: a.bool("use_shuffle", true), kernel: a.int("global_kernel_size", 11),
		recursive: a.int("recursive", 2), space: a.string("lr_space", "exp"), topk: a.int("topk", 1),
	}
	a.ignore("img_range")
	switch n.space {
	case "linear", "exp", "double":
	default:
		reject("lr_space %q is none of linear, exp, double", n.space)
	}
	refuse(n.in != 3, "in_chans %d: the mean that is taken off has 3", n.in)
	refuse(n.experts < 1 || n.topk < 1 || n.topk > n.experts, "topk %d of num_experts %d", n.topk, n.experts)
	small := int64(1) // its convolutions by 4 leave a pixel
	for range n.recursive {
		small *= 4
	}
	return Network{InCh: n.in, Forward: n.forward, MinLQ: small}
}, "seemore_t")

type seemore struct {
	scale, in, experts, layers, dim, kernel, recursive, topk int64
	shuffle                                                  bool
	space                                                    string
}

// forward is SeemoRe.forward.
func (n seemore) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	mean := t.Hold(t.Zeros(nn.F32, 1, 3, 1, 1)) // of the object: no buffer
	x = t.Hold(t.MulScalar(t.Sub(x, mean)))
	x = t.Rebind(x, t.Conv2d("conv_1", x, conv(n.dim, 3)))
	res := x
	for i := range n.layers {
		y := t.Call(fmt.Sprint("body.", i), x, func(t *nn.Tape, x nn.Tensor) nn.Tensor { // ResGroup
			x = t.Hold(t.Call("local_block", x, n.half(n.mixture)))
			return t.Rebind(x, t.Call("global_block", x, n.half(n.striped)))
		})
		x = t.Assign(i == 0, x, y) // res keeps the first
	}
	y := t.Call("norm", x, channelLayerNorm)
	x = t.Assign(n.layers == 0, x, y)
	x = t.Rebind(x, t.Add(t.Conv2d("conv_2", x, conv(n.dim, 3)), res))
	x = t.Rebind(x, t.Sequential("upsampler", x, conv(n.in*n.scale*n.scale, 3).Module(), shuffle(n.scale)))
	return t.Rebind(x, t.Add(t.DivScalar(x), mean))
}

// half is RME and SME, which differ in their block.
func (n seemore) half(block nn.Module) nn.Module {
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		x = t.Hold(t.Add(t.Call("block", t.Call("norm_1", x, channelLayerNorm), block), x))
		return t.Rebind(x, t.Add(t.Call("ffn", t.Call("norm_2", x, channelLayerNorm), n.gatedFFN), x))
	}
}

// gatedFFN is GatedFFN.
func (n seemore) gatedFFN(t *nn.Tape, x nn.Tensor) nn.Tensor {
	x = t.Hold(t.Sequential("fn_1", x, conv(2*n.dim, 1).Module(), (*nn.Tape).GELU))
	p := t.Split(x, 1, n.dim, n.dim)
	gate := t.Hold(t.Conv2d("gate", p[1], depthwise(n.dim, 3)))
	x = t.Rebind(x, t.Mul(p[0], gate))
	return t.Rebind(x, t.Sequential("fn_2", x, conv(n.dim, 1).Module(), (*nn.Tape).GELU))
}

// stripes is StripedConv2d.
func (n seemore) stripes(k int64) nn.Module {
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		return t.Sequential("conv", x, nn.Conv{Out: n.dim, K: 1, KW: k, Groups: n.dim}.Module(),
			nn.Conv{Out: n.dim, K: k, KW: 1, Groups: n.dim}.Module())
	}
}

// striped is StripedConvFormer.
func (n seemore) striped(t *nn.Tape, x nn.Tensor) nn.Tensor {
	qv := t.Hold(t.Sequential("to_qv", x, conv(2*n.dim, 1).Module(), (*nn.Tape).GELU))
	p := t.Split(qv, 1, n.dim, n.dim)
	q := t.Hold(t.Call("attn", p[0], n.stripes(n.kernel)))
	return t.Conv2d("proj", t.Mul(q, p[1]), conv(n.dim, 1))
}

// mixture is MoEBlock.
func (n seemore) mixture(t *nn.Tape, x nn.Tensor) nn.Tensor {
	b, h, w := x.Dim(0), x.Dim(2), x.Dim(3)
	x = t.Hold(t.Sequential("conv_1", x, conv(n.dim, 3).Module(), (*nn.Tape).GELU, conv(2*n.dim, 1).Module()))
	if n.shuffle { // channel_shuffle
		y := t.Contiguous(t.Transpose(t.View(x, b, 2, n.dim, h, w), 1, 2))
		x = t.Rebind(x, t.View(y, b, -1, h, w))
	}
	p := t.Split(x, 1, n.dim, n.dim)
	x1 := t.Hold(t.Sequential("conv_2", p[0], n.stripes(3), (*nn.Tape).GELU))
	k := t.Hold(t.Call("", p[1], n.calibrate))
	t.Rebind(x, x1) // both of its halves have got new values
	y := t.Hold(t.Within("moe_layer", func() nn.Tensor { return n.moe(t, x1, k) }, x1, k))
	return t.Conv2d("proj", y, conv(n.dim, 1))
}

// calibrate is MoEBlock.calibrate.
func (n seemore) calibrate(t *nn.Tape, x nn.Tensor) nn.Tensor {
	y := x
	for i := range n.recursive {
		z := t.Sequential("agg_conv", y, nn.Conv{Out: n.dim, K: 4, Stride: 4, Groups: n.dim, Valid: true}.Module(), (*nn.Tape).GELU)
		y = t.Assign(i == 0, y, z)
	}
	z := t.Hold(t.Sequential("conv", y, depthwise(n.dim, 3).Module(), conv(n.dim, 1).Module()))
	z = t.Rebind(z, t.Interpolate(z, x.Dim(2), x.Dim(3)))
	return t.Add(x, z)
}

// moe is MoELayer: all experts while training, each by its weight, which is zero for most; in eval only those chosen, of
// which the largest stand here.
func (n seemore) moe(t *nn.Tape, inputs, k nn.Tensor) nn.Tensor {
	b := inputs.Dim(0)
	gate := t.View(t.AvgPoolAll(inputs), b, n.dim)
	gate = t.Hold(t.Linear("gate.body.2", gate, n.experts, false))
	weights := t.Hold(t.To(t.SoftmaxAs(t.To(gate, nn.F32)), inputs.DType()))
	chosen := t.Hold(t.Gather(weights, t.Hold(t.Zeros(nn.I64, b, n.topk)), b, n.topk))
	out := t.Hold(t.Clone(inputs))
	expWeights := weights
	if t.Training {
		zeros := t.Hold(t.ZerosLike(weights))
		expWeights = t.Hold(t.Add(zeros, t.Copy("Tensor.scatter_", chosen, b, n.experts)))
	}
	for i := range n.experts {
		grow := map[string]int64{"linear": i + 2, "exp": 2 << i, "double": 2*i + 2}[n.space]
		name := fmt.Sprint("experts.", i)
		if !t.Training && i < n.experts-n.topk {
			t.Scope(name, func() { expertParams(t, n.dim, grow) })
			continue
		}
		y := t.Within(name, func() nn.Tensor { // Expert
			x := t.Hold(t.Conv2d("conv_1", inputs, conv(grow, 1)))
			x = t.Rebind(x, t.Mul(t.Conv2d("conv_2", k, conv(grow, 1)), x))
			return t.Rebind(x, t.Conv2d("conv_3", x, conv(n.dim, 1)))
		}, inputs, k)
		weight := t.View(t.Narrow(expWeights, 1, 1), b, 1, 1, 1)
		out = t.AddInplace(out, t.Mul(y, weight))
	}
	return out
}

// expertParams are an Expert's parameters, of one that does not run.
func expertParams(t *nn.Tape, dim, low int64) {
	for i, c := range [...][2]int64{{low, dim}, {low, dim}, {dim, low}} {
		t.Scope(fmt.Sprint("conv_", i+1), func() { t.Param("weight", c[0], c[1], 1, 1); t.Param("bias", c[0]) })
	}
}
