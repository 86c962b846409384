package arch

import (
	"fmt"
	"slices"

	"github.com/launch-ml/launch/core/nn"
)

// ATD (Zhang et al., 2024), as traiNNer-redux builds it from spandrel 0.4.2 (architectures/ATD/__arch/atd_arch.py;
// defaults in traiNNer/archs/atd_arch.py at 68629319).
var _ = entry(func() {
	atd := func(img, dim int64, layers int, category, tokens, reduced, kernel, mlp int64, upsampler string) builder {
		return func(s Spec, a *args) Network {
			six := slices.Repeat([]int64{6}, layers)
			n := atd{
				swinIR: swinIR{
					scale: s.Scale, in: a.int("in_chans", 3), dim: a.int("embed_dim", dim), depths: a.ints("depths", six...),
					heads: a.ints("num_heads", six...), window: a.int("window_size", 16), mlp: a.float("mlp_ratio", float64(mlp)),
					upsampler: a.string("upsampler", upsampler), resi: a.string("resi_connection", "1conv"),
				},
				category: a.int("category_size", category), tokens: a.int("num_tokens", tokens),
				reduced: a.int("reducted_dim", reduced), kernel: a.int("convffn_kernel_size", kernel),
			}
			refuse(a.int("img_size", img) < 1, "img_size %v", a.values["img_size"])
			a.ignore("img_range")
			n.check()
			return Network{InCh: n.in, Forward: n.forward, NoFP16: true, Multiple: n.window}
		}
	}
	register(atd(96, 210, 6, 256, 128, 20, 5, 2, "pixelshuffle"), "atd")
	register(atd(64, 48, 4, 128, 64, 8, 7, 1, "pixelshuffledirect"), "atd_light")
})

// atd shares with SwinIR the convolution before a residual connection.
type atd struct {
	swinIR
	category, tokens, reduced, kernel int64
}

// check finds what upstream's constructor or its first forward stops at.
func (n atd) check() {
	refuse(len(n.heads) < len(n.depths), "depths %v, num_heads %v", n.depths, n.heads)
	for _, h := range n.heads[:len(n.depths)] {
		refuse(h < 1 || n.dim%h != 0, "embed_dim %d does not divide among %d heads", n.dim, h)
	}
	refuse(n.window < 1 || n.category < 1 || n.tokens < 1 || n.reduced < 1 || n.kernel%2 != 1,
		"window_size %d, category_size %d, num_tokens %d, reducted_dim %d, convffn_kernel_size %d",
		n.window, n.category, n.tokens, n.reduced, n.kernel)
	refuse(n.resi != "1conv" && n.resi != "3conv", "resi_connection %q is none of 1conv, 3conv", n.resi)
	switch n.upsampler {
	case "pixelshuffle":
		upsamples(n.scale)
	case "pixelshuffledirect":
	case "nearest+conv":
		refuse(n.scale != 4, "upsampler %q is for scale 4", n.upsampler)
	default:
		refuse(n.scale != 1, "upsampler %q leaves the image at its size, and the scale is %d", n.upsampler, n.scale)
	}
}

func (n atd) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	hOri, wOri := x.Dim(2), x.Dim(3)
	h, w := multiple(hOri, n.window), multiple(wOri, n.window)
	flip := func(x nn.Tensor) nn.Tensor { return t.Copy("torch.flip", x, x.Shape()...) }
	x = t.Hold(t.Narrow(t.Cat(2, x, flip(x)), 2, h)) // an image is doubled, whatever of it is wanted
	x = t.Rebind(x, t.Narrow(t.Cat(3, x, flip(x)), 3, w))
	mean := t.Hold(t.Zeros(x.DType(), 1, n.in, 1, 1))
	x = t.Rebind(x, t.MulScalar(t.Sub(x, mean)))
	mask := t.Hold(t.Zeros(nn.F32, h/n.window*(w/n.window), n.window*n.window, n.window*n.window))
	t.Buffer("relative_position_index_SA", nn.I64, n.window*n.window, n.window*n.window)

	lrelu := (*nn.Tape).LeakyReLUInplace
	body := func(x nn.Tensor) nn.Tensor {
		return t.Add(t.Call("conv_after_body", n.features(t, x, mask), n.resiConv), x)
	}
	switch n.upsampler {
	case "pixelshuffle", "nearest+conv":
		x = t.Rebind(x, t.Conv2d("conv_first", x, conv(n.dim, 3)))
		x = t.Rebind(x, body(x))
		x = t.Rebind(x, t.Sequential("conv_before_upsample", x, conv(swinFeat, 3).Module(), lrelu))
		if n.upsampler == "pixelshuffle" {
			x = t.Rebind(x, t.Conv2d("conv_last", t.Call("upsample", x, upsample(n.scale, swinFeat)), conv(n.in, 3)))
			break
		}
		for i := range 2 {
			x = t.Rebind(x, lrelu(t, t.Conv2d(fmt.Sprint("conv_up", i+1), t.Upsample(x, 2), conv(swinFeat, 3))))
		}
		x = t.Rebind(x, t.Conv2d("conv_last", lrelu(t, t.Conv2d("conv_hr", x, conv(swinFeat, 3))), conv(n.in, 3)))
	case "pixelshuffledirect":
		x = t.Rebind(x, t.Conv2d("conv_first", x, conv(n.dim, 3)))
		x = t.Rebind(x, body(x))
		x = t.Rebind(x, t.Sequential("upsample", x, conv(n.scale*n.scale*n.in, 3).Module(), shuffle(n.scale)))
	default:
		first := t.Hold(t.Conv2d("conv_first", x, conv(n.dim, 3)))
		res := t.Hold(body(first))
		x = t.Rebind(x, t.Add(x, t.Conv2d("conv_last", res, conv(n.in, 3))))
	}
	x = t.Rebind(x, t.Add(t.DivScalar(x), mean))
	return t.Narrow(t.Narrow(x, 2, hOri*n.scale), 3, wOri*n.scale)
}

// features is forward_features.
func (n atd) features(t *nn.Tape, x, mask nn.Tensor) (y nn.Tensor) {
	return t.Within("", func() nn.Tensor {
		h, w := x.Dim(2), x.Dim(3)
		y = t.Hold(t.Call("patch_embed", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			return t.LayerNorm("norm", t.Hold(tokens(t, x)))
		}))
		for i := range n.depths {
			y = t.Rebind(y, t.Call(fmt.Sprint("layers.", i), y, func(t *nn.Tape, x nn.Tensor) nn.Tensor { // ATDB
				group := t.Call("residual_group", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
					return n.basicBlock(t, x, mask, h, w, i)
				})
				return t.Add(tokens(t, t.Call("conv", image(t, group, h, w), n.resiConv)), x)
			}))
		}
		y = t.Rebind(y, t.LayerNorm("norm", y))
		return image(t, y, h, w)
	}, x)
}

// basicBlock is BasicBlock: the layers refine a dictionary of tokens as they go.
func (n atd) basicBlock(t *nn.Tape, x, mask nn.Tensor, h, w int64, layer int) nn.Tensor {
	td := t.Hold(t.Copy("Tensor.repeat", t.Param("td", n.tokens, n.dim), x.Dim(0), n.tokens, n.dim))
	for i := range n.depths[layer] {
		var y, next nn.Tensor
		t.Scope(fmt.Sprint("layers.", i), func() {
			m := mask
			if i%2 == 0 {
				m = nn.Tensor{}
			}
			y, next = n.layer(t, x, td, m, h, w, n.heads[layer], i == n.depths[layer]-1)
		}, x, td)
		x = t.Assign(i == 0, x, y)
		td = t.Rebind(td, next)
	}
	return x
}

// layer is ATDTransformerLayer. Its windows are shifted where there is a mask.
func (n atd) layer(t *nn.Tape, x, td, mask nn.Tensor, h, w, heads int64, last bool) (y, next nn.Tensor) {
	b, tok, c, ws := x.Dim(0), h*w, n.dim, n.window
	shortcut := x
	x = t.Hold(t.LayerNorm("norm1", x))
	qkv := t.Hold(t.Linear("wqkv", x, 3*c, true))

	var xATD, sim nn.Tensor
	t.Scope("attn_atd", func() { xATD, sim = n.dictionary(t, x, td) }, x, td)
	t.Hold(xATD)
	t.Hold(sim)
	xACA := t.Hold(t.Within("attn_aca", func() nn.Tensor { return n.categories(t, qkv, sim, heads) }, qkv, sim))

	shiftedQKV := t.View(qkv, b, h, w, 3*c)
	if mask.Dims() > 0 {
		shiftedQKV = t.Hold(t.Roll(shiftedQKV))
	}
	xWindows := t.Hold(windows(t, shiftedQKV, ws))
	attnWindows := t.Hold(t.Within("attn_win", func() nn.Tensor {
		return n.windowAttention(t, xWindows, mask, heads)
	}, xWindows))
	attnX := t.Hold(windowReverse(t, attnWindows, ws, b, h, w))
	if mask.Dims() > 0 {
		attnX = t.Hold(t.Roll(attnX))
	}
	x = t.Rebind(x, t.Add(t.Add(t.Add(shortcut, t.View(attnX, b, tok, c)), xATD), xACA))
	ffn := t.Call("convffn", t.LayerNorm("norm2", x), func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.ffn(t, x, h, w) })
	x = t.Rebind(x, t.Add(x, ffn))

	if !last { // the dictionary's refinement
		maskSoft := t.Hold(t.Softmax(t.InstanceNorm("norm3", t.Transpose(sim, -1, -2))))
		s := t.Hold(t.Sigmoid(t.Param("sigma", n.tokens, 1)))
		td = t.Add(t.Mul(s, td), t.Mul(t.Neg(s), t.Bmm(maskSoft, x)))
	}
	return x, td
}

// windowAttention is WindowAttention of queries, keys and values that are there.
func (n atd) windowAttention(t *nn.Tape, qkv, mask nn.Tensor, heads int64) nn.Tensor {
	b, tok, c, ws := qkv.Dim(0), qkv.Dim(1), n.dim, n.window
	p := t.Unbind(t.Permute(t.View(qkv, b, tok, 3, heads, c/heads), 2, 0, 3, 1, 4))
	q := t.Hold(t.MulScalar(p[0]))
	attn := t.Hold(t.Matmul(q, t.Transpose(p[1], -2, -1)))

	table := t.Param("relative_position_bias_table", (2*ws-1)*(2*ws-1), heads)
	attn = masked(t, biased(t, attn, table, tok, tok, heads), mask, b, heads, tok, tok)
	attn = t.Rebind(attn, t.Softmax(attn))
	x := t.Hold(t.View(t.Transpose(t.Matmul(attn, p[2]), 1, 2), b, tok, c))
	return t.Rebind(x, t.Linear("proj", x, c, true))
}

// dictionary is ATD_CA: attention to the tokens of the dictionary. It returns its map too.
func (n atd) dictionary(t *nn.Tape, x, td nn.Tensor) (y, attn nn.Tensor) {
	q := t.Hold(t.Linear("wq", x, n.reduced, true))
	k := t.Hold(t.Linear("wk", td, n.reduced, true))
	v := t.Hold(t.Linear("wv", td, n.dim, true))
	normQ := t.NormalizeDim(q, -1)
	attn = t.Hold(t.Matmul(normQ, t.Transpose(t.NormalizeDim(k, -1), -2, -1)))
	scale := t.Hold(t.Clamp(t.Param("scale", n.tokens)))
	attn = t.Rebind(attn, t.Mul(attn, t.AddScalar(t.MulScalar(scale))))
	attn = t.Rebind(attn, t.Softmax(attn))
	return t.Matmul(attn, v), attn
}

// categories is AC_MSA: attention among pixels of one category, in groups of category_size.
func (n atd) categories(t *nn.Tape, qkv, sim nn.Tensor, heads int64) nn.Tensor {
	b, tok, c3 := qkv.Dim(0), qkv.Dim(1), qkv.Dim(2)
	c := c3 / 3
	gs := min(tok, n.category)
	ng := (tok + gs - 1) / gs
	pad := ng*gs - tok

	id := t.Hold(t.Integers("torch.argmax", sim, 1, b, tok)[0])
	sorted := t.Integers("torch.sort", id, 2, b, tok)
	indices := t.Hold(sorted[1])
	t.Hold(sorted[0])
	reverse := t.Hold(indexReverse(t, indices))
	shuffle := func(x, index nn.Tensor) nn.Tensor { // feature_shuffle
		return t.Within("", func() nn.Tensor { return t.Gather(x, index, x.Shape()...) }, x, index)
	}
	shuffled := t.Hold(shuffle(qkv, indices))
	tail := t.Narrow(shuffled, 1, pad)
	padded := t.Hold(t.Cat(1, shuffled, t.Copy("torch.flip", tail, b, pad, c3)))
	p := t.Unbind(t.Permute(t.View(padded, b, ng, gs, 3, heads, c/heads), 3, 0, 1, 4, 2, 5))

	attn := t.Hold(t.Matmul(p[0], t.Transpose(p[1], -2, -1)))
	scale := t.Hold(t.Exp(t.Clamp(t.Param("logit_scale", 1, 1))))
	attn = t.Rebind(attn, t.Mul(attn, scale))
	attn = t.Rebind(attn, t.Softmax(attn))
	y := t.View(t.Permute(t.Matmul(attn, p[2]), 0, 1, 3, 2, 4), b, tok+pad, c)
	y = t.Hold(t.Narrow(y, 1, tok))

	x := t.Hold(shuffle(y, reverse))
	return t.Rebind(x, t.Linear("proj", x, c, true))
}

// indexReverse is index_reverse: a new index, into which each sample writes.
func indexReverse(t *nn.Tape, index nn.Tensor) nn.Tensor {
	var y nn.Tensor
	t.Scope("", func() {
		y = t.Hold(t.ZerosLike(index))
		t.Hold(t.Zeros(nn.I64, index.Dim(1)))
	}, index)
	return y
}

// ffn is ConvFFN.
func (n atd) ffn(t *nn.Tape, x nn.Tensor, h, w int64) nn.Tensor {
	b, hidden := x.Dim(0), int64(float64(n.dim)*n.mlp)
	x = t.Hold(t.Linear("fc1", x, hidden, true))
	x = t.Rebind(x, t.GELU(x))
	y := t.Call("dwconv", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		x = t.Hold(t.Contiguous(t.View(t.Transpose(x, 1, 2), b, hidden, h, w)))
		x = t.Rebind(x, t.Sequential("depthwise_conv", x, depthwise(hidden, n.kernel).Module(), (*nn.Tape).GELU))
		return t.Rebind(x, t.Contiguous(tokens(t, x)))
	})
	x = t.Rebind(x, t.Add(x, y))
	return t.Rebind(x, t.Linear("fc2", x, n.dim, true))
}
