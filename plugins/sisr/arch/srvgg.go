package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// SRVGGNetCompact (traiNNer/archs/srvgg_arch.py at 68629319; BasicSR's basicsr/archs/srvgg_arch.py is the same
// forward, always with the residual).
var _ = entry(func() {
	compact := func(feat, convs int64) builder {
		return func(s Spec, a *args) Network {
			n := srvgg{
				numInCh: a.int("num_in_ch", 3), numOutCh: a.int("num_out_ch", 3), numFeat: a.int("num_feat", feat),
				numConv: a.int("num_conv", convs), upscale: s.Scale, actType: a.string("act_type", "prelu"),
				learnResidual: a.bool("learn_residual", true),
			}
			return n.network()
		}
	}
	register(compact(64, 16), "compact")
	register(compact(64, 8), "ultracompact")
	register(compact(24, 8), "superultracompact")
	register(func(s Spec, a *args) Network {
		n := srvgg{
			numInCh: a.int("num_in_ch", 3), numOutCh: a.int("num_out_ch", 3), numFeat: a.int("num_feat", 64),
			numConv: a.int("num_conv", 16), upscale: a.int("upscale", s.Scale), actType: a.string("act_type", "prelu"),
			learnResidual: true,
		}
		return n.network()
	}, "srvggnetcompact")
})

type srvgg struct {
	numInCh, numOutCh, numFeat, numConv, upscale int64
	actType                                      string
	learnResidual                                bool
}

func (n srvgg) network() Network {
	switch n.actType {
	case "relu", "prelu", "leakyrelu":
	default:
		reject("act_type: %q is none of relu, prelu, leakyrelu", n.actType)
	}
	return Network{InCh: n.numInCh, Forward: n.forward}
}

func (n srvgg) activation(t *nn.Tape, name string, x nn.Tensor) nn.Tensor {
	switch n.actType {
	case "relu":
		return t.ReLUInplace(x)
	case "leakyrelu":
		return t.LeakyReLUInplace(x)
	}
	return t.PReLU(name, x, n.numFeat)
}

func (n srvgg) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	out := x
	for i := range int(n.numConv) + 1 {
		out = t.Conv2d(fmt.Sprint("body.", 2*i), out, conv(n.numFeat, 3))
		out = n.activation(t, fmt.Sprint("body.", 2*i+1), out)
	}
	out = t.Conv2d(fmt.Sprint("body.", 2*n.numConv+2), out, conv(n.numOutCh*n.upscale*n.upscale, 3))

	out = t.PixelShuffle(out, n.upscale)

	if n.learnResidual {
		base := t.Hold(t.Upsample(x, n.upscale))
		out = t.AddInplace(out, base)
	}
	return out
}
