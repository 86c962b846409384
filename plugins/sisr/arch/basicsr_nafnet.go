package arch

import (
	"github.com/launch-ml/launch/core/nn"
)

// NAFNet and its baseline (Chen et al., 2022) of their own project, megvii-research/NAFNet:
// basicsr/models/archs/NAFNet_arch.py, Baseline_arch.py and local_arch.py at 2b4af71. NAFSSR, of two views, has no
// formula.
var _ = entry(func() {
	build := func(local, baseline bool) builder {
		return func(s Spec, a *args) Network {
			n := nafNet{inCh: a.int("img_channel", 3), width: a.int("width", 16), middle: a.int("middle_blk_num", 1)}
			n.enc, n.dec = a.ints("enc_blk_nums"), a.ints("dec_blk_nums")
			refuse(len(n.dec) != len(n.enc), "enc_blk_nums %v and dec_blk_nums %v are not of one length", n.enc, n.dec)
			sameSize(s.Scale)
			dw, ffn := int64(1), int64(2)
			if baseline {
				dw, ffn = a.int("dw_expand", dw), a.int("ffn_expand", ffn)
			}
			pool := nn.Module((*nn.Tape).AvgPoolAll)
			if local {
				size := a.ints("train_size", 1, 3, 256, 256)
				refuse(len(size) != 4, "train_size %v is no shape of images", size)
				refuse(a.bool("fast_imp", false), "fast_imp: %w", ErrUnknown)
				pool = localPool{h: size[2], w: size[3], width: n.width * dw}.forward
			}
			n.block = nafBlockOf(pool)
			if baseline {
				pooled := n
				n.block = func(t *nn.Tape, x nn.Tensor) nn.Tensor { return pooled.baselineBlock(t, x, pool, dw, ffn) }
			}
			return Network{InCh: n.inCh, Forward: n.forward, Multiple: 1 << len(n.enc)}
		}
	}
	networks.add(NAFNet, build(false, false), "nafnet")
	networks.add(NAFNet, build(true, false), "nafnetlocal")
	networks.add(NAFNet, build(false, true), "baseline")
	networks.add(NAFNet, build(true, true), "baselinelocal")
	losses.add(NAFNet, func(a *args) lossFunc {
		r := a.string("reduction", "mean")
		refuse(r != "mean", "reduction: %q, and PSNRLoss asserts mean", r)
		toY := a.bool("toY", false)
		return func(t *nn.Tape, x, y nn.Tensor) nn.Tensor { return psnrLoss(t, x, y, toY) }
	}, "psnrloss")
	loop := basicLoop{sections: pixelSections}
	models.add(NAFNet, model{record: loop.record, gradientsStay: true}, "imagerestorationmodel")
})

// baselineBlock is BaselineBlock.
func (n nafNet) baselineBlock(t *nn.Tape, inp nn.Tensor, pool nn.Module, dwExpand, ffnExpand int64) nn.Tensor {
	c := inp.Dim(1)
	dw := c * dwExpand
	beta, gamma := t.Param("beta", 1, c, 1, 1), t.Param("gamma", 1, c, 1, 1)
	x := t.Hold(t.Call("norm1", inp, layerNormFunction))
	x = t.Rebind(x, t.Conv2d("conv1", x, conv(dw, 1)))
	x = t.Rebind(x, t.Conv2d("conv2", x, depthwise(dw, 3)))
	x = t.Rebind(x, t.GELU(x))
	se := []nn.Module{pool, conv(dw/2, 1).Module(), (*nn.Tape).ReLUInplace, conv(dw, 1).Module(), (*nn.Tape).Sigmoid}
	x = t.Rebind(x, t.Mul(x, t.Sequential("se", x, se...)))
	x = t.Rebind(x, t.Conv2d("conv3", x, conv(c, 1)))
	y := t.Hold(t.Add(inp, t.Mul(x, beta)))
	x = t.Rebind(x, t.Conv2d("conv4", t.Call("norm2", y, layerNormFunction), conv(ffnExpand*c, 1)))
	x = t.Rebind(x, t.GELU(x))
	x = t.Rebind(x, t.Conv2d("conv5", x, conv(c, 1)))
	return t.Add(y, t.Mul(x, gamma))
}

// A localPool is AvgPool2d of local_arch.py, which stands for the pool of a whole image: of windows half as large
// again as the images that it was trained on, and of the whole where the image is no larger.
type localPool struct{ h, w, width int64 }

func (p localPool) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	c, h, w := x.Dim(1), x.Dim(2), x.Dim(3)
	level := int64(1) // how much smaller the maps of so many channels are than the image
	for p.width*level < c {
		level *= 2
	}
	kernel := func(side int64) int64 { return side / level * (side * 3 / 2) / side }
	k1, k2 := kernel(p.h), kernel(p.w)
	if k1 >= h && k2 >= w {
		return t.AvgPoolAll(x)
	}
	k1, k2 = min(k1, h), min(k2, w)
	s := t.Hold(t.Cumsum(x)) // and once more along the columns, in place
	s = t.Rebind(s, t.PadTo(s, false, x.Dim(0), c, h+1, w+1))
	corner := t.Narrow(t.Narrow(s, 2, h+1-k1), 3, w+1-k2)
	out := t.Hold(t.Sub(t.Sub(t.Add(corner, corner), corner), corner))
	out = t.Rebind(out, t.DivScalar(out))
	return t.Rebind(out, t.PadTo(out, true, x.Dim(0), c, h, w))
}
