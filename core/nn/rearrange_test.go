package nn_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/launch-ml/launch/core/nn"
)

// rearranged are the networks of tools/capture/layers_rearrange.py, under the same names.
var rearranged = map[string]nn.Module{
	"rearrange": func(t T, x X) X {
		y := t.Rearrange(a(t, x), x.Dim(0), 16, 4, channels/4, 64)
		return t.Rearrange(y, x.Shape()...)
	},
	"mul in place": func(t T, x X) X {
		y := a(t, x)
		return t.MulInplace(y, t.Sigmoid(y))
	},
	"hardsigmoid in place": func(t T, x X) X { return t.HardsigmoidInplace(a(t, x)) },
	"normalize":            func(t T, x X) X { return t.NormalizeDim(a(t, x), -1) },
	"group norm plain":     func(t T, x X) X { return t.GroupNormPlain(x, 1) },
	"variance":             func(t T, x X) X { return t.Div(x, t.AddScalar(t.VarDim(x, 1))) },
	"variance of windows":  func(t T, x X) X { return t.Mul(x, t.VarUnfolded(t.Pad(x, 6, 6, true), 7)) },
	"function": func(t T, x X) X {
		var y X
		t.Scope("n", func() {
			w := t.Param("weight", channels)
			t.FrozenParam("bias", channels) // which nothing reads
			y = t.Apply(nn.Function{
				Name: "Affine.apply",
				Forward: func() (X, []X) {
					mu := t.Hold(t.MeanDim(x, 1))
					v := t.Hold(t.MeanDim(t.Pow(t.Sub(x, mu)), 1))
					y := t.Hold(t.Div(t.Sub(x, mu), t.Sqrt(t.AddScalar(v))))
					return t.Mul(t.View(w, 1, channels, 1, 1), y), []X{y, v}
				},
				Temps: (2*x.Numel() + 3*x.Numel()/channels) * 4,
			}, x, w)
		})
		return y
	},
	"in place of a view": func(t T, x X) X {
		y := t.View(a(t, x), 1, x.Dim(0)*channels, x.Dim(2), x.Dim(3))
		return t.InplaceOfView(t.View(y, x.Shape()...), (*nn.Tape).LeakyReLUInplace)
	},
	"masked": func(t T, x X) X {
		y := a(t, x)
		return t.MaskedFill(y, t.Compare(x, x))
	},
	"stack second": func(t T, x X) X {
		y := t.SumDim(t.StackSecond(x, a(t, x)), 1)
		return t.View(y, x.Shape()...)
	},
}

// TestRearranged is TestRecorded for the layers of rearrange.go.
func TestRearranged(t *testing.T) { compareIn(t, "testdata/rearrange_215.json", rearranged) }

// compareIn compares the networks of a recording of their own, all of which must be recorded.
func compareIn(t *testing.T, file string, networks map[string]nn.Module) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var rec recording
	if err := json.Unmarshal(data, &rec); err != nil {
		t.Fatal(err)
	}
	others := layers
	layers = networks
	defer func() { layers = others }()
	seen := map[string]bool{}
	compare(t, rec, seen)
	for name := range layers {
		if !seen[name] {
			t.Errorf("%s: not recorded", name)
		}
	}
}
