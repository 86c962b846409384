package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// CRAFT (Li et al., 2023), as traiNNer-redux builds it from spandrel 0.4.2 (architectures/CRAFT/__arch/CRAFT.py;
// defaults in traiNNer/archs/craft_arch.py at 68629319).
var _ = register(func(s Spec, a *args) Network {
	n := craft{
		scale: s.Scale, window: a.int("window_size", 16), dim: a.int("embed_dim", 48),
		depths: a.ints("depths", 2, 2, 2, 2), heads: a.ints("num_heads", 6, 6, 6, 6),
		split: [2]int64{a.int("split_size_0", 4), a.int("split_size_1", 16)}, mlp: a.float("mlp_ratio", 2),
		qkvBias: a.bool("qkv_bias", true), resi: a.string("resi_connection", "1conv"),
	}
	a.ignore("qk_scale", "img_range")
	n.check()
	return Network{Forward: n.forward, Multiple: n.window}
}, "craft")

type craft struct {
	scale, window, dim int64
	depths, heads      []int64
	split              [2]int64
	mlp                float64
	qkvBias            bool
	resi               string
}

// check finds what upstream's constructor or its first forward stops at.
func (n craft) check() {
	refuse(len(n.heads) < len(n.depths) || n.scale < 1 || n.window < 1 || n.split[0] < 1 || n.split[1] < 1 || n.dim < 32,
		"scale %d, depths %v, num_heads %v, window_size %d, split sizes %v, embed_dim %d",
		n.scale, n.depths, n.heads, n.window, n.split, n.dim)
	for _, h := range n.heads[:len(n.depths)] {
		refuse(h < 2 || n.dim%2 != 0 || n.dim/2%(h/2) != 0 || n.dim%h != 0,
			"embed_dim %d does not divide among %d heads", n.dim, h)
	}
	refuse(n.resi != "1conv" && n.resi != "identity", "resi_connection %q is none of 1conv, identity", n.resi)
	refuse(n.window%n.split[0] != 0 || n.window%n.split[1] != 0,
		"window_size %d is no multiple of %v: %w", n.window, n.split, ErrUnknown)
}

func (n craft) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	hOld, wOld := x.Dim(2), x.Dim(3)
	h, w := (hOld/n.window+1)*n.window, (wOld/n.window+1)*n.window // one window more where none is wanted
	flip := func(x nn.Tensor) nn.Tensor { return t.Copy("torch.flip", x, x.Shape()...) }
	x = t.Hold(t.Narrow(t.Cat(2, x, flip(x)), 2, h))
	x = t.Rebind(x, t.Narrow(t.Cat(3, x, flip(x)), 3, w))
	mean := t.Hold(t.Zeros(x.DType(), 1, 3, 1, 1))
	x = t.Rebind(x, t.MulScalar(t.Sub(x, mean)))

	x = t.Rebind(x, t.Conv2d("conv_first", x, conv(n.dim, 3)))
	y := n.features(t, x)
	if n.resi == "1conv" {
		y = t.Conv2d("conv_after_body", y, conv(n.dim, 3))
	}
	x = t.Rebind(x, t.Add(y, x))
	x = t.Rebind(x, t.Sequential("upsample", x, conv(n.scale*n.scale*3, 3).Module(), shuffle(n.scale)))
	x = t.Rebind(x, t.Add(t.DivScalar(x), mean))
	return t.Narrow(t.Narrow(x, 2, hOld*n.scale), 3, wOld*n.scale)
}

// features is forward_features.
func (n craft) features(t *nn.Tape, x nn.Tensor) (y nn.Tensor) {
	window := n.split[0] * n.split[1]
	offsets := (2*n.split[0] - 1) * (2*n.split[1] - 1)
	var rs [2]rectangles // that lie, and that stand
	for i, name := range [...]string{"h", "v"} {
		rs[i] = rectangles{
			hs: n.split[i], ws: n.split[1-i], softmax: (*nn.Tape).Softmax,
			index:   t.Buffer("relative_position_index_"+name, nn.I64, window, window),
			offsets: t.Buffer("biases_"+name, nn.F32, offsets, 2),
		}
	}
	return t.Within("", func() nn.Tensor {
		y = x
		for i := range n.depths {
			z := t.Call(fmt.Sprint("layers.", i), y, func(t *nn.Tape, x nn.Tensor) nn.Tensor { // RCRFG
				group := t.Call("residual_group", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.crfb(t, x, rs, i) })
				return t.Add(t.Conv2d("conv", group, conv(n.dim, 3)), x)
			})
			y = t.Assign(i == 0, y, z)
		}
		return t.Rebind(y, t.Call("norm", y, imageNorm))
	}, x)
}

// crfb is CRFB: windows for the low frequencies, convolutions for the high, and a fusion of both.
func (n craft) crfb(t *nn.Tape, x nn.Tensor, rs [2]rectangles, layer int) nn.Tensor {
	b, c, h, w := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	var low, high nn.Tensor
	for i := range n.depths[layer] {
		y := t.View(t.Permute(x, 0, 2, 3, 1), b, h*w, c)
		if i > 0 {
			y = t.Rebind(low, y)
		}
		low = t.Hold(y)
		for j := range int64(2) {
			y = t.Call(fmt.Sprint("srwa_blocks.", 2*i+j), y, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
				return n.srwab(t, x, rs, h, w, n.heads[layer], j > 0)
			})
		}
		low = t.Hold(t.Rebind(low, t.Permute(t.View(y, b, h, w, c), 0, 3, 1, 2)))
		y = t.Call(fmt.Sprint("hfer_blocks.", i), x, n.hferb)
		if i > 0 {
			y = t.Rebind(high, y)
		}
		high = t.Hold(y)
		t.Scope(fmt.Sprint("hf_blocks.", i), func() { y = n.hfb(t, low, high, n.heads[layer]) }, low, high)
		x = t.Assign(i == 0, x, y)
	}
	return x
}

// srwab is SRWAB.
func (n craft) srwab(t *nn.Tape, x nn.Tensor, rs [2]rectangles, h, w, heads int64, shift bool) nn.Tensor {
	b, c, half := x.Dim(0), n.dim, n.dim/2
	shift = shift && (n.split[0] > 1 || n.split[1] > 1)
	shortcut := x
	x = t.Hold(t.LayerNorm("norm1", x))
	qkv := t.Hold(t.Permute(t.View(t.Linear("qkv", x, 3*c, n.qkvBias), b, h*w, 3, c), 2, 0, 1, 3))
	v := t.Hold(t.View(t.Contiguous(t.Transpose(t.Select(qkv, 0), -2, -1)), b, c, h, w))

	var in, xs [2]nn.Tensor
	attend := func(i int, qkv nn.Tensor) (y nn.Tensor) {
		t.Scope(fmt.Sprint("attns.", i), func() {
			r := rs[i]
			r.heads = heads / 2
			y = r.attend(t, qkv, nn.Tensor{}, h, w)
		}, qkv)
		return t.Hold(y)
	}
	if shift {
		qkv = t.Rebind(qkv, t.View(qkv, 3, b, h, w, c))
		for i := range in {
			in[i] = t.Hold(t.View(t.Roll(t.Narrow(qkv, 4, half)), 3, b, h*w, half))
		}
		for i := range xs {
			xs[i] = attend(i, in[i])
		}
		for i := range xs {
			xs[i] = t.Hold(t.Roll(xs[i]))
		}
	} else {
		for i := range xs {
			xs[i] = attend(i, t.Narrow(qkv, 3, half))
		}
	}
	attened := t.Hold(t.View(t.Cat(-1, xs[0], xs[1]), b, h*w, c))
	lcm := t.Hold(t.Conv2d("get_v", v, depthwise(c, 3)))
	lcm = t.Rebind(lcm, t.View(t.Contiguous(t.Permute(lcm, 0, 2, 3, 1)), b, h*w, c))
	attened = t.Rebind(attened, t.Add(attened, lcm))
	attened = t.Rebind(attened, t.Linear("proj", attened, c, true))

	x = t.Rebind(x, t.Add(shortcut, attened))
	m := swinIR{dim: c, mlp: n.mlp}
	return t.Rebind(x, t.Add(x, t.Call("mlp", t.LayerNorm("norm2", x), m.mlpOf)))
}

// hferb is HFERB.
func (n craft) hferb(t *nn.Tape, x nn.Tensor) nn.Tensor {
	mid := n.dim / 2
	lfe := t.Hold(t.GELU(t.Conv2d("conv", t.Narrow(x, 1, mid), conv(mid, 3))))
	hfe := t.Hold(t.GELU(t.Conv2d("fc", t.MaxPoolSame(t.Narrow(x, 1, n.dim-mid)), conv(mid, 1))))
	y := t.Hold(t.Cat(1, lfe, hfe))
	return t.Rebind(y, t.Add(x, t.Conv2d("last_fc", y, conv(n.dim, 1))))
}

// hfb is HFB: high frequencies ask the low ones.
func (n craft) hfb(t *nn.Tape, low, high nn.Tensor, heads int64) nn.Tensor {
	var y nn.Tensor
	norm := t.Call("norm1", low, imageNorm)
	t.Scope("attn", func() { y = n.attention(t, norm, high, heads) }, norm, high)
	x := t.Hold(t.Add(low, y))
	return t.Rebind(x, t.Add(x, t.Call("ffn", t.Call("norm2", x, imageNorm), n.feedForward)))
}

// attention is Attention: over channels.
func (n craft) attention(t *nn.Tape, low, high nn.Tensor, heads int64) nn.Tensor {
	b, c, h, w := low.Dim(0), n.dim, low.Dim(2), low.Dim(3)
	one := nn.Conv{Out: c, K: 1, NoBias: true}
	q := t.Hold(t.Conv2d("q_dwconv", t.Conv2d("q", high, one), nn.Conv{Out: c, K: 3, Groups: c, NoBias: true}))
	kv := t.Conv2d("kv", low, nn.Conv{Out: 2 * c, K: 1, NoBias: true})
	kv = t.Hold(t.Conv2d("kv_dwconv", kv, nn.Conv{Out: 2 * c, K: 3, Groups: 2 * c, NoBias: true}))

	out := t.Within("", func() nn.Tensor { // _forward
		split := func(x nn.Tensor) nn.Tensor { return t.View(x, b, heads, c/heads, h*w) }
		p := t.Split(kv, 1, c, c)
		q, k, v := split(q), split(p[0]), split(p[1])
		q = t.Hold(t.NormalizeDim(q, -1))
		k = t.Hold(t.NormalizeDim(k, -1))
		attn := t.Hold(t.Mul(t.Matmul(q, t.Transpose(k, -2, -1)), t.Param("temperature", heads, 1, 1)))
		attn = t.Rebind(attn, t.Softmax(attn))
		return t.Matmul(attn, v)
	}, q, kv)
	out = t.Hold(t.View(out, b, c, h, w))
	return t.Rebind(out, t.Conv2d("project_out", out, one))
}

// feedForward is FeedForward with the factor that CRFB sets.
func (n craft) feedForward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	hidden := int64(float64(n.dim) * 2.66)
	x = t.Hold(t.Conv2d("project_in", x, nn.Conv{Out: 2 * hidden, K: 1, NoBias: true}))
	y := t.Conv2d("dwconv", x, nn.Conv{Out: 2 * hidden, K: 3, Groups: 2 * hidden, NoBias: true})
	p := t.Split(y, 1, hidden, hidden)
	t.Hold(p[0])
	x = t.Rebind(x, t.Mul(t.GELU(p[0]), p[1]))
	return t.Rebind(x, t.Conv2d("project_out", x, nn.Conv{Out: n.dim, K: 1, NoBias: true}))
}

// imageNorm is LayerNorm over channels, written out, of an image.
func imageNorm(t *nn.Tape, x nn.Tensor) nn.Tensor {
	h, w := x.Dim(2), x.Dim(3)
	x = t.View(t.Permute(x, 0, 2, 3, 1), x.Dim(0), h*w, x.Dim(1))
	return spread(t, t.Call("body", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		c := x.Dim(-1)
		mu := t.Hold(t.MeanDim(x, -1))
		sigma := t.Hold(t.VarDim(x, -1))
		x = t.Mul(t.Div(t.Sub(x, mu), t.Sqrt(t.AddScalar(sigma))), t.Param("weight", c))
		return t.Add(x, t.Param("bias", c))
	}), h, w)
}
