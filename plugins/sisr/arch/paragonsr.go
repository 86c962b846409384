package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// ParagonSR, the first of that line: traiNNer/archs/paragonsr_arch.py of Phhofm's tree at 260169e6 (2025-11-04), as it is
// in Phhofm/traiNNer-redux at 2f64430b. In the nine versions before, the same names upsampled in other ways.
var _ = entry(func() {
	paragon := func(feat, groups, blocks int64, ffn float64) builder {
		return func(s Spec, a *args) Network {
			a.swallow = true
			n := paragonV1{scale: s.Scale, feat: feat, groups: groups, blocks: blocks, hidden: int64(float64(feat) * ffn)}
			return Network{Forward: n.forward, Generation: "magic kernel (260169e6)", Assumed: true}
		}
	}
	register(paragon(28, 2, 3, 1.5), "paragonsr_anime")
	register(paragon(24, 3, 2, 1.5), "paragonsr_nano")
	register(paragon(32, 3, 2, 2), "paragonsr_tiny")
	register(paragon(48, 4, 4, 2), "paragonsr_xs")
	register(paragon(64, 6, 6, 2), "paragonsr_s")
	register(paragon(96, 8, 8, 2), "paragonsr_m")
	register(paragon(128, 10, 10, 2), "paragonsr_l")
	register(paragon(160, 12, 12, 2), "paragonsr_xl")
})

type paragonV1 struct{ scale, feat, groups, blocks, hidden int64 }

// forward is ParagonSR.forward.
func (n paragonV1) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	return paragonFeatures(t, x, n.scale, n.feat, n.groups, n.blocks, 1, n.block, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		return t.Sequential("upsampler", x, conv(n.feat, 3).Module())
	})
}

// paragonFeatures is what the forwards have in common that upsample features: groups of blocks with a residual, the
// magic kernel over all channels, and a head.
func paragonFeatures(t *nn.Tape, x nn.Tensor, scale, feat, groups, blocks int64, alpha float64, block, head nn.Module) nn.Tensor {
	shallow := t.Hold(t.Conv2d("conv_in", x, conv(feat, 3)))
	deep := t.Hold(t.Call("body", shallow, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		for g := range groups {
			x = t.Call(fmt.Sprint(g), x, func(t *nn.Tape, x nn.Tensor) nn.Tensor { // ResidualGroup
				return t.Add(t.Sequential("blocks", x, nn.Repeat(block, blocks)...), x)
			})
		}
		return x
	}))
	fused := t.Hold(t.Add(t.Conv2d("conv_fuse", deep, conv(feat, 3)), shallow))
	upsampled := t.Hold(t.Call("magic_upsampler", fused,
		magicKernel(scale, alpha, "sharpen", "resample_conv", "conv_h", "conv_v")))
	return t.Conv2d("conv_out", head(t, upsampled), conv(3, 3))
}

// block is ParagonBlock.
func (n paragonV1) block(t *nn.Tape, x nn.Tensor) nn.Tensor {
	residual := x
	normed := t.Hold(t.GroupNorm("norm1", x, 1))
	x = t.Hold(t.Call("context", normed, inceptionDW(n.feat/8, 3, 11)))
	x = t.Rebind(x, t.Add(residual, t.Call("ls1", x, layerScaleLast)))

	residual = t.Hold(x)
	normed = t.Rebind(normed, t.GroupNorm("norm2", x, 1))
	x = t.Hold(t.Call("transformer", normed, n.gatedFFN))
	return t.Add(residual, t.Call("ls2", x, layerScaleLast))
}

// gatedFFN is GatedFFN.
func (n paragonV1) gatedFFN(t *nn.Tape, x nn.Tensor) nn.Tensor {
	g := t.Hold(t.Conv2d("project_in_g", x, conv(n.hidden, 1)))
	i := t.Hold(t.Conv2d("project_in_i", x, conv(n.hidden, 1)))
	g = t.Rebind(g, t.Call("spatial_mixer", g, reparamDepthwise))
	return t.Conv2d("project_out", t.Mul(t.MishInplace(g), i), conv(n.feat, 1))
}

// reparamDepthwise is ReparamConvV2 with a group for each channel: three convolutions while training, one with their
// sum in eval.
func reparamDepthwise(t *nn.Tape, x nn.Tensor) nn.Tensor {
	c := x.Dim(1)
	for _, p := range [...]struct {
		name string
		k    int64
	}{{"conv3x3", 3}, {"conv1x1", 1}, {"dw_conv3x3", 3}} {
		t.Scope(p.name, func() { t.Param("weight", c, 1, p.k, p.k); t.Param("bias", c) })
	}
	if !t.Training {
		return t.ConvWeight(x, t.Zeros(nn.F32, c, 1, 3, 3), t.Zeros(nn.F32, c), nn.Conv{Groups: c})
	}
	out := t.Hold(t.Add(t.Conv2d("conv3x3", x, depthwise(c, 3)), t.Conv2d("conv1x1", x, depthwise(c, 1))))
	return t.AddInplace(out, t.Conv2d("dw_conv3x3", x, depthwise(c, 3)))
}

// layerScaleLast is LayerScale with its channels last: two copies of the image, and float32 after the first.
func layerScaleLast(t *nn.Tape, x nn.Tensor) nn.Tensor {
	gamma := t.Param("gamma", x.Dim(1))
	y := t.Mul(t.Contiguous(t.Permute(x, 0, 2, 3, 1)), gamma)
	return t.Contiguous(t.Permute(y, 0, 3, 1, 2))
}
