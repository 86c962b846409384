package arch

import (
	"fmt"
	"slices"

	"github.com/launch-ml/launch/core/nn"
)

// Swin2SR (Conde et al., 2022), as traiNNer-redux builds it from spandrel 0.4.2 (architectures/Swin2SR/__arch/Swin2SR.py;
// defaults in traiNNer/archs/swin2sr_arch.py at 68629319).
var _ = entry(func() {
	swin2sr := func(dim int64, layers int, heads int64, upsampler, resi string) builder {
		return func(s Spec, a *args) Network {
			defaults := swinIR{
				img: 64, dim: dim, depths: slices.Repeat([]int64{6}, layers), heads: slices.Repeat([]int64{heads}, layers),
				window: 8, mlp: 2, upsampler: upsampler, resi: resi,
			}
			n := swin2SR{swinIR: defaults.read(s, a), ape: a.bool("ape", false)}
			a.ignore("img_range")
			a.onlyPatch1()
			n.check()
			return Network{
				InCh: n.in, Forward: n.forward, CheckpointArg: "use_checkpoint", Checkpointing: n.checkpointing, NoFP16: true,
				Multiple: n.window, MinLQ: n.window/2 + 1,
			}
		}
	}
	register(swin2sr(240, 9, 8, "nearest+conv", "3conv"), "swin2sr_l")
	register(swin2sr(180, 6, 6, "pixelshuffle", "1conv"), "swin2sr_m")
	register(swin2sr(60, 4, 6, "pixelshuffledirect", "1conv"), "swin2sr_s")
})

// swin2SR shares with SwinIR what is around its blocks.
type swin2SR struct {
	swinIR
	ape bool
}

// check finds what upstream's constructor, its first forward or a loss of its output stops at.
func (n swin2SR) check() {
	refuse(n.window < 1 || n.img < 1 || n.img > n.window && n.img%n.window != 0 || n.window%n.shape() != 0,
		"img_size %d does not divide into windows of %d", n.img, n.window)
	switch n.upsampler {
	case "pixelshuffle_hf":
		reject("upsampler pixelshuffle_hf: it gives three images, which no loss takes")
	case "pixelshuffle_aux":
		refuse(n.in != 3, "upsampler pixelshuffle_aux: it wants in_chans 3, not %d", n.in)
		n.upsampler = "pixelshuffle"
	}
	n.swinIR.check()
}

// shape is the side of a block's windows.
func (n swin2SR) shape() int64 { return min(n.window, n.img) }

func (n swin2SR) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	h, w := x.Dim(2), x.Dim(3)
	if ph, pw := multiple(h, n.window), multiple(w, n.window); ph != h || pw != w { // check_image_size
		x = t.Hold(t.PadTo(x, true, x.Dim(0), x.Dim(1), ph, pw))
	}
	if n.upsampler == "pixelshuffle_aux" {
		return n.auxiliary(t, x, h, w)
	}
	return n.restore(t, x, h, w, n.features)
}

// auxiliary is forward with an image between, which is brought up beside the input's own bicubic enlargement.
func (n swin2SR) auxiliary(t *nn.Tape, x nn.Tensor, h, w int64) nn.Tensor {
	lrelu := (*nn.Tape).LeakyReLUInplace
	crop := func(x nn.Tensor) nn.Tensor { return t.Narrow(t.Narrow(x, 2, h*n.scale), 3, w*n.scale) }
	mean := t.Zeros(nn.F32, 1, n.in, 1, 1)
	x = t.Hold(t.Rebind(x, t.MulScalar(t.Sub(x, mean))))
	bicubic := t.Hold(t.Interpolate(x, h*n.scale, w*n.scale))
	bicubic = t.Rebind(bicubic, t.Conv2d("conv_bicubic", bicubic, conv(swinFeat, 3)))
	x = t.Rebind(x, t.Conv2d("conv_first", x, conv(n.dim, 3)))
	x = t.Rebind(x, t.Add(t.Call("conv_after_body", t.Call("", x, n.features), n.resiConv), x))
	x = t.Rebind(x, t.Sequential("conv_before_upsample", x, conv(swinFeat, 3).Module(), lrelu))
	aux := t.Hold(t.Conv2d("conv_aux", x, conv(n.in, 3)))
	x = t.Rebind(x, t.Sequential("conv_after_aux", aux, conv(swinFeat, 3).Module(), lrelu))
	x = t.Rebind(x, t.Add(crop(t.Call("upsample", x, upsample(n.scale, swinFeat))), crop(bicubic)))
	x = t.Rebind(x, t.Conv2d("conv_last", x, conv(n.in, 3)))
	t.Rebind(aux, t.Add(t.DivScalar(aux), mean))
	x = t.Rebind(x, t.Add(t.DivScalar(x), mean))
	return crop(x)
}

// features is forward_features.
func (n swin2SR) features(t *nn.Tape, x nn.Tensor) (y nn.Tensor) {
	h, w := x.Dim(2), x.Dim(3)
	y = t.Hold(t.Call("patch_embed", x, n.patchEmbed(n.patchNorm)))
	if n.ape {
		y = t.Rebind(y, t.Add(y, t.Param("absolute_pos_embed", 1, n.img*n.img, n.dim)))
	}
	y = t.Rebind(y, t.Dropout(y, n.drop))
	y = layers(t, y, n.dropPath, n.depths, func(t *nn.Tape, x nn.Tensor, i int, rate dropPaths) nn.Tensor { // RSTB
		group := t.Call("residual_group", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			return n.basicLayer(t, x, h, w, i, rate)
		})
		return t.Add(t.Call("patch_embed", t.Call("conv", image(t, group, h, w), n.resiConv), n.patchEmbed(false)), x)
	})
	y = t.Rebind(y, t.LayerNorm("norm", y))
	return image(t, y, h, w)
}

// patchEmbed is PatchEmbed, which has a convolution here.
func (n swin2SR) patchEmbed(norm bool) nn.Module {
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		y := tokens(t, t.Conv2d("proj", x, conv(n.dim, 1)))
		if norm {
			y = t.LayerNorm("norm", y)
		}
		return y
	}
}

// basicLayer is BasicLayer.
func (n swin2SR) basicLayer(t *nn.Tape, x nn.Tensor, h, w int64, layer int, rate dropPaths) nn.Tensor {
	for i := range n.depths[layer] {
		shift := i % 2 * (n.window / 2)
		if n.img <= n.window {
			shift = 0
		}
		m := func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.block(t, x, h, w, shift, n.heads[layer], rate(i)) }
		x = t.Rebind(x, t.ReentrantIf(n.checkpointing, fmt.Sprint("blocks.", i), x, m))
	}
	return x
}

// block is SwinTransformerBlock, which normalises behind its attention and its MLP.
func (n swin2SR) block(t *nn.Tape, x nn.Tensor, h, w, shift, heads int64, dropPath float64) nn.Tensor {
	b, c, ws := x.Dim(0), x.Dim(2), n.shape()
	var mask nn.Tensor
	if shift > 0 {
		mask = t.Buffer("attn_mask", nn.F32, (n.img/ws)*(n.img/ws), ws*ws, ws*ws)
	}
	if h != n.img || w != n.img { // calculate_mask of another size, whether or not there is a shift
		mask = t.Zeros(nn.F32, h/ws*(w/ws), ws*ws, ws*ws)
	}
	shortcut := x
	x = t.Hold(t.View(x, b, h, w, c))
	attention := func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.attention(t, x, mask, ws, heads) }
	y := rolled(t, x, shift > 0, func(x nn.Tensor) nn.Tensor {
		return windowReverse(t, t.Hold(t.Call("attn", t.Hold(windows(t, x, ws)), attention)), ws, b, h, w)
	})
	x = t.Hold(t.View(y, b, h*w, c))
	x = t.Rebind(x, t.Add(shortcut, dropPathOf(t, t.LayerNorm("norm1", x), dropPath)))
	return t.Add(x, dropPathOf(t, t.LayerNorm("norm2", t.Call("mlp", x, n.mlpOf)), dropPath))
}

// attention is WindowAttention: of the cosine between queries and keys, with a bias that a small network makes.
func (n swin2SR) attention(t *nn.Tape, x, mask nn.Tensor, ws, heads int64) nn.Tensor {
	b, tokens, c := x.Dim(0), x.Dim(1), x.Dim(2)
	side := 2*ws - 1
	table := t.Buffer("relative_coords_table", nn.F32, 1, side, side, 2)
	index := t.Buffer("relative_position_index", nn.I64, tokens, tokens)

	var qkvBias nn.Tensor
	if n.qkvBias {
		qBias, vBias := t.Param("q_bias", c), t.Param("v_bias", c)
		qkvBias = t.Hold(t.Cat(0, qBias, t.ZerosLike(vBias), vBias))
	}
	qkv := t.LinearWeight(x, t.Param("qkv.weight", 3*c, c), qkvBias)
	qkv = t.Hold(t.Permute(t.View(qkv, b, tokens, 3, heads, c/heads), 2, 0, 3, 1, 4))
	p := t.Unbind(qkv)
	v := p[2]
	normalized := func(x nn.Tensor) nn.Tensor {
		return t.Within("", func() nn.Tensor { return t.NormalizeDim(x, -1) }, x)
	}
	attn := t.Hold(t.Matmul(normalized(p[0]), t.Transpose(normalized(p[1]), -2, -1)))
	logitScale := t.Hold(t.Exp(t.Clamp(t.Param("logit_scale", heads, 1, 1))))
	attn = t.Rebind(attn, t.Mul(attn, logitScale))

	biases := t.Sequential("cpb_mlp", table, nn.Linear{Out: 512}.Module(), (*nn.Tape).ReLUInplace, nn.Linear{Out: heads, NoBias: true}.Module())
	biases = t.Hold(t.View(biases, -1, heads))
	bias := t.View(t.Copy("Tensor.__getitem__", biases, index.Numel(), heads), tokens, tokens, heads)
	bias = t.Hold(t.Contiguous(t.Permute(bias, 2, 0, 1)))
	bias = t.Rebind(bias, t.MulScalar(t.Sigmoid(bias)))
	attn = t.Rebind(attn, t.Add(attn, bias))
	attn = masked(t, attn, mask, b, heads, tokens, tokens)
	attn = t.Rebind(attn, t.Softmax(attn))
	attn = t.Rebind(attn, t.Dropout(attn, n.attnDrop))

	x = t.Reshape(t.Transpose(t.Matmul(attn, v), 1, 2), b, tokens, c)
	return t.Dropout(t.Linear("proj", x, c, true), n.drop)
}
