package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// TemporalSPAN: traiNNer/archs/temporal_span_arch.py at 68629319. A batch of clips (b, t, c, h, w) is (b, t·c, h, w) here,
// which is as many numbers.
var _ = register(func(s Spec, a *args) Network {
	n := temporalSPAN{
		scale: s.Scale, in: a.int("num_in_ch", 3), out: a.int("num_out_ch", 3), frames: a.int("num_frames", 5),
		feat: a.int("feature_channels", 48), history: a.int("history_channels", 12),
	}
	a.ignore("bias")
	refuse(n.frames < 1 || n.feat%8 != 0, "feature_channels: num_channels must be divisible by the 8 groups of its norms")
	return Network{InCh: n.in * n.frames, Frames: n.frames, Forward: n.forward}
}, "temporalspan")

type temporalSPAN struct{ scale, in, out, frames, feat, history int64 }

// forward is TemporalSPAN.forward.
func (n temporalSPAN) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	frame := func() nn.Tensor { return t.Narrow(x, 1, n.in) }
	var features []nn.Tensor
	for i := range n.frames {
		name, out := fmt.Sprint("history_convs.", i), n.history
		switch {
		case i == n.frames/2:
			name, out = "center_conv", n.feat
		case i > n.frames/2:
			name = fmt.Sprint("history_convs.", i-1)
		}
		features = append(features, t.Hold(t.Call(name, frame(), conv3XC(out))))
	}
	fused := t.Hold(t.Cat(1, features...))
	outFeature := t.Hold(t.Sequential("fusion_conv", fused, conv3XC(n.feat), conv3XC(n.feat)))

	out, outB1, mid := outFeature, outFeature, outFeature
	var unnamed nn.Tensor // what the name _ holds
	for i := 1; i <= 6; i++ {
		var out1, att nn.Tensor
		out = t.Hold(t.Call(fmt.Sprint("block_", i), out, func(t *nn.Tape, x nn.Tensor) (y nn.Tensor) {
			y, out1, att = n.spab(t, x)
			return y
		}))
		t.Hold(att)
		switch {
		case i == 1:
			outB1, unnamed = out, t.Hold(out1)
		case i == 6:
			mid = t.Hold(out1)
		default:
			unnamed = t.Rebind(unnamed, out1)
		}
	}
	out = t.Rebind(out, t.Call("conv_2", out, conv3XC(n.feat)))
	y := t.Hold(t.Conv2d("conv_cat", t.Cat(1, outFeature, out, outB1, mid), conv(n.feat, 1)))
	return t.Sequential("upsampler", y, conv(n.out*n.scale*n.scale, 3).Module(), shuffle(n.scale))
}

// spab is SPAB with group norms. Its activation works in place on what the norms return.
func (n temporalSPAN) spab(t *nn.Tape, x nn.Tensor) (out, out1, simAtt nn.Tensor) {
	c := func(name, norm string, x nn.Tensor) nn.Tensor {
		y := t.Hold(t.Call(name, x, conv3XC(n.feat)))
		return t.Rebind(y, t.GroupNorm(norm, y, 8))
	}
	out1 = t.SiLUInplace(c("c1_r", "norm1", x))
	out2 := t.SiLUInplace(c("c2_r", "norm2", out1))
	out3 := c("c3_r", "norm3", out2)
	simAtt = t.Hold(t.AddScalar(t.Sigmoid(out3)))
	return t.Mul(t.Add(out3, x), simAtt), out1, simAtt
}
