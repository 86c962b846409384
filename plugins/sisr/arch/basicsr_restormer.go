package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// Restormer (Zamir et al., 2022) of its own project, swz30/Restormer: basicsr/models/archs/restormer_arch.py at
// df766d5. Its blocks are DocRes's.
var _ = entry(func() {
	networks.add(Restormer, func(s Spec, a *args) Network {
		n := docRes{
			in: a.int("inp_channels", 3), out: a.int("out_channels", 3), dim: a.int("dim", 48),
			blocks: a.ints("num_blocks", 4, 6, 6, 8), refinement: a.int("num_refinement_blocks", 4),
			heads: a.ints("heads", 1, 2, 4, 8), expansion: a.float("ffn_expansion_factor", 2.66), bias: a.bool("bias", false),
			free: a.string("LayerNorm_type", "WithBias") == "BiasFree",
		}
		dual := a.bool("dual_pixel_task", false)
		refuse(len(n.blocks) < 4 || len(n.heads) < 4, "num_blocks %v and heads %v: four of each", n.blocks, n.heads)
		refuse(n.dim%2 != 0, "dim: half of it is what a downsampling makes")
		refuse(!dual && n.in != n.out, "inp_channels %d, out_channels %d: the image is added to the result", n.in, n.out)
		refuse(dual && n.in != 2*n.out,
			"dual_pixel_task with inp_channels %d and out_channels %d: %w", n.in, n.out, ErrUnknown)
		for i, h := range n.heads[:4] {
			refuse(h < 1 || n.dim<<i%h != 0, "%d channels do not divide among %d heads", n.dim<<i, h)
		}
		net := Network{InCh: n.in, Multiple: 8}
		net.Forward = func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.restore(t, x, dual) }
		if dual { // the two views of one image
			net.Frames = 2
		}
		sameSize(s.Scale)
		return net
	}, "restormer")
	losses.add(Restormer, plainLoss(func(t *nn.Tape, x, y nn.Tensor) nn.Tensor { // no power: diff * diff
		diff := t.Hold(t.Sub(x, y))
		return t.Mean(t.Sqrt(t.AddScalar(t.Mul(diff, diff))))
	}), "charbonnierloss")
	losses.add(Restormer, func(a *args) lossFunc {
		toY := a.bool("toY", false)
		a.ignore("reduction")
		return func(t *nn.Tape, x, y nn.Tensor) nn.Tensor { return psnrLoss(t, x, y, toY) }
	}, "psnrloss")
	models.add(Restormer, model{record: basicLoop{sections: pixelSections}.record, gradientsStay: true}, "imagecleanmodel")
})

// restore is Restormer.forward, whose variables hold every level to the end.
func (n docRes) restore(t *nn.Tape, x nn.Tensor, dual bool) nn.Tensor {
	level := func(name string, x nn.Tensor, i int, count int64) nn.Tensor {
		block := func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.block(t, x, n.heads[i]) }
		return t.Hold(t.Sequential(name, x, nn.Repeat(block, count)...))
	}
	plain := func(out int64) nn.Module { return nn.Conv{Out: out, K: 3, NoBias: true}.Module() }
	first := t.Hold(t.Conv2d("patch_embed.proj", x, nn.Conv{Out: n.dim, K: 3, NoBias: true}))
	y := first
	var encoded []nn.Tensor
	for i, down := range [...]string{"down1_2", "down2_3", "down3_4"} {
		e := level(fmt.Sprint("encoder_level", i+1), y, i, n.blocks[i])
		encoded = append(encoded, e)
		y = t.Hold(t.Sequential(down+".body", e, plain(e.Dim(1)/2), unshuffle(2)))
	}
	from := level("latent", y, 3, n.blocks[3])
	for i, up := range [...]string{"up4_3", "up3_2", "up2_1"} {
		l := 2 - i
		y = t.Hold(t.Sequential(up+".body", from, plain(2*from.Dim(1)), shuffle(2)))
		y = t.Rebind(y, t.Cat(1, y, encoded[l]))
		if l > 0 {
			y = t.Rebind(y, t.Conv2d(fmt.Sprint("reduce_chan_level", l+1), y, n.conv(n.dim<<l, 1)))
		}
		from = level(fmt.Sprint("decoder_level", l+1), y, l, n.blocks[l])
	}
	y = t.Rebind(from, level("refinement", from, 0, n.refinement))
	out := nn.Conv{Out: n.out, K: 3, NoBias: !n.bias}
	if dual {
		y = t.Rebind(y, t.Add(y, t.Conv2d("skip_conv", first, n.conv(2*n.dim, 1))))
		return t.Conv2d("output", y, out)
	}
	return t.Add(t.Conv2d("output", y, out), x)
}
