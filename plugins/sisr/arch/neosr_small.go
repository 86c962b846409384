package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// Networks of neosr that differ from traiNNer-redux's in a few lines: neosr/archs at 31c7022.
var _ = entry(func() {
	networks.add(Neosr, buildSpanNeosr, "span")
	networks.add(Neosr, buildESRGANNeosr, "esrgan")
	networks.add(Neosr, buildMosrv2Neosr, "mosrv2")
	networks.add(Neosr, sebicaNeosr{6, false}.build, "sebica")
	networks.add(Neosr, buildMAN(36, 180), "man")
	networks.add(Neosr, buildMAN(24, 60), "man_light")
	networks.add(Neosr, buildMAN(5, 48), "man_tiny")
})

// buildSpanNeosr is span (span_arch.py:226). The mean is no buffer, and every result has a name of its own.
func buildSpanNeosr(s Spec, a *args) Network {
	ownScale(s, a, "upscale")
	n := span{inCh: a.int("num_in_ch", 3), outCh: a.int("num_out_ch", 3), feat: a.int("feature_channels", 48),
		blocks: 6, upscale: s.Scale, norm: a.bool("norm", false)}
	refuse(n.feat < 1, "feature_channels: %d: it is at least 1", n.feat)
	a.swallow = true
	a.ignore("bias", "img_range", "rgb_mean")
	return Network{InCh: n.inCh, Forward: n.forwardNeosr}
}

func (n span) forwardNeosr(t *nn.Tape, x nn.Tensor) nn.Tensor {
	if n.norm {
		x = t.Hold(t.MulScalar(t.Sub(x, t.Hold(t.Zeros(x.DType(), 1, 3, 1, 1)))))
	} else {
		t.Buffer("no_norm", nn.F32, 1)
	}
	outFeature := t.Hold(t.Call("conv_1", x, conv3XC(n.feat)))
	out, outB1, lastMid := outFeature, outFeature, outFeature
	mids := nn.Tensor{}
	for i := range int(n.blocks) {
		newOut, mid, att := n.spab(t, fmt.Sprint("block_", i+1), out)
		out = t.Hold(newOut)
		t.Hold(att)
		switch i {
		case 0:
			outB1, mids = out, t.Hold(mid)
		case int(n.blocks) - 1: // out_b5_2
			lastMid = t.Hold(mid)
		default:
			mids = t.Rebind(mids, mid) // _
		}
	}
	out = t.Rebind(out, t.Call("conv_2", out, conv3XC(n.feat)))
	out = t.Hold(t.Conv2d("conv_cat", t.Cat(1, outFeature, out, outB1, lastMid), conv(n.feat, 1)))
	return t.Sequential("upsampler", out, conv(n.outCh*n.upscale*n.upscale, 3).Module(), shuffle(n.upscale))
}

// buildESRGANNeosr is esrgan (esrgan_arch.py:150): traiNNer-redux's blocks between names that live on.
func buildESRGANNeosr(s Spec, a *args) Network {
	n := rrdbnet{
		scale: 4, inNC: a.int("num_in_ch", 3), outNC: a.int("num_out_ch", 3), filters: a.int("num_feat", 64),
		blocks: a.int("num_block", 23), grow: a.int("num_grow_ch", 32),
	}
	if s.Scale == 1 || s.Scale == 2 {
		n.shuffle = 4 / s.Scale
	}
	return Network{InCh: n.inNC, Forward: n.forwardNeosr, Multiple: max(n.shuffle, 1)}
}

func (n rrdbnet) forwardNeosr(t *nn.Tape, x nn.Tensor) nn.Tensor {
	feat := x
	if n.shuffle > 0 {
		feat = t.Hold(t.PixelUnshuffle(x, n.shuffle))
	}
	feat = t.Hold(t.Conv2d("conv_first", feat, conv(n.filters, 3)))
	body := t.Sequential("body", feat, nn.Repeat(n.rrdb, n.blocks)...)
	bodyFeat := t.Hold(t.Conv2d("conv_body", body, conv(n.filters, 3)))
	feat = t.Rebind(feat, t.Add(feat, bodyFeat))
	for _, name := range [...]string{"conv_up1", "conv_up2"} {
		feat = t.Rebind(feat, t.LeakyReLUInplace(t.Conv2d(name, t.Upsample(feat, 2), conv(n.filters, 3))))
	}
	return t.Hold(t.Conv2d("conv_last", t.LeakyReLUInplace(t.Conv2d("conv_hr", feat, conv(n.filters, 3))), conv(n.outNC,
		3)))
}

// buildMosrv2Neosr is mosrv2 (mosrv2_arch.py:183), with RMSNorm and without the buffer that names the upsampler.
func buildMosrv2Neosr(s Spec, a *args) Network {
	n := mosrV2{
		scale: s.Scale, inCh: a.int("in_ch", 3), blocks: a.int("n_block", 24), dim: a.int("dim", 64),
		expansion: a.float("expansion_ratio", 1.5), rms: true, pad: 1,
	}
	n.up = uniUpsampleV3{
		upsample: a.string("upsampler", "pixelshuffledirect"), scale: s.Scale, out: n.inCh,
		mid: a.int("mid_dim", 32), unmarked: true,
	}
	if a.bool("unshuffle_mod", true) && s.Scale < 3 {
		n.pad, n.unshuffled, n.up.scale = 4/s.Scale, true, 4
	}
	switch n.up.upsample {
	case "conv", "pixelshuffledirect", "pixelshuffle", "nearest+conv", "dysample":
	default:
		reject("upsampler %q is none of conv, pixelshuffledirect, pixelshuffle, nearest+conv, "+
			"dysample", n.up.upsample)
	}
	n.up.check(n.dim)
	return Network{InCh: n.inCh, Forward: n.forward, Multiple: n.pad}
}

// sebicaNeosr is sebica (sebica_arch.py:150), whose only results with a name are those of its blocks and its ends.
type sebicaNeosr struct {
	blocks int
	mini   bool
}

func (v sebicaNeosr) build(s Spec, a *args) Network {
	ownScale(s, a, "sr_rate")
	a.swallow = true
	refuse(a.bool("mini", v.mini), "mini: %w", ErrUnknown)
	n := sebica{scale: s.Scale, n: a.int("N", 16)}
	drop := a.float("dropout", 0)
	return Network{BatchNorm: true, Forward: func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		norm := nn.BatchNorm{}.Module()
		out := t.Hold(t.Sequential("head", x, conv(n.n, 3).Module(), norm, (*nn.Tape).ReLUInplace))
		for i := range v.blocks {
			out = t.Rebind(out, t.Call(fmt.Sprint("body.", i), out, n.attn))
		}
		dropout := func(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.Dropout(x, drop) }
		h := t.Hold(t.Sequential("tail", out, conv(3*n.scale*n.scale, 1).Module(), dropout, shuffle(n.scale)))
		base := t.Hold(t.Clamp(t.Upsample(x, n.scale)))
		return t.Add(h, base)
	}}
}

// buildMAN is man (man_arch.py:202), which shifts no mean.
func buildMAN(blocks, feats int64) builder {
	return func(s Spec, a *args) Network {
		n := man{
			scale: s.Scale, blocks: a.int("n_resblocks", blocks), groups: a.int("n_resgroups", 1),
			colors: a.int("n_colors", 3), feats: a.int("n_feats", feats),
		}
		a.ignore("res_scale")
		refuse(n.feats < 3 || n.feats%3 != 0, "n_feats: the large kernels want three equal parts")
		return Network{InCh: n.colors, Forward: n.forwardNeosr}
	}
}

func (n man) forwardNeosr(t *nn.Tape, x nn.Tensor) nn.Tensor {
	x = t.Hold(t.Conv2d("head", x, conv(n.feats, 3)))
	return t.Sequential("tail", n.body(t, x), conv(n.colors*n.scale*n.scale, 3).Module(), shuffle(n.scale))
}
