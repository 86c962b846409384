package arch

import (
	"math/bits"
	"slices"

	"github.com/launch-ml/launch/core/nn"
)

// MoSRv2 (umzi2): traiNNer/archs/mosrv2_arch.py and, for what it ends in, traiNNer/archs/arch_util.py (UniUpsampleV3) at
// 68629319.
var _ = register(func(s Spec, a *args) Network {
	n := mosrV2{
		scale: s.Scale, inCh: a.int("in_ch", 3), blocks: a.int("n_block", 24), dim: a.int("dim", 64),
		expansion: a.float("expansion_ratio", 1.5), rms: a.bool("rms_norm", false), pad: 1,
	}
	upsampler, mid := a.string("upsampler", "pixelshuffledirect"), a.int("mid_dim", 32)
	if upScale := s.Scale; a.bool("unshuffle_mod", true) && upScale < 3 {
		n.pad, upScale = 4/upScale, 4
		n.unshuffled = true
		n.up = uniUpsampleV3{upsample: upsampler, scale: upScale, out: n.inCh, mid: mid}
	} else {
		n.up = uniUpsampleV3{upsample: upsampler, scale: upScale, out: n.inCh, mid: mid}
	}
	n.up.check(n.dim)
	return Network{InCh: n.inCh, Forward: n.forward, Multiple: n.pad}
}, "mosrv2")

type mosrV2 struct {
	scale, inCh, blocks, dim, pad int64
	expansion                     float64
	rms, unshuffled               bool
	up                            uniUpsampleV3
}

// forward is MoSRv2.forward.
func (n mosrV2) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	h, w := x.Dim(2), x.Dim(3)
	modPad := func(k int64) int64 { return (n.pad - k%n.pad) % n.pad }
	x = t.Hold(t.Pad(x, modPad(h), modPad(w), true))
	y := t.Call("to_img", t.Call("gblocks", x, n.gblocks), n.up.module)
	x = t.Rebind(x, t.Add(y, t.Bilinear(x, n.scale)))
	return t.Narrow(t.Narrow(x, 2, h*n.scale), 3, w*n.scale)
}

func (n mosrV2) gblocks(t *nn.Tape, x nn.Tensor) nn.Tensor {
	var ms []nn.Module
	if n.unshuffled {
		ms = append(ms, func(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.PixelUnshuffle(x, n.pad) })
	}
	ms = append(ms, conv(n.dim, 3).Module())
	ms = append(ms, nn.Repeat(n.block, n.blocks)...)
	mish := (*nn.Tape).MishInplace
	ms = append(ms, conv(2*n.dim, 3).Module(), mish, conv(n.dim, 3).Module(), mish, conv(n.dim, 1).Module())
	return t.Sequential("", x, ms...)
}

// block is GatedCNNBlock.
func (n mosrV2) block(t *nn.Tape, x nn.Tensor) nn.Tensor {
	hidden := int64(n.expansion * float64(n.dim))
	shortcut := x
	norm := channelLayerNorm
	if n.rms {
		norm = rmsNormOffset
	}
	x = t.Hold(t.Call("norm", x, norm))
	p := t.Split(t.Conv2d("fc1", x, conv(2*hidden, 3)), 1, hidden, hidden-n.dim, n.dim)
	g, i := t.Hold(p[0]), p[1]
	c := t.Hold(t.Call("conv", p[2], inceptionDW(n.dim/8, 3, 11)))
	x = t.Rebind(x, t.Mish(t.Conv2d("fc2", t.Mul(t.Mish(g), t.Cat(1, i, c)), conv(n.dim, 3))))
	return t.Add(t.Mul(x, t.Param("gamma", 1, n.dim, 1, 1)), shortcut)
}

// inceptionDW is InceptionDWConv2d with branches of gc channels, a square kernel and two bands.
func inceptionDW(gc, square, band int64) nn.Module {
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		p := t.Split(x, 1, x.Dim(1)-3*gc, gc, gc, gc)
		return t.Cat(1, p[0],
			t.Conv2d("dwconv_hw", p[1], depthwise(gc, square)),
			t.Conv2d("dwconv_w", p[2], nn.Conv{Out: gc, K: 1, KW: band, Groups: gc}),
			t.Conv2d("dwconv_h", p[3], nn.Conv{Out: gc, K: band, KW: 1, Groups: gc}))
	}
}

// rmsNormOffset is RMSNorm: norm is on autocast's float32 list, so everything after it is float32.
func rmsNormOffset(t *nn.Tape, x nn.Tensor) nn.Tensor {
	c := x.Dim(1)
	scale, offset := t.Param("scale", c, 1, 1), t.Param("offset", c, 1, 1)
	normX := t.Hold(t.Norm(x, 1))
	rmsX := t.Hold(t.MulScalar(normX))
	xNormed := t.Hold(t.Div(x, t.AddScalar(rmsX)))
	return t.Add(t.Mul(scale, xNormed), offset)
}

// A uniUpsampleV3 is UniUpsampleV3 without its group and its kernel at the end, which nobody passes.
type uniUpsampleV3 struct {
	upsample        string
	scale, out, mid int64
	unmarked        bool // neosr's class of MoSRv2 has no buffer that names it
}

// check is what its constructor stops at, and what has no formula.
func (u uniUpsampleV3) check(in int64) {
	known := []string{"conv", "pixelshuffledirect", "pixelshuffle", "nearest+conv", "dysample", "transpose+conv", "lda", "pa_up"}
	power := u.scale > 0 && u.scale&(u.scale-1) == 0
	switch {
	case !slices.Contains(known, u.upsample):
		reject("upsampler: %q is none of %v", u.upsample, known)
	case u.scale == 1 || u.upsample == "conv":
	case u.upsample == "transpose+conv" || u.upsample == "lda":
		reject("upsampler: %s: %w", u.upsample, ErrUnknown)
	case u.upsample == "dysample":
		c := u.mid
		refuse(c <= 4 || c%4 != 0, "mid_dim: incorrect in_channels and groups values of DySample")
	case u.upsample != "pixelshuffledirect" && !power && u.scale != 3:
		reject("scale %d is not supported, supported scales: 2^n and 3", u.scale)
	}
}

func (u uniUpsampleV3) module(t *nn.Tape, x nn.Tensor) nn.Tensor {
	if !u.unmarked {
		t.Buffer("MetaUpsample", nn.Bool, 7) // of one byte an element
	}
	in := x.Dim(1)
	lrelu := (*nn.Tape).LeakyReLUInplace
	nearest := func(by int64) nn.Module {
		return func(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.Upsample(x, by) }
	}
	doublings := bits.Len64(uint64(u.scale)) - 1
	by, times := int64(2), doublings
	if u.scale == 3 {
		by, times = 3, 1
	}

	var ms []nn.Module
	switch {
	case u.scale == 1 || u.upsample == "conv":
		ms = append(ms, conv(u.out, 3).Module())
	case u.upsample == "pixelshuffledirect":
		ms = append(ms, conv(u.out*u.scale*u.scale, 3).Module(), shuffle(u.scale))
	case u.upsample == "pixelshuffle":
		ms = append(ms, conv(u.mid, 3).Module(), lrelu)
		for range times {
			ms = append(ms, conv(by*by*u.mid, 3).Module(), shuffle(by))
		}
		ms = append(ms, conv(u.out, 3).Module())
	case u.upsample == "nearest+conv":
		for range times {
			ms = append(ms, conv(in, 3).Module(), nearest(by), lrelu)
		}
		ms = append(ms, conv(in, 3).Module(), lrelu, conv(u.out, 3).Module())
	case u.upsample == "dysample":
		if u.mid != in {
			ms = append(ms, conv(u.mid, 3).Module(), lrelu)
		}
		ms = append(ms, dySample(u.out, u.scale, 4, true))
	case u.upsample == "pa_up":
		for range times {
			ms = append(ms, nearest(by), conv(u.mid, 3).Module(), pixelAttention, lrelu, conv(u.mid, 3).Module(), lrelu)
		}
		ms = append(ms, conv(u.out, 3).Module())
	}
	return t.Sequential("", x, ms...)
}

// pixelAttention is PA.
func pixelAttention(t *nn.Tape, x nn.Tensor) nn.Tensor {
	return t.Mul(x, t.Sequential("conv", x, conv(x.Dim(1), 1).Module(), (*nn.Tape).Sigmoid))
}
