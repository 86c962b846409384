package arch

import (
	"fmt"
	"slices"

	"github.com/launch-ml/launch/core/nn"
)

// DRCT (Hsu et al., 2024): traiNNer/archs/drct_arch.py at 68629319.
var _ = entry(func() {
	drct := func(layers int) builder {
		return func(s Spec, a *args) Network {
			six := slices.Repeat([]int64{6}, layers)
			n := drct{
				swinIR: swinIR{
					scale: s.Scale, in: a.int("in_chans", 3), img: a.int("img_size", 64), window: a.int("window_size", 16),
					depths: a.ints("depths", six...), dim: a.int("embed_dim", 180), heads: a.ints("num_heads", six...),
					mlp: a.float("mlp_ratio", 2), upsampler: a.string("upsampler", "pixelshuffle"),
					resi: a.string("resi_connection", "1conv"), checkpointing: a.bool("use_checkpoint", false),
					qkvBias: true, dropPath: 0.1,
				},
				gc: 32,
			}
			a.ignore("img_range")
			n.check()
			return Network{
				InCh: n.in, Forward: n.forward, CheckpointArg: "use_checkpoint", Checkpointing: n.checkpointing, NoFP16: true,
				Multiple: n.window,
			}
		}
	}
	register(drct(6), "drct")
	register(drct(12), "drct_l")
	register(drct(14), "drct_xl")
})

// drct shares with SwinIR its window attention, its MLP and its embedding. Its groups have five blocks whatever their
// depth, which sets the rates of their drop paths alone.
type drct struct {
	swinIR
	gc int64 // what each block adds to the channels
}

// blockHeads is the number of heads of block i of a group (drct_arch.py:269).
func (n drct) blockHeads(layer int, i int64) int64 {
	heads := n.heads[layer]
	if i == 0 {
		return heads
	}
	return heads - (n.dim+i*n.gc)%heads
}

// check finds what upstream's constructor or its first forward stops at.
func (n drct) check() {
	refuse(len(n.heads) < len(n.depths) || slices.Contains(n.depths, 0), "depths %v, num_heads %v", n.depths, n.heads)
	refuse(n.window < 1 || n.img < 1 || max(n.img, n.window)%min(n.img, n.window) != 0,
		"img_size %d and window_size %d do not divide", n.img, n.window)
	for layer := range n.depths {
		for i := range int64(5) {
			refuse(n.heads[layer] < 1 || (n.dim+i*n.gc)%n.blockHeads(layer, i) != 0,
				"%d channels do not divide among the heads of num_heads %d", n.dim+i*n.gc, n.heads[layer])
		}
	}
	refuse(n.resi != "1conv" && n.resi != "identity", "resi_connection %q is none of 1conv, identity", n.resi)
	refuse(n.upsampler != "pixelshuffle", "upsampler %q is not pixelshuffle", n.upsampler)
	upsamples(n.scale)
}

func (n drct) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	h, w := x.Dim(2), x.Dim(3)
	mean := t.Hold(t.Zeros(x.DType(), 1, n.in, 1, 1))
	x = t.Hold(t.MulScalar(t.Sub(x, mean)))
	if ph, pw := multiple(h, n.window), multiple(w, n.window); ph != h || pw != w { // check_image_size
		x = t.Rebind(x, t.PadTo(x, true, x.Dim(0), x.Dim(1), ph, pw))
	}
	x = t.Rebind(x, t.Conv2d("conv_first", x, conv(n.dim, 3)))
	y := t.Call("", x, n.features)
	if n.resi == "1conv" {
		y = t.Conv2d("conv_after_body", y, conv(n.dim, 3))
	}
	x = t.Rebind(x, t.Add(y, x))
	x = t.Rebind(x, t.Sequential("conv_before_upsample", x, conv(swinFeat, 3).Module(), (*nn.Tape).LeakyReLUInplace))
	x = t.Rebind(x, t.Conv2d("conv_last", t.Call("upsample", x, upsample(n.scale, swinFeat)), conv(n.in, 3)))
	x = t.Rebind(x, t.Add(t.DivScalar(x), mean))
	return t.Narrow(t.Narrow(x, 2, h*n.scale), 3, w*n.scale)
}

// features is forward_features.
func (n drct) features(t *nn.Tape, x nn.Tensor) (y nn.Tensor) {
	h, w := x.Dim(2), x.Dim(3)
	y = t.Hold(t.Call("patch_embed", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		return t.LayerNorm("norm", t.Hold(tokens(t, x)))
	}))
	y = layers(t, y, n.dropPath, n.depths, func(t *nn.Tape, x nn.Tensor, i int, rate dropPaths) nn.Tensor {
		return n.rdg(t, x, h, w, i, rate(0))
	})
	y = t.Rebind(y, t.LayerNorm("norm", y))
	return image(t, y, h, w)
}

// rdg is RDG: each block sees what all before it have made.
func (n drct) rdg(t *nn.Tape, x nn.Tensor, h, w int64, layer int, dropPath float64) nn.Tensor {
	xs := []nn.Tensor{x}
	var y nn.Tensor
	for i := range int64(5) {
		in := x
		if i > 0 {
			in = t.Cat(-1, xs...)
		}
		m := func(t *nn.Tape, x nn.Tensor) nn.Tensor { // _swin_block
			x = t.Call(fmt.Sprint("swin", i+1), x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
				return n.block(t, x, h, w, i, n.blockHeads(layer, i), dropPath)
			})
			out := n.gc
			if i == 4 {
				out = n.dim
			}
			x = t.Conv2d(fmt.Sprint("adjust", i+1), image(t, x, h, w), conv(out, 1))
			if i < 4 {
				x = t.LeakyReLUInplace(x)
			}
			return tokens(t, x)
		}
		y = t.CheckpointIf(n.checkpointing && t.Training, "", in, m)
		xs = append(xs, t.Hold(y))
	}
	return t.Add(t.MulScalar(y), x)
}

// block is SwinTransformerBlock. Of an image of another size than img_size all windows are masked.
func (n drct) block(t *nn.Tape, x nn.Tensor, h, w, i, heads int64, dropPath float64) nn.Tensor {
	b, c := x.Dim(0), x.Dim(2)
	ws, shift := n.window, i%2*(n.window/2)
	if n.img <= ws {
		ws, shift = n.img, 0
	}
	var mask nn.Tensor
	if shift > 0 {
		mask = t.Buffer("attn_mask", nn.F32, n.img/ws*(n.img/ws), ws*ws, ws*ws)
	}

	shortcut := x
	x = t.Hold(t.LayerNorm("norm1", x))
	x = t.Rebind(x, t.View(x, b, h, w, c))
	m := n.swinIR
	m.dim = c
	y := rolled(t, x, shift > 0, func(x nn.Tensor) nn.Tensor {
		xWindows := t.Hold(windows(t, x, ws))
		if h != n.img || w != n.img { // calculate_mask, moved to the device
			mask = t.Zeros(nn.F32, h/ws*(w/ws), ws*ws, ws*ws)
		}
		attend := func() nn.Tensor { return m.attention(t, xWindows, mask, ws, heads) }
		return windowReverse(t, t.Hold(t.Within("attn", attend, xWindows, mask)), ws, b, h, w)
	})
	x = t.Rebind(x, t.View(y, b, h*w, c))

	x = t.Rebind(x, t.Add(shortcut, dropPathOf(t, x, dropPath)))
	if i > 2 {
		m.mlp = 1
	}
	return t.Add(x, dropPathOf(t, t.Call("mlp", t.LayerNorm("norm2", x), m.mlpOf), dropPath))
}
