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
	"rfft2": func(t T, x X) X {
		y := t.Sigmoid(t.RFFT2(t.To(a(t, x), nn.F32)))
		return t.View(y, x.Dim(0), channels, x.Dim(2), -1)
	},
}

// TestMore is TestRecorded for the layers of transpose.go, spectral.go, fourier.go and circular.go.
func TestMore(t *testing.T) { compareIn(t, "testdata/more_215.json", more) }
