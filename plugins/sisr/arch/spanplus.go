package arch

import (
	"github.com/launch-ml/launch/core/nn"
)

// SPANPlus (umzi2): traiNNer/archs/spanplus_arch.py at 68629319.
var _ = entry(func() {
	spanplus := func(feat, block int64, upsampler string) builder {
		return func(s Spec, a *args) Network {
			n := spanPlus{
				scale: s.Scale, inCh: a.int("num_in_ch", 3), outCh: a.int("num_out_ch", 3), feat: a.int("feature_channels", feat),
				drop: a.float("drop_rate", 0), upsampler: a.string("upsampler", upsampler),
			}
			if v, ok := a.get("blocks"); ok && v == nil {
				n.blocks = []int64{4} // None
			} else {
				n.blocks = a.ints("blocks", block)
			}
			switch n.upsampler {
			case "ps":
				n.outCh = n.inCh
			case "dys":
				refuse(n.feat < 4 || n.feat%4 != 0, "feature_channels: incorrect in_channels and groups values of DySample")
			case "conv":
				n.outCh = n.inCh
				refuse(s.Scale != 1, "upsampler: conv supports only 1x")
			default:
				reject("upsampler: %s not supported, choose one of ps, dys, conv", n.upsampler)
			}
			return Network{InCh: n.inCh, Forward: n.forward}
		}
	}
	register(spanplus(48, 4, "dys"), "spanplus")
	register(spanplus(48, 4, "ps"), "spanplus_st")
	register(spanplus(32, 2, "ps"), "spanplus_sts")
	register(spanplus(32, 2, "dys"), "spanplus_s")
})

type spanPlus struct {
	scale, inCh, outCh, feat int64
	blocks                   []int64
	drop                     float64
	upsampler                string
}

// forward is SpanPlus.forward.
func (n spanPlus) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	ms := []nn.Module{conv3XC(n.feat)}
	for _, blocks := range n.blocks {
		ms = append(ms, func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.spabs(t, x, blocks) })
	}
	out := t.Hold(t.Sequential("feats", x, ms...))
	switch n.upsampler {
	case "ps":
		return t.Sequential("upsampler", out, conv(n.outCh*n.scale*n.scale, 3).Module(), shuffle(n.scale))
	case "dys":
		return t.Call("upsampler", out, dySample(n.outCh, n.scale, 4, true))
	}
	return t.Conv2d("upsampler", out, conv(n.outCh, 3))
}

// spabs is SPABS.
func (n spanPlus) spabs(t *nn.Tape, x nn.Tensor, blocks int64) nn.Tensor {
	spab := func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		out, _ := n.spab(t, x)
		return out
	}
	outB1 := t.Hold(t.Call("block_1", x, spab))
	outX := t.Hold(t.Sequential("block_n", outB1, nn.Repeat(spab, blocks)...))
	var outX2 nn.Tensor
	outEnd := t.Hold(t.Call("block_end", outX, func(t *nn.Tape, x nn.Tensor) (out nn.Tensor) {
		out, outX2 = n.spab(t, x)
		return out
	}))
	t.Hold(outX2)
	outEnd = t.Rebind(outEnd, dropout2d(t, t.Call("conv_2", outEnd, conv3XC(n.feat)), n.drop))
	return t.Conv2d("conv_cat", t.Cat(1, x, outEnd, outB1, outX2), conv(n.feat, 1))
}

// spab is SPAB.forward. Its activation works in place, so what it returns as out1 is the activation's result.
func (n spanPlus) spab(t *nn.Tape, x nn.Tensor) (out, out1 nn.Tensor) {
	out1 = t.Hold(t.MishInplace(t.Call("c1_r", x, conv3XC(n.feat))))
	out2 := t.Hold(t.MishInplace(t.Call("c2_r", out1, conv3XC(n.feat))))
	out3 := t.Hold(t.Call("c3_r", out2, conv3XC(n.feat)))

	simAtt := t.Hold(t.AddScalar(t.Sigmoid(out3)))
	return t.Mul(t.Add(out3, x), simAtt), out1
}
