package arch

import (
	"github.com/launch-ml/launch/core/nn"
)

// paragonDynamic is ParagonSR2 2.1: traiNNer/archs/paragonsr2_arch.py of Phhofm/traiNNer-redux at 2f64430b, which
// computes the kernels of its depthwise convolutions from the image.
const paragonDynamic = "version 2.1 (2f64430b)"

// paragonDynamicSizes are the factories' own arguments: num_feat, num_groups, num_blocks, ffn_expansion,
// band_kernel_size, and the default of hr_blocks.
var paragonDynamicSizes = map[string]struct {
	feat, groups, blocks, band, hr int64
	ffn                            float64
}{
	"paragonsr2_nano": {24, 2, 2, 9, 1, 1.5},
	"paragonsr2_xs":   {32, 2, 3, 11, 1, 1.5},
	"paragonsr2_s":    {48, 3, 4, 11, 2, 2},
	"paragonsr2_m":    {64, 4, 6, 13, 2, 2},
	"paragonsr2_l":    {96, 6, 8, 15, 3, 2},
	"paragonsr2_xl":   {128, 8, 10, 15, 3, 2},
}

// buildParagonDynamic is the network of a name that version 2.1 has.
func buildParagonDynamic(s Spec, a *args, assumed bool) Network {
	size, ok := paragonDynamicSizes[s.Type]
	refuse(!ok, "%s of ParagonSR2 has no network of that name", paragonDynamic)
	n := paragonD{
		scale: s.Scale, feat: size.feat, groups: size.groups, blocks: size.blocks, band: size.band,
		hidden: int64(float64(size.feat) * size.ffn), hr: max(a.int("hr_blocks", size.hr), 0),
		alpha: min(max(a.float("upsampler_alpha", 0.5), 0), 1),
	}
	a.swallow = true
	return Network{Forward: n.forward, Generation: paragonDynamic, Assumed: assumed}
}

type paragonD struct {
	scale, feat, groups, blocks, band, hidden, hr int64
	alpha                                         float64
}

// forward is ParagonSR2.forward.
func (n paragonD) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	return paragonFeatures(t, x, n.scale, n.feat, n.groups, n.blocks, n.alpha, n.block, hrHead(n.feat, n.hr, false))
}

// hrHead is hr_conv_in and hr_head, which work on the upsampled features.
func hrHead(feat, blocks int64, norm bool) nn.Module {
	block := func(t *nn.Tape, x nn.Tensor) nn.Tensor { // ResidualBlock
		if norm {
			residual := x
			x = t.Hold(t.GroupNormPlain(x, 1))
			x = t.Rebind(x, t.LeakyReLUInplace(t.Conv2d("conv1", x, conv(feat, 3))))
			x = t.Rebind(x, t.GroupNormPlain(x, 1))
			x = t.Rebind(x, t.Conv2d("conv2", x, conv(feat, 3)))
			return t.Add(residual, x)
		}
		return t.Add(x, t.Conv2d("conv2", t.LeakyReLUInplace(t.Conv2d("conv1", x, conv(feat, 3))), conv(feat, 3)))
	}
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		h := t.Hold(t.Conv2d("hr_conv_in", x, conv(feat, 3)))
		return t.Rebind(h, t.Sequential("hr_head", h, nn.Repeat(block, blocks)...))
	}
}

// block is ParagonBlockV2.
func (n paragonD) block(t *nn.Tape, x nn.Tensor) nn.Tensor {
	residual := x
	x = t.Hold(t.Call("context", x, inceptionDW(n.feat/8, 3, n.band)))
	x = t.Rebind(x, t.Add(residual, t.Call("ls1", x, layerScaleLast)))

	residual = t.Hold(x)
	x = t.Hold(t.Call("transformer", x, n.transformer))
	return t.Add(residual, t.Call("ls2", x, layerScaleLast))
}

// transformer is DynamicTransformer: a kernel for each image while training, the running mean of them in eval.
func (n paragonD) transformer(t *nn.Tape, x nn.Tensor) nn.Tensor {
	const k = 3
	c := n.hidden
	t.Buffer("identity_kernel", nn.F32, c, 1, k, k)
	tracked := t.Buffer("tracked_kernel", nn.F32, c, 1, k, k)
	t.Buffer("tracked_initialized", nn.Bool)
	t.Scope("kernel_generator.predictor", func() {
		t.Scope("1", func() { t.Param("weight", c, c, 1, 1); t.Param("bias", c) })
		t.Scope("3", func() { t.Param("weight", c*k*k, c, 1, 1); t.Param("bias", c*k*k) })
	})

	x = t.Hold(t.Conv2d("project_in", x, conv(c, 1)))
	b, h, w := x.Dim(0), x.Dim(2), x.Dim(3)
	var y nn.Tensor
	if t.Training {
		kernels := t.Sequential("kernel_generator.predictor", x, (*nn.Tape).AvgPoolAll, conv(c, 1).Module(),
			(*nn.Tape).ReLUInplace, conv(c*k*k, 1).Module())
		kernels = t.Hold(t.View(kernels, b*c, 1, k, k))
		flat := t.Hold(t.View(x, 1, b*c, h, w))
		y = t.ConvWeight(flat, kernels, nn.Tensor{}, nn.Conv{Groups: b * c})
		y = t.Hold(t.InplaceOfView(t.View(y, b, c, h, w), (*nn.Tape).LeakyReLUInplace))
	} else {
		y = t.Hold(t.LeakyReLUInplace(t.ConvWeight(x, t.To(tracked, x.DType()), nn.Tensor{}, nn.Conv{Groups: c})))
	}
	return t.Conv2d("project_out", y, conv(n.feat, 1))
}
