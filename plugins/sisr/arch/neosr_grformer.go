package arch

import (
	"fmt"
	"slices"

	"github.com/launch-ml/launch/core/nn"
)

// GRFormer of neosr: neosr/archs/grformer_arch.py at 31c7022.
var _ = entry(func() {
	preset := func(name string, dim, heads int64, layers int) {
		networks.add(Neosr, func(s Spec, a *args) Network {
			ownScale(s, a, "upscale")
			a.swallow = true
			n := grformer{
				scale: s.Scale, img: a.int("img_size", 64), in: a.int("in_chans", 3), dim: a.int("embed_dim", dim),
				depths: a.ints("depths", slices.Repeat([]int64{6}, layers)...), heads: a.ints("num_heads", slices.Repeat([]int64{heads}, layers)...),
				window: a.ints("window_size", 8, 32), mlp: a.float("mlp_ratio", 2), drop: a.float("drop_rate", 0),
				attnDrop: a.float("attn_drop_rate", 0), dropPath: a.float("drop_path_rate", 0.1),
			}
			a.ignore("qkv_bias", "qk_scale", "ape", "patch_norm", "img_range")
			n.check()
			side := max(n.window[0], n.window[1])
			return Network{InCh: n.in, Forward: n.forward, Multiple: side, MinLQ: side/2 + 1}
		}, name)
	}
	preset("grformer", 60, 3, 4)
	preset("grformer_medium", 180, 6, 6)
	preset("grformer_large", 180, 6, 12)
})

type grformer struct {
	scale, img, in, dim           int64
	depths, heads, window         []int64
	mlp, drop, attnDrop, dropPath float64
}

// check finds what the constructor or the first forward stops at.
func (n grformer) check() {
	refuse(len(n.window) != 2 || n.window[0] < 2 || n.window[1] < 2,
		"window_size %v: it is two numbers of at least 2", n.window)
	refuse(len(n.heads) < len(n.depths) || n.dim < 2 || n.dim%2 != 0,
		"embed_dim %d, num_heads %v for depths %v", n.dim, n.heads, n.depths)
	for _, h := range n.heads[:len(n.depths)] {
		refuse(h < 1 || n.dim%h != 0, "embed_dim %d does not divide among %d heads", n.dim, h)
	}
	refuse(n.img%n.window[0] != 0 || n.img%n.window[1] != 0,
		"img_size %d is no multiple of window_size %v", n.img, n.window)
}

// forward is grformer.forward (line 591).
func (n grformer) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	h, w, side := x.Dim(2), x.Dim(3), max(n.window[0], n.window[1])
	x = t.Hold(t.PadTo(x, true, x.Dim(0), n.in, multiple(h, side), multiple(w, side))) // check_image_size
	mean := t.Hold(t.Zeros(x.DType(), 1, n.in, 1, 1))
	x = t.Rebind(x, t.MulScalar(t.Sub(x, mean)))
	x = t.Rebind(x, t.Conv2d("conv_first", x, conv(n.dim, 3)))
	x = t.Rebind(x, t.Add(t.Conv2d("conv_after_body", t.Call("", x, n.features), conv(n.dim, 3)), x))
	x = t.Rebind(x, t.Sequential("upsample", x, conv(n.in*n.scale*n.scale, 3).Module(), shuffle(n.scale)))
	x = t.Rebind(x, t.Add(t.DivScalar(x), mean))
	return t.Narrow(t.Narrow(x, 2, h*n.scale), 3, w*n.scale)
}

// features is forward_features (line 569).
func (n grformer) features(t *nn.Tape, x nn.Tensor) (y nn.Tensor) {
	b, h, w := x.Dim(0), x.Dim(2), x.Dim(3)
	y = t.Hold(t.Contiguous(tokens(t, x)))
	y = t.Rebind(y, t.Dropout(y, n.drop))
	y = layers(t, y, n.dropPath, n.depths, func(t *nn.Tape, x nn.Tensor, i int, rate dropPaths) nn.Tensor {
		return n.group(t, x, h, w, i, rate)
	})
	y = t.Rebind(y, t.LayerNorm("norm", y))
	return t.Reshape(t.Transpose(y, 1, 2), b, n.dim, h, w)
}

// group is GRSAB_Group (line 407).
func (n grformer) group(t *nn.Tape, x nn.Tensor, h, w int64, layer int, rate dropPaths) nn.Tensor {
	for i := range n.depths[layer] {
		y := t.Call(fmt.Sprint("blocks.", i), x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			return n.block(t, x, h, w, n.heads[layer], i, rate(i))
		})
		x = t.Assign(i == 0, x, y)
	}
	y := t.Hold(t.Conv2d("conv", spread(t, x, h, w), conv(n.dim, 3)))
	return t.Add(x, tokens(t, y))
}

// block is GRSAB (line 277): every second is shifted, and every second pair's windows stand.
func (n grformer) block(t *nn.Tape, x nn.Tensor, h, w, heads, i int64, dropPath float64) nn.Tensor {
	b, shift := x.Dim(0), i%2 == 1
	hs, ws := n.window[0], n.window[1]
	if i/2%2 == 1 {
		hs, ws = ws, hs
	}
	area := hs * ws
	var mask nn.Tensor
	if shift {
		mask = t.Buffer("attn_mask", nn.F32, n.img*n.img/area, area, area)
	}
	partition := func(x nn.Tensor) nn.Tensor {
		x = t.View(x, b, h/hs, hs, w/ws, ws, n.dim)
		return t.View(t.Contiguous(t.Permute(x, 0, 1, 3, 2, 4, 5)), -1, area, n.dim)
	}
	windows := t.View(x, b, h, w, n.dim)
	if shift {
		windows = t.Hold(t.Roll(windows))
		windows = t.Rebind(windows, partition(windows))
	} else {
		windows = t.Hold(partition(windows))
	}
	if n.img != h || n.img != w { // calculate_mask of another size, which comes without a shift as well
		mask = t.Zeros(nn.F32, h*w/area, area, area)
	}
	attended := t.Hold(t.Within("attn", func() nn.Tensor {
		return n.attention(t, windows, mask, hs, ws, heads)
	}, windows, mask))
	attended = t.Rebind(attended, t.View(t.Contiguous(t.Permute(t.View(attended, b, h/hs, w/ws, hs, ws, n.dim), 0, 1, 3,
		2, 4, 5)), b, h, w, n.dim))
	z := attended
	if shift {
		z = t.Hold(t.Roll(attended))
	}
	z = t.View(z, b, h*w, n.dim)
	out := t.Hold(t.Add(x, dropPathOf(t, t.LayerNorm("norm1", z), dropPath)))
	mlp := t.Call("mlp", out, func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.ffn(t, x, h, w) })
	return t.Rebind(out, t.Add(out, dropPathOf(t, t.LayerNorm("norm2", mlp), dropPath)))
}

// ffn is FFN (line 48), with two depthwise convolutions beside it.
func (n grformer) ffn(t *nn.Tape, x nn.Tensor, h, w int64) nn.Tensor {
	b, hidden := x.Dim(0), int64(float64(n.dim)*n.mlp)
	y := t.Hold(t.Linear("fc1", x, hidden, true))
	y = t.Rebind(y, t.GELU(y))
	local := t.Call("dwconv", y, func(t *nn.Tape, x nn.Tensor) nn.Tensor { // dwconv
		z := t.Hold(t.Contiguous(t.View(t.Transpose(x, 1, 2), b, hidden, h, w)))
		z = t.Rebind(z, t.Sequential("depthwise_conv", z, depthwise(hidden, 3).Module(), (*nn.Tape).GELU, depthwise(hidden,
			3).Module()))
		return t.Contiguous(tokens(t, z))
	})
	y = t.Rebind(y, t.Add(y, local))
	y = t.Rebind(y, t.Dropout(y, n.drop))
	y = t.Rebind(y, t.Linear("fc2", y, n.dim, true))
	return t.Dropout(y, n.drop)
}

// attention is GRSA (line 106): queries, keys and values are a residual each, by halves of the channels.
func (n grformer) attention(t *nn.Tape, x, mask nn.Tensor, hs, ws, heads int64) nn.Tensor {
	b, area, c := x.Dim(0), x.Dim(1), x.Dim(2)
	half := c / 2
	offsets := t.Buffer("relative_position_bias_table", nn.F32, 1, 2*hs-1, 2*ws-1, 2)
	index := t.Buffer("relative_position_index", nn.I64, area, area)
	halves := func(x nn.Tensor) nn.Tensor { return t.Contiguous(t.Permute(t.View(x, b, area, 2, half), 2, 0, 1, 3)) }
	x = t.Hold(halves(x))
	p := t.Unbind(x)
	each := func(name string) nn.Tensor {
		y := t.Hold(t.Stack(t.Add(p[0], t.Linear(name+"1", p[0], half, true)), t.Add(p[1], t.Linear(name+"2", p[1], half,
			true))))
		y = t.Rebind(y, t.Reshape(t.Permute(y, 1, 2, 0, 3), b, area, c))
		return t.Rebind(y, t.Contiguous(t.Permute(t.View(y, b, area, heads, c/heads), 0, 2, 1, 3)))
	}
	k, q, v := each("k"), each("q"), each("v")
	attn := t.Hold(t.Matmul(t.NormalizeDim(q, -1), t.Transpose(t.NormalizeDim(k, -1), -2, -1)))
	scale := t.Hold(t.Exp(t.Clamp(t.Param("logit_scale", heads, 1, 1))))
	attn = t.Rebind(attn, t.Mul(attn, scale))

	table := t.Sequential("ESRPB_MLP", offsets, nn.Linear{Out: 128}.Module(), (*nn.Tape).ReLUInplace,
		nn.Linear{Out: heads, NoBias: true}.Module())
	table = t.Hold(t.View(table, (2*hs-1)*(2*ws-1), heads))
	bias := t.Hold(t.View(t.Copy("Tensor.__getitem__", table, index.Numel(), heads), area, area, heads))
	bias = t.Rebind(bias, t.Contiguous(t.Permute(bias, 2, 0, 1)))
	bias = t.Rebind(bias, t.MulScalar(t.Sigmoid(bias)))
	attn = t.Rebind(attn, t.Add(attn, bias))
	if mask.Dims() > 0 {
		nW := mask.Dim(0)
		attn = t.Rebind(attn, t.Add(t.View(attn, b/nW, nW, heads, area, area), t.View(mask, 1, nW, 1, area, area)))
		attn = t.Rebind(attn, t.View(attn, -1, heads, area, area))
	}
	attn = t.Rebind(attn, t.Softmax(attn))
	x = t.Rebind(x, t.Reshape(t.Transpose(t.Matmul(attn, v), 1, 2), b, area, c))
	x = t.Rebind(x, halves(x))
	p = t.Unbind(x)
	y := t.Stack(t.Linear("proj1", p[0], half, true), t.Linear("proj2", p[1], half, true))
	return t.Reshape(t.Permute(y, 1, 2, 0, 3), b, area, c)
}
