package arch

import "github.com/launch-ml/launch/core/nn"

// ParagonSR2 static: traiNNer/archs/paragonsr2_static_arch.py of Phhofm's tree at 2464ab17 (2025-11-20). Its three
// versions differ in the default of hr_blocks of the micro variant, which was 0 until then.
var _ = entry(func() {
	static := func(feat, groups, blocks, band, hr int64, ffn float64, fast, norm bool) builder {
		return func(s Spec, a *args) Network {
			n := paragonS{
				scale: s.Scale, feat: feat, groups: groups, blocks: blocks, hr: max(a.int("hr_blocks", hr), 0),
				alpha: min(max(a.float("upsampler_alpha", 0.5), 0), 1), norm: a.bool("use_norm", norm),
			}
			n.block = paragon{
				feat: feat, band: band, hidden: int64(float64(feat) * ffn), channelMod: a.bool("use_channel_mod", true),
			}
			if a.bool("fast_body_mode", fast) {
				n.groups, n.blocks = max(1, n.groups/2), max(1, n.blocks/2)
			}
			a.ignore("use_channels_last")
			a.swallow = true
			return Network{Forward: n.forward, Generation: "static (2464ab17)", Assumed: true}
		}
	}
	register(static(16, 1, 1, 7, 1, 1.2, true, false), "paragonsr2_static_micro")
	register(static(24, 2, 2, 9, 1, 1.5, true, true), "paragonsr2_static_nano")
	register(static(32, 2, 3, 11, 1, 1.5, true, true), "paragonsr2_static_xs")
	register(static(48, 3, 4, 11, 2, 2, true, true), "paragonsr2_static_s")
	register(static(64, 4, 6, 13, 2, 2, false, true), "paragonsr2_static_m")
	register(static(96, 6, 8, 15, 3, 2, false, true), "paragonsr2_static_l")
	register(static(128, 8, 10, 15, 3, 2, false, true), "paragonsr2_static_xl")
})

type paragonS struct {
	scale, feat, groups, blocks, hr int64
	alpha                           float64
	norm                            bool
	block                           paragon // without attention and norm, which it has of its own
}

// forward is ParagonSR2Static.forward.
func (n paragonS) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	block := func(t *nn.Tape, x nn.Tensor) nn.Tensor { // ParagonBlockStatic
		residual := x
		x = t.Hold(t.Call("context", x, n.block.inception))
		x = t.Rebind(x, t.Add(residual, t.Call("ls1", x, layerScale)))
		residual = t.Hold(x)
		x = t.Hold(t.Call("transformer", x, n.block.transformer))
		x = t.Rebind(x, t.Add(residual, t.Call("ls2", x, layerScale)))
		if n.norm {
			x = t.Rebind(x, t.GroupNormPlain(x, 1))
		}
		return x
	}
	return paragonFeatures(t, x, n.scale, n.feat, n.groups, n.blocks, n.alpha, block, hrHead(n.feat, n.hr, n.norm))
}
