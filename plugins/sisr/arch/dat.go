package arch

import (
	"fmt"
	"slices"

	"github.com/launch-ml/launch/core/nn"
)

// DAT (Chen et al., 2023): traiNNer/archs/dat_arch.py at 68629319.
var _ = entry(func() {
	register(buildDAT(6, 6, 180, 4, []int64{8, 32}, "1conv", false), "dat")
	register(buildDAT(6, 6, 180, 2, []int64{8, 16}, "1conv", false), "dat_s")
	register(buildDAT(6, 6, 180, 2, []int64{8, 32}, "1conv", false), "dat_2")
	register(buildDAT(12, 6, 180, 2, []int64{8, 32}, "1conv", false), "dat_2_l")
	register(buildDAT(1, 18, 60, 2, []int64{8, 32}, "3conv", false), "dat_light")
})

func buildDAT(layers, blocks, dim, expansion int64, split []int64, resi string, iln bool) builder {
	return func(s Spec, a *args) Network {
		n := dat{
			scale: s.Scale, up: s.Scale, in: a.int("in_chans", 3), img: a.int("img_size", 64), dim: a.int("embed_dim", dim),
			split: a.ints("split_size", split...), depths: a.ints("depth", slices.Repeat([]int64{blocks}, int(layers))...),
			heads:     a.ints("num_heads", slices.Repeat([]int64{6}, int(layers))...),
			expansion: a.float("expansion_factor", float64(expansion)), resi: a.string("resi_connection", resi),
			qkvBias: a.bool("qkv_bias", true), drop: a.float("drop_rate", 0), attnDrop: a.float("attn_drop_rate", 0),
			dropPath: a.float("drop_path_rate", 0.1), checkpointing: a.bool("use_chk", false),
			upsampler: a.string("upsampler", "pixelshuffle"), iln: iln,
		}
		a.ignore("qk_scale")
		if !iln {
			a.ignore("img_range")
		}
		if a.bool("unshuffle_mod", false) && s.Scale < 3 {
			n.pad, n.up = 4/max(s.Scale, 1), 4
		}
		n.check()
		return Network{
			InCh: n.in, Forward: n.forward, CheckpointArg: "use_chk", Checkpointing: n.checkpointing, BatchNorm: true,
			// Its channel interaction normalises one pixel of each image over the batch (dat_arch.py, channel_interaction):
			// of a single image torch.nn.functional.batch_norm raises "Expected more than 1 value per channel".
			MinBatch: 2,
			NoFP16:   !iln, Multiple: max(n.split[0], n.split[1]) * max(n.pad, 1),
		}
	}
}

type dat struct {
	scale, up, pad, in, img, dim        int64 // up is the scale after a pixel unshuffle by pad
	split, depths, heads                []int64
	expansion, drop, attnDrop, dropPath float64
	qkvBias, checkpointing              bool
	iln                                 bool // DAT with i-LN: see dat_iln.go
	resi, upsampler                     string
}

// check finds what upstream's constructor or its first forward stops at.
func (n dat) check() {
	refuse(len(n.split) < 2 || n.split[0] < 1 || n.split[1] < 1, "split_size %v", n.split)
	refuse(len(n.heads) < len(n.depths), "num_heads %v for depth %v", n.heads, n.depths)
	for i, d := range n.depths {
		h := n.heads[i]
		refuse(h < 2 || n.dim%2 != 0 || n.dim/2%(h/2) != 0 || d > 1 && n.dim%h != 0,
			"embed_dim %d does not divide among %d heads", n.dim, h)
		for b := range d {
			refuse(shifted(int64(i), b) && (n.img%n.split[0] != 0 || n.img%n.split[1] != 0),
				"img_size %d is no multiple of split_size %v", n.img, n.split)
		}
	}
	refuse(n.dim < 32, "embed_dim %d is too small", n.dim)
	switch {
	case n.resi != "1conv" && n.resi != "3conv":
		reject("resi_connection %q is none of 1conv, 3conv", n.resi)
	case n.upsampler == "pixelshuffle":
		upsamples(n.up)
	case n.upsampler != "pixelshuffledirect":
		reject("upsampler %q is none of pixelshuffle, pixelshuffledirect", n.upsampler)
	}
}

// upsamples says which scales Upsample has.
func upsamples(scale int64) {
	refuse(scale < 1 || scale&(scale-1) != 0 && scale != 3,
		"scale %d is not supported: 3 and the powers of two are", scale)
}

// shifted says whether the windows of block b in group rg are (dat_arch.py:405-407).
func shifted(rg, b int64) bool {
	return rg%2 == 0 && b > 0 && (b-2)%4 == 0 || rg%2 != 0 && b%4 == 0
}

// named is a layer that takes a name, as the module of the name it is called under.
func named(f func(t *nn.Tape, name string, x nn.Tensor) nn.Tensor) nn.Module {
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor { return f(t, "", x) }
}

// forward is DAT.forward.
func (n dat) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	h, w := x.Dim(2), x.Dim(3)
	if n.pad > 0 { // check_img_size
		x = t.Hold(t.PadTo(x, true, x.Dim(0), x.Dim(1), multiple(h, n.pad), multiple(w, n.pad)))
	}
	var mean nn.Tensor
	if !n.iln {
		mean = t.Hold(t.Zeros(x.DType(), 1, n.in, 1, 1))
		x = t.Hold(t.Rebind(x, t.MulScalar(t.Sub(x, mean))))
	}

	if n.pad > 0 {
		unshuffle := func(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.PixelUnshuffle(x, n.pad) }
		x = t.Hold(t.Rebind(x, t.Sequential("conv_first", x, unshuffle, conv(n.dim, 3).Module())))
	} else {
		x = t.Hold(t.Rebind(x, t.Conv2d("conv_first", x, conv(n.dim, 3))))
	}
	x = t.Rebind(x, t.Add(t.Call("conv_after_body", t.Call("", x, n.features), n.resiConv), x))
	if n.upsampler == "pixelshuffle" {
		x = t.Rebind(x, t.Sequential("conv_before_upsample", x, conv(swinFeat, 3).Module(), (*nn.Tape).LeakyReLUInplace))
		x = t.Rebind(x, t.Conv2d("conv_last", t.Call("upsample", x, upsample(n.up, swinFeat)), conv(n.in, 3)))
	} else {
		x = t.Rebind(x, t.Sequential("upsample", x, conv(n.up*n.up*n.in, 3).Module(), shuffle(n.up)))
	}
	if !n.iln {
		x = t.Rebind(x, t.Add(t.DivScalar(x), mean))
	}
	return t.Narrow(t.Narrow(x, 2, h*n.scale), 3, w*n.scale)
}

// multiple is k rounded up to a multiple of m.
func multiple(k, m int64) int64 { return (k + m - 1) / m * m }

// spread is rearrange(x, "b (h w) c -> b c h w").
func spread(t *nn.Tape, x nn.Tensor, h, w int64) nn.Tensor {
	return t.Permute(t.View(x, x.Dim(0), h, w, x.Dim(2)), 0, 3, 1, 2)
}

// resiConv is the convolution before a residual connection.
func (n dat) resiConv(t *nn.Tape, x nn.Tensor) nn.Tensor {
	return swinIR{dim: n.dim, resi: n.resi}.resiConv(t, x)
}

// features is forward_features.
func (n dat) features(t *nn.Tape, x nn.Tensor) (y nn.Tensor) {
	h, w := x.Dim(2), x.Dim(3)
	if n.iln { // BeforeRG_iLN
		y = t.Call("before_RG", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			return normOrAffine(t, "norm", tokens(t, x), true)
		})
	} else {
		y = t.Sequential("before_RG", x, tokens, named((*nn.Tape).LayerNorm))
	}
	y = t.Hold(y)
	y = layers(t, y, n.dropPath, n.depths, func(t *nn.Tape, x nn.Tensor, i int, rate dropPaths) nn.Tensor {
		return n.residualGroup(t, x, h, w, int64(i), rate)
	})
	y = t.Rebind(y, normOrAffine(t, "norm", y, n.iln))
	return spread(t, y, h, w)
}

// residualGroup is ResidualGroup.
func (n dat) residualGroup(t *nn.Tape, x nn.Tensor, h, w, rg int64, rate dropPaths) nn.Tensor {
	res := x
	for b := range n.depths[rg] {
		m := func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.block(t, x, h, w, rg, b, rate(b)) }
		y := t.CheckpointIf(n.checkpointing, fmt.Sprint("blocks.", b), x, m)
		x = t.Assign(b == 0, x, y)
	}
	x = t.Assign(n.depths[rg] == 0, x, spread(t, x, h, w))
	x = t.Rebind(x, t.Call("conv", x, n.resiConv))
	return t.Add(res, tokens(t, x))
}

// block is DATB.
func (n dat) block(t *nn.Tape, x nn.Tensor, h, w, rg, b int64, dropPath float64) nn.Tensor {
	heads := n.heads[rg]
	norm, std1 := restored(t, "norm1", x, n.iln)
	y := t.Call("attn", norm, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		if b%2 == 0 {
			return n.spatialAttention(t, x, h, w, heads, shifted(rg, b))
		}
		return n.channelAttention(t, x, h, w, heads)
	})
	x = t.Hold(t.Add(x, rescaled(t, std1, dropPathOf(t, y, dropPath))))
	norm, std2 := restored(t, "norm2", x, n.iln)
	y = t.Call("ffn", norm, func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.sgfn(t, x, h, w) })
	return t.Rebind(x, t.Add(x, rescaled(t, std2, dropPathOf(t, y, dropPath))))
}

// sgfn is SGFN, whose dropout nobody sets.
func (n dat) sgfn(t *nn.Tape, x nn.Tensor, h, w int64) nn.Tensor {
	hidden := int64(float64(n.dim) * n.expansion)
	x = t.Hold(t.Linear("fc1", x, hidden, true))
	x = t.Rebind(x, t.GELU(x))
	x = t.Rebind(x, t.Call("sg", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor { // SpatialGate
		b, half := x.Dim(0), hidden/2
		p := t.Split(x, 2, half, hidden-half)
		x2 := t.View(t.Contiguous(t.Transpose(t.LayerNorm("norm", p[1]), 1, 2)), b, half, h, w)
		x2 = t.Transpose(t.View(t.Conv2d("conv", x2, depthwise(half, 3)), b, half, h*w), -1, -2)
		return t.Mul(p[0], t.Hold(t.Contiguous(x2)))
	}))
	return t.Linear("fc2", x, n.dim, true)
}

// dwconv, channelInteraction and spatialInteraction are the modules of both attentions beside the attention itself.
func (n dat) dwconv(t *nn.Tape, v nn.Tensor) nn.Tensor {
	return t.Sequential("dwconv", v, depthwise(n.dim, 3).Module(), named((*nn.Tape).BatchNorm2d), (*nn.Tape).GELU)
}

func (n dat) channelInteraction(t *nn.Tape, x nn.Tensor) nn.Tensor {
	return t.Sequential("channel_interaction", x, (*nn.Tape).AvgPoolAll, conv(n.dim/8, 1).Module(),
		named((*nn.Tape).BatchNorm2d), (*nn.Tape).GELU, conv(n.dim, 1).Module())
}

func (n dat) spatialInteraction(t *nn.Tape, x nn.Tensor) nn.Tensor {
	return t.Sequential("spatial_interaction", x, conv(n.dim/16, 1).Module(), named((*nn.Tape).BatchNorm2d),
		(*nn.Tape).GELU, conv(1, 1).Module())
}

// spatialAttention is Adaptive_Spatial_Attention.
func (n dat) spatialAttention(t *nn.Tape, x nn.Tensor, h, w, heads int64, shift bool) nn.Tensor {
	b, l, c := x.Dim(0), h*w, n.dim
	v, attened := n.rectangleWindows(t, x, h, w, heads, shift)

	convX := t.Hold(n.dwconv(t, v))
	channelMap := t.Hold(t.View(t.Contiguous(t.Permute(n.channelInteraction(t, convX), 0, 2, 3, 1)), b, 1, c))
	attention := t.Hold(t.View(t.Contiguous(t.Transpose(attened, -2, -1)), b, c, h, w))
	spatialMap := t.Hold(n.spatialInteraction(t, attention))
	attened = t.Rebind(attened, t.Mul(attened, t.Sigmoid(channelMap)))
	convX = t.Rebind(convX, t.Mul(t.Sigmoid(spatialMap), convX))
	convX = t.Rebind(convX, t.View(t.Contiguous(t.Permute(convX, 0, 2, 3, 1)), b, l, c))

	y := t.Hold(t.Add(attened, convX))
	y = t.Rebind(y, t.Linear("proj", y, c, true))
	return t.Dropout(y, n.drop)
}

// rectangleWindows is its first half, which RGT's attention has too: the values as an image, and what windows that lie and
// windows that stand make of half the channels each.
func (n dat) rectangleWindows(t *nn.Tape, x nn.Tensor, h, w, heads int64, shift bool) (v, attened nn.Tensor) {
	b, l, c, half := x.Dim(0), h*w, n.dim, n.dim/2
	qkv := t.Hold(t.Permute(t.View(t.Linear("qkv", x, 3*c, n.qkvBias), b, l, 3, c), 2, 0, 1, 3))
	v = t.Hold(t.View(t.Contiguous(t.Transpose(t.Select(qkv, 0), -2, -1)), b, c, h, w))

	largest := max(n.split[0], n.split[1])
	ph, pw := multiple(h, largest), multiple(w, largest)
	qkv = t.Rebind(qkv, t.Permute(t.View(qkv, 3*b, h, w, c), 0, 3, 1, 2))
	qkv = t.Rebind(qkv, t.Transpose(t.View(t.PadLike(qkv, 3*b, c, ph, pw), 3, b, c, -1), -2, -1))

	window := n.split[0] * n.split[1]
	var masks [2]nn.Tensor
	if shift {
		windows := (n.img / n.split[0]) * (n.img / n.split[1])
		for i := range masks {
			masks[i] = t.Buffer(fmt.Sprint("attn_mask_", i), nn.F32, windows, window, window)
		}
	}
	attend := func(i int, qkv, mask nn.Tensor) nn.Tensor {
		return t.Within(fmt.Sprint("attns.", i), func() nn.Tensor {
			return n.windowAttention(t, qkv, mask, i, ph, pw, heads/2)
		}, qkv, mask)
	}
	var x1, x2 nn.Tensor
	crop := func(x nn.Tensor) nn.Tensor { return t.View(t.Narrow(t.Narrow(x, 1, h), 2, w), b, l, half) }
	if shift {
		qkv = t.Rebind(qkv, t.View(qkv, 3, b, ph, pw, c))
		qkv0 := t.Hold(t.View(t.Roll(t.Narrow(qkv, 4, half)), 3, b, ph*pw, half))
		qkv1 := t.Hold(t.View(t.Roll(t.Narrow(qkv, 4, half)), 3, b, ph*pw, half))
		mask := func(i int) nn.Tensor {
			if n.img == ph && n.img == pw {
				return masks[i]
			}
			return t.Zeros(x.DType(), ph*pw/window, window, window) // calculate_mask of another size, moved to the device
		}
		x1Shift := t.Hold(attend(0, qkv0, mask(0)))
		x2Shift := t.Hold(attend(1, qkv1, mask(1)))
		x1, x2 = t.Hold(t.Roll(x1Shift)), t.Hold(t.Roll(x2Shift))
		x1 = t.Rebind(x1, crop(x1))
		x2 = t.Rebind(x2, crop(x2))
	} else {
		x1 = t.Hold(crop(attend(0, t.Narrow(qkv, 3, half), nn.Tensor{})))
		x2 = t.Hold(crop(attend(1, t.Narrow(qkv, 3, half), nn.Tensor{})))
	}
	return v, t.Hold(t.Cat(2, x1, x2))
}

// windowAttention is Spatial_Attention of windows that lie or stand.
func (n dat) windowAttention(t *nn.Tape, qkv, mask nn.Tensor, idx int, h, w, heads int64) nn.Tensor {
	hs, ws := n.split[idx], n.split[1-idx]
	r := rectangles{
		hs: hs, ws: ws, heads: heads,
		index:   t.Buffer("relative_position_index", nn.I64, hs*ws, hs*ws),
		offsets: t.Buffer("rpe_biases", nn.F32, (2*hs-1)*(2*ws-1), 2),
		softmax: func(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.Dropout(t.SoftmaxAs(x), n.attnDrop) },
	}
	return r.attend(t, qkv, mask, h, w)
}

// rectangles is attention within windows of hs×ws pixels, with a bias that a small network makes of their offsets.
type rectangles struct {
	hs, ws, heads  int64
	index, offsets nn.Tensor
	softmax        nn.Module
}

// attend takes queries, keys and values, (3, batch, h·w, channels), to (batch, h, w, channels).
func (r rectangles) attend(t *nn.Tape, qkv, mask nn.Tensor, h, w int64) nn.Tensor {
	b, c, heads, hs, ws := qkv.Dim(1), qkv.Dim(3), r.heads, r.hs, r.ws
	window := hs * ws
	im2win := func(x nn.Tensor) (y nn.Tensor) {
		return t.Within("", func() nn.Tensor {
			img := t.Hold(t.View(t.Contiguous(t.Transpose(x, -2, -1)), b, c, h, w))
			t.Scope("", func() { // img2windows
				y = t.Contiguous(t.Permute(t.View(img, b, c, h/hs, hs, w/ws, ws), 0, 2, 4, 3, 5, 1))
				y = t.Hold(t.View(y, -1, window, c))
			}, img)
			img = t.Rebind(img, y)
			return t.Rebind(img, t.Contiguous(t.Permute(t.View(img, -1, window, heads, c/heads), 0, 2, 1, 3)))
		}, x)
	}
	p := t.Unbind(qkv)
	q := t.Hold(im2win(p[0]))
	k := t.Hold(im2win(p[1]))
	v := t.Hold(im2win(p[2]))
	q = t.Rebind(q, t.MulScalar(q))
	attn := t.Hold(t.Matmul(q, t.Transpose(k, -2, -1)))

	pos := t.Hold(t.Call("pos", r.offsets, positionBias(c/4, heads)))
	bias := t.View(t.Copy("Tensor.__getitem__", pos, r.index.Numel(), heads), window, window, heads)
	bias = t.Hold(t.Contiguous(t.Permute(bias, 2, 0, 1)))
	attn = t.Rebind(attn, t.Add(attn, bias))
	if nW := mask.Dim(0); mask.Dims() > 0 {
		y := t.Add(t.View(attn, -1, nW, heads, window, window), t.View(mask, 1, nW, 1, window, window))
		attn = t.Rebind(attn, t.View(y, -1, heads, window, window))
	}
	attn = t.Rebind(attn, r.softmax(t, attn))

	x := t.Hold(t.Matmul(attn, v))
	x = t.Rebind(x, t.View(t.Transpose(x, 1, 2), -1, window, c))
	y := x
	t.Scope("", func() { // windows2img
		img := t.Hold(t.View(x, b, h/hs, w/ws, hs, ws, c))
		y = t.Rebind(img, t.View(t.Contiguous(t.Permute(img, 0, 1, 3, 2, 4, 5)), b, h, w, c))
	}, x)
	return t.Rebind(x, y)
}

// positionBias is DynamicPosBias without residuals.
func positionBias(dim, heads int64) nn.Module {
	dim /= 4
	step := func(out int64) nn.Module {
		return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			return t.Sequential("", x, named((*nn.Tape).LayerNorm), (*nn.Tape).ReLUInplace, nn.Linear{Out: out}.Module())
		}
	}
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		x = t.Linear("pos_proj", x, dim, true)
		return t.Hold(t.Call("pos3", t.Call("pos2", t.Call("pos1", x, step(dim)), step(dim)), step(heads)))
	}
}

// channelAttention is Adaptive_Channel_Attention.
func (n dat) channelAttention(t *nn.Tape, x nn.Tensor, h, w, heads int64) nn.Tensor {
	b, l, c := x.Dim(0), h*w, n.dim
	qkv := t.Hold(t.View(t.Linear("qkv", x, 3*c, n.qkvBias), b, l, 3, heads, c/heads))
	p := t.Unbind(t.Permute(qkv, 2, 0, 3, 1, 4))
	q, k, v := t.Transpose(p[0], -2, -1), t.Transpose(p[1], -2, -1), t.Transpose(p[2], -2, -1)
	image := t.Hold(t.View(t.Contiguous(t.View(v, b, c, l)), b, c, h, w))

	q = t.Hold(t.NormalizeDim(q, -1))
	k = t.Hold(t.NormalizeDim(k, -1))
	attn := t.Hold(t.Mul(t.Matmul(q, t.Transpose(k, -2, -1)), t.Param("temperature", heads, 1, 1)))
	attn = t.Rebind(attn, t.Softmax(attn))
	attn = t.Rebind(attn, t.Dropout(attn, n.attnDrop))
	attened := t.Hold(t.View(t.Permute(t.Matmul(attn, v), 0, 3, 1, 2), b, l, c))

	convX := t.Hold(n.dwconv(t, image))
	attention := t.Hold(t.View(t.Contiguous(t.Transpose(attened, -2, -1)), b, c, h, w))
	channelMap := t.Hold(n.channelInteraction(t, attention))
	spatialMap := t.Contiguous(t.Permute(n.spatialInteraction(t, convX), 0, 2, 3, 1))
	spatialMap = t.Hold(t.View(spatialMap, b, l, 1))
	attened = t.Rebind(attened, t.Mul(attened, t.Sigmoid(spatialMap)))
	convX = t.Rebind(convX, t.Mul(convX, t.Sigmoid(channelMap)))
	convX = t.Rebind(convX, t.View(t.Contiguous(t.Permute(convX, 0, 2, 3, 1)), b, l, c))

	y := t.Hold(t.Add(attened, convX))
	y = t.Rebind(y, t.Linear("proj", y, c, true))
	return t.Dropout(y, n.drop)
}
