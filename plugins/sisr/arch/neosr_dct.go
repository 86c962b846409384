package arch

import (
	"fmt"
	"slices"

	"github.com/launch-ml/launch/core/nn"
)

// DCT of neosr: neosr/archs/dct_arch.py at 31c7022. Around its blocks, and within their windows, it is DAT.
var _ = networks.add(Neosr, func(s Spec, a *args) Network {
	ownScale(s, a, "upscale")
	a.swallow = true
	n := dct{dat{
		scale: s.Scale, up: s.Scale, in: a.int("in_chans", 3), img: a.int("img_size", 64), dim: a.int("embed_dim", 80),
		split: a.ints("split_size", 2, 4), depths: a.ints("depth", 20), heads: a.ints("num_heads", 8),
		expansion: a.float("expansion_factor", 4), resi: a.string("resi_connection", "3conv"),
		qkvBias: a.bool("qkv_bias", true),
		drop:    a.float("drop_rate", 0), attnDrop: a.float("attn_drop_rate", 0), dropPath: a.float("drop_path_rate", 0.1),
		upsampler: a.string("upsampler", "pixelshuffledirect"),
	}}
	a.ignore("qk_scale", "img_range")
	n.check()
	for _, h := range n.heads[:len(n.depths)] {
		refuse(h%4 != 0 || n.dim%4 != 0 || n.dim/4%(h/4) != 0,
			"embed_dim %d and num_heads %d: the windows have a quarter of the channels and "+
				"of the heads", n.dim, h)
	}
	return Network{InCh: n.in, Forward: n.forward, Multiple: max(n.split[0], n.split[1])}
}, "dct")

type dct struct{ dat }

// forward is dct.forward (line 967).
func (n dct) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	mean := t.Hold(t.Zeros(x.DType(), 1, n.in, 1, 1))
	x = t.Hold(t.Rebind(x, t.MulScalar(t.Sub(x, mean))))
	x = t.Rebind(x, t.Conv2d("conv_first", x, conv(n.dim, 3)))
	x = t.Rebind(x, t.Add(t.Call("conv_after_body", t.Call("", x, n.features), n.resiConv), x))
	if n.upsampler == "pixelshuffle" {
		x = t.Rebind(x, t.Sequential("conv_before_upsample", x, conv(swinFeat, 3).Module(), (*nn.Tape).LeakyReLUInplace))
		x = t.Rebind(x, t.Conv2d("conv_last", t.Call("upsample", x, upsample(n.up, swinFeat)), conv(n.in, 3)))
	} else {
		x = t.Rebind(x, t.Sequential("upsample", x, conv(n.up*n.up*n.in, 3).Module(), shuffle(n.up)))
	}
	return t.Rebind(x, t.Add(t.DivScalar(x), mean))
}

// features is forward_features (line 958).
func (n dct) features(t *nn.Tape, x nn.Tensor) (y nn.Tensor) {
	h, w := x.Dim(2), x.Dim(3)
	y = t.Hold(t.Sequential("before_RG", x, tokens, named((*nn.Tape).LayerNorm)))
	y = layers(t, y, n.dropPath, n.depths, func(t *nn.Tape, x nn.Tensor, i int, rate dropPaths) nn.Tensor {
		return n.group(t, x, h, w, int64(i), rate)
	})
	y = t.Rebind(y, t.LayerNorm("norm", y))
	return t.Contiguous(spread(t, y, h, w))
}

// group is ResidualGroup (line 671): every second block goes by what the one before has made.
func (n dct) group(t *nn.Tape, x nn.Tensor, h, w, rg int64, rate dropPaths) nn.Tensor {
	res := x
	var previous, unused nn.Tensor // the latter is _, which lives until the next
	for b := range n.depths[rg] {
		var y, out nn.Tensor
		t.Scope(fmt.Sprint("blocks.", b), func() { y, out = n.block(t, x, previous, h, w, rg, b, rate(b)) }, x, previous)
		x = t.Assign(b == 0, x, y)
		if b%2 == 0 {
			previous = t.Hold(out)
		} else {
			t.Rebind(previous, out)
			if b > 1 {
				t.Rebind(unused, out)
			}
			previous, unused = nn.Tensor{}, out
		}
	}
	x = t.Hold(t.Contiguous(spread(t, x, h, w)))
	x = t.Rebind(x, t.Call("conv", x, n.resiConv))
	return t.Add(res, tokens(t, x))
}

// block is DCTB (line 570).
func (n dct) block(t *nn.Tape, x, previous nn.Tensor, h, w, rg, b int64, dropPath float64) (y, outX nn.Tensor) {
	half := n.dim / 2
	norm := func() nn.Tensor { return t.LayerNorm("norm1", t.Narrow(x, 2, half)) }
	if b%2 == 0 {
		swsa := t.Hold(t.Call("swsa", norm(), func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			return n.windowed(t, x, h, w, rg, b)
		}))
		lla := t.Hold(norm())
		lla = t.Rebind(lla, t.Call("lla", lla, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			return n.linear(t, x,
				n.heads[rg]/2)
		}))
		outX = t.Hold(t.Cat(-1, swsa, lla))
		y = x
	} else {
		s, l := t.Hold(norm()), t.Hold(norm())
		y = t.Cat(-1, s, l)
		y = t.Hold(y)
		out := t.Hold(t.Contiguous(spread(t, previous, h, w)))
		out = t.Rebind(out, t.Conv2d("fc1", out, conv(n.dim/4, 1)))
		out = t.Rebind(out, t.GELU(t.Conv2d("dwc", out, conv(n.dim/4, 3))))
		out = t.Rebind(out, t.Conv2d("fc2", out, conv(n.dim, 1)))
		weights := t.Hold(t.Sequential("eca", out, (*nn.Tape).AvgPoolAll, conv(n.dim/16, 1).Module(), (*nn.Tape).ReLUInplace,
			conv(n.dim, 1).Module(), (*nn.Tape).Sigmoid))
		out = t.Rebind(out, t.Mul(out, weights))
		outX = t.Hold(t.Contiguous(tokens(t, out)))
	}
	if sum := t.Add(y, dropPathOf(t, outX, dropPath)); b%2 == 0 {
		y = t.Hold(sum)
	} else {
		y = t.Rebind(y, sum)
	}
	ffn := t.Call("ffn", t.LayerNorm("norm2", y), func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.sgfn(t, x, h, w) })
	return t.Rebind(y, t.Add(y, dropPathOf(t, ffn, dropPath))), outX
}

// windowed is Adaptive_Window_Attention (line 271), of half the channels. It makes an image of the values for
// nothing.
func (n dct) windowed(t *nn.Tape, x nn.Tensor, h, w, rg, b int64) nn.Tensor {
	d := n.dat
	d.dim, d.heads = n.dim/2, slices.Clone(n.heads)
	_, attened := d.rectangleWindows(t, x, h, w, n.heads[rg]/2, shifted(rg, b))
	attened = t.Rebind(attened, t.Linear("proj", attened, d.dim, true))
	return t.Dropout(attened, n.drop)
}

// linear is Linear_Attention (line 497), without its sparse part.
func (n dct) linear(t *nn.Tape, x nn.Tensor, heads int64) nn.Tensor {
	b, l, c := x.Dim(0), x.Dim(1), x.Dim(2)
	qkv := t.Hold(t.Permute(t.View(t.Linear("qkv", x, 3*c, false), b, l, 3, heads, c/heads), 2, 0, 3, 1, 4))
	p := t.Unbind(qkv)
	q, k, v := p[0], p[1], p[2]
	q = t.Hold(t.Div(q, t.Norm(q, 3)))
	k = t.Hold(t.Div(k, t.Norm(k, 3)))
	local := t.Hold(t.Conv2d("dconv", v, nn.Conv{Out: heads, K: 9, KW: 1, Groups: heads, NoBias: true}))
	attn := t.Hold(t.Matmul(t.Transpose(k, -2, -1), v))
	y := t.Hold(t.Add(t.MulScalar(v), t.MulScalar(t.Matmul(q, attn))))
	y = t.Rebind(y, t.Div(y, t.Norm(y, 3)))
	y = t.AddInplace(y, local)
	y = t.Rebind(y, t.Reshape(t.Transpose(y, 1, 2), b, l, c))
	return t.Rebind(y, t.Linear("proj", y, c, true))
}
