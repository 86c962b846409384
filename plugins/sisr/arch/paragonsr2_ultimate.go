package arch

import (
	"github.com/launch-ml/launch/core/nn"
)

// The next of ParagonSR2: traiNNer/archs/paragonsr2_arch.py of Phhofm/ParagonSR2's branch dev at 933d5397, which adds one
// network to the release's four and checkpoints them by groups.
const paragonUltimate = "development (Phhofm/ParagonSR2 dev)"

var _ = register(func(s Spec, a *args) Network {
	generation, assumed := paragonOf(s, false)
	refuse(generation != paragonUltimate && (s.Source != nil || s.Generation != ""),
		"this version of paragonsr2_arch.py has no network of that name")
	n := paragonR{
		scale: s.Scale, inCh: a.int("in_chans", 3), feat: 180, groups: 9, blocks: 8, variant: "ultimate",
		alpha: a.float("upsampler_alpha", 0.2), checkpointing: a.bool("use_checkpointing", false), byGroup: true,
		window: a.int("window_size", 12), tokens: a.int("num_tokens", 32), attention: true,
	}
	if a.bool("compile_blocks", true) {
		a.warn("compile_blocks: what torch.compile fuses is not in the formula, so it is likely to need less")
	}
	a.ignore("detail_gain", "attention_mode", "export_safe")
	a.swallow = true
	return Network{
		InCh: n.inCh, Forward: n.forward, Generation: paragonUltimate, Assumed: assumed, MinLQ: n.window,
		CheckpointArg: "use_checkpointing", Checkpointing: n.checkpointing,
	}
}, "paragonsr2_ultimate")

// ultimateBlock is UltimateBlock: a gated convolution, and from the 24th and the 48th block on attention in windows and
// to a dictionary of tokens.
func (n paragonR) ultimateBlock(t *nn.Tape, x nn.Tensor, block, shift int64) nn.Tensor {
	hidden := 2 * n.feat
	h, w := x.Dim(2), x.Dim(3)
	y := t.Call("gated_conv", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor { // GatedConv
		x = t.Hold(t.Conv2d("conv1", x, conv(2*hidden, 1)))
		x = t.Rebind(x, t.Conv2d("dw", x, depthwise(2*hidden, 3)))
		p := t.Split(x, 1, hidden, hidden)
		x = t.Rebind(x, t.Mul(p[0], p[1]))
		return t.Conv2d("conv2", x, conv(n.feat, 1))
	})
	x = t.Hold(t.Add(x, t.Call("scale1", y, layerScale)))

	pooled := func(std nn.Tensor, k int64) nn.Tensor {
		std = t.Hold(t.AvgPool2d(std, k, k, 0))
		return t.Rebind(std, t.Interpolate(std, h, w))
	}
	var res, xNorm, std nn.Tensor // what the second part binds anew is let go
	if block >= 48 || block >= 24 && block%3 != 0 {
		res = t.Hold(x)
		xNorm, std = instanceLayerNorm(t, "norm2", x)
		t.Hold(xNorm)
		t.Hold(std) // std2, which std3 leaves alone
		attn := t.Hold(t.Call("window_attn", t.Permute(xNorm, 0, 2, 3, 1), n.windowAttention(shift)))
		attn = t.Permute(attn, 0, 3, 1, 2)
		x = t.Add(res, t.Call("scale2", varianceRouter(t, "router2", attn, pooled(std, n.window)), layerScale))
	}
	if block >= 48 {
		res = t.Rebind(res, x)
		old := xNorm
		xNorm, std = instanceLayerNorm(t, "norm3", x)
		xNorm = t.Rebind(old, xNorm)
		t.Hold(std)
		pool := t.Hold(t.AvgPool2d(xNorm, 2, 2, 0))
		tokens := t.Hold(t.Call("token_ca", pool, n.tokenDictionaryCA))
		tokens = t.Rebind(tokens, t.Interpolate(tokens, h, w))
		x = t.Add(res, t.Call("scale3", varianceRouter(t, "router3", tokens, pooled(std, 2)), layerScale))
	}
	return x
}

// varianceRouter is VarianceRouter.
func varianceRouter(t *nn.Tape, name string, x, std nn.Tensor) nn.Tensor {
	return t.Within(name, func() nn.Tensor {
		gate := t.Hold(t.Sigmoid(t.Add(t.Mul(std, t.Param("weight", 1)), t.Param("bias", 1))))
		return t.Mul(x, gate)
	}, x, std)
}

// instanceLayerNorm is iLN: normalized over channels and pixels together, and the deviation at each pixel.
func instanceLayerNorm(t *nn.Tape, name string, x nn.Tensor) (y, localStd nn.Tensor) {
	t.Scope(name, func() {
		b, c := x.Dim(0), x.Dim(1)
		flat := t.Hold(t.View(x, b, -1))
		mean := t.Hold(t.View(t.MeanDim(flat, 1), b, 1, 1, 1))
		variance := t.Hold(t.View(t.VarDim(flat, 1), b, 1, 1, 1))
		std := t.Hold(t.Sqrt(t.AddScalar(variance)))

		norm := t.Hold(t.Div(t.Sub(x, mean), std))
		localStd = t.Hold(t.MeanDim(t.Pow(norm), 1))
		localStd = t.Rebind(localStd, t.Sqrt(t.AddScalar(localStd)))
		y = t.Add(t.Mul(t.Param("weight", c, 1, 1), norm), t.Param("bias", c, 1, 1))
	}, x)
	return y, localStd
}

// affineTransform is AffineTransform.
func affineTransform(t *nn.Tape, x nn.Tensor) nn.Tensor {
	c := x.Dim(1)
	return t.Add(t.Mul(t.Param("weight", c, 1, 1), x), t.Param("bias", c, 1, 1))
}
