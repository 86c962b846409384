package nn_test

import (
	"testing"

	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/unit"
)

// What a convolution takes on a CPU beside its input, in MiB of VmData as torch 1.13.0 and 2.15.0 showed it: with its result, and in
// backward with the gradient of its input.
func TestBlockedCopies(t *testing.T) {
	for _, r := range []struct {
		in, out, k, size int64
		forward, back    unit.Bytes
	}{
		{64, 64, 3, 512, 128, 192},
		{24, 24, 3, 512, 64, 88},
		{64, 12, 3, 512, 80, 144},
		{3, 64, 3, 512, 128, 0}, // an image is read as it is, and needs no gradient
		{64, 64, 1, 512, 64, 64},
	} {
		input := unit.Bytes(r.in*r.size*r.size*4) / unit.MiB
		tape := nn.NewTape()
		tape.OneDNN = true
		tape.NoGrad(func() {
			x := tape.Hold(tape.Input(nn.F32, 1, r.in, r.size, r.size))
			tape.Conv2d("c", x, nn.Conv{Out: r.out, K: r.k, NoBias: true})
		})
		if got := tape.Peak().Bytes/unit.MiB - input; got != r.forward {
			t.Errorf("%d → %d: %d MiB beside the input, want %d", r.in, r.out, got, r.forward)
		}
		if r.back == 0 {
			continue
		}
		var peaks [2]unit.Bytes
		for i := range peaks {
			tape := nn.NewTape()
			tape.OneDNN = i == 1
			x := tape.Hold(tape.RequireGrad(tape.Input(nn.F32, 1, r.in, r.size, r.size)))
			tape.Backward(tape.Sum(tape.Hold(tape.Conv2d("c", x, nn.Conv{Out: r.out, K: r.k, NoBias: true}))))
			peaks[i] = tape.Peak().Bytes / unit.MiB
		}
		if got := input + peaks[1] - peaks[0]; got != r.back {
			t.Errorf("backward of %d → %d: %d MiB, want %d", r.in, r.out, got, r.back)
		}
	}
}
