package arch

import (
	"github.com/launch-ml/launch/core/nn"
)

// MoSR, as traiNNer-redux builds it from spandrel 0.4.2 (architectures/MoSR/__arch/MoSR.py; defaults in
// traiNNer/archs/mosr_arch.py at 68629319).
var _ = entry(func() {
	mosr := func(blocks, dim int64, expansion float64) builder {
		return func(s Spec, a *args) Network {
			n := mosr{
				scale: s.Scale, inCh: a.int("in_ch", 3), outCh: a.int("out_ch", 3), blocks: a.int("n_block", blocks),
				dim: a.int("dim", dim), upsampler: a.string("upsampler", "pixelshuffle"), dropPath: a.float("drop_path", 0),
				kernel: a.int("kernel_size", 7), expansion: a.float("expansion_ratio", expansion),
				convRatio: a.float("conv_ratio", 1),
			}
			switch n.upsampler {
			case "pixelshuffle", "ps", "geoensemblepixelshuffle", "gps":
				n.outCh = n.inCh
			case "dysample", "dys":
			default:
				reject("upsampler: %q is none of ps, gps, dys", n.upsampler)
			}
			return Network{InCh: n.inCh, Forward: n.forward}
		}
	}
	register(mosr(24, 64, 1.5), "mosr")
	register(mosr(5, 48, 1.5), "mosr_t")
})

type mosr struct {
	scale, inCh, outCh, blocks, dim, kernel int64
	upsampler                               string
	dropPath, expansion, convRatio          float64
}

func (n mosr) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	mish := (*nn.Tape).Mish
	ms := []nn.Module{conv(n.dim, 3).Module()}
	for i := range n.blocks {
		dropPath := n.dropPath * float64(i) / float64(max(n.blocks-1, 1))
		ms = append(ms, func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.gatedCNNBlock(t, x, dropPath) })
	}
	ms = append(ms, conv(2*n.dim, 3).Module(), mish, conv(n.dim, 3).Module(), mish, conv(n.dim, 1).Module())
	y := t.Sequential("gblocks", x, ms...)
	shortcut := t.Call("shortcut", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor { // ConvBlock
		out1 := t.Hold(t.Sequential("block", x, conv(n.dim, 3).Module(), mish, conv(n.dim, 3).Module(), mish))
		out2 := t.Hold(t.Conv2d("conv11", x, conv(n.dim, 1)))
		return t.Add(out1, out2)
	})
	x = t.Hold(t.Add(y, t.AddScalar(shortcut)))

	switch n.upsampler {
	case "dysample", "dys":
		return t.Call("upsampler", x, dySample(n.outCh, n.scale, 4, true))
	case "geoensemblepixelshuffle", "gps":
		return t.Call("upsampler", x, n.gps)
	}
	return t.Sequential("upsampler", x, conv(n.outCh*n.scale*n.scale, 3).Module(), shuffle(n.scale))
}

// gps is GPS.
func (n mosr) gps(t *nn.Tape, x nn.Tensor) nn.Tensor {
	rgb := t.Within("", func() nn.Tensor {
		y := t.Conv2d("in_to_k", x, conv(8*n.outCh*n.scale*n.scale, 3))
		y = t.View(y, y.Dim(0), 8, -1, y.Dim(2), y.Dim(3))
		return t.MeanDim(y, 1)
	})
	rgb = t.View(rgb, rgb.Dim(0), rgb.Dim(2), rgb.Dim(3), rgb.Dim(4))
	return t.PixelShuffle(rgb, n.scale)
}

// gatedCNNBlock is GatedCNNBlock.
func (n mosr) gatedCNNBlock(t *nn.Tape, x nn.Tensor, dropPath float64) nn.Tensor {
	hidden, convs := int64(n.expansion*float64(n.dim)), int64(n.convRatio*float64(n.dim))
	shortcut := x
	x = t.Hold(t.Call("norm", x, channelLayerNorm))
	p := t.Split(t.Conv2d("fc1", x, conv(2*hidden, 3)), 1, hidden, hidden-convs, convs)
	g, i := t.Hold(p[0]), p[1]
	c := t.Hold(t.Conv2d("conv", p[2], depthwise(convs, n.kernel)))
	x = t.Rebind(x, t.Mish(t.Conv2d("fc2", t.Mul(t.Mish(g), t.Cat(1, i, c)), conv(n.dim, 3))))
	x = t.Rebind(x, dropPathOf(t, x, dropPath))
	return t.Add(x, t.AddScalar(shortcut))
}
