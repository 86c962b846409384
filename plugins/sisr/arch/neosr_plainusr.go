package arch

import (
	"slices"

	"github.com/launch-ml/launch/core/nn"
)

// PlainUSR of neosr: neosr/archs/plainusr_arch.py at 31c7022.
var _ = entry(func() {
	preset := func(name string, feat, attn int64, im ...int64) {
		networks.add(Neosr, func(s Spec, a *args) Network {
			n := plainUSR{
				scale: s.Scale, feat: a.int("n_feat", feat), im: a.ints("im_feat", im...), attn: a.int("attn_feat", attn),
			}
			want := 3
			if n.feat <= 32 {
				want = 2
			}
			falling := func(a, b int64) int { return int(b - a) }
			refuse(len(n.im) < want || n.im[0] != n.feat || !slices.IsSortedFunc(n.im[:want], falling),
				"im_feat %v for n_feat %d: the first is n_feat, and none is larger than the one "+
					"before", n.im, n.feat)
			return Network{Forward: n.forward, MinLQ: 7}
		}, name)
	}
	preset("plainusr", 64, 16, 64, 48, 32)
	preset("plainusr_ultra", 32, 4, 32, 16)
	preset("plainusr_large", 80, 16, 80, 64, 48)
})

type plainUSR struct {
	scale, feat, attn int64
	im                []int64
}

// versions are those of the first and of the inner blocks (line 415).
func (n plainUSR) versions() (outer, inner int) {
	switch {
	case n.feat <= 32:
		return 1, 3
	case n.feat >= 80:
		return 4, 4
	}
	return 2, 2
}

// forward is plainusr.forward (line 460).
func (n plainUSR) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	x = t.Hold(t.Conv2d("head", x, conv(n.feat+3, 3)))
	outer, inner := n.versions()
	if !t.Training {
		return n.tail(t, n.fastForward(t, x, outer, inner))
	}
	p := t.Split(x, 1, n.im[0], 3)
	pic := t.Hold(p[1])
	y := t.Hold(t.Call("block1", p[0], n.block(outer)))
	q := t.Split(y, 1, n.im[1], n.im[0]-n.im[1]) // views, which keep the whole
	if n.feat <= 32 {
		drop := t.Dead(func() { // their result goes no further (line 471)
			x1 := t.Hold(t.Call("blockm", q[0], n.block(inner)))
			x1 = t.Rebind(x1, t.Cat(1, x1, q[1]))
			t.Rebind(x1, t.Call("block2", x1, n.block(outer)))
		})
		defer drop()
		y = t.Rebind(y, t.Cat(1, y, pic))
		return n.tail(t, y)
	}
	x1 := t.Hold(t.Call("block2", q[0], n.block(inner)))
	r := t.Split(x1, 1, n.im[2], n.im[1]-n.im[2])
	x11 := t.Hold(t.Call("blockm", r[0], n.block(inner)))
	z := t.Hold(t.Cat(1, x11, r[1]))
	z = t.Rebind(z, t.Call("block3", z, n.block(inner)))
	w := t.Hold(t.Cat(1, z, q[1]))
	w = t.Rebind(w, t.Call("block4", w, n.block(outer)))
	w = t.Rebind(w, t.Cat(1, w, pic))
	return n.tail(t, w)
}

// fastForward is fast_forward (line 442), which writes into the image.
func (n plainUSR) fastForward(t *nn.Tape, x nn.Tensor, outer, inner int) nn.Tensor {
	step := func(name string, c int64, version int) {
		x = t.WriteSlice(x, t.Call(name, t.Narrow(x, 1, c), n.block(version)), false)
	}
	step("block1", n.im[0], outer)
	if n.feat <= 32 {
		step("blockm", n.im[1], inner)
		step("block2", n.im[0], outer)
		return x
	}
	step("block2", n.im[1], inner)
	step("blockm", n.im[2], inner)
	step("block3", n.im[1], inner)
	step("block4", n.im[0], outer)
	return x
}

func (n plainUSR) tail(t *nn.Tape, x nn.Tensor) nn.Tensor {
	return t.Sequential("tail", x, conv(3*n.scale*n.scale, 3).Module(), shuffle(n.scale))
}

// block is Block of a version (line 230).
func (n plainUSR) block(version int) nn.Module {
	lrelu := (*nn.Tape).LeakyReLUInplace
	ms := []nn.Module{mbConvPlain, lrelu, mbConvPlain}
	if version == 4 {
		ms = append(ms, lrelu, mbConvPlain)
	}
	if version > 1 {
		ms = append(ms, pConvPlain, func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.localAttention(t, x, version == 3) })
	}
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.Sequential("body", x, ms...) }
}

// mbConvPlain is MBConv (line 58), padded with its own bias.
func mbConvPlain(t *nn.Tape, x nn.Tensor) nn.Tensor {
	c := x.Dim(1)
	identity := t.Hold(t.Conv2d("expand_conv", x, conv(2*c, 1)))
	out := t.Within("expand_conv", func() nn.Tensor { // pad_tensor (line 14)
		pattern := t.View(t.Param("bias", 2*c), 1, 2*c, 1, 1)
		padded := t.Hold(t.PadTo(identity, false, x.Dim(0), 2*c, x.Dim(2)+2, x.Dim(3)+2))
		for range 4 {
			padded = t.WriteSlice(padded, pattern, false)
		}
		return padded
	}, identity)
	out = t.Hold(out)
	out = t.Rebind(out, t.Conv2d("fea_conv", out, nn.Conv{Out: 2 * c, K: 3, Valid: true}))
	attn := func(t *nn.Tape, x nn.Tensor) nn.Tensor { // ASR (line 27)
		w := t.Param("tensor", 1, 2*c, 1, 1)
		y := t.View(t.Mean(w), 1)
		y = t.Expand(y, 1, 2*c)
		y = t.Linear("se.1", y, 2*c/4, false)
		y = t.Hold(t.View(t.Sigmoid(t.Linear("se.3", t.SiLU(y), 2*c, false)), 1, 2*c, 1, 1))
		return t.Mul(y, x)
	}
	out = t.Rebind(out, t.Add(t.Call("se", out, attn), identity))
	out = t.Rebind(out, t.Conv2d("reduce_conv", out, conv(c, 1)))
	return t.Add(out, x)
}

// pConvPlain is PConv (line 133): one channel of all, and a copy of the others.
func pConvPlain(t *nn.Tape, x nn.Tensor) nn.Tensor {
	x1 := t.Hold(t.Conv2d("conv", x, conv(1, 1)))
	x2 := t.Hold(t.Clone(t.Narrow(x, 1, x.Dim(1)-1)))
	return t.Cat(1, x1, x2)
}

// localAttention is LocalAttention (line 165).
func (n plainUSR) localAttention(t *nn.Tape, x nn.Tensor, speed bool) nn.Tensor {
	c := x.Dim(1)
	g := t.Hold(t.Sigmoid(t.Clone(t.Narrow(x, 1, 1))))
	var w nn.Tensor
	if speed {
		w = t.Hold(t.Sequential("body", x, conv(c, 3).Module(), (*nn.Tape).Sigmoid))
	} else {
		soft := func(t *nn.Tape, x nn.Tensor) nn.Tensor { // SoftPooling2D
			exp := t.Hold(t.Exp(x))
			pool := t.Hold(t.AvgPool2d(exp, 7, 3, 0))
			x = t.Hold(t.AvgPool2d(t.Mul(exp, x), 7, 3, 0))
			return t.Div(x, pool)
		}
		y := t.Sequential("body", x, conv(n.attn, 1).Module(), soft, nn.Conv{Out: n.attn, K: 3, Stride: 2}.Module(),
			conv(c, 3).Module(), (*nn.Tape).Sigmoid)
		w = t.Hold(t.Interpolate(y, x.Dim(2), x.Dim(3)))
	}
	return t.Mul(t.Mul(x, w), g)
}
