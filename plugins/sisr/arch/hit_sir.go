package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// HiT-SIR (Zhang et al., 2024): traiNNer/archs/hit_sir_arch.py at 68629319. HiT-SRF differs in its feed-forward network and
// in how it pads: see hit_srf.go.
var _ = entry(func() { register(buildHiT(sir), "hit_sir") })

// A hitKind is one of the three networks.
type hitKind uint8

const (
	sir hitKind = iota
	srf
	sng
)

func buildHiT(kind hitKind) builder {
	return func(s Spec, a *args) Network {
		n := hit{swinIR: swinIR{
			scale: s.Scale, in: a.int("in_chans", 3), dim: a.int("embed_dim", 60), depths: a.ints("depths", 6, 6, 6, 6),
			heads: a.ints("num_heads", 6, 6, 6, 6), mlp: 2, patchNorm: true, qkvBias: true, // expansion_factor goes into **kwargs, which nobody reads
			resi: a.string("resi_connection", "1conv"), upsampler: a.string("upsampler", "pixelshuffledirect"),
		}, kind: kind, base: a.ints("base_win_size", 8, 8), ratios: a.floats("hier_win_ratios", 0.5, 1, 2, 4, 6, 8)}
		a.ignore("img_size", "img_range", "expansion_factor")
		n.check()
		all, largest := int64(1), int64(1)
		for i := range n.deepest() {
			ws := n.window(i)
			if kind == sng {
				ws[0], ws[1] = 2*ws[0], 2*ws[1]
			}
			all, largest = lcm(all, lcm(ws[0], ws[1])), max(largest, ws[0], ws[1])
		}
		least := largest/2 + 1
		if kind != sir {
			least = largest/4 + 1
		}
		if all > largest { // windows of 48 and 64 have none that a crop would be rounded up to
			all = max(n.base[0], n.base[1])
		}
		return Network{InCh: n.in, Forward: n.forward, NoFP16: true, Multiple: all, MinLQ: least}
	}
}

// floats is a list of numbers.
func (a *args) floats(name string, def ...float64) []float64 {
	return listOf(a, name, "a list of numbers", def, toFloat)
}

// hit shares with SwinIR what is around its blocks.
type hit struct {
	swinIR
	kind   hitKind
	base   []int64
	ratios []float64
}

// deepest is the number of blocks of the deepest group.
func (n hit) deepest() (d int64) {
	for _, k := range n.depths {
		d = max(d, k)
	}
	return d
}

// window is the window of the block of that number in its group, by the hierarchy of ratios.
func (n hit) window(i int64) [2]int64 {
	return [2]int64{int64(float64(n.base[0]) * n.ratios[i]), int64(float64(n.base[1]) * n.ratios[i])}
}

// check finds what upstream's constructor or its first forward stops at.
func (n hit) check() {
	refuse(len(n.base) != 2 || n.deepest() > int64(len(n.ratios)),
		"base_win_size %v, hier_win_ratios %v for depths %v", n.base, n.ratios, n.depths)
	for i := range n.deepest() {
		for j, w := range n.window(i) {
			refuse(w < 1 || w%min(w, n.base[j]) != 0, "a window of %d is no multiple of base_win_size %v", w, n.base)
		}
	}
	for i := range min(len(n.heads), len(n.depths)) {
		h := n.heads[i]
		refuse(h < 1 || n.dim%(2*h) != 0, "embed_dim %d does not divide among twice %d heads", n.dim, h)
	}
	refuse(n.kind == sng && (n.base[0] != n.base[1]), "base_win_size %v: windows are square", n.base)
	refuse(n.dim < 16, "embed_dim %d is too small", n.dim)
	n.swinIR.check()
}

func (n hit) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	return n.restore(t, x, x.Dim(2), x.Dim(3), n.features)
}

// features is forward_features.
func (n hit) features(t *nn.Tape, x nn.Tensor) (y nn.Tensor) {
	h, w := x.Dim(2), x.Dim(3)
	y = t.Hold(t.Call("patch_embed", x, embed(true)))
	for i := range n.depths {
		y = t.Rebind(y, t.Call(fmt.Sprint("layers.", i), y, func(t *nn.Tape, x nn.Tensor) nn.Tensor { // RHTB
			group := t.Call("residual_group", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
				for b := range n.depths[i] {
					block := func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.block(t, x, h, w, n.window(b), n.heads[i]) }
					x = t.Rebind(x, t.Call(fmt.Sprint("blocks.", b), x, block))
				}
				return x
			})
			return t.Add(tokens(t, t.Call("conv", image(t, group, h, w), n.resiConv)), x)
		}))
	}
	y = t.Rebind(y, t.LayerNorm("norm", y))
	return image(t, y, h, w)
}

// padded is check_image_size of an image whose channels are last, to a multiple of the block's own window.
func (n hit) padded(t *nn.Tape, x nn.Tensor, win [2]int64) nn.Tensor {
	x = t.Hold(t.Contiguous(t.Permute(x, 0, 3, 1, 2)))
	h, w := x.Dim(2), x.Dim(3)
	ph, pw := multiple(h, win[0]), multiple(w, win[1])
	if n.kind != sir && (ph-h >= h || pw-w >= w) {
		x = t.Rebind(x, t.PadTo(x, true, x.Dim(0), x.Dim(1), 2*h-1, 2*w-1))
	}
	if ph-x.Dim(2) >= x.Dim(2) || pw-x.Dim(3) >= x.Dim(3) {
		panic(fmt.Sprintf("an image of %d×%d cannot be reflected up to a window of %v", h, w, win))
	}
	x = t.Rebind(x, t.PadTo(x, true, x.Dim(0), x.Dim(1), ph, pw))
	return t.Contiguous(t.Permute(x, 0, 2, 3, 1))
}

// block is HierarchicalTransformerBlock.
func (n hit) block(t *nn.Tape, x nn.Tensor, h, w int64, win [2]int64, heads int64) nn.Tensor {
	b, c := x.Dim(0), x.Dim(2)
	shortcut := x
	side := win
	if n.kind == sng {
		side = [2]int64{2 * win[0], 2 * win[1]}
	}
	x = t.Hold(t.Call("", t.View(x, b, h, w, c), func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.padded(t, x, side) }))
	x = t.Rebind(x, t.Call("correlation", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.scc(t, x, win, heads) }))
	x = t.Rebind(x, t.View(t.Contiguous(t.Narrow(t.Narrow(x, 1, h), 2, w)), b, h*w, c))
	x = t.Rebind(x, t.LayerNorm("norm1", x))
	x = t.Rebind(x, t.Add(shortcut, x))
	mlp := n.mlpOf
	if n.kind == srf {
		mlp = func(t *nn.Tape, x nn.Tensor) nn.Tensor { return srformer{swinIR: n.swinIR}.convFFN(t, x, h, w) }
	}
	return t.Add(x, t.LayerNorm("norm2", t.Call("mlp", x, mlp)))
}

// dfe is DFE.
func (n hit) dfe(out int64) nn.Module {
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		b, h, w, c := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
		lrelu := (*nn.Tape).LeakyReLUInplace
		x = t.Hold(t.View(t.Contiguous(t.Permute(t.View(x, b, h*w, c), 0, 2, 1)), b, c, h, w))
		y := t.Sequential("conv", x, conv(c/5, 1).Module(), lrelu, conv(c/5, 3).Module(), lrelu, conv(out, 1).Module())
		x = t.Rebind(x, t.Mul(y, t.Conv2d("linear", x, conv(out, 1))))
		return t.Contiguous(t.Permute(t.View(x, b, out, h*w), 0, 2, 1))
	}
}

// scc is SCC: correlations between pixels, and between channels, of windows.
func (n hit) scc(t *nn.Tape, x nn.Tensor, win [2]int64, heads int64) nn.Tensor {
	b, h, w, c := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	l := win[0] * win[1]
	qv := t.Hold(t.View(t.Call("qv", x, n.dfe(c)), b, h, w, c))
	if n.kind == sng {
		ngrams := func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.ngrams(t, x, win, heads) }
		qv = t.Rebind(qv, t.Call("ngram_window_partition", qv, ngrams))
		return n.correlate(t, qv, b, h, w, win, heads, c)
	}
	parts := t.View(qv, b, h/win[0], win[0], w/win[1], win[1], c)
	qv = t.Rebind(qv, t.View(t.Contiguous(t.Permute(parts, 0, 1, 3, 2, 4, 5)), -1, l, c))
	return n.correlate(t, qv, b, h, w, win, heads, c)
}

// correlate is SCC.forward from its windows on.
func (n hit) correlate(t *nn.Tape, qv nn.Tensor, b, h, w int64, win [2]int64, heads, out int64) nn.Tensor {
	l, c := win[0]*win[1], qv.Dim(2)
	qv = t.Rebind(qv, t.Contiguous(t.Permute(t.View(qv, -1, l, 2, heads, c/(2*heads)), 2, 0, 3, 1, 4)))
	p := t.Unbind(qv)
	reversed := func(x nn.Tensor) nn.Tensor {
		x = t.View(x, b, h/win[0], w/win[1], win[0], win[1], c/2)
		return t.View(t.Contiguous(t.Permute(x, 0, 1, 3, 2, 4, 5)), b, h, w, c/2)
	}
	method := func(f func(t *nn.Tape, q, v nn.Tensor) nn.Tensor) nn.Tensor {
		y := t.Hold(t.Within("", func() nn.Tensor { return f(t, p[0], p[1]) }, p...))
		return t.Rebind(y, reversed(y))
	}
	spatial := method(func(t *nn.Tape, q, v nn.Tensor) nn.Tensor { return n.spatial(t, q, v, win, heads) })
	channel := method(n.channel)
	x := t.Hold(t.Cat(3, spatial, channel))
	return t.Linear("proj", x, out, true)
}

// spatial is spatial_self_correlation, whose index of offsets is made anew in every forward.
func (n hit) spatial(t *nn.Tape, q, v nn.Tensor, win [2]int64, heads int64) nn.Tensor {
	b, l, c := q.Dim(0), q.Dim(2), q.Dim(3)
	base := [2]int64{min(win[0], n.base[0]), min(win[1], n.base[1])}
	all, each := base[0]*base[1], l/(base[0]*base[1])
	v = t.Hold(t.Call("", v, func(t *nn.Tape, x nn.Tensor) nn.Tensor { // spatial_linear_projection
		if each == 1 {
			x = t.Hold(t.View(x, b, heads, all, c, 1))
		} else {
			x = t.Hold(t.Rearrange(x, b, heads, all, c, each))
		}
		return t.View(t.Linear("spatial_linear", x, 1, true), b, heads, all, c)
	}))
	corr := t.Hold(t.DivScalar(t.Matmul(q, t.Transpose(v, -2, -1))))

	biases := t.Hold(t.Zeros(nn.F32, (2*win[0]-1)*(2*win[1]-1), 2))
	pos := t.Hold(t.Call("pos", biases, positionBias(n.dim/4, heads)))
	coords := t.Hold(t.Zeros(nn.I64, 2, l, l))
	coords = t.Rebind(coords, t.Integers("Tensor.contiguous", coords, 1, l, l, 2)[0])
	index := t.Hold(t.Integers("torch.sum", coords, 1, l, l)[0])
	bias := t.Hold(t.View(t.Lookup(pos, index, l*l, heads), l, base[0], win[0]/base[0], base[1], win[1]/base[1], heads))
	mean := t.MeanDim(t.View(t.Contiguous(t.Permute(bias, 0, 1, 3, 5, 2, 4)), l, all, heads, each), 3)
	bias = t.Rebind(bias, t.View(mean, l, all, heads))
	bias = t.Rebind(bias, t.Contiguous(t.Permute(bias, 2, 0, 1)))
	corr = t.Rebind(corr, t.Add(corr, bias))
	return t.View(t.Contiguous(t.Permute(t.Matmul(corr, v), 0, 2, 1, 3)), b, l, heads*c)
}

// channel is channel_self_correlation.
func (n hit) channel(t *nn.Tape, q, v nn.Tensor) nn.Tensor {
	b, heads, l, c := q.Dim(0), q.Dim(1), q.Dim(2), q.Dim(3)
	single := func(x nn.Tensor) nn.Tensor {
		return t.Hold(t.View(t.Contiguous(t.Permute(x, 0, 2, 1, 3)), b, l, heads*c))
	}
	q, v = single(q), single(v)
	corr := t.Hold(t.DivScalar(t.Matmul(t.Transpose(q, -2, -1), v)))
	return t.Contiguous(t.Permute(t.Matmul(corr, t.Transpose(v, -2, -1)), 0, 2, 1))
}
