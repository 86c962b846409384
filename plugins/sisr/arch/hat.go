package arch

import (
	"fmt"
	"slices"

	"github.com/launch-ml/launch/core/nn"
)

// HAT (Chen et al., 2023): traiNNer/archs/hat_arch.py at 68629319.
var _ = entry(func() {
	register(buildHAT(180, 12, 3, 30, false), "hat_l")
	register(buildHAT(180, 6, 3, 30, false), "hat_m")
	register(buildHAT(144, 6, 24, 24, false), "hat_s")
	register(buildHAT(192, 12, 3, 30, false), "hat_l_aligned")
	register(buildHAT(192, 6, 3, 30, false), "hat_m_aligned")
})

func buildHAT(dim, layers int64, compress, squeeze float64, iln bool) builder {
	return func(s Spec, a *args) Network {
		six := slices.Repeat([]int64{6}, int(layers))
		n := hat{
			swinIR: swinIR{
				scale: s.Scale, img: a.int("img_size", 64), in: a.int("in_chans", 3), dim: a.int("embed_dim", dim),
				depths: a.ints("depths", six...), heads: a.ints("num_heads", six...), window: a.int("window_size", 16),
				mlp: a.float("mlp_ratio", 2), qkvBias: a.bool("qkv_bias", true), drop: a.float("drop_rate", 0),
				attnDrop: a.float("attn_drop_rate", 0), dropPath: a.float("drop_path_rate", 0.1),
				patchNorm: a.bool("patch_norm", true), checkpointing: a.bool("use_checkpoint", false),
			},
			compress: a.float("compress_ratio", compress), squeeze: a.float("squeeze_factor", squeeze),
			overlap: a.float("overlap_ratio", 0.5), feat: a.int("num_feat", swinFeat), iln: iln,
		}
		a.ignore("qk_scale", "conv_scale")
		if !iln {
			a.ignore("img_range")
		}
		a.usual()
		refuse(len(n.heads) != len(n.depths) || n.window < 1 || n.window >= n.img || n.compress < 1 || n.squeeze < 1,
			"depths %v, num_heads %v, window_size %d", n.depths, n.heads, n.window)
		upsamples(n.scale)
		return Network{
			InCh: n.in, Forward: n.forward, CheckpointArg: "use_checkpoint", Checkpointing: n.checkpointing, NoFP16: !iln,
			Multiple: n.window,
		}
	}
}

// hat shares with SwinIR its window attention, its MLP and its embedding.
type hat struct {
	swinIR
	compress, squeeze, overlap float64
	feat                       int64
	iln                        bool // HAT with i-LN: see hat_iln.go
}

func (n hat) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	h, w := x.Dim(2), x.Dim(3)
	over := n.window + int64(float64(n.window)*n.overlap)
	t.Buffer("relative_position_index_SA", nn.I64, n.window*n.window, n.window*n.window)
	t.Buffer("relative_position_index_OCA", nn.I64, n.window*n.window, over*over)
	var mean nn.Tensor
	if !n.iln {
		mean = t.Hold(t.Zeros(x.DType(), 1, n.in, 1, 1))
		x = t.Hold(t.MulScalar(t.Sub(x, mean)))
	}
	up := func(k int64) int64 { return (k + n.window - 1) / n.window * n.window }
	if up(h) != h || up(w) != w {
		x = t.Rebind(x, t.PadTo(x, true, x.Dim(0), x.Dim(1), up(h), up(w)))
	}
	x = t.Hold(t.Rebind(x, t.Conv2d("conv_first", x, conv(n.dim, 3))))
	x = t.Rebind(x, t.Add(t.Conv2d("conv_after_body", n.features(t, x, over), conv(n.dim, 3)), x))
	x = t.Rebind(x, t.Sequential("conv_before_upsample", x, conv(n.feat, 3).Module(), (*nn.Tape).LeakyReLUInplace))
	x = t.Rebind(x, t.Conv2d("conv_last", t.Call("upsample", x, upsample(n.scale, n.feat)), conv(n.in, 3)))
	if !n.iln {
		x = t.Rebind(x, t.Add(t.DivScalar(x), mean))
	}
	return t.Narrow(t.Narrow(x, 2, h*n.scale), 3, w*n.scale)
}

// features is forward_features.
func (n hat) features(t *nn.Tape, x nn.Tensor, over int64) (y nn.Tensor) {
	return t.Within("", func() nn.Tensor {
		h, w := x.Dim(2), x.Dim(3)
		ws := n.window
		mask := t.Hold(t.Zeros(x.DType(), h/ws*(w/ws), ws*ws, ws*ws))
		y = t.Hold(t.Call("patch_embed", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			x = tokens(t, x)
			if n.patchNorm {
				x = normOrAffine(t, "norm", x, n.iln)
			}
			return x
		}))
		y = layers(t, y, n.dropPath, n.depths, func(t *nn.Tape, x nn.Tensor, i int, rate dropPaths) nn.Tensor { // RHAG
			group := t.Call("residual_group", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
				return n.attenBlocks(t, x, mask, h, w, over, i, rate)
			})
			return t.Add(tokens(t, t.Conv2d("conv", image(t, group, h, w), conv(n.dim, 3))), x)
		})
		y = t.Rebind(y, normOrAffine(t, "norm", y, n.iln))
		return image(t, y, h, w)
	}, x)
}

// attenBlocks is AttenBlocks.
func (n hat) attenBlocks(t *nn.Tape, x, mask nn.Tensor, h, w, over int64, layer int, rate dropPaths) nn.Tensor {
	run := func(name string, x nn.Tensor, m nn.Module) nn.Tensor {
		return t.Rebind(x, t.CheckpointIf(n.checkpointing && t.Training, name, x, m))
	}
	for i := range n.depths[layer] {
		shift := i % 2 * (n.window / 2)
		x = run(fmt.Sprint("blocks.", i), x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			return n.hab(t, x, mask, h, w, shift, n.heads[layer], rate(i))
		})
	}
	return run("overlap_attn", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		return n.ocab(t, x, h, w, over, n.heads[layer])
	})
}

// hab is HAB.
func (n hat) hab(t *nn.Tape, x, mask nn.Tensor, h, w, shift, heads int64, dropPath float64) nn.Tensor {
	b, c, ws := x.Dim(0), x.Dim(2), n.window
	shortcut := x
	x, std1 := restored(t, "norm1", x, n.iln)
	x = t.Hold(t.View(x, b, h, w, c))

	convX := t.Call("conv_block", t.Permute(x, 0, 3, 1, 2), n.cab)
	convX = t.Hold(t.View(t.Contiguous(t.Permute(convX, 0, 2, 3, 1)), b, h*w, c))

	shiftedX := x
	if shift > 0 {
		shiftedX = t.Hold(t.Roll(x))
	} else {
		mask = nn.Tensor{}
	}
	xWindows := t.Hold(windows(t, shiftedX, ws))
	attnWindows := t.Hold(t.Call("attn", xWindows, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		return n.attend(t, x, mask, ws, heads)
	}))
	y := t.Hold(windowReverse(t, attnWindows, ws, b, h, w))
	if shift > 0 {
		shiftedX = t.Rebind(shiftedX, y)
		y = t.Hold(t.Roll(shiftedX))
	}
	attnX := t.View(y, b, h*w, c)

	if n.iln {
		x = t.Rebind(x, t.Add(shortcut, t.Mul(std1, t.Add(scaledDropPath(t, attnX, dropPath), t.MulScalar(convX)))))
	} else {
		x = t.Rebind(x, t.Add(t.Add(shortcut, dropPathOf(t, attnX, dropPath)), t.MulScalar(convX)))
	}
	y, std2 := restored(t, "norm2", x, n.iln)
	return t.Add(x, rescaled(t, std2, dropPathOf(t, t.Call("mlp", y, n.mlpOf), dropPath)))
}

// cab is CAB, with ChannelAttention at its end.
func (n hat) cab(t *nn.Tape, x nn.Tensor) nn.Tensor {
	attention := func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		y := t.Sequential("attention", x, (*nn.Tape).AvgPoolAll, conv(int64(float64(n.dim)/n.squeeze), 1).Module(),
			(*nn.Tape).ReLUInplace, conv(n.dim, 1).Module(), (*nn.Tape).Sigmoid)
		return t.Mul(x, y)
	}
	return t.Sequential("cab", x, conv(int64(float64(n.dim)/n.compress), 3).Module(), (*nn.Tape).GELU,
		conv(n.dim, 3).Module(), attention)
}

// ocab is OCAB: queries in windows, keys and values in larger ones that overlap.
func (n hat) ocab(t *nn.Tape, x nn.Tensor, h, w, over, heads int64) nn.Tensor {
	b, c, ws := x.Dim(0), x.Dim(2), n.window
	nw := h / ws * (w / ws)
	d := c / heads
	shortcut := x
	x, std1 := restored(t, "norm1", x, n.iln)
	x = t.Hold(t.View(x, b, h, w, c))

	qkv := t.Unbind(t.Permute(t.View(t.Linear("qkv", x, 3*c, n.qkvBias), b, h, w, 3, c), 3, 0, 4, 1, 2))
	t.Hold(qkv[0])
	kv := t.Hold(t.Cat(1, qkv[1], qkv[2]))
	qWindows := t.Hold(windows(t, t.Permute(qkv[0], 0, 2, 3, 1), ws))

	kvWindows := t.Copy("torch.nn.functional.unfold", kv, b, 2*c*over*over, nw)
	kvWindows = t.Permute(t.View(kvWindows, b, 2, c, over, over, nw), 1, 0, 5, 3, 4, 2)
	kvWindows = t.Hold(t.View(kvWindows, 2, b*nw, over*over, c))
	kvs := t.Unbind(kvWindows)

	split := func(x nn.Tensor, tokens int64) nn.Tensor {
		return t.Permute(t.View(x, b*nw, tokens, heads, d), 0, 2, 1, 3)
	}
	q, k, v := split(qWindows, ws*ws), split(kvs[0], over*over), split(kvs[1], over*over)
	q = t.Hold(t.MulScalar(q))
	attn := t.Hold(t.Matmul(q, t.Transpose(k, -2, -1)))

	table := t.Param("relative_position_bias_table", (ws+over-1)*(ws+over-1), heads)
	attn = biased(t, attn, table, ws*ws, over*over, heads)
	attn = t.Rebind(attn, t.Softmax(attn))

	attnWindows := t.Hold(t.View(t.Transpose(t.Matmul(attn, v), 1, 2), b*nw, ws*ws, c))
	x = t.Rebind(x, t.View(windowReverse(t, attnWindows, ws, b, h, w), b, h*w, c))
	x = t.Rebind(x, t.Add(rescaled(t, std1, t.Linear("proj", x, c, true)), shortcut))
	y, std2 := restored(t, "norm2", x, n.iln)
	return t.Add(x, rescaled(t, std2, t.Call("mlp", y, n.mlpOf)))
}
