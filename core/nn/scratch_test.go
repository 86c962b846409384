package nn

import "testing"

// onCard is how much more a backward pass has at its peak on a card than on a CPU, or where a recording counts.
func onCard(t *testing.T, forward func(t *Tape) Tensor) int64 {
	t.Helper()
	peak := func(cpu, dispatched bool) int64 {
		t := NewTape()
		t.CPU, t.Dispatched = cpu, dispatched
		t.Backward(t.Sum(forward(t)))
		return int64(t.Peak().Bytes)
	}
	card, cpu, recorded := peak(false, false), peak(true, false), peak(false, true)
	if cpu != recorded {
		t.Errorf("a recording has %d bytes, the CPU %d", recorded, cpu)
	}
	return card - cpu
}

// Softmax makes the product of gradient and result in backward.
func TestSoftmaxProduct(t *testing.T) {
	for name, softmax := range map[string]func(*Tape, Tensor) Tensor{
		"softmax": (*Tape).Softmax, "its own type": (*Tape).SoftmaxAs, "safe softmax": (*Tape).SafeSoftmax,
	} {
		got := onCard(t, func(t *Tape) Tensor { // the weight's gradient makes backward's peak the larger one
			return t.Mul(softmax(t, t.MulScalar(t.Param("x", 64, 64))), t.Param("w", 64, 64))
		})
		if got != 64*64*4 {
			t.Errorf("%s: %d bytes, want %d", name, got, 64*64*4)
		}
	}
	half := onCard(t, func(t *Tape) (y Tensor) {
		t.ParamType = F16
		x := t.MulScalar(t.Param("x", 64, 64))
		t.Autocast(F16, func() { y = t.Softmax(x) })
		return y
	})
	if half != 64*64*4 { // of the gradient in float32
		t.Errorf("half under autocast: %d bytes, want %d", half, 64*64*4)
	}
}

// A fused attention accumulates the gradient of q in float32, in whole tiles.
func TestFusedScratch(t *testing.T) {
	const want = 4 * 2 * 8 * 128 * (64 + 1)
	for _, biased := range []bool{false, true} {
		got := onCard(t, func(t *Tape) Tensor {
			head := func(name string) Tensor { return t.MulScalar(t.Param(name, 2, 8, 100, 40)) }
			if biased {
				return t.SDPABiased(head("q"), head("k"), head("v"), t.Zeros(F32, 1, 1, 100, 100))
			}
			return t.SDPA(head("q"), head("k"), head("v"))
		})
		if got != want {
			t.Errorf("with a mask %t: %d bytes, want %d", biased, got, want)
		}
	}
}
