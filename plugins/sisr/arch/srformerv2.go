package arch

// SRFormerV2 (Zhou et al., 2024): traiNNer/archs/srformerv2_arch.py at 68629319. It is SRFormer with fewer channels in its
// attention and with blocks of plain windows between: see srformer.
var _ = register(func(s Spec, a *args) Network {
	n := srformer{swinIR: swinIR{
		scale: s.Scale, img: a.int("img_size", 64), in: a.int("in_chans", 3), dim: a.int("embed_dim", 240),
		depths: a.ints("depths", 4, 4, 4, 4, 4, 4), heads: a.ints("num_heads", 8, 8, 8, 8, 8, 8), window: a.int("window_size", 36),
		mlp: a.float("mlp_ratio", 2), qkvBias: true, dropPath: 0.1, patchNorm: true,
		upsampler: a.string("upsampler", "pixelshuffle"), resi: a.string("resi_connection", "1conv"),
		checkpointing: a.bool("use_checkpoint", false),
	}, v2: true}
	a.ignore("img_range")
	n.squeezed = 4 * a.int("squeeze_dim", 60)
	n.check()
	for i, d := range n.depths {
		h := n.heads[i]
		refuse(n.squeezed%h != 0 || d < 1, "depths %v, squeeze_dim %d, %d heads", n.depths, n.squeezed/4, h)
	}
	// Its plain windows divide what is padded for the others, or the first view fails.
	multiple := n.window
	for multiple%min(srformerPlain, n.resolution()) != 0 {
		multiple += n.window
	}
	return Network{
		InCh: n.in, Forward: n.forward, CheckpointArg: "use_checkpoint", Checkpointing: n.checkpointing,
		Multiple: multiple, MinLQ: n.window/2 + 1,
	}
}, "srformerv2")

// srformerPlain is the window_size of its SwinTransformerBlock.
const srformerPlain = 12
