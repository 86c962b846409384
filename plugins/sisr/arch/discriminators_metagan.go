package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// MetaGan2 and MetaGAN3 (umzi2): traiNNer/archs/metagan2_arch.py and metagan3_arch.py at 68629319.
var _ = entry(func() {
	registerDiscriminator("metagan2", func(_ Spec, a *args) nn.Module {
		d := metaGan2{
			dims: a.ints("dims", 32, 64, 128, 192), blocks: a.ints("blocks", 3, 3, 15, 3), downs: a.ints("downs", 4, 2, 2, 2),
		}
		a.ignore("in_ch", "n_class")
		refuse(len(d.dims) < len(d.blocks) || len(d.downs) < len(d.blocks),
			"dims %v and downs %v for blocks %v", d.dims, d.downs, d.blocks)
		return d.forward
	})
	registerDiscriminator("metagan3", func(_ Spec, a *args) nn.Module {
		d := metaGAN3{dims: a.ints("dims", 64, 128, 192, 256), blocks: a.ints("blocks", 2, 3, 5, 2)}
		a.ignore("in_ch")
		refuse(len(d.dims) < len(d.blocks) || len(d.blocks) == 0, "dims %v for blocks %v", d.dims, d.blocks)
		return d.forward
	})
})

// spectralDown is sconv by 3 and a stride of 2.
func spectralDown(out int64) nn.Conv { return nn.Conv{Out: out, K: 3, Stride: 2, Spectral: true} }

type metaGan2 struct{ dims, blocks, downs []int64 }

// forward is MetaGan2.forward. After the stem an image lies with its channels last.
func (d metaGan2) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	var stages []nn.Module
	for i, blocks := range d.blocks {
		stages = append(stages, func(t *nn.Tape, x nn.Tensor) nn.Tensor { // Blocks
			down := d.stem(d.dims[i])
			if d.downs[i] == 2 {
				down = d.downsample(d.dims[i])
			}
			x = t.Hold(t.Call("down", x, down))
			return t.Rebind(x, t.Sequential("blocks", x, nn.Repeat(d.block, blocks)...))
		})
	}
	x = t.Hold(t.Sequential("stages", x, stages...))
	c := x.Dim(-1)
	return t.Sequential("head", x, nn.SpectralLinear(4*c), (*nn.Tape).MishInplace, nn.Linear{Out: c}.Module())
}

// stem is Stem: a quarter of the size.
func (d metaGan2) stem(out int64) nn.Module {
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		x = t.Hold(t.Conv2d("conv1", x, spectralDown(out/2)))
		x = t.Rebind(x, t.SiLU(x))
		x = t.Rebind(x, t.Conv2d("conv2", x, spectralDown(out)))
		x = t.Permute(x, 0, 2, 3, 1)
		return t.Rebind(x, t.RMSNorm("norm2", x))
	}
}

// downsample is DownsampleNormFirst: half the size.
func (d metaGan2) downsample(out int64) nn.Module {
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		x = t.Hold(t.RMSNorm("norm", x))
		x = t.Permute(x, 0, 3, 1, 2)
		x = t.Rebind(x, t.Conv2d("conv", x, spectralDown(out)))
		return t.Permute(x, 0, 2, 3, 1)
	}
}

// block is GatedCNNBlock.
func (d metaGan2) block(t *nn.Tape, x nn.Tensor) nn.Tensor {
	dim := x.Dim(-1)
	hidden := int64(8.0 / 3 * float64(dim))
	shortcut := x
	x = t.Hold(t.RMSNorm("norm", x))
	p := t.Split(t.Call("fc1", x, nn.SpectralLinear(2*hidden)), -1, hidden, hidden-dim, dim)
	g, i := t.Hold(p[0]), p[1]
	c := t.Hold(t.Call("conv", p[2], func(t *nn.Tape, x nn.Tensor) nn.Tensor { // DConv
		return t.Permute(t.Call("conv", t.Permute(x, 0, 3, 1, 2), inceptionDW(dim/8, 3, 11)), 0, 2, 3, 1)
	}))
	y := t.Call("fc2", t.Mul(t.SiLU(g), t.Cat(-1, i, c)), nn.SpectralLinear(dim))
	x = t.Rebind(x, t.Mul(y, t.Param("gamma", dim)))
	return t.Add(x, shortcut)
}

type metaGAN3 struct{ dims, blocks []int64 }

// forward is MetaGAN3.forward. There is no stage for the last number of blocks.
func (d metaGAN3) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	x = t.Hold(t.Call("stem", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor { // Stem
		x = t.Hold(t.SiLU(t.Conv2d("conv1", x, spectralDown(d.dims[0]/2))))
		return t.Rebind(x, t.GroupNorm("norm", t.Conv2d("conv2", x, spectralDown(d.dims[0])), 1))
	}))
	var stages []nn.Module
	for i, blocks := range d.blocks[:len(d.blocks)-1] {
		stages = append(stages, func(t *nn.Tape, x nn.Tensor) nn.Tensor { // DownBlock
			x = t.Hold(t.Conv2d("down", x, spectralDown(d.dims[i+1])))
			return t.Sequential("blocks", x, nn.Repeat(d.block, blocks)...)
		})
	}
	return t.Rebind(x, t.Sequential("stages", x, stages...))
}

// block is DualPathBlock.
func (d metaGAN3) block(t *nn.Tape, x nn.Tensor) nn.Tensor {
	dim := x.Dim(1)
	local := t.Hold(t.Call("local", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor { // GatedConvBlock
		shortcut := x
		x = t.Hold(t.GroupNorm("norm", x, 1))
		x = t.Rebind(x, t.Conv2d("conv1", x, nn.Conv{Out: 2 * dim, K: 1, Spectral: true}))
		p := t.Split(x, 1, dim, dim)
		c := t.Hold(t.Call("depthwise", p[1], inceptionDW(dim/8, 3, 11)))
		x = t.Rebind(x, t.Conv2d("conv2", t.Cat(1, p[0], c), nn.Conv{Out: dim, K: 1, Spectral: true}))
		return t.Add(shortcut, x)
	}))
	global := t.Hold(t.Call("global_context", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor { // DilatedContextBlock
		var xs []nn.Tensor
		for _, by := range [...]int64{2, 4, 8} {
			xs = append(xs, t.Hold(t.Conv2d(fmt.Sprint("conv", by), x, nn.Conv{Out: dim, K: 3, Dilation: by, Groups: dim})))
		}
		return t.Conv2d("fuse", t.Cat(1, xs...), conv(dim, 1))
	}))
	shift := t.Hold(t.Call("shift", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor { // ShiftConv
		xs := []nn.Tensor{x}
		for _, side := range [...]int{3, 3, 2, 2} {
			part := t.Narrow(x, side, x.Dim(side)-1)
			xs = append(xs, t.PadTo(part, false, x.Shape()...))
		}
		y := t.Hold(t.Cat(1, xs...))
		return t.Conv2d("fuse", y, conv(dim, 1))
	}))
	joined := t.Hold(t.Cat(1, local, global, shift))
	return t.Conv2d("fusion", joined, conv(dim, 1))
}
