package arch

import (
	"math"
	"math/bits"

	"github.com/launch-ml/launch/core/nn"
)

// RRDBNet of ESRGAN (Wang et al., 2018), as traiNNer-redux builds it from spandrel 0.4.2
// (architectures/ESRGAN/__arch/RRDB.py, __arch_helpers/block.py; defaults in traiNNer/archs/rrdbnet_arch.py at
// 68629319), and as BasicSR has it (basicsr/archs/rrdbnet_arch.py at 8d56e3a0).
var _ = entry(func() {
	esrgan := func(filters, blocks int64) builder {
		return func(s Spec, a *args) Network {
			n := rrdbnet{
				scale: s.Scale, inNC: a.int("in_nc", 3), outNC: a.int("out_nc", 3),
				filters: a.int("num_filters", filters), blocks: a.int("num_blocks", blocks), grow: 32,
			}
			inNC := n.inNC
			if a.bool("use_pixel_unshuffle", true) && (s.Scale == 1 || s.Scale == 2) {
				n.inNC *= int64(math.Pow(4, float64(3-s.Scale)))
				n.shuffle = int64(math.Sqrt(float64(n.inNC) / float64(n.outNC)))
				n.scale = 4
			}
			net := Network{InCh: inNC, Forward: n.forward, Multiple: max(n.shuffle, 1)}
			return net
		}
	}
	register(esrgan(64, 23), "esrgan")
	register(esrgan(32, 12), "esrgan_lite")
	register(func(s Spec, a *args) Network {
		n := rrdbnet{
			scale: 4, inNC: a.int("num_in_ch", 3), outNC: a.int("num_out_ch", 3),
			filters: a.int("num_feat", 64), blocks: a.int("num_block", 23), grow: a.int("num_grow_ch", 32),
			reparsed: true,
		}
		inNC := n.inNC
		// BasicSR unshuffles always, by 2 for scale 2 and by 4 for scale 1, before a network of scale 4.
		if s.Scale == 1 || s.Scale == 2 {
			n.shuffle = 4 / s.Scale
			n.inNC *= n.shuffle * n.shuffle
		}
		return Network{InCh: inNC, Forward: n.forward, Multiple: max(n.shuffle, 1)}
	}, "rrdbnet")
})

type rrdbnet struct {
	scale, inNC, outNC, filters, blocks, grow int64
	shuffle                                   int64 // 0 for none
	reparsed                                  bool  // BasicSR's module names
}

func (n rrdbnet) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	if n.shuffle == 0 {
		return t.Call("model", x, n.model)
	}
	trueScale := n.scale / n.shuffle
	h, w := x.Dim(2), x.Dim(3)
	up := func(n, by int64) int64 { return (n + by - 1) / by * by }
	if ph, pw := up(h, n.shuffle), up(w, n.shuffle); ph != h || pw != w {
		x = t.PadTo(x, true, x.Dim(0), x.Dim(1), ph, pw)
	}
	x = t.PixelUnshuffle(x, n.shuffle)
	x = t.Call("model", x, n.model)
	return t.Narrow(t.Narrow(x, 2, h*trueScale), 3, w*trueScale)
}

func (n rrdbnet) model(t *nn.Tape, x nn.Tensor) nn.Tensor {
	return t.Sequential("", x, esrganModel(n.scale, n.filters, n.outNC, n.blocks, n.rrdb)...)
}

// esrganModel is the model of ESRGAN and ESRGAN+, whose blocks differ.
func esrganModel(scale, filters, out, blocks int64, block nn.Module) []nn.Module {
	plain, act := conv(filters, 3).Module(), (*nn.Tape).LeakyReLUInplace
	ms := []nn.Module{plain, func(t *nn.Tape, x nn.Tensor) nn.Tensor { // ShortcutBlock: x + sub(x)
		return t.Add(x, t.Sequential("sub", x, append(nn.Repeat(block, blocks), plain)...))
	}}
	by, times := int64(2), bits.Len64(uint64(scale))-1
	if scale == 3 {
		by, times = 3, 1
	}
	for range times {
		ms = append(ms, func(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.Upsample(x, by) }, plain, act)
	}
	return append(ms, plain, act, conv(out, 3).Module())
}

func (n rrdbnet) rrdb(t *nn.Tape, x nn.Tensor) nn.Tensor {
	out := t.Call("RDB1", x, n.rdb5c)
	out = t.Call("RDB2", out, n.rdb5c)
	out = t.Call("RDB3", out, n.rdb5c)
	return t.Add(t.MulScalar(out), x)
}

func (n rrdbnet) rdb5c(t *nn.Tape, x nn.Tensor) nn.Tensor {
	convBlock := func(name string, x nn.Tensor) nn.Tensor {
		return t.LeakyReLUInplace(t.Conv2d(name, x, conv(n.grow, 3)))
	}
	x1 := t.Hold(convBlock("conv1", x))
	x2 := t.Hold(convBlock("conv2", t.Cat(1, x, x1)))
	x3 := t.Hold(convBlock("conv3", t.Cat(1, x, x1, x2)))
	x4 := t.Hold(convBlock("conv4", t.Cat(1, x, x1, x2, x3)))
	x5 := t.Hold(t.Conv2d("conv5", t.Cat(1, x, x1, x2, x3, x4), conv(n.filters, 3)))
	return t.Add(t.MulScalar(x5), x)
}
