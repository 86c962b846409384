package nn_test

import (
	"testing"

	"github.com/launch-ml/launch/core/nn"
)

// more are the networks of tools/capture/layers_more.py, under the same names.
var more = map[string]nn.Module{
	"transposed convolution without bias": func(t T, x X) X {
		return t.Call("b", a(t, x), nn.ConvTranspose{Out: channels, K: 2, Stride: 2, NoBias: true}.Module())
	},
	"rms norm":        func(t T, x X) X { return t.RMSNorm("n", a(t, x)) },
	"spectral linear": func(t T, x X) X { return t.Call("b", a(t, x), nn.SpectralLinear(48)) },
	"circular pad":    func(t T, x X) X { return t.PadCircular(a(t, x), 1) },
	"product over a dimension": func(t T, x X) X {
		y := t.Prod(a(t, x), 1)
		return t.Mul(x, t.View(y, x.Dim(0), 1, x.Dim(2), x.Dim(3)))
	},
	"power of two tensors": func(t T, x X) X {
		y := t.Sigmoid(a(t, x))
		return t.PowTensor(y, t.Sigmoid(x))
	},
	"attention with a mask": func(t T, x X) X {
		q, k, v := heads(t, a(t, x)), heads(t, x), heads(t, x)
		return t.View(t.SDPABiased(q, k, v, t.View(t.Param("b.weight", 2048, 64), 1, 32, 64, 64)), x.Shape()...)
	},
	"flex attention": func(t T, x X) X {
		q, k, v := heads(t, a(t, x)), heads(t, x), heads(t, x)
		return t.View(t.FlexAttention(q, k, v, t.Param("b.weight", 32, 127)), x.Shape()...)
	},
	"rows by indices of the host": func(t T, x X) X {
		y := a(t, x)
		return t.Add(y, t.View(t.LookupHost(t.Param("b.weight", 8, 4), channels, channels), 1, channels, 1, 1))
	},
	"masked select": func(t T, x X) X {
		y := a(t, x)
		mask := t.Hold(t.Zeros(nn.Bool, 1, channels, 1, 1))
		y = t.Hold(t.View(t.MaskedSelect(y, mask, y.Numel()/2), x.Dim(0), channels/2, x.Dim(2), x.Dim(3)))
		return t.Cat(1, y, t.MulScalar(y))
	},
	"rfft2": func(t T, x X) X {
		y := t.Sigmoid(t.RFFT2(t.To(a(t, x), nn.F32)))
		return t.View(y, x.Dim(0), channels, x.Dim(2), -1)
	},
}

// heads is a view of the image's numbers as 32 heads of 64 tokens.
func heads(t T, x X) X { return t.View(x, x.Dim(0), 32, 64, 8) }

// TestMore is TestRecorded for the layers of transpose.go, spectral.go, fourier.go, circular.go, prod.go, pow.go, flex.go and masked.go.
func TestMore(t *testing.T) { compareIn(t, "testdata/more_215.json", more) }
