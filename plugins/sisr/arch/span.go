package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// SPAN (Wan et al., 2024): traiNNer/archs/span_arch.py at 68629319.
var _ = entry(func() {
	span := func(feat int64) builder {
		return func(s Spec, a *args) Network {
			n := span{
				inCh: a.int("num_in_ch", 3), outCh: a.int("num_out_ch", 3), feat: a.int("feature_channels", feat),
				blocks: a.int("num_blocks", 6), upscale: s.Scale, norm: a.bool("norm", false),
			}
			a.ignore("bias", "img_range", "rgb_mean") // SPAB does not pass its bias on
			return Network{InCh: n.inCh, Forward: n.forward}
		}
	}
	register(span(52), "span")
	register(span(48), "span_s")
	register(span(32), "span_f32")
	register(span(64), "span_f64")
	register(span(96), "span_f96")
})

type span struct {
	inCh, outCh, feat, blocks, upscale int64
	norm                               bool
}

func (n span) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	mean := t.Buffer("mean", nn.F32, 1, 3, 1, 1)
	if n.norm {
		x = t.Hold(t.MulScalar(t.Sub(x, mean)))
	} else {
		t.Buffer("no_norm", nn.F32, 1)
	}

	outFeature := t.Hold(t.Call("conv_1", x, conv3XC(n.feat)))

	out := outFeature
	outB1 := outFeature
	lastMid := outFeature
	var att nn.Tensor
	for i := range int(n.blocks) {
		newOut, mid, newAtt := n.spab(t, fmt.Sprint("block_", i+1), out)
		if i == 0 {
			out, lastMid, att = t.Hold(newOut), t.Hold(mid), t.Hold(newAtt)
			outB1 = out
			continue
		}
		out, lastMid, att = t.Rebind(out, newOut), t.Rebind(lastMid, mid), t.Rebind(att, newAtt)
	}

	out = t.Rebind(out, t.Call("conv_2", out, conv3XC(n.feat)))
	out = t.Conv2d("conv_cat", t.Cat(1, outFeature, out, outB1, lastMid), conv(n.feat, 1))
	return t.Sequential("upsampler", out, conv(n.outCh*n.upscale*n.upscale, 3).Module(),
		func(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.PixelShuffle(x, n.upscale) })
}

// spab is SPAB.forward. Its activation works in place, so what it returns as out1 is the activation's result.
func (n span) spab(t *nn.Tape, name string, x nn.Tensor) (out, out1, simAtt nn.Tensor) {
	t.Scope(name, func() {
		out1 = t.Hold(t.Call("c1_r", x, conv3XC(n.feat)))
		out1 = t.SiLUInplace(out1)

		out2 := t.Hold(t.Call("c2_r", out1, conv3XC(n.feat)))
		out2 = t.SiLUInplace(out2)

		out3 := t.Hold(t.Call("c3_r", out2, conv3XC(n.feat)))

		simAtt = t.AddScalar(t.Sigmoid(out3))
		out = t.Mul(t.Add(out3, x), simAtt)
	}, x)
	return out, out1, simAtt
}

// conv3XC is Conv3XC with gain1=2 (1 where conv_1 and conv_2 do not say so: all say 2): three convolutions and a
// skip while training, their product in one frozen convolution in eval.
func conv3XC(out int64) nn.Module {
	const gain = 2
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		in := x.Dim(1)
		// All parameters exist in either mode.
		for _, p := range [...]struct {
			name      string
			out, in   int64
			k         int64
			evaluated bool
		}{
			{"sk", out, in, 1, false}, {"conv.0", in * gain, in, 1, false}, {"conv.1", out * gain, in * gain, 3, false},
			{"conv.2", out, out * gain, 1, false}, {"eval_conv", out, in, 3, true},
		} {
			t.Scope(p.name, func() {
				make := t.Param
				if p.evaluated {
					make = t.FrozenParam
				}
				make("weight", p.out, p.in, p.k, p.k)
				make("bias", p.out)
			})
		}
		if !t.Training {
			return t.Conv2d("eval_conv", x, nn.Conv{Out: out, K: 3, Frozen: true})
		}
		xPad := t.Hold(t.Pad(x, 2, 2, false))
		y := t.Conv2d("conv.0", xPad, nn.Conv{Out: in * gain, K: 1})
		y = t.Conv2d("conv.1", y, nn.Conv{Out: out * gain, K: 3, Valid: true})
		y = t.Conv2d("conv.2", y, conv(out, 1))
		return t.Add(y, t.Conv2d("sk", x, conv(out, 1)))
	}
}
