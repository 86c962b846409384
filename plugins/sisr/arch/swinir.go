package arch

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/launch-ml/launch/core/nn"
)

// SwinIR (Liang et al., 2021), as traiNNer-redux builds it from spandrel 0.4.2 (architectures/SwinIR/__arch/SwinIR.py;
// defaults in traiNNer/archs/swinir_arch.py at 68629319).
var _ = entry(func() {
	swinir := func(img, dim, layers, heads int64, upsampler, resi string) builder {
		repeat := func(v int64) []int64 { return slices.Repeat([]int64{v}, int(layers)) }
		return swinIR{
			img: img, dim: dim, depths: repeat(6), heads: repeat(heads), window: 8, mlp: 2, upsampler: upsampler, resi: resi,
		}.build
	}
	register(swinir(64, 240, 9, 8, "nearest+conv", "3conv"), "swinir_l")
	register(swinir(48, 180, 6, 6, "pixelshuffle", "1conv"), "swinir_m")
	register(swinir(64, 60, 4, 6, "pixelshuffledirect", "1conv"), "swinir_s")
})

// read reads the arguments that SwinIR and its relatives share, with those of n as the defaults.
func (n swinIR) read(s Spec, a *args) swinIR {
	return swinIR{
		scale: s.Scale, img: a.int("img_size", n.img), in: a.int("in_chans", 3), dim: a.int("embed_dim", n.dim),
		depths: a.ints("depths", n.depths...), heads: a.ints("num_heads", n.heads...),
		window: a.int("window_size", n.window), mlp: a.float("mlp_ratio", n.mlp), qkvBias: a.bool("qkv_bias", true),
		drop: a.float("drop_rate", 0), attnDrop: a.float("attn_drop_rate", 0), dropPath: a.float("drop_path_rate", 0.1),
		patchNorm: a.bool("patch_norm", true), checkpointing: a.bool("use_checkpoint", false),
		upsampler: a.string("upsampler", n.upsampler), resi: a.string("resi_connection", n.resi),
	}
}

// build is SwinIR by the arguments, with those of n as the defaults.
func (n swinIR) build(s Spec, a *args) Network {
	n = n.read(s, a)
	n.unshuffle = a.int("start_unshuffle", 1)
	a.ignore("qk_scale", "img_range")
	a.onlyPatch1()
	refuse(a.bool("ape", false), "ape: %w", ErrUnknown)
	refuse(len(n.heads) != len(n.depths) || n.window < 1 || n.window > n.img,
		"depths %v, num_heads %v, window_size %d", n.depths, n.heads, n.window)
	switch {
	case n.upsampler == "pixelshuffle":
		upsamples(n.scale)
	case n.upsampler != "pixelshuffledirect" && n.upsampler != "nearest+conv" && n.scale > 1:
		reject("upsampler %q leaves the image at its size, and the scale is %d: pixelshuffle, "+
			"pixelshuffledirect and nearest+conv enlarge it", n.upsampler, n.scale)
	}
	return Network{
		InCh: n.in, Forward: n.forward, CheckpointArg: "use_checkpoint", Checkpointing: n.checkpointing, NoFP16: true,
		Multiple: n.window,
	}
}

type swinIR struct {
	scale, img, in, dim, window, unshuffle int64
	depths, heads                          []int64
	mlp, drop, attnDrop, dropPath          float64
	qkvBias, patchNorm, checkpointing      bool
	upsampler, resi                        string
	// blockOf is a layer's block of that number, where it is none of SwinIR's own.
	blockOf func(t *nn.Tape, x nn.Tensor, h, w int64, layer int, i int64, dropPath float64) nn.Tensor
}

const swinFeat = 64 // num_feat

func (n swinIR) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	h, w := x.Dim(2), x.Dim(3)
	up := func(k int64) int64 { return (k + n.window - 1) / n.window * n.window }
	if up(h) != h || up(w) != w { // check_image_size
		x = t.Hold(t.PadTo(x, true, x.Dim(0), x.Dim(1), up(h), up(w)))
	}
	return n.restore(t, x, h, w, n.features)
}

// restore is forward from where the image of h×w has been padded, around its forward_features: SRFormer and Swin2SR share
// it.
func (n swinIR) restore(t *nn.Tape, x nn.Tensor, h, w int64, features nn.Module) nn.Tensor {
	mean := t.Zeros(nn.F32, 1, n.in, 1, 1) // an attribute, not a buffer
	x = t.Hold(t.Rebind(x, t.MulScalar(t.Sub(x, mean))))
	if n.unshuffle > 1 {
		x = t.Rebind(x, t.PixelUnshuffle(x, n.unshuffle))
	}
	out := n.in
	lrelu := (*nn.Tape).LeakyReLUInplace

	if n.upsampler == "" {
		xFirst := t.Hold(t.Conv2d("conv_first", x, conv(n.dim, 3)))
		res := t.Hold(t.Add(t.Call("conv_after_body", t.Call("", xFirst, features), n.resiConv), xFirst))
		x = t.Rebind(x, t.Add(x, t.Conv2d("conv_last", res, conv(out, 3))))
	} else {
		x = t.Rebind(x, t.Conv2d("conv_first", x, conv(n.dim, 3)))
		x = t.Rebind(x, t.Add(t.Call("conv_after_body", t.Call("", x, features), n.resiConv), x))
	}
	switch n.upsampler {
	case "pixelshuffle":
		x = t.Rebind(x, t.Sequential("conv_before_upsample", x, conv(swinFeat, 3).Module(), lrelu))
		x = t.Rebind(x, t.Conv2d("conv_last", t.Call("upsample", x, upsample(n.scale, swinFeat)), conv(out, 3)))
	case "pixelshuffledirect":
		x = t.Rebind(x, t.Sequential("upsample", x, conv(n.scale*n.scale*out, 3).Module(), shuffle(n.scale)))
	case "nearest+conv":
		x = t.Rebind(x, t.Sequential("conv_before_upsample", x, conv(swinFeat, 3).Module(), lrelu))
		ups := 1 // conv_up1 is there for every scale
		if n.scale == 4 || n.scale == 8 {
			ups = bits.Len64(uint64(n.scale)) - 1
		}
		for i := range ups {
			x = t.Rebind(x, lrelu(t, t.Conv2d(fmt.Sprint("conv_up", i+1), t.Upsample(x, 2), conv(swinFeat, 3))))
		}
		x = t.Rebind(x, t.Conv2d("conv_last", lrelu(t, t.Conv2d("conv_hr", x, conv(swinFeat, 3))), conv(out, 3)))
	}
	x = t.Rebind(x, t.Add(t.DivScalar(x), mean))
	return t.Narrow(t.Narrow(x, 2, h*n.scale), 3, w*n.scale)
}

func shuffle(r int64) nn.Module {
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.PixelShuffle(x, r) }
}

// upsample repeats upstream's Upsample: for a scale of 2, 4 or 8 one doubling after another, for a scale of 3 one step.
func upsample(scale, feat int64) nn.Module {
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		if scale == 3 {
			return t.Sequential("", x, conv(9*feat, 3).Module(), shuffle(3))
		}
		var ms []nn.Module
		for range bits.Len64(uint64(scale)) - 1 {
			ms = append(ms, conv(4*feat, 3).Module(), shuffle(2))
		}
		return t.Sequential("", x, ms...)
	}
}

// resiConv is the convolution before a residual connection.
func (n swinIR) resiConv(t *nn.Tape, x nn.Tensor) nn.Tensor {
	if n.resi == "1conv" {
		return conv(n.dim, 3).Module()(t, x)
	}
	lrelu := (*nn.Tape).LeakyReLUInplace
	return t.Sequential("", x, conv(n.dim/4, 3).Module(), lrelu, conv(n.dim/4, 1).Module(), lrelu, conv(n.dim, 3).Module())
}

// features is forward_features.
func (n swinIR) features(t *nn.Tape, x nn.Tensor) (y nn.Tensor) {
	h, w := x.Dim(2), x.Dim(3)
	y = t.Hold(t.Call("patch_embed", x, embed(n.patchNorm)))
	y = layers(t, y, n.dropPath, n.depths, func(t *nn.Tape, x nn.Tensor, i int, rate dropPaths) nn.Tensor {
		return n.rstb(t, x, h, w, i, rate)
	})
	y = t.Rebind(y, t.LayerNorm("norm", y))
	return image(t, y, h, w)
}

// tokens is PatchEmbed: (b, c, h, w) to (b, h·w, c), a view.
func tokens(t *nn.Tape, x nn.Tensor) nn.Tensor {
	return t.Transpose(t.View(x, x.Dim(0), x.Dim(1), x.Dim(2)*x.Dim(3)), 1, 2)
}

// image is PatchUnEmbed, the way back.
func image(t *nn.Tape, x nn.Tensor, h, w int64) nn.Tensor {
	return t.View(t.Transpose(x, 1, 2), x.Dim(0), x.Dim(2), h, w)
}

// dropPaths are the rates of a layer's blocks: of block b, by torch.linspace(0, drop_path_rate, sum(depths)).
type dropPaths func(b int64) float64

// layers are self.layers of a network whose last block drops its path at that rate.
func layers(
	t *nn.Tape, y nn.Tensor, last float64, depths []int64,
	layer func(t *nn.Tape, x nn.Tensor, i int, rate dropPaths) nn.Tensor,
) nn.Tensor {
	first, total := int64(0), int64(0)
	for _, d := range depths {
		total += d
	}
	for i, d := range depths {
		rate := func(b int64) float64 { return last * float64(first+b) / float64(max(total-1, 1)) }
		of := func(t *nn.Tape, x nn.Tensor) nn.Tensor { return layer(t, x, i, rate) }
		y = t.Rebind(y, t.Call(fmt.Sprint("layers.", i), y, of))
		first += d
	}
	return y
}

// embed is PatchEmbed, with its norm if there is one.
func embed(norm bool) nn.Module {
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		x = tokens(t, x)
		if norm {
			x = t.LayerNorm("norm", x)
		}
		return x
	}
}

// rstb is RSTB.
func (n swinIR) rstb(t *nn.Tape, x nn.Tensor, h, w int64, layer int, rate dropPaths) nn.Tensor {
	group := t.Call("residual_group", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		for i := range n.depths[layer] {
			shift := i % 2 * (n.window / 2)
			m := func(t *nn.Tape, x nn.Tensor) nn.Tensor {
				if n.blockOf != nil {
					return n.blockOf(t, x, h, w, layer, i, rate(i))
				}
				return n.block(t, x, h, w, shift, n.heads[layer], rate(i))
			}
			x = t.Rebind(x, t.ReentrantIf(n.checkpointing, fmt.Sprint("blocks.", i), x, m))
		}
		return x
	})
	y := t.Call("conv", image(t, group, h, w), n.resiConv)
	return t.Add(tokens(t, y), x)
}

// windows is window_partition and its view: (b, h, w, c) to (windows, pixels, c).
func windows(t *nn.Tape, x nn.Tensor, ws int64) nn.Tensor {
	b, h, w, c := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	x = t.View(x, b, h/ws, ws, w/ws, ws, c)
	return t.View(t.Contiguous(t.Permute(x, 0, 1, 3, 2, 4, 5)), -1, ws*ws, c)
}

// windowReverse is window_reverse.
func windowReverse(t *nn.Tape, x nn.Tensor, ws, b, h, w int64) nn.Tensor {
	c := x.Dim(-1)
	x = t.View(x, b, h/ws, w/ws, ws, ws, c)
	return t.View(t.Contiguous(t.Permute(x, 0, 1, 3, 2, 4, 5)), b, h, w, c)
}

// block is SwinTransformerBlock.
func (n swinIR) block(t *nn.Tape, x nn.Tensor, h, w, shift, heads int64, dropPath float64) nn.Tensor {
	b, c := x.Dim(0), x.Dim(2)
	ws := n.window
	if n.img <= ws {
		shift, ws = 0, n.img
	}
	if shift > 0 {
		t.Buffer("attn_mask", nn.F32, (n.img/ws)*(n.img/ws), ws*ws, ws*ws)
	}

	shortcut := x
	x = t.LayerNorm("norm1", x)
	x = t.Hold(t.View(x, b, h, w, c))
	y := rolled(t, x, shift > 0, func(x nn.Tensor) nn.Tensor {
		xWindows := t.Hold(windows(t, x, ws))
		var mask nn.Tensor
		if shift > 0 {
			mask = t.Buffer("attn_mask", nn.F32)
			if h != n.img || w != n.img { // calculate_mask of another size, moved to the device
				mask = t.Zeros(nn.F32, h/ws*(w/ws), ws*ws, ws*ws)
			}
		}
		attention := func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.attention(t, x, mask, ws, heads) }
		return windowReverse(t, t.Hold(t.Call("attn", xWindows, attention)), ws, b, h, w)
	})
	x = t.Rebind(x, t.View(y, b, h*w, c))

	x = t.Rebind(x, t.Add(shortcut, dropPathOf(t, x, dropPath)))
	return t.Add(x, dropPathOf(t, t.Call("mlp", t.LayerNorm("norm2", x), n.mlpOf), dropPath))
}

// rolled is what attend makes of an image, which is rolled before and rolled back after where its windows are shifted.
func rolled(t *nn.Tape, x nn.Tensor, shift bool, attend func(x nn.Tensor) nn.Tensor) nn.Tensor {
	if !shift {
		return attend(x)
	}
	shiftedX := t.Hold(t.Roll(x))
	shiftedX = t.Rebind(shiftedX, t.Hold(attend(shiftedX)))
	return t.Roll(shiftedX)
}

// biased is attn with a bias for each pair of tokens of a window, from a table by their offsets.
func biased(t *nn.Tape, attn, table nn.Tensor, tokens, context, heads int64) nn.Tensor {
	bias := t.View(t.Copy("Tensor.__getitem__", table, tokens*context, heads), tokens, context, heads)
	bias = t.Hold(t.Contiguous(t.Permute(bias, 2, 0, 1)))
	return t.Rebind(attn, t.Add(attn, bias))
}

// masked is attn of b windows with a mask for each window of an image, if there is one.
func masked(t *nn.Tape, attn, mask nn.Tensor, b, heads, tokens, context int64) nn.Tensor {
	if mask.Dims() == 0 {
		return attn
	}
	nW := mask.Dim(0)
	y := t.Add(t.View(attn, b/nW, nW, heads, tokens, context), t.View(mask, 1, nW, 1, tokens, context))
	return t.Rebind(attn, t.View(y, -1, heads, tokens, context))
}

// dropPathOf is timm's drop_path: a random factor for each sample.
func dropPathOf(t *nn.Tape, x nn.Tensor, p float64) nn.Tensor {
	if p == 0 || !t.Training {
		return x
	}
	shape := slices.Repeat([]int64{1}, x.Dims())
	shape[0] = x.Dim(0)
	return t.Mul(x, t.Zeros(x.DType(), shape...))
}

// mlpOf is Mlp.
func (n swinIR) mlpOf(t *nn.Tape, x nn.Tensor) nn.Tensor {
	x = t.Linear("fc1", x, int64(float64(n.dim)*n.mlp), true)
	x = t.Dropout(t.GELU(x), n.drop)
	return t.Dropout(t.Linear("fc2", x, n.dim, true), n.drop)
}

// attention is WindowAttention. The bias table is float32, so what is added to it is too.
func (n swinIR) attention(t *nn.Tape, x, mask nn.Tensor, ws, heads int64) nn.Tensor {
	t.Buffer("relative_position_index", nn.I64, x.Dim(1), x.Dim(1))
	return n.attend(t, x, mask, ws, heads)
}

// attend is the same without its index, which HAT keeps elsewhere.
func (n swinIR) attend(t *nn.Tape, x, mask nn.Tensor, ws, heads int64) nn.Tensor {
	b, tokens, c := x.Dim(0), x.Dim(1), x.Dim(2)
	table := t.Param("relative_position_bias_table", (2*ws-1)*(2*ws-1), heads)
	qkv := t.View(t.Linear("qkv", x, 3*c, n.qkvBias), b, tokens, 3, heads, c/heads)
	p := t.Unbind(t.Permute(qkv, 2, 0, 3, 1, 4))
	q, k, v := p[0], t.Hold(p[1]), p[2]
	q = t.Hold(t.MulScalar(q))
	attn := t.Hold(t.Matmul(q, t.Transpose(k, -2, -1)))

	attn = masked(t, biased(t, attn, table, tokens, tokens, heads), mask, b, heads, tokens, tokens)
	attn = t.Rebind(attn, t.Softmax(attn))
	attn = t.Rebind(attn, t.Dropout(attn, n.attnDrop))

	x = t.Reshape(t.Transpose(t.Matmul(attn, v), 1, 2), b, tokens, c)
	return t.Dropout(t.Linear("proj", x, c, true), n.drop)
}
