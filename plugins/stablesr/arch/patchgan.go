package arch

import "github.com/launch-ml/launch/core/nn"

// A patchGAN is NLayerDiscriminator, of the PatchGAN of pix2pix (taming/modules/discriminator/model.py:17-67 at 3ba01b24),
// with batch normalisation.
type patchGAN struct{ in, layers int64 }

// forward is NLayerDiscriminator.forward: (batch, 1, h/8-2, w/8-2) with three layers.
func (d patchGAN) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	const ndf = int64(64)
	layer := func(out, stride int64, noBias bool) nn.Module {
		return nn.Conv{Out: out, K: 4, Stride: stride, Pad: 1, NoBias: noBias}.Module()
	}
	norm := func(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.BatchNorm2d("", x) }
	ms := []nn.Module{layer(ndf, 2, false), (*nn.Tape).LeakyReLUInplace}
	for n := int64(1); n < d.layers; n++ {
		ms = append(ms, layer(ndf*min(int64(1)<<n, 8), 2, true), norm, (*nn.Tape).LeakyReLUInplace)
	}
	ms = append(ms, layer(ndf*min(int64(1)<<d.layers, 8), 1, true), norm, (*nn.Tape).LeakyReLUInplace, layer(1, 1, false))
	return t.Call("discriminator", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.Sequential("main", x, ms...) })
}
