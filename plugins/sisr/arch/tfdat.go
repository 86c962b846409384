package arch

import (
	"cmp"

	"github.com/launch-ml/launch/core/nn"
)

// TFDAT: traiNNer/archs/tfdat_arch.py at 68629319: FDAT of the middle frame of a clip and of the sum of the others, each warped
// to it. How many frames a clip has is the data set's to say (clip_size), 5 where it does not. A batch of clips (b, t, c, h, w)
// is (b, t·c, h, w) here.
var _ = register(func(s Spec, a *args) Network {
	n := tfdat{
		fdat: fdat{
			scale: s.Scale, in: a.int("num_in_ch", 3), dim: a.int("embed_dim", 120), groups: a.int("num_groups", 4),
			depth: a.int("depth_per_group", 3), heads: a.int("num_heads", 4), window: a.int("window_size", 8),
			ffn: a.float("ffn_expansion_ratio", 2), reduction: a.int("aim_reduction_ratio", 8),
			dropPath: a.float("drop_path_rate", 0.1), pattern: a.texts("group_block_pattern", "spatial", "channel"),
		},
		frames: s.Frames, flow: a.int("flow_base_ch", 32), unshuffle: 1,
	}
	n.frames = cmp.Or(n.frames, 5)
	n.up = upsampler3{a.string("upsampler_type", "transpose+conv"), s.Scale, a.int("num_out_ch", 3), swinFeat}
	if s.Scale <= 2 {
		n.unshuffle, n.up.scale = 4/max(s.Scale, 1), 4
	}
	refuse(n.frames < 1 || n.frames%2 == 0, "clip_size must be odd")
	refuse(n.heads < 1 || n.window < 1 || n.reduction < 1 || n.flow < 1 || n.dim%n.heads != 0 || n.dim < n.reduction,
		"embed_dim %d, num_heads %d, window_size %d, aim_reduction_ratio %d, flow_base_ch %d",
		n.dim, n.heads, n.window, n.reduction, n.flow)
	n.up.check()
	n.align = n.unshuffle * n.window
	for n.align%8 != 0 { // the least common multiple with 8
		n.align += n.unshuffle * n.window
	}
	return Network{InCh: n.in * n.frames, Frames: n.frames, Forward: n.forward, Multiple: n.align}
}, "tfdat")

// A tfdat has FDAT's blocks.
type tfdat struct {
	fdat
	frames, flow, unshuffle, align int64
}

// forward is TFDAT.forward (line 492).
func (n tfdat) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	b, h, w := x.Dim(0), x.Dim(2), x.Dim(3)
	ph, pw := multiple(h, n.align), multiple(w, n.align)
	if ph != h || pw != w {
		x = t.Hold(t.PadTo(t.View(x, b*n.frames, n.in, h, w), true, b*n.frames, n.in, ph, pw))
	}
	frame := func() nn.Tensor { return t.Select(t.View(x, b, n.frames, n.in, ph, pw), 1) }
	center := frame()
	sum := t.Hold(t.Zeros(x.DType(), b, n.in, ph, pw))
	var flow, aligned nn.Tensor // which the next turn of the loop assigns anew
	for i := range n.frames - 1 {
		src := frame()
		f := t.Within("flow_net", func() nn.Tensor { return n.flowOf(t, src, center) })
		g := func() nn.Tensor {
			return t.Within("", func() nn.Tensor { return warpFrame(t, src, f) }, f)
		}
		if i == 0 {
			flow = t.Hold(f)
			aligned = t.Hold(g())
		} else {
			flow = t.Rebind(flow, f)
			aligned = t.Rebind(aligned, g())
		}
		sum = t.Rebind(sum, t.Add(sum, aligned))
	}
	if n.unshuffle > 1 {
		center = t.Hold(t.PixelUnshuffle(center, n.unshuffle))
		sum = t.Rebind(sum, t.PixelUnshuffle(sum, n.unshuffle))
	} else {
		stem := func(x nn.Tensor) nn.Tensor {
			y := t.Sequential("shallow_stem", x, conv(n.dim/2, 3).Module(), (*nn.Tape).LeakyReLUInplace, conv(n.in, 3).Module())
			return t.Add(y, x)
		}
		center = t.Hold(stem(center))
		sum = t.Rebind(sum, stem(sum))
	}
	first := func(x nn.Tensor) nn.Tensor { return t.Hold(t.Conv2d("conv_first", x, conv(n.dim, 3))) }
	centerFeat := first(center)
	alignedFeat := first(t.DivScalar(sum))
	shallow := t.Hold(t.Sequential("temporal_fuse", t.Cat(1, centerFeat, alignedFeat), conv(n.dim, 1).Module(),
		(*nn.Tape).LeakyReLUInplace, conv(n.dim, 3).Module()))
	y := n.backbone(t, shallow)
	return t.Narrow(t.Narrow(y, 2, h*n.scale), 3, w*n.scale)
}

// flowOf is LightFlowNet (line 17): where each pixel of the middle frame is in another.
func (n tfdat) flowOf(t *nn.Tape, src, tgt nn.Tensor) nn.Tensor {
	x := t.Hold(t.Cat(1, src, tgt))
	half := func(out int64) nn.Module { return nn.Conv{Out: out, K: 3, Stride: 2}.Module() }
	lrelu := nn.Module((*nn.Tape).LeakyReLUInplace)
	feat := t.Hold(t.Sequential("enc", x, half(n.flow), lrelu, half(2*n.flow), lrelu, half(4*n.flow), lrelu))
	low := t.Hold(t.Conv2d("flow_pred", feat, conv(2, 3)))
	return t.Hold(t.MulScalar(t.Interpolate(low, src.Dim(2), src.Dim(3))))
}

// warpFrame is warp_frame (line 63): each pixel from the four about it, by indices of its own.
func warpFrame(t *nn.Tape, x, flow nn.Tensor) nn.Tensor {
	b, c, h, w := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	at := func(wide bool) nn.Tensor { // new_x and new_y
		shape := []int64{1, 1, h, 1}
		if wide {
			shape = []int64{1, 1, 1, w}
		}
		grid := t.Expand(t.Hold(t.Zeros(x.DType(), shape...)), b, 1, h, w)
		return t.Hold(t.Add(grid, t.Narrow(flow, 1, 1)))
	}
	newX, newY := at(true), at(false)
	newX = t.Rebind(newX, t.Clamp(newX))
	newY = t.Rebind(newY, t.Clamp(newY))
	floor := func(x nn.Tensor) nn.Tensor { return t.Hold(t.Elementwise("torch.floor", x, false, false)) }
	x0, y0 := floor(newX), floor(newY)
	var x1, y1 nn.Tensor // of which indices are made alone
	drop := t.Dead(func() {
		x1 = t.Hold(t.Clamp(t.AddScalar(x0)))
		y1 = t.Hold(t.Clamp(t.AddScalar(y0)))
	})
	dx, dy := t.Hold(t.Sub(newX, x0)), t.Hold(t.Sub(newY, y0))
	long := func(x nn.Tensor) nn.Tensor {
		return t.Hold(t.View(t.To(t.Detach(x), nn.I64), b, h, w))
	}
	x0l, y0l, x1l, y1l := long(x0), long(y0), long(x1), long(y1)
	index := func(y, x nn.Tensor) nn.Tensor {
		i := t.View(t.Add(t.MulScalar(y), x), b, 1, h, w)
		return t.Hold(t.View(t.Expand(i, b, c, h, w), b, c, h*w))
	}
	i00, i01, i10, i11 := index(y0l, x0l), index(y0l, x1l), index(y1l, x0l), index(y1l, x1l)
	flat := t.View(x, b, c, h*w)
	corner := func(i nn.Tensor) nn.Tensor { return t.Hold(t.View(t.Gather(flat, i, b, c, h*w), b, c, h, w)) }
	p00, p01, p10, p11 := corner(i00), corner(i01), corner(i10), corner(i11)

	rest := func(x nn.Tensor) nn.Tensor { return t.Neg(x) } // 1 - x
	w00 := t.Hold(t.Mul(rest(dx), rest(dy)))
	w01 := t.Hold(t.Mul(dx, rest(dy)))
	w10 := t.Hold(t.Mul(rest(dx), dy))
	w11 := t.Hold(t.Mul(dx, dy))
	sum := t.Add(t.Mul(w00, p00), t.Mul(w01, p01))
	sum = t.Add(sum, t.Mul(w10, p10))
	y := t.Add(sum, t.Mul(w11, p11))
	drop()
	return y
}
