package arch

import (
	"github.com/launch-ml/launch/core/nn"
)

// MoESR2 (umzi2): traiNNer/archs/moesr_arch.py at 68629319. Its block is MoSRv2's, with a layer norm.
var _ = register(func(s Spec, a *args) Network {
	n := moESR2{
		scale: s.Scale, inCh: a.int("in_ch", 3), blocks: a.int("n_blocks", 9), block: a.int("n_block", 4),
		gated: mosrV2{dim: a.int("dim", 64), expansion: a.float("expansion_factor", 8.0/3)},
		msg:   a.float("expansion_msg", 1.5),
	}
	n.up = upsampler1{a.string("upsampler", "pixelshuffledirect"), s.Scale, a.int("out_ch", 3), a.int("upsample_dim", 64)}
	refuse(n.gated.dim < 8 || n.gated.dim%4 != 0,
		"dim: what is unshuffled and what is not are of other widths unless 4 divides it")
	n.up.check(n.gated.dim)
	return Network{InCh: n.inCh, Forward: n.forward, Multiple: 2}
}, "moesr2")

type moESR2 struct {
	scale, inCh, blocks, block int64
	gated                      mosrV2
	msg                        float64
	up                         upsampler1
}

// forward is MoESR2.forward.
func (n moESR2) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	h, w := x.Dim(2), x.Dim(3)
	x = t.Hold(t.PadTo(x, true, x.Dim(0), x.Dim(1), multiple(h, 2), multiple(w, 2))) // check_img_size
	x = t.Rebind(x, t.Conv2d("in_to_dim", x, conv(n.gated.dim, 3)))
	x = t.Rebind(x, t.Add(t.Sequential("blocks", x, nn.Repeat(n.group, n.blocks)...), x))
	return t.Narrow(t.Narrow(t.Call("upscale", x, n.up.module), 2, h*n.scale), 3, w*n.scale)
}

// group is Blocks.
func (n moESR2) group(t *nn.Tape, x nn.Tensor) nn.Tensor {
	y := t.Sequential("blocks", x, nn.Repeat(n.gated.block, n.block)...)
	return t.Call("msg", y, n.gatedHalf)
}

// gatedHalf is MSG: three blocks at half the size.
func (n moESR2) gatedHalf(t *nn.Tape, x nn.Tensor) nn.Tensor {
	dim, lrelu := n.gated.dim, (*nn.Tape).LeakyReLUInplace
	out := t.Hold(t.Sequential("down", x, conv(dim/4, 3).Module(), unshuffle(2), lrelu))
	gated := mosrV2{dim: dim, expansion: n.msg}
	out = t.Rebind(out, t.Sequential("gated", out, gated.block, gated.block, gated.block))
	return t.Add(t.Sequential("up", out, conv(4*dim, 3).Module(), shuffle(2), lrelu), x)
}
