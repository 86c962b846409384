package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// SPANF and SPANF3: traiNNer/archs/spanf_arch.py and spanf3_arch.py at 68629319.
var _ = entry(func() {
	register(func(s Spec, a *args) Network {
		n := spanF{scale: s.Scale, in: a.int("num_in_ch", 3), feat: a.int("feature_channels", 32)}
		a.ignore("bias", "num_out_ch") // SPAB1 does not pass its bias on; what comes out has the input's channels
		return Network{InCh: n.in, Forward: n.forward}
	}, "spanf")
	register(func(s Spec, a *args) Network {
		n := spanF3{
			scale: s.Scale, up: s.Scale, in: a.int("num_in_ch", 3), out: a.int("num_out_ch", 3),
			feat: a.int("feature_channels", 48), blocks: a.int("num_blocks", 6),
		}
		a.ignore("bias")
		if a.bool("unshuffle_mod", true) && s.Scale < 3 {
			refuse(s.Scale < 1, "scale: no pixel unshuffle for it")
			n.pad, n.up = 4/s.Scale, 4
		}
		return Network{InCh: n.in, Forward: n.forward, Multiple: n.pad}
	}, "spanf3")
})

type spanF struct{ scale, in, feat int64 }

// forward is SPANF.forward. All its 3×3 convolutions but the first are frozen (Conv3XC has eval_conv alone, which requires
// no gradient), so nothing before conv_cat but conv_near is in the graph.
func (n spanF) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	frozen := func(out int64) nn.Conv { return nn.Conv{Out: out, K: 3, Frozen: true} }
	spab := func(t *nn.Tape, x nn.Tensor) nn.Tensor { // SPAB1
		c := func(name string, x nn.Tensor) nn.Tensor {
			return t.Hold(t.Conv2d(name+".eval_conv", x, frozen(n.feat)))
		}
		out1 := t.SiLUInplace(c("c1_r", x))
		out2 := t.SiLUInplace(c("c2_r", out1))
		out3 := c("c3_r", out2)
		if x.Dim(1) != n.feat {
			return out3
		}
		simAtt := t.Hold(t.AddScalar(t.Sigmoid(out3)))
		return t.Mul(t.Add(out3, x), simAtt)
	}
	wide := n.in * n.scale * n.scale
	outFeature := t.Hold(t.Conv2d("conv_near", x, nn.Conv{Out: wide, K: 3, Groups: n.in, NoBias: true}))
	outB1 := t.Hold(t.Call("block_1", x, spab))
	out := outB1
	for i := 2; i <= 5; i++ {
		out = t.Hold(t.Call(fmt.Sprint("block_", i), out, spab))
	}
	y := t.Hold(t.Conv2d("conv_cat", t.Cat(1, outFeature, out, outB1), conv(n.feat, 1)))
	y = t.Rebind(y, t.Conv2d("conv_2.eval_conv", y, frozen(wide)))
	return t.PixelShuffle(y, n.scale)
}

type spanF3 struct{ scale, up, pad, in, out, feat, blocks int64 }

// forward is SPANF3.forward.
func (n spanF3) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	h, w := x.Dim(2), x.Dim(3)
	conv1 := conv3XC(n.feat)
	if n.pad > 0 {
		x = t.Hold(t.PadTo(x, true, x.Dim(0), x.Dim(1), multiple(h, n.pad), multiple(w, n.pad))) // check_img_size
		conv1 = func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			return t.Sequential("", x, unshuffle(n.pad), conv3XC(n.feat))
		}
	}
	outFeature := t.Hold(t.Call("conv_1", x, conv1))
	out, outB1, lastMid := outFeature, outFeature, outFeature
	var att nn.Tensor
	for i := range int(n.blocks) {
		var mid, newAtt nn.Tensor
		newOut := t.Call(fmt.Sprint("block_", i+1), out, func(t *nn.Tape, x nn.Tensor) (y nn.Tensor) {
			y, mid, newAtt = n.spab(t, x)
			return y
		})
		switch i {
		case 0:
			out, lastMid, att = t.Hold(newOut), t.Hold(mid), t.Hold(newAtt)
			outB1 = out
		case 1: // the first result has a name of its own
			out, lastMid, att = t.Hold(newOut), t.Rebind(lastMid, mid), t.Rebind(att, newAtt)
		default:
			out, lastMid, att = t.Rebind(out, newOut), t.Rebind(lastMid, mid), t.Rebind(att, newAtt)
		}
	}
	joined := t.Conv2d("conv_cat", t.Cat(1, outFeature, out, outB1, lastMid), conv(n.feat, 1))
	if n.blocks > 1 {
		out = t.Rebind(out, joined)
	} else {
		out = t.Hold(joined)
	}
	out = t.Rebind(out, t.Call("to_pixel", out, conv3XC(n.out*n.up*n.up)))
	out = t.Rebind(out, t.PixelShuffle(out, n.up))
	return t.Narrow(t.Narrow(out, 2, h*n.scale), 3, w*n.scale)
}

// spab is SPABV2. Its activation works in place, so what it returns as out1 is the activation's result.
func (n spanF3) spab(t *nn.Tape, x nn.Tensor) (out, out1, m nn.Tensor) {
	out1 = t.ReLUInplace(t.Hold(t.Call("c1_r", x, conv3XC(n.feat))))
	out2 := t.ReLUInplace(t.Hold(t.Call("c2_r", out1, conv3XC(n.feat))))
	out3 := t.Hold(t.Call("c3_r", out2, conv3XC(n.feat)))
	m = t.Hold(t.Tanh(t.Conv2d("att_conv", out3, conv(n.feat, 1))))
	return t.Mul(t.Add(x, out3), m), out1, m
}
