package arch

import (
	"fmt"
	"slices"

	"github.com/launch-ml/launch/core/nn"
)

// HMANet of neosr: neosr/archs/hma_arch.py at 31c7022.
var _ = entry(func() {
	preset := func(name string, img, window, dim int64, layers int) {
		networks.add(Neosr, func(s Spec, a *args) Network {
			ownScale(s, a, "upscale")
			a.swallow = true
			six := slices.Repeat([]int64{6}, layers)
			n := hma{
				scale: s.Scale, img: a.int("img_size", img), in: a.int("in_chans", 3),
				dim: a.int("embed_dim", dim), depths: a.ints("depths", six...),
				heads: a.ints("num_heads", six...), window: a.int("window_size", window), interval: a.int("interval_size", 4),
				mlp: a.float("mlp_ratio", 2), qkvBias: a.bool("qkv_bias", true), drop: a.float("drop_rate", 0),
				attnDrop: a.float("attn_drop_rate", 0), dropPath: a.float("drop_path_rate", 0.1),
				patchNorm: a.bool("patch_norm", true),
			}
			a.ignore("qk_scale", "img_range", "use_checkpoint") // which no block reads
			a.usual()
			n.check()
			side := n.window
			for side%n.interval != 0 {
				side += n.window
			}
			return Network{InCh: n.in, Forward: n.forward, Multiple: side}
		}, name)
	}
	preset("hma", 64, 8, 60, 4)
	preset("hma_medium", 64, 16, 180, 6)
	preset("hma_large", 48, 24, 180, 12)
})

type hma struct {
	scale, img, in, dim, window, interval int64
	depths, heads                         []int64
	mlp, drop, attnDrop, dropPath         float64
	qkvBias, patchNorm                    bool
}

// check finds what the constructor or the first forward stops at.
func (n hma) check() {
	refuse(n.window < 2 || n.interval < 1 || n.img <= n.window,
		"img_size %d, window_size %d, interval_size %d", n.img, n.window, n.interval)
	refuse(len(n.heads) < len(n.depths) || n.dim < 4 || n.dim%4 != 0,
		"embed_dim %d, num_heads %v for depths %v", n.dim, n.heads, n.depths)
	for _, h := range n.heads[:len(n.depths)] {
		refuse(h < 2 || n.dim%h != 0 || n.dim/2%(h/2) != 0 || n.dim/4%(h/2) != 0,
			"embed_dim %d does not divide among %d heads", n.dim, h)
	}
	refuse(n.dim/8/4 < 1, "embed_dim: its position bias wants 32 channels at least")
	upsamples(n.scale)
}

// forward is hma.forward (line 1368).
func (n hma) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	t.Buffer("relative_position_index_SA", nn.I64, n.window*n.window, n.window*n.window)
	mean := t.Hold(t.Zeros(x.DType(), 1, n.in, 1, 1))
	x = t.Hold(t.MulScalar(t.Sub(x, mean)))
	x = t.Rebind(x, t.Conv2d("conv_first", x, conv(n.dim, 3)))
	x = t.Rebind(x, t.Add(t.Conv2d("conv_after_body", t.Call("", x, n.features), conv(n.dim, 3)), x))
	x = t.Rebind(x, t.Sequential("conv_before_upsample", x, conv(swinFeat, 3).Module(), (*nn.Tape).LeakyReLUInplace))
	x = t.Rebind(x, t.Conv2d("conv_last", t.Call("upsample", x, upsample(n.scale, swinFeat)), conv(n.in, 3)))
	return t.Rebind(x, t.Add(t.DivScalar(x), mean))
}

// features is forward_features (line 1345).
func (n hma) features(t *nn.Tape, x nn.Tensor) (y nn.Tensor) {
	h, w, ws := x.Dim(2), x.Dim(3), n.window
	mask := t.Hold(t.Zeros(nn.F32, h/ws*(w/ws), ws*ws, ws*ws))
	y = t.Hold(t.Call("patch_embed", x, embed(n.patchNorm)))
	y = layers(t, y, n.dropPath, n.depths, func(t *nn.Tape, x nn.Tensor, i int, rate dropPaths) nn.Tensor { // RHTB
		group := t.Call("residual_group", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			return n.blocks(t, x, mask, h, w, i, rate)
		})
		return t.Add(tokens(t, t.Conv2d("conv", image(t, group, h, w), conv(n.dim, 3))), x)
	})
	y = t.Rebind(y, t.LayerNorm("norm", y))
	return image(t, y, h, w)
}

// blocks is AttenBlocks (line 787): of each pair the first has a FusedConv before it.
func (n hma) blocks(t *nn.Tape, x, mask nn.Tensor, h, w int64, layer int, rate dropPaths) nn.Tensor {
	at, held := 0, false
	run := func(m nn.Module) {
		y := t.Call(fmt.Sprint("blocks.", at), x, m)
		if held {
			x = t.Rebind(x, y)
		} else {
			x, held = t.Hold(y), true
		}
		at++
	}
	heads := n.heads[layer]
	for i := range n.depths[layer] {
		if i%2 == 0 {
			run(func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.fusedConv(t, x, h, w) })
		}
		run(func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.fab(t, x, mask, h, w, heads, i%2 == 1, rate(i)) })
	}
	y := t.Hold(t.Call("gab", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.gab(t, x, mask, h, w, heads) }))
	return t.Add(x, t.Mul(y, t.Param("scale", n.dim)))
}

// fusedConv is FusedConv (line 443).
func (n hma) fusedConv(t *nn.Tape, x nn.Tensor, h, w int64) nn.Tensor {
	const expand, ratio = 6, 2
	b, mid := x.Dim(0), n.dim*expand
	y := t.Hold(t.Permute(t.LayerNorm("pre_norm", t.View(x, b, h, w, n.dim)), 0, 3, 1, 2))
	y = t.Rebind(y, t.Contiguous(t.Permute(t.Conv2d("fused_conv", y, conv(mid, 3)), 0, 2, 3, 1)))
	y = t.Rebind(y, t.GELU(t.Contiguous(t.Permute(t.LayerNorm("norm1", y), 0, 3, 1, 2))))
	y = t.Rebind(y, t.Call("se", y, func(t *nn.Tape, x nn.Tensor) nn.Tensor { // SEModule
		s := t.Hold(t.MeanDim(x, 2, 3))
		s = t.Rebind(s, t.Conv2d("fc1", s, conv(mid/ratio, 1)))
		s = t.SiLUInplace(s)
		s = t.Rebind(s, t.Conv2d("fc2", s, conv(mid, 1)))
		return t.Mul(x, t.Sigmoid(s))
	}))
	y = t.Rebind(y, t.View(t.Contiguous(t.Permute(t.Conv2d("conv3_1x1", y, conv(n.dim, 1)), 0, 2, 3, 1)), b, h*w, n.dim))
	return t.Add(y, x)
}

// mlpOf is Mlp.
func (n hma) mlpOf(t *nn.Tape, x nn.Tensor) nn.Tensor {
	return swinIR{dim: n.dim, mlp: n.mlp, drop: n.drop}.mlpOf(t, x)
}

// fab is FAB (line 265).
func (n hma) fab(t *nn.Tape, x, mask nn.Tensor, h, w, heads int64, shift bool, dropPath float64) nn.Tensor {
	b, c, ws := x.Dim(0), x.Dim(2), n.window
	y := t.Hold(t.View(t.LayerNorm("norm1", x), b, h, w, c))
	shifted := y
	if shift {
		shifted = t.Hold(t.Roll(y))
	} else {
		mask = nn.Tensor{}
	}
	xWindows := t.Hold(windows(t, shifted, ws))
	qkv := t.Linear("qkv", xWindows, 3*c, n.qkvBias)
	attended := t.Hold(t.Within("attn", func() nn.Tensor { return n.windowAttention(t, qkv, mask, heads) }, qkv, mask))
	merged := t.Hold(windowReverse(t, attended, ws, b, h, w))
	attnX := merged
	if shift {
		attnX = t.Hold(t.Roll(merged))
	}
	y = t.Rebind(y, t.Add(x, dropPathOf(t, t.View(attnX, b, h*w, c), dropPath)))
	return t.Rebind(y, t.Add(y, dropPathOf(t, t.Call("mlp", t.LayerNorm("norm2", y), n.mlpOf), dropPath)))
}

// windowAttention is WindowAttention (line 172), of queries, keys and values side by side.
func (n hma) windowAttention(t *nn.Tape, x, mask nn.Tensor, heads int64) nn.Tensor {
	b, area, c, ws := x.Dim(0), x.Dim(1), x.Dim(2)/3, n.window
	table := t.Param("relative_position_bias_table", (2*ws-1)*(2*ws-1), heads)
	p := t.Unbind(t.Permute(t.View(x, b, area, 3, heads, c/heads), 2, 0, 3, 1, 4))
	q, k, v := p[0], p[1], p[2]
	q = t.Hold(t.MulScalar(q))
	attn := t.Hold(t.Matmul(q, t.Transpose(k, -2, -1)))
	attn = biased(t, attn, table, area, area, heads)
	if mask.Dims() > 0 {
		nW := mask.Dim(0)
		attn = t.Rebind(attn, t.Add(t.View(attn, b/nW, nW, heads, area, area), t.View(mask, 1, nW, 1, area, area)))
		attn = t.Rebind(attn, t.View(attn, -1, heads, area, area))
	}
	attn = t.Rebind(attn, t.Softmax(attn))
	attn = t.Rebind(attn, t.Dropout(attn, n.attnDrop))
	y := t.Hold(t.Reshape(t.Transpose(t.Matmul(attn, v), 1, 2), b, area, c))
	y = t.Rebind(y, t.Linear("proj", y, c, true))
	return t.Dropout(y, n.drop)
}

// gridShuffle is grid_shuffle (line 107): every interval's pixels together.
func (n hma) gridShuffle(t *nn.Tape, x nn.Tensor, h, w int64) nn.Tensor {
	i, c := n.interval, x.Dim(-1)
	x = t.View(x, x.Dim(0), h/i, i, w/i, i, c)
	return t.View(t.Contiguous(t.Permute(x, 0, 2, 4, 1, 3, 5)), -1, h/i*(w/i), c)
}

// gab is GAB (line 647): a grid's attention of half the channels, windows' and shifted windows' of a quarter each.
func (n hma) gab(t *nn.Tape, x, mask nn.Tensor, h, w, heads int64) nn.Tensor {
	b, c, ws, i := x.Dim(0), x.Dim(2), n.window, n.interval
	gh, gw := h/i, w/i
	qkv := t.Hold(t.Linear("qkv", x, 3*c, n.qkvBias))
	p := t.Split(qkv, -1, 3*c/2, 3*c/2)
	grid := t.Hold(t.Linear("grid_proj", n.gridShuffle(t, t.View(x, b, h, w, c), h, w), c/2, true))
	gridQKV := t.Hold(n.gridShuffle(t, t.View(p[1], b, h, w, 3*c/2), h, w))
	gridAttn := t.Hold(t.Within("grid_attn", func() nn.Tensor {
		return n.gridAttention(t, gridQKV, grid, gh, gw, heads/2)
	}, gridQKV, grid))
	gridAttn = t.Rebind(gridAttn, t.View(t.Contiguous(t.Permute(t.View(gridAttn, b, i, i, gh, gw, c/2), 0, 3, 1, 4, 2,
		5)), b, h*w, c/2))

	parts := t.Split(t.View(p[0], b, h, w, 3*c/2), -1, 3*c/4, 3*c/4)
	window := t.Hold(windows(t, parts[0], ws))
	windowS := t.Hold(t.View(t.Roll(parts[1]), -1, ws*ws, 3*c/4))
	attend := func(name string, x, mask nn.Tensor) (y nn.Tensor) {
		t.Scope(name, func() { y = n.windowAttention(t, x, mask, heads/2) }, x, mask)
		y = t.Hold(y)
		return t.Rebind(y, t.View(windowReverse(t, y, ws, b, h, w), b, h*w, c/4))
	}
	win := attend("window_attn", window, nn.Tensor{})
	winS := attend("window_attn_s", windowS, mask)
	winS = t.Rebind(winS, t.Roll(winS))
	win = t.Rebind(win, t.Cat(-1, win, winS))
	y := t.Hold(t.Cat(-1, win, gridAttn))
	y = t.Rebind(y, t.LayerNorm("norm1", t.Linear("fc", y, c, true)))
	y = t.Rebind(y, t.Add(x, y))
	return t.Rebind(y, t.Add(y, t.LayerNorm("norm2", t.Call("mlp", y, n.mlpOf))))
}

// gridAttention is GridAttention (line 578).
func (n hma) gridAttention(t *nn.Tape, qkv, grid nn.Tensor, h, w, heads int64) nn.Tensor {
	b, area, c := grid.Dim(0), grid.Dim(1), grid.Dim(2)
	p := t.Unbind(t.Permute(t.View(qkv, b, area, 3, heads, c/heads), 2, 0, 3, 1, 4))
	g := t.Permute(t.View(grid, b, area, heads, c/heads), 0, 2, 1, 3)
	transform := func(name string, q, k, v nn.Tensor) nn.Tensor {
		return t.Within(name, func() nn.Tensor { return n.affineTransform(t, q, k, v, h, w) }, q, k, v)
	}
	y := t.Hold(transform("attn_transform1", g, p[1], p[2]))
	y = t.Rebind(y, transform("attn_transform2", p[0], g, y))
	return t.Rebind(y, t.Reshape(t.Transpose(y, 1, 2), b, area, c))
}

// affineTransform is AffineTransform (line 478), whose bias is made for the size at hand.
func (n hma) affineTransform(t *nn.Tape, q, k, v nn.Tensor, h, w int64) nn.Tensor {
	area, heads := h*w, q.Dim(1)
	q = t.Hold(t.MulScalar(q))
	attn := t.Hold(t.Matmul(q, t.Transpose(k, -2, -1)))
	biases := t.Hold(t.Zeros(nn.F32, (2*h-1)*(2*w-1), 2))
	coords := t.Hold(t.Zeros(nn.I64, area, area, 2))
	index := t.Hold(t.Indices(area * area))
	pos := t.Hold(t.Call("pos", biases, positionBias(n.dim/8, heads)))
	bias := t.Hold(t.View(t.Lookup(pos, index, area*area, heads), area, area, heads))
	bias = t.Rebind(bias, t.Contiguous(t.Permute(bias, 2, 0, 1)))
	attn = t.Rebind(attn, t.Add(attn, bias))
	attn = t.Rebind(attn, t.Softmax(attn))
	y := t.Hold(t.Dropout(attn, n.attnDrop))
	t.Hold(coords)
	return t.Rebind(y, t.Matmul(y, v))
}
