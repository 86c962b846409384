package arch

import (
	"fmt"
	"slices"

	"github.com/launch-ml/launch/core/nn"
)

// GRL (Li et al., 2023), as traiNNer-redux builds it from spandrel 0.4.2 (architectures/GRL/__arch: grl.py,
// mixed_attn_block_efficient.py, mixed_attn_block.py, ops.py; defaults in traiNNer/archs/grl_arch.py at 68629319).
//
// There is no formula with other projections than its variants', with groups of stripes, with Euclidean distances, or with
// fairscale's checkpoints.
var _ = entry(func() {
	grl := func(dim int64, depths []int64, heads int64, local bool, upsampler string) builder {
		return func(s Spec, a *args) Network {
			same := slices.Repeat([]int64{heads}, len(depths))
			n := grl{swinIR: swinIR{
				scale: s.Scale, img: a.int("img_size", 64), in: a.int("in_channels", 3), dim: a.int("embed_dim", dim),
				depths: a.ints("depths", depths...), heads: a.ints("num_heads_window", same...), window: a.int("window_size", 32),
				mlp: a.float("mlp_ratio", 2), qkvBias: a.bool("qkv_bias", true), drop: a.float("drop_rate", 0),
				attnDrop: a.float("attn_drop_rate", 0), dropPath: a.float("drop_path_rate", 0.1),
				upsampler: a.string("upsampler", upsampler), resi: a.string("conv_type", "1conv"),
			}, stripeHeads: a.ints("num_heads_stripe", same...), stripe: a.ints("stripe_size", 64, 64), shift: a.bool("stripe_shift", true),
				down: a.int("anchor_window_down_factor", 4), local: a.bool("local_connection", local)}
			a.ignore("img_range", "out_proj_type", "norm_layer", "pretrained_window_size", "pretrained_stripe_size", "init_method", "offload_to_cpu")
			groups, _ := a.get("stripe_groups")
			for _, g := range asList(groups) {
				refuse(g != nil, "stripe_groups %v: %w", groups, ErrUnknown)
			}
			a.bool("anchor_one_stage", true) // pooling has one stage, whatever it says
			n.pool = a.string("anchor_proj_type", "avgpool")
			refuse(a.string("qkv_proj_type", "linear") != "linear" || n.pool != "avgpool" && n.pool != "maxpool",
				"qkv_proj_type or anchor_proj_type: %w", ErrUnknown)
			refuse(a.bool("euclidean_dist", false) || a.bool("fairscale_checkpoint", false) || a.int("out_channels", 3) != n.in,
				"euclidean_dist, fairscale_checkpoint or out_channels: %w", ErrUnknown)
			refuse(n.resi == "1conv1x1" || n.resi == "linear", "conv_type %s: %w", n.resi, ErrUnknown)
			n.check()
			return Network{InCh: n.in, Forward: n.forward, NoFP16: true, Multiple: n.pad()}
		}
	}
	register(grl(180, []int64{4, 4, 8, 8, 8, 4, 4}, 3, true, "pixelshuffle"), "grl_b")
	register(grl(128, []int64{4, 4, 4, 4}, 2, false, "pixelshuffle"), "grl_s")
	register(grl(64, []int64{4, 4, 4, 4}, 2, false, "pixelshuffledirect"), "grl_t")
})

func asList(v any) []any {
	list, _ := v.([]any)
	return list
}

// grl shares with SwinIR what is around its blocks.
type grl struct {
	swinIR
	stripeHeads, stripe []int64
	down                int64 // anchor_window_down_factor
	shift, local        bool
	pool                string
}

// pad is pad_size.
func (n grl) pad() int64 { return max(n.window, n.stripe[0], n.stripe[1]) }

// check finds what upstream's constructor or its first forward stops at.
func (n grl) check() {
	refuse(len(n.stripe) != 2 || min(n.stripe[0], n.stripe[1], n.window, n.down, n.img) < 1 ||
		len(n.stripeHeads) < len(n.depths),
		"stripe_size %v, window_size %d, anchor_window_down_factor %d, num_heads_stripe %v",
		n.stripe, n.window, n.down, n.stripeHeads)
	for _, side := range []int64{n.window, n.stripe[0], n.stripe[1]} {
		refuse(n.img%side != 0 || n.pad()%side != 0,
			"img_size %d, or what an image is padded to, does not divide into %d", n.img, side)
	}
	refuse(n.stripe[0]%n.down != 0 || n.stripe[1]%n.down != 0,
		"stripe_size %v does not divide by anchor_window_down_factor %d", n.stripe, n.down)
	for i := range min(len(n.heads), len(n.depths)) {
		w, s := n.heads[i], n.stripeHeads[i]
		refuse(w < 1 || s < 1 || n.dim%2 != 0 || n.dim/2%w != 0 || n.dim/2%s != 0,
			"half of embed_dim %d does not divide among %d and %d heads", n.dim, w, s)
	}
	refuse(n.local && n.dim < 18, "embed_dim %d is too small", n.dim)
	n.swinIR.check()
}

func (n grl) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	h, w := x.Dim(2), x.Dim(3)
	if ph, pw := multiple(h, n.pad()), multiple(w, n.pad()); ph != h || pw != w { // reflected, or with zeros where that is too much
		x = t.Hold(t.PadTo(x, true, x.Dim(0), x.Dim(1), ph, pw))
	}
	return n.restore(t, x, h, w, n.features)
}

// A grlWindow is a kind of attention with its shared table, index and mask: set_table_index_mask.
type grlWindow struct {
	table, index, mask nn.Tensor
	from, to           int64 // tokens of a window
}

// features is forward_features.
func (n grl) features(t *nn.Tape, x nn.Tensor) (y nn.Tensor) {
	h, w := x.Dim(2), x.Dim(3)
	y = t.Hold(t.LayerNorm("norm_start", tokens(t, x)))
	y = t.Rebind(y, t.Dropout(y, n.drop))

	windows, stripes := n.windows(t, h, w)
	y = layers(t, y, n.dropPath, n.depths, func(t *nn.Tape, x nn.Tensor, i int, rate dropPaths) nn.Tensor {
		res := x // of a TransformerStage
		for b := range n.depths[i] {
			rate := rate(b)
			block := func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.block(t, x, h, w, i, b, rate, windows, stripes[b%2]) }
			out := t.Call(fmt.Sprint("blocks.", b), res, block)
			res = t.Assign(b == 0, res, out)
		}
		res = t.Rebind(res, tokens(t, t.Call("conv", image(t, res, h, w), n.resiConv)))
		return t.Add(res, x)
	})
	y = t.Rebind(y, t.LayerNorm("norm_end", y))
	return image(t, y, h, w)
}

// windows are the tables, indices and masks of the window attention, and those of the stripes by their direction: lying and standing,
// each from the anchors and to them.
func (n grl) windows(t *nn.Tape, h, w int64) (windows grlWindow, stripes [2][2]grlWindow) {
	own := h == n.img && w == n.img // the buffers are for this size, or all are made anew
	shared := func(name string, d nn.DType, fits bool, shape ...int64) nn.Tensor {
		if fits {
			return t.Buffer(name, d, shape...)
		}
		return t.Hold(t.Zeros(d, shape...))
	}
	kind := func(name, table string, wh, ww, ah, aw int64, toAnchor bool) grlWindow {
		from, to := wh*ww, ah*aw
		if !toAnchor {
			from, to = to, from
		}
		k := grlWindow{from: from, to: to}
		all := func(side int64) int64 { return side / wh * (side / ww) }
		t.Buffer("table_"+table, nn.F32, 1, wh+ah-1, ww+aw-1, 2)
		t.Buffer("index_"+name, nn.I64, from, to)
		t.Buffer("mask_"+name, nn.F32, all(n.img), from, to)
		k.table = shared("table_"+table, nn.F32, own, 1, wh+ah-1, ww+aw-1, 2)
		k.index = shared("index_"+name, nn.I64, own, from, to)
		if own {
			k.mask = t.Buffer("mask_"+name, nn.F32)
		} else {
			k.mask = t.Hold(t.Zeros(nn.F32, h/wh*(w/ww), from, to))
		}
		return k
	}
	sh, sw := n.stripe[0], n.stripe[1]
	windows = kind("w", "w", n.window, n.window, n.window, n.window, true)
	stripes = [2][2]grlWindow{ // lying and standing, from the anchors and to them
		{kind("sh_a2w", "sh", sh, sw, sh/n.down, sw/n.down, false), kind("sh_w2a", "sh", sh, sw, sh/n.down, sw/n.down, true)},
		{kind("sv_a2w", "sv", sw, sh, sw/n.down, sh/n.down, false), kind("sv_w2a", "sv", sw, sh, sw/n.down, sh/n.down, true)},
	}
	return windows, stripes
}

// block is EfficientMixAttnTransformerBlock.
func (n grl) block(t *nn.Tape, x nn.Tensor, h, w int64, layer int, b int64, dropPath float64, windows grlWindow, stripes [2]grlWindow) nn.Tensor {
	attn := t.Call("attn", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.mixed(t, x, h, w, layer, b, windows, stripes) })
	y := t.Add(x, t.MulScalar(dropPathOf(t, t.LayerNorm("norm1", attn), dropPath)))
	if n.local {
		y = t.Add(y, t.Call("conv", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			local := hat{swinIR: n.swinIR, compress: 4, squeeze: 18} // CAB
			return tokens(t, t.Call("", t.Contiguous(image(t, x, h, w)), local.cab))
		}))
	}
	x = t.Hold(y)
	return t.Add(x, t.MulScalar(dropPathOf(t, t.LayerNorm("norm2", t.Call("mlp", x, n.mlpOf)), dropPath)))
}

// mixed is MixedAttention: half of the channels in windows, half in stripes by way of anchors.
func (n grl) mixed(t *nn.Tape, x nn.Tensor, h, w int64, layer int, b int64, windows grlWindow, stripes [2]grlWindow) nn.Tensor {
	c := n.dim
	qkv := t.Hold(t.Linear("qkv.body", x, 3*c, n.qkvBias))
	halves := t.Split(qkv, 2, c*3/2, c*3/2)
	anchor := t.Hold(t.Call("anchor.body.0", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor { // AnchorLinear
		small := image(t, x, h, w)
		if n.pool == "maxpool" {
			small = t.MaxPool2d(small, n.down, n.down)
		} else {
			small = t.AvgPoolBy(small, n.down)
		}
		y := t.Hold(t.Linear("reduction", tokens(t, small), c/2, true))
		return t.View(y, y.Dim(0), h/n.down, w/n.down, c/2)
	}))
	xWindow := t.Hold(t.Call("window_attn", halves[0], func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		qkv := n.parts(t, x, h, w, n.window, n.window, b%2 == 0, n.heads[layer])
		if b%2 != 0 {
			windows.mask = nn.Tensor{}
		}
		y := t.Hold(n.attend(t, qkv[0], qkv[1], qkv[2], "attn_transform", windows))
		y = t.Rebind(y, t.Clone(t.Transpose(y, 1, 2)))
		return n.merge(t, y, h, w, n.window, n.window, b%2 == 0)
	}))
	xStripe := t.Within("stripe_attn", func() nn.Tensor {
		sh, sw, shift := n.stripe[0], n.stripe[1], n.shift && b%4 >= 2
		if b%2 != 0 {
			sh, sw = sw, sh
		}
		if !shift {
			stripes[0].mask, stripes[1].mask = nn.Tensor{}, nn.Tensor{}
		}
		small, heads := anchor, n.stripeHeads[layer]
		if shift {
			small = t.Hold(t.Roll(small))
		}
		qkv := n.parts(t, halves[1], h, w, sh, sw, shift, heads)
		ah, aw := sh/n.down, sw/n.down
		small = t.Hold(t.Contiguous(t.Permute(t.View(small, -1, h/sh, ah, w/sw, aw, c/2), 0, 1, 3, 2, 4, 5)))
		a := t.Permute(t.View(small, qkv[0].Dim(0), ah*aw, heads, c/2/heads), 0, 2, 1, 3)
		y := t.Hold(n.attend(t, a, qkv[1], qkv[2], "attn_transform1", stripes[0]))
		y = t.Rebind(y, n.attend(t, qkv[0], a, y, "attn_transform2", stripes[1]))
		y = t.Rebind(y, t.Clone(t.Transpose(y, 1, 2)))
		return n.merge(t, y, h, w, sh, sw, shift)
	}, halves[1], anchor)
	t.Hold(xStripe)
	y := t.Hold(t.Cat(2, xWindow, xStripe))
	return t.Dropout(t.Linear("proj", y, c, true), n.drop)
}

// parts are queries, keys and values of windows of wh×ww pixels.
func (n grl) parts(t *nn.Tape, qkv nn.Tensor, h, w, wh, ww int64, shift bool, heads int64) []nn.Tensor {
	b, c := qkv.Dim(0), qkv.Dim(2)
	qkv = t.View(qkv, b, h, w, c)
	if shift {
		qkv = t.Roll(qkv)
	}
	qkv = t.Hold(t.Contiguous(t.Permute(t.View(qkv, b, h/wh, wh, w/ww, ww, c), 0, 1, 3, 2, 4, 5)))
	return t.Unbind(t.Permute(t.View(qkv, -1, wh*ww, 3, heads, c/3/heads), 2, 0, 3, 1, 4))
}

// merge is the way back to (batch, pixels, channels).
func (n grl) merge(t *nn.Tape, x nn.Tensor, h, w, wh, ww int64, shift bool) nn.Tensor {
	c := n.dim / 2
	x = t.View(x, -1, h/wh, w/ww, wh, ww, c)
	y := t.Hold(t.View(t.Contiguous(t.Permute(x, 0, 1, 3, 2, 4, 5)), -1, h, w, c))
	if shift {
		y = t.Rebind(y, t.Roll(y))
	}
	return t.View(y, -1, h*w, c)
}

// attend is Attention.attn, with AffineTransform.
func (n grl) attend(t *nn.Tape, q, k, v nn.Tensor, transform string, kind grlWindow) (y nn.Tensor) {
	heads := q.Dim(1)
	return t.Within("", func() nn.Tensor {
		normalized := func(x nn.Tensor) nn.Tensor {
			return t.Within("", func() nn.Tensor { return t.NormalizeDim(x, -1) }, x)
		}
		attn := t.Hold(t.Matmul(normalized(q), t.Transpose(normalized(k), -2, -1)))
		attn = t.Rebind(attn, t.Call(transform, attn, func(t *nn.Tape, attn nn.Tensor) nn.Tensor {
			logitScale := t.Exp(t.Clamp(t.Param("logit_scale", heads, 1, 1)))
			attn = t.Hold(t.Mul(attn, logitScale))
			table := t.Sequential("cpb_mlp", kind.table, nn.Linear{Out: 512}.Module(), (*nn.Tape).ReLUInplace, nn.Linear{Out: heads, NoBias: true}.Module())
			table = t.Hold(t.View(table, -1, heads))
			bias := t.Hold(t.Lookup(table, kind.index, kind.from*kind.to, heads))
			bias = t.Rebind(bias, t.Contiguous(t.Permute(t.View(bias, kind.from, kind.to, heads), 2, 0, 1)))
			bias = t.Rebind(bias, t.MulScalar(t.Sigmoid(bias)))
			attn = t.Rebind(attn, t.Add(attn, bias))
			if nW := kind.mask.Dim(0); kind.mask.Dims() > 0 {
				y := t.Add(t.View(attn, attn.Dim(0)/nW, nW, heads, kind.from, kind.to), t.View(kind.mask, 1, nW, 1, kind.from, kind.to))
				attn = t.Rebind(attn, t.View(y, -1, heads, kind.from, kind.to))
			}
			return attn
		}))
		attn = t.Rebind(attn, t.Softmax(attn))
		attn = t.Rebind(attn, t.Dropout(attn, n.attnDrop))
		return t.Matmul(attn, v)
	}, q, k, v)
}
