package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// Sebica (2024): traiNNer/archs/sebica_arch.py at 68629319.
var _ = entry(func() {
	sebicaOf := func(channels int64) builder {
		return func(s Spec, a *args) Network {
			n := sebica{scale: s.Scale, n: a.int("N", channels)}
			return Network{Forward: n.forward, BatchNorm: true}
		}
	}
	register(sebicaOf(16), "sebica")
	register(sebicaOf(8), "sebica_mini")
})

type sebica struct{ scale, n int64 }

// forward is Sebica.forward.
func (n sebica) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	norm := nn.BatchNorm{}.Module()
	head := t.Hold(t.Sequential("head", x, conv(n.n, 3).Module(), norm, (*nn.Tape).ReLUInplace))
	bodyOut := head
	for i := range 6 {
		y := t.Call(fmt.Sprint("body.", i), bodyOut, n.attn)
		bodyOut = t.Assign(i == 0, bodyOut, y) // head keeps the first
	}
	h := t.Hold(t.Sequential("tail", bodyOut, conv(3*n.scale*n.scale, 1).Module(), shuffle(n.scale)))
	base := t.Hold(t.Bilinear(x, n.scale))
	return t.Add(h, base)
}

// attn is Attn.
func (n sebica) attn(t *nn.Tape, x nn.Tensor) nn.Tensor {
	norm := nn.BatchNorm{}.Module()
	out := t.Hold(t.Call("pre_mixer", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor { // Conv
		return t.Sequential("conv", x, conv(n.n*2, 1).Module(), norm, (*nn.Tape).ReLUInplace, conv(n.n, 3).Module(), norm,
			(*nn.Tape).ReLUInplace)
	}))
	out = t.Rebind(out, t.BatchNorm2d("norm1", out))
	out = t.Rebind(out, t.Call("attn", out, n.csa))
	out = t.Rebind(out, t.Call("post_mixer", out, func(t *nn.Tape, x nn.Tensor) nn.Tensor { // FFN
		y := t.Sequential("ffn", x, conv(n.n*2, 1).Module(), norm, (*nn.Tape).GELU, conv(n.n, 1).Module(), norm)
		return t.Add(y, x)
	}))
	out = t.Rebind(out, t.BatchNorm2d("norm2", out))
	return t.AddInplace(out, x)
}

// csa is CSA: a weight for each place, and one for each channel by two convolutions over the channels, of which one sees
// them in reverse.
func (n sebica) csa(t *nn.Tape, x nn.Tensor) nn.Tensor {
	b, c := x.Dim(0), x.Dim(1)
	avgOut := t.Hold(t.MeanDim(x, 1))
	maxOut := t.MinDim(x, 1)
	maxOut = t.Hold(t.View(maxOut, b, 1, x.Dim(2), x.Dim(3)))
	spatial := t.Hold(t.Cat(1, avgOut, maxOut))
	spatial = t.Rebind(spatial, t.Sequential("spatial_attention", spatial,
		nn.Conv{Out: 1, K: 7, NoBias: true}.Module(), (*nn.Tape).Sigmoid))

	y := t.Hold(t.MeanDim(x, 2, 3))
	// A pooling to one precedes the convolution, so of the channels one number is left.
	attention := func(name string, y nn.Tensor) nn.Tensor {
		return t.Hold(t.Sequential(name, y, func(t *nn.Tape, y nn.Tensor) nn.Tensor { return t.MeanDim(y, 1) },
			nn.Conv{Out: 1, K: 1, KW: 3, NoBias: true, Pad: 0}.Module(), (*nn.Tape).Sigmoid))
	}
	forward := attention("channel_attention_forward", y)
	backward := attention("channel_attention_backward", y)
	weight := t.Hold(t.DivScalar(t.Add(forward, backward)))
	weight = t.Rebind(weight, t.Expand(weight, b, c, x.Dim(2), x.Dim(3)))
	return t.Hold(t.Mul(t.Mul(x, spatial), weight))
}
