package arch

import (
	"github.com/launch-ml/launch/core/nn"
)

// DWT, the dilated window transformer: traiNNer/archs/dwt_arch.py at 68629319. It is SwinIR with some windows of pixels that
// lie apart.
var _ = entry(func() {
	dwt := func(window int64) builder {
		return func(s Spec, a *args) Network {
			six := []int64{6, 6, 6, 6, 6, 6}
			defaults := swinIR{
				img: 64, dim: 180, depths: six, heads: six, window: window, mlp: 2, upsampler: "pixelshuffle", resi: "1conv",
			}
			n := dwt{swinIR: defaults.read(s, a)}
			n.kinds = a.table("layer_kinds", dwtKinds)
			a.ignore("qk_scale", "img_range")
			a.onlyPatch1()
			refuse(a.bool("ape", false), "ape: %w", ErrUnknown)
			// forward (line 1182) leaves the network out for others
			refuse(n.upsampler != "pixelshuffle", "upsampler %q: the network is run for pixelshuffle only", n.upsampler)
			n.check()
			n.blockOf = n.block
			return Network{
				InCh: n.in, Forward: n.forward, CheckpointArg: "use_checkpoint", Checkpointing: n.checkpointing, NoFP16: true,
				Multiple: 2 * n.window, MinLQ: n.window + 1, // what is reflected is smaller than the image
			}
		}
	}
	register(dwt(16), "dwt")
	register(dwt(8), "dwt_s")
})

// dwtKinds is the default of layer_kinds: for each block of each layer, windows as they lie (0), shifted (-1), or of pixels
// that lie apart, within one or each of 2×2 parts of the image.
var dwtKinds = [][]int64{
	{0, -1, 0, -1, 0, -1}, {0, -1, 0, -1, 0, -1}, {0, 2, 0, 2, 0, 2}, {0, 2, 0, 2, 0, 2}, {0, 1, 0, 1, 0, 1}, {0, 1, 0, 1, 0, 1},
}

// table is a list of lists of whole numbers.
func (a *args) table(name string, def [][]int64) [][]int64 {
	v, ok := a.get(name)
	if !ok || v == nil {
		return def
	}
	rows, ok := v.([]any)
	t := make([][]int64, len(rows))
	for i, r := range rows {
		list, isList := r.([]any)
		ok = ok && isList
		for _, e := range list {
			k, whole := toInt(e)
			t[i], ok = append(t[i], k), ok && whole
		}
	}
	refuse(!ok, "%s: %v is not a list of lists of whole numbers", name, v)
	return t
}

type dwt struct {
	swinIR
	kinds [][]int64
}

// check is what its constructor stops at.
func (n dwt) check() {
	upsamples(n.scale)
	refuse(len(n.heads) < len(n.depths) || len(n.kinds) < len(n.depths) || n.window < 2,
		"depths %v, num_heads %v, layer_kinds %v, window_size %d", n.depths, n.heads, n.kinds, n.window)
	for i, depth := range n.depths {
		h := n.heads[i]
		refuse(h < 1 || n.dim%h != 0 || int64(len(n.kinds[i])) < depth,
			"depths %v, num_heads %v, layer_kinds %v", n.depths, n.heads, n.kinds)
		for _, k := range n.kinds[i] {
			refuse(k > 0 && (n.img%(k*n.window) != 0 || 2%k != 0),
				"layer_kinds %v: windows of %d do not fill each of %d×%d parts", n.kinds, n.window, k, k)
		}
	}
}

// forward is DWT.forward (line 1182).
func (n dwt) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	h, w, side := x.Dim(2), x.Dim(3), 2*n.window
	x = t.Hold(t.PadTo(x, true, x.Dim(0), x.Dim(1), multiple(h, side), multiple(w, side))) // check_image_size
	return n.restore(t, x, h, w, n.features)
}

// block is WindowAttentinBlock (line 433).
func (n dwt) block(t *nn.Tape, x nn.Tensor, h, w int64, layer int, i int64, dropPath float64) nn.Tensor {
	b, c, ws, kind := x.Dim(0), x.Dim(2), n.window, n.kinds[layer][i]
	ws = min(ws, n.img)
	area := ws * ws
	var mask nn.Tensor
	if kind != 0 {
		mask = t.Buffer("attn_mask", nn.F32, n.img*n.img/area, area, area)
	}
	if h != n.img || w != n.img { // a mask of another size, and one where there was none
		mask = t.Zeros(nn.F32, h*w/area, area, area)
	}

	shortcut := x
	x = t.LayerNorm("norm1", x)
	x = t.Hold(t.View(x, b, h, w, c))
	attention := func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		if mask.Dims() > 0 {
			t.Hold(mask)
		}
		return n.attention(t, x, mask, ws, n.heads[layer])
	}
	y := rolled(t, x, kind != 0, func(x nn.Tensor) nn.Tensor {
		if kind > 0 {
			xWindows := t.Hold(t.View(dilated(t, x, kind, ws), -1, area, c))
			return undilated(t, t.Hold(t.Call("attn", xWindows, attention)), kind, ws, h, w)
		}
		return windowReverse(t, t.Hold(t.Call("attn", t.Hold(windows(t, x, ws)), attention)), ws, b, h, w)
	})
	x = t.Rebind(x, t.View(y, b, h*w, c))

	x = t.Rebind(x, t.Add(shortcut, dropPathOf(t, x, dropPath)))
	return t.Add(x, dropPathOf(t, t.Call("mlp", t.LayerNorm("norm2", x), n.mlpOf), dropPath))
}

// dilated is dilated_window_partition (line 63): the image in parts, and of each part windows of pixels that lie apart.
func dilated(t *nn.Tape, x nn.Tensor, parts, ws int64) nn.Tensor {
	b, h, w, c := x.Dim(0), x.Dim(1)/parts, x.Dim(2)/parts, x.Dim(3)
	y := t.Contiguous(t.Permute(t.View(x, b, parts, h, parts, w, c), 0, 1, 3, 2, 4, 5))
	t.Scope("", func() { y = t.Contiguous(t.Permute(t.View(y, -1, ws, h/ws, ws, w/ws, c), 0, 2, 4, 1, 3, 5)) }, t.View(y, -1, h, w, c))
	return t.View(y, -1, ws, ws, c)
}

// undilated is dilated_window_reverse (line 134).
func undilated(t *nn.Tape, x nn.Tensor, parts, ws, h, w int64) nn.Tensor {
	c, ph, pw := x.Dim(-1), h/parts, w/parts
	y := t.Contiguous(t.Permute(t.View(x, -1, ph/ws, pw/ws, ws, ws, c), 0, 3, 1, 4, 2, 5))
	z := t.Contiguous(t.Permute(t.View(y, -1, parts, parts, ph, pw, c), 0, 1, 3, 2, 4, 5))
	return t.View(z, -1, h, w, c)
}
