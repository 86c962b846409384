package nn_test

import (
	"testing"

	"github.com/launch-ml/launch/core/nn"
)

// What PyTorch copies and what it does not, seen with torch 2.15 on the meta device (saved_tensors_hooks, by storage): a
// token of a sequence goes into addmm as it is, so the sequence is saved whole and nothing else; a permuted tensor of three
// dimensions is copied first, and only the copy is saved.
func TestLinearCopies(t *testing.T) {
	const b, n, c = 4, 10, 32
	for name, tt := range map[string]struct {
		f    func(t T, x X) X
		want int64
	}{
		"one token of each sequence": {func(t T, x X) X { return t.Linear("head", t.Select(x, 1), 5, true) }, b * n * c * 4},
		"a permuted sequence":        {func(t T, x X) X { return t.Linear("head", t.Transpose(x, 1, 2), 5, true) }, b * n * c * 4},
	} {
		tape := nn.NewTape()
		x := tape.Hold(tape.Input(nn.F32, b, n, c))
		y := tt.f(tape, tape.MulScalar(tape.RequireGrad(x))) // what is multiplied by a number is not saved
		tape.Backward(tape.Mean(y))
		if got := int64(tape.Peak().Saved); got != tt.want {
			t.Errorf("%s: %d bytes are saved, want %d", name, got, tt.want)
		}
	}
}

// torch.cat keeps the layout of channels-last tensors, and of no other permuted ones (cat_compute_output_memory_format).
func TestCatLayout(t *testing.T) {
	copies := func(dims ...int) bool {
		tape := nn.NewTape()
		var peak nn.Peak
		tape.NoGrad(func() {
			x := tape.Permute(tape.Hold(tape.Input(nn.F32, 2, 4, 6, 8)), dims...)
			y := tape.Hold(tape.Cat(1, x, x))
			back := make([]int, 4)
			for i, d := range dims {
				back[d] = i
			}
			tape.Contiguous(tape.Permute(y, back...))
		})
		peak = tape.Peak()
		return peak.Bytes > 3*2*4*6*8*4 // input and result, and no copy
	}
	if copies(0, 3, 1, 2) {
		t.Error("channels last did not stay")
	}
	if !copies(0, 2, 1, 3) {
		t.Error("another permutation stayed")
	}
}
