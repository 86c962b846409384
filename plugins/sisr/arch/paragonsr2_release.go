package arch

import (
	"fmt"
	"slices"

	"github.com/launch-ml/launch/core/nn"
)

// The release of ParagonSR2: traiNNer/archs/paragonsr2_arch.py of Phhofm/ParagonSR2 at 921e57d1, and the steps to it
// of December 2025 in delafer/traiNNer-redux: at 1121aa15 and 255250b2 without float32 and most scales of residuals,
// at 5a6cbb0c with another "pro", at ea36e5c8 with narrower windows in it. At deafa14d "realtime" leaves out the
// convolution that takes its features back to their number, and stops at its first addition.
const (
	paragonDraft  = "first of the release's names (deafa14d)"
	paragonFirst  = "first of the release's names (1121aa15)"
	paragonTokens = "before the release, pro by token dictionaries (5a6cbb0c)"
	paragonNarrow = "before the release, pro in windows of 8 (ea36e5c8)"
)

// released are the generations whose blocks are the release's.
var released = []string{paragonTokens, paragonNarrow, paragonRelease, paragonUltimate}

var _ = entry(func() {
	release := func(variant string, feat, groups, blocks int64, alpha float64, window int64) builder {
		return func(s Spec, a *args) Network {
			generation, assumed := paragonOf(s, false)
			first := generation == paragonFirst || generation == paragonDraft
			switch {
			case generation == paragonDraft && variant == "realtime":
				reject("%d features are added to %d: this version of the file does not run", 2*feat, feat)
			case first && variant == "pro":
				reject("this version of paragonsr2_arch.py has no network of that name")
			case generation == paragonTokens && variant == "pro":
				reject("pro of 5a6cbb0c: %w", ErrUnknown)
			case !first && !slices.Contains(released, generation):
				reject("this version of paragonsr2_arch.py: %w", ErrUnknown)
			case s.Source == nil && assumed: // no other generation has these names
				a.warn("without the checkout's paragonsr2_arch.py, the %s is assumed", generation)
			case assumed:
				a.warn("this version of paragonsr2_arch.py is not one that is known; by its classes it is taken for the %s",
					generation)
			}
			if generation == paragonNarrow && variant == "pro" || generation == paragonDraft {
				window = 8
			}
			n := paragonR{
				scale: s.Scale, inCh: a.int("in_chans", 3), feat: feat, groups: groups, blocks: blocks, variant: variant,
				alpha: a.float("upsampler_alpha", alpha), checkpointing: a.bool("use_checkpointing", false),
				window: a.int("window_size", window), tokens: 64, byGroup: generation == paragonUltimate, first: first,
			}
			mode := a.string("attention_mode", "sdpa")
			n.attention = mode != "" && !a.bool("export_safe", false)
			a.ignore("detail_gain")
			a.swallow = true
			return Network{
				InCh: n.inCh, Forward: n.forward, Generation: generation, Assumed: assumed,
				CheckpointArg: "use_checkpointing", Checkpointing: n.checkpointing,
			}
		}
	}
	register(release("realtime", 16, 1, 3, 0.3, 8), "paragonsr2_realtime")
	register(release("stream", 32, 2, 3, 0, 8), "paragonsr2_stream")
	register(release("photo", 64, 4, 4, 0.4, 16), "paragonsr2_photo")
	register(release("pro", 64, 6, 6, 0.4, 16), "paragonsr2_pro")
})

type paragonR struct {
	scale, inCh, feat, groups, blocks, window int64
	tokens                                    int64 // of the dictionary
	variant                                   string
	alpha                                     float64
	checkpointing, attention                  bool
	byGroup                                   bool // a checkpoint for each group, not for each block
	first                                     bool // without float32, and with scales of residuals in "photo" alone
}

// forward is ParagonSR2.forward without its video arguments.
func (n paragonR) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	base := t.Hold(t.Call("base", x, magicKernelR(n.scale, n.alpha)))

	x = t.Conv2d("conv_in", x, conv(n.feat, 3))
	x = t.Rebind(x, t.Call("body", x, n.body))
	x = t.Conv2d("conv_mid", x, conv(n.feat, 3))
	if n.variant == "ultimate" {
		x = t.Call("final_norm", x, affineTransform)
	}
	x = t.Hold(t.Rebind(x, t.Sequential("up", x, conv(n.feat*n.scale*n.scale, 3).Module(),
		func(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.PixelShuffle(x, n.scale) })))

	// detail_gain is a scalar, which leaves the other factor's type as it is.
	detail := t.Hold(t.Mul(t.Conv2d("conv_out", x, conv(n.inCh, 3)), t.Param("detail_gain")))
	return t.Add(base, detail)
}

// magicKernelR is MagicKernelSharp2021Upsample with a buffer beside each pair of convolutions.
func magicKernelR(scale int64, alpha float64) nn.Module {
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		t.Scope("sharp", func() { t.Buffer("kernel", nn.F32, 7) })
		t.Scope("blur", func() { t.Buffer("kernel", nn.F32, 5) })
		return magicKernel(scale, alpha, "sharp", "blur", "h", "v")(t, x)
	}
}

func (n paragonR) body(t *nn.Tape, x nn.Tensor) nn.Tensor {
	for g := range n.groups {
		x = t.Call(fmt.Sprint(g), x, func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.residualGroup(t, x, g) })
	}
	return x
}

func (n paragonR) residualGroup(t *nn.Tape, x nn.Tensor, group int64) nn.Tensor {
	if n.byGroup && n.checkpointing && x.RequiresGrad() {
		n.checkpointing = false
		return t.Checkpoint("", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.residualGroup(t, x, group) })
	}
	for i := range n.blocks {
		var block nn.Module
		shift := (group*n.blocks + i) % 2 * (n.window / 2)
		switch n.variant {
		case "realtime":
			block = n.nanoBlock
		case "stream":
			block = n.streamBlock
		case "photo":
			block = func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.photoBlock(t, x, shift) }
		case "ultimate":
			block = func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.ultimateBlock(t, x, group*n.blocks+i, shift) }
		default:
			block = func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.proBlock(t, x, shift) }
		}
		x = t.Rebind(x, t.CheckpointIf(n.checkpointing && x.RequiresGrad(), fmt.Sprint("blocks.", i), x, block))
	}
	return x
}

func (n paragonR) nanoBlock(t *nn.Tape, x nn.Tensor) nn.Tensor {
	hidden := 2 * n.feat
	res := x
	x = t.GELU(t.Conv2d("dw", t.Conv2d("conv1", x, conv(hidden, 1)), depthwise(hidden, 3)))
	x = t.Hold(t.Conv2d("conv2", x, conv(n.feat, 1)))
	if n.first {
		return t.Add(x, res)
	}
	return t.Add(t.Call("scale", x, layerScale), res)
}

func (n paragonR) streamBlock(t *nn.Tape, x nn.Tensor) nn.Tensor {
	hidden := 2 * n.feat
	res := x
	x = t.Cat(1, t.Conv2d("dw1", x, depthwise(n.feat, 3)),
		t.Conv2d("dw3", x, nn.Conv{Out: n.feat, K: 3, Dilation: 3, Groups: n.feat}))
	x = t.Conv2d("fuse", x, conv(n.feat, 1))

	x = t.Conv2d("proj", x, conv(2*hidden, 1))
	x = t.Conv2d("gate", x, depthwise(2*hidden, 3))
	p := t.Split(x, 1, hidden, hidden)
	a, b := t.Hold(p[0]), p[1]
	if n.first {
		x = t.Hold(t.Mul(a, b))
		x = t.Rebind(x, t.Conv2d("out", x, conv(n.feat, 1)))
		return t.Add(x, res)
	}

	xF32 := t.Hold(t.Mul(t.To(a, nn.F32), t.To(b, nn.F32)))
	x = t.To(t.Clamp(xF32), a.DType())

	x = t.Hold(t.Rebind(x, t.Conv2d("out", x, conv(n.feat, 1))))
	return t.Add(t.Call("scale", x, layerScale), res)
}

func (n paragonR) photoBlock(t *nn.Tape, x nn.Tensor, shift int64) nn.Tensor {
	hidden := 2 * n.feat
	norm := nn.Module(rmsNorm32)
	if n.first {
		norm = rmsNormPlain
	}
	res := x
	x = t.Call("norm", x, norm)
	x = t.Conv2d("conv1", x, conv(hidden, 1))
	x = t.GELU(t.Conv2d("dw", x, depthwise(hidden, 3)))
	x = t.Conv2d("conv2", x, conv(n.feat, 1))
	x = t.Rebind(x, t.Add(res, t.Call("scale", x, layerScale)))

	if n.attention {
		resAttn := t.Hold(x)
		x = t.Permute(t.Call("attn_norm", x, norm), 0, 2, 3, 1)
		x = t.Call("attn", x, n.windowAttention(shift))
		x = t.Permute(x, 0, 3, 1, 2)
		x = t.Rebind(x, t.Add(resAttn, t.Call("scale", x, layerScale))) // one LayerScale serves both
	}
	return x
}

func (n paragonR) proBlock(t *nn.Tape, x nn.Tensor, shift int64) nn.Tensor {
	hidden := 2 * n.feat
	res := x
	x = t.Call("norm1", x, rmsNorm32)
	x = t.Conv2d("conv1", x, conv(hidden, 1))
	x = t.GELU(t.Conv2d("dw", x, depthwise(hidden, 3)))
	x = t.Conv2d("conv2", x, conv(n.feat, 1))
	x = t.Rebind(x, t.Add(res, t.Call("scale1", x, layerScale)))

	res = t.Hold(x)
	x = t.Add(res, t.Call("scale2", t.Call("channel_attn", x, n.channelAttention), layerScale))

	if n.attention {
		res = t.Rebind(res, x)
		x = t.Permute(t.Call("norm3", x, rmsNorm32), 0, 2, 3, 1)
		x = t.Call("window_attn", x, n.windowAttention(shift))
		x = t.Permute(x, 0, 3, 1, 2)
		x = t.Rebind(x, t.Add(res, t.Call("scale3", x, layerScale)))
	}

	res = t.Rebind(res, x)
	x = t.Call("norm4", x, rmsNorm32)
	x = t.Call("token_ca", x, n.tokenDictionaryCA)
	return t.Rebind(x, t.Add(res, t.Call("scale4", x, layerScale)))
}

// rmsNorm32 is RMSNorm: the mean of squares in float32.
func rmsNorm32(t *nn.Tape, x nn.Tensor) nn.Tensor {
	c := x.Dim(1)
	scale, bias := t.Param("scale", c, 1, 1), t.Param("bias", c, 1, 1)
	xF32 := t.Hold(t.To(x, nn.F32))
	variance := t.Hold(t.MeanDim(t.Pow(xF32), 1))
	rms := t.Hold(t.To(t.Sqrt(t.AddScalar(variance)), x.DType()))
	return t.Add(t.Div(t.Mul(scale, x), rms), bias)
}

// rmsNormPlain is RMSNorm before it went by float32.
func rmsNormPlain(t *nn.Tape, x nn.Tensor) nn.Tensor {
	c := x.Dim(1)
	scale, bias := t.Param("scale", c, 1, 1), t.Param("bias", c, 1, 1)
	rms := t.Hold(t.Sqrt(t.AddScalar(t.MeanDim(t.Pow(x), 1))))
	return t.Add(t.Div(t.Mul(scale, x), rms), bias)
}

// channelAttention is ChannelAttention.
func (n paragonR) channelAttention(t *nn.Tape, x nn.Tensor) nn.Tensor {
	b, c := x.Dim(0), x.Dim(1)
	y := t.View(t.AvgPoolAll(x), b, c)
	y = t.Sequential("fc", y, nn.Linear{Out: c / 16, NoBias: true}.Module(), (*nn.Tape).GELU,
		nn.Linear{Out: c, NoBias: true}.Module(), (*nn.Tape).Sigmoid)
	return t.Mul(x, t.View(y, b, c, 1, 1))
}

// windowAttention is WindowAttention of (batch, h, w, channels).
func (n paragonR) windowAttention(shift int64) nn.Module {
	const heads = 4
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		ws := n.window
		b, h, w, c := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
		padH, padW := (ws-h%ws)%ws, (ws-w%ws)%ws
		hp, wp := h+padH, w+padW
		x = t.PadTo(x, false, b, hp, wp, c) // a copy even where nothing is added
		if shift > 0 {
			x = t.Roll(x)
		}
		x = t.Hold(x)
		xWindows := t.View(x, b, hp/ws, ws, wp/ws, ws, c)
		xWindows = t.Contiguous(t.Permute(xWindows, 0, 1, 3, 2, 4, 5))
		xWindows = t.Hold(t.View(xWindows, -1, ws*ws, c))

		qkv := t.Hold(t.Linear("qkv", xWindows, 3*c, true))
		p := t.Split(qkv, -1, c, c, c)
		split := func(x nn.Tensor) nn.Tensor { return t.Transpose(t.View(x, -1, ws*ws, heads, c/heads), 1, 2) }
		q, k, v := split(p[0]), split(p[1]), split(p[2])

		xWindows = t.Rebind(xWindows, t.SDPA(q, k, v))
		xWindows = t.View(t.Contiguous(t.Transpose(xWindows, 1, 2)), -1, ws*ws, c)
		xWindows = t.Rebind(xWindows, t.Linear("proj", xWindows, c, true))

		y := t.View(xWindows, b, hp/ws, wp/ws, ws, ws, c)
		y = t.View(t.Contiguous(t.Permute(y, 0, 1, 3, 2, 4, 5)), b, hp, wp, c)
		x = t.Rebind(x, y)
		if shift > 0 {
			x = t.Rebind(x, t.Roll(x))
		}
		if padH > 0 || padW > 0 {
			x = t.Narrow(t.Narrow(x, 1, h), 2, w)
		}
		return x
	}
}

// tokenDictionaryCA is TokenDictionaryCA with projections to 16.
func (n paragonR) tokenDictionaryCA(t *nn.Tape, x nn.Tensor) nn.Tensor {
	const reduced = 16
	tokens := n.tokens
	b, c, h, w := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	xFlat := t.Transpose(t.View(x, b, c, h*w), 1, 2)
	td := t.Expand(t.Param("token_dict", 1, tokens, c), b, tokens, c)

	q := t.Hold(t.Linear("q_proj", xFlat, reduced, true))
	k := t.Hold(t.Linear("k_proj", td, reduced, true))
	v := t.Hold(t.Linear("v_proj", td, c, true))

	attn := t.Hold(t.MulScalar(t.Matmul(q, t.Transpose(k, -2, -1))))
	attn = t.Rebind(attn, t.Softmax(attn))

	out := t.Matmul(attn, v)
	out = t.Linear("out_proj", out, c, true)
	return t.Reshape(t.Transpose(out, 1, 2), b, c, h, w)
}
