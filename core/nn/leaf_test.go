package nn_test

import (
	"testing"

	"github.com/launch-ml/launch/core/nn"
)

// What comes behind frozen layers is saved only because their input wants a gradient (ddpm_with_edge.py:174 at cea3b81
// of leiweiqiang/StableSR keeps 437 MiB a sample in this way).
func TestRequireGrad(t *testing.T) {
	saved := func(wants bool) int64 {
		t := nn.NewTape()
		x := t.Hold(t.Input(nn.F32, 1, 3, 8, 8))
		if wants {
			x = t.RequireGrad(x)
		}
		t.FreezeParams(func() { x = t.ReLU(t.Conv2d("conv", x, nn.Conv{Out: 4, K: 3})) })
		t.Backward(t.Mean(x))
		return int64(t.Peak().Saved)
	}
	if got := saved(false); got != 0 {
		t.Errorf("frozen layers on an input that wants nothing save %d bytes", got)
	}
	if got, want := saved(true), int64(4*8*8*4); got != want { // ReLU's result; the batch itself is not counted again
		t.Errorf("frozen layers on an input that wants a gradient save %d bytes, want %d", got, want)
	}
}
