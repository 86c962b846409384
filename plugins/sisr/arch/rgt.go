package arch

import (
	"fmt"
	"slices"

	"github.com/launch-ml/launch/core/nn"
)

// RGT (Chen et al., 2024), as traiNNer-redux builds it from spandrel 0.4.2 (architectures/RGT/__arch/rgt.py; defaults in
// traiNNer/archs/rgt_arch.py at 68629319).
var _ = entry(func() {
	rgt := func(layers int) builder {
		return func(s Spec, a *args) Network {
			six := slices.Repeat([]int64{6}, layers)
			n := rgt{dat: dat{
				scale: s.Scale, up: s.Scale, in: a.int("in_chans", 3), dim: a.int("embed_dim", 180), split: a.ints("split_size", 8, 32),
				depths: a.ints("depth", six...), heads: a.ints("num_heads", six...), expansion: a.float("mlp_ratio", 2),
				resi: a.string("resi_connection", "1conv"), qkvBias: a.bool("qkv_bias", true), drop: a.float("drop_rate", 0),
				attnDrop: a.float("attn_drop_rate", 0), dropPath: a.float("drop_path_rate", 0.1), checkpointing: a.bool("use_chk", false),
				upsampler: "pixelshuffle",
				img:       64, // whatever img_size says: ResidualGroup does not pass its own on
			}}
			a.ignore("img_size", "img_range", "qk_scale")
			n.cr = int64(float64(n.dim) * a.float("c_ratio", 0.5))
			n.check()
			return Network{
				InCh: n.in, Forward: n.forward, CheckpointArg: "use_chk", Checkpointing: n.checkpointing, NoFP16: true,
				Multiple: max(n.split[0], n.split[1]), MinLQ: 16,
			}
		}
	}
	register(rgt(8), "rgt")
	register(rgt(6), "rgt_s")
})

// rgt shares with DAT its rectangular windows and its feed-forward network.
type rgt struct {
	dat
	cr int64 // scaled channels
}

func (n rgt) check() {
	n.dat.check()
	for i, d := range n.depths {
		refuse(d > 1 && (n.cr < 1 || n.cr%n.heads[i] != 0), "c_ratio leaves %d channels for %d heads", n.cr, n.heads[i])
	}
	hidden := int64(float64(n.dim) * n.expansion)
	refuse(hidden < 2 || hidden%2 != 0, "mlp_ratio %v makes %d channels, which are halved", n.expansion, hidden)
}

func (n rgt) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	mean := t.Hold(t.Zeros(x.DType(), 1, n.in, 1, 1))
	x = t.Hold(t.MulScalar(t.Sub(x, mean)))
	x = t.Rebind(x, t.Conv2d("conv_first", x, conv(n.dim, 3)))
	x = t.Rebind(x, t.Add(t.Call("conv_after_body", t.Call("", x, n.features), n.resiConv), x))
	x = t.Rebind(x, t.Sequential("conv_before_upsample", x, conv(swinFeat, 3).Module(), (*nn.Tape).LeakyReLUInplace))
	x = t.Rebind(x, t.Conv2d("conv_last", t.Call("upsample", x, upsample(n.scale, swinFeat)), conv(n.in, 3)))
	return t.Add(t.DivScalar(x), mean)
}

// features is forward_features.
func (n rgt) features(t *nn.Tape, x nn.Tensor) (y nn.Tensor) {
	h, w := x.Dim(2), x.Dim(3)
	y = t.Hold(t.Sequential("before_RG", x, tokens, named((*nn.Tape).LayerNorm)))
	y = layers(t, y, n.dropPath, n.depths, func(t *nn.Tape, x nn.Tensor, i int, rate dropPaths) nn.Tensor {
		return n.residualGroup(t, x, h, w, int64(i), rate)
	})
	y = t.Rebind(y, t.LayerNorm("norm", y))
	return spread(t, y, h, w)
}

// residualGroup is ResidualGroup.
func (n rgt) residualGroup(t *nn.Tape, x nn.Tensor, h, w, rs int64, rate dropPaths) nn.Tensor {
	res := x
	x = t.Hold(x)
	for b := range n.depths[rs] {
		m := func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.block(t, x, h, w, rs, b, rate(b)) }
		y := t.ReentrantIf(n.checkpointing, fmt.Sprint("blocks.", b), x, m)
		x = t.Rebind(x, y)
	}
	x = t.Rebind(x, spread(t, x, h, w))
	x = t.Rebind(x, t.Call("conv", x, n.resiConv))
	return t.Add(res, tokens(t, x))
}

// block is Block.
func (n rgt) block(t *nn.Tape, x nn.Tensor, h, w, rs, b int64, dropPath float64) nn.Tensor {
	heads, res := n.heads[rs], x
	y := t.Call("attn", t.LayerNorm("norm1", x), func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		if b%2 == 0 {
			return n.localAttention(t, x, h, w, heads, shifted(rs, b))
		}
		return n.recursiveAttention(t, x, h, w, heads)
	})
	x = t.Hold(t.Add(x, dropPathOf(t, y, dropPath)))
	y = t.Call("mlp", t.LayerNorm("norm2", x), func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.sgfn(t, x, h, w) })
	x = t.Rebind(x, t.Add(x, dropPathOf(t, y, dropPath)))
	return t.Add(x, t.Mul(res, t.Param("gamma", n.dim)))
}

// localAttention is L_SA.
func (n rgt) localAttention(t *nn.Tape, x nn.Tensor, h, w, heads int64, shift bool) nn.Tensor {
	v, attened := n.rectangleWindows(t, x, h, w, heads, shift)
	lcm := t.Hold(t.Conv2d("get_v", v, depthwise(n.dim, 3)))
	lcm = t.Rebind(lcm, t.View(t.Contiguous(t.Permute(lcm, 0, 2, 3, 1)), x.Dim(0), h*w, n.dim))
	y := t.Hold(t.Add(attened, lcm))
	y = t.Rebind(y, t.Linear("proj", y, n.dim, true))
	return t.Dropout(y, n.drop)
}

// log4 is int(math.log(k, 4)).
func log4(k int64) (n int64) {
	if k < 1 {
		panic(fmt.Sprintf("the logarithm of %d pixels", k))
	}
	for ; k >= 4; k /= 4 {
		n++
	}
	return n
}

// recursiveAttention is RG_SA: the image is made smaller by one convolution again and again, and attended to.
func (n rgt) recursiveAttention(t *nn.Tape, x nn.Tensor, h, w, heads int64) nn.Tensor {
	b, l, c := x.Dim(0), h*w, n.dim
	small := t.Hold(t.Contiguous(t.View(t.Permute(x, 0, 2, 1), b, c, h, w)))
	times := int64(0)
	if t.Training {
		times = max(log4(h/4), log4(w/4))
	} else {
		times = max(log4(h/16), log4(w/16), 2)
	}
	scale := int64(1)
	for range times {
		scale *= 4
		if h < scale || w < scale {
			panic(fmt.Sprintf("an image of %d×%d is smaller than the reduction by %d", h, w, scale))
		}
		small = t.Rebind(small, t.Conv2d("reduction1", small, nn.Conv{Out: c, K: 4, Stride: 4, Groups: c, Valid: true}))
	}
	reduced := t.Conv2d("conv", t.Conv2d("dwconv", small, depthwise(c, 3)), conv(n.cr, 1))
	small = t.Rebind(small, t.Contiguous(t.Permute(t.View(reduced, b, n.cr, -1), 0, 2, 1)))
	small = t.Rebind(small, t.Sequential("norm_act", small, named((*nn.Tape).LayerNorm), (*nn.Tape).GELU))

	split := func(x nn.Tensor) nn.Tensor {
		return t.Hold(t.Permute(t.View(x, b, -1, heads, x.Dim(-1)/heads), 0, 2, 1, 3))
	}
	q := split(t.Linear("q", x, n.cr, n.qkvBias))
	k := split(t.Linear("k", small, n.cr, n.qkvBias))
	v := split(t.Linear("v", small, c, n.qkvBias))
	attn := t.Hold(t.MulScalar(t.Matmul(q, t.Transpose(k, -2, -1))))
	attn = t.Rebind(attn, t.Softmax(attn))
	attn = t.Rebind(attn, t.Dropout(attn, n.attnDrop))

	cpe := t.Transpose(t.View(t.Transpose(v, 1, 2), b, -1, c), 1, 2)
	cpe = t.Conv2d("cpe", t.View(t.Contiguous(cpe), b, c, h/scale, w/scale), depthwise(c, 3))
	v = t.Rebind(v, t.Add(v, t.Transpose(t.View(cpe, b, heads, c/heads, -1), -1, -2)))

	y := t.View(t.Transpose(t.Matmul(attn, v), 1, 2), b, l, c)
	return t.Dropout(t.Linear("proj", y, c, true), n.drop)
}
