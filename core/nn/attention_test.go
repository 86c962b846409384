package nn_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/launch-ml/launch/core/nn"
)

// attention are the networks of tools/capture/layers_attention.py, under the same names.
var attention = map[string]nn.Module{
	"normalize": func(t T, x X) X {
		unit := func(y X) X { return t.View(t.NormalizeDim(t.Transpose(tokens(t, y), -2, -1), -1), x.Shape()...) }
		q := t.Hold(unit(t.Hold(a(t, x))))
		return t.Mul(q, unit(x))
	},
	"gather": func(t T, x X) X {
		y := t.Hold(tokens(t, a(t, x)))
		b, n := y.Dim(0), y.Dim(1)
		index := t.Hold(t.Integers("torch.sort", t.Integers("torch.argmax", y, 1, b, n)[0], 2, b, n)[1])
		return image(t, t.Gather(y, index, y.Shape()...), x)
	},
	"softmax of a named type": func(t T, x X) X { return a(t, t.SoftmaxAs(t.Hold(a(t, x)))) },
	"instance norm": func(t T, x X) X {
		return t.View(t.InstanceNorm("n", t.Transpose(tokens(t, a(t, x)), -1, -2)), x.Shape()...)
	},
	"var":                func(t T, x X) X { return t.Mul(x, t.VarDim(a(t, x), 1)) },
	"max pool of a size": func(t T, x X) X { return t.MaxPoolSame(a(t, x)) },
	"pad channels last": func(t T, x X) X {
		y := channelsLast(t, a(t, x))
		return a(t, t.Hold(t.PadLike(y, y.Dim(0), y.Dim(1), y.Dim(2)+4, y.Dim(3)+4)))
	},
	"convolve channels last": func(t T, x X) X { return channelsLast(t, a(t, t.Hold(channelsLast(t, x)))) },
	"transposed convolution": func(t T, x X) X {
		return t.Call("a", x, nn.ConvTranspose{Out: channels / 2, K: 4, Stride: 2, Pad: 1}.Module())
	},
}

func channelsLast(t T, x X) X {
	return t.Permute(t.Contiguous(t.Permute(x, 0, 2, 3, 1)), 0, 3, 1, 2)
}

// TestAttention compares each with PyTorch's own account, as TestRecorded does.
func TestAttention(t *testing.T) { compareAll(t, "testdata/attention_215.json", attention) }

func compareAll(t *testing.T, file string, networks map[string]nn.Module) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var rec recording
	if err := json.Unmarshal(data, &rec); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, r := range rec.Rows {
		forward, ok := networks[r.Name]
		if !ok {
			t.Errorf("%s: recorded, and not written down here", r.Name)
			continue
		}
		seen++
		low := nn.F32
		if r.AMP {
			low = nn.BF16
		}
		near := func(what string, got, want int64, tolerance float64) {
			if off := float64(got-want) / float64(want); math.Abs(off) > tolerance {
				t.Errorf("%s, autocast %v: %s %d, PyTorch %s has %d (%+.1f %%; %s)", r.Name, r.AMP, what, got, rec.Torch, want,
					100*off, r.PeakOp)
			}
		}
		tape := nn.NewTape()
		tape.Dispatched = true
		x := tape.Hold(tape.Input(nn.F32, r.Shape...))
		var y nn.Tensor
		tape.Autocast(low, func() { y = tape.Hold(between(tape, x, forward)) })
		if got := tape.Size(); got.Params != r.Params || got.Buffers != r.Buffers {
			t.Errorf("%s: %+v, PyTorch has %d parameters and %d elements of buffers", r.Name, got, r.Params, r.Buffers)
		}
		near("saved", int64(tape.Peak().Saved), r.Saved+r.Casts, 0.001)
		tape.Backward(tape.Mean(tape.Abs(y)))
		near("peak of a step", int64(tape.Peak().Bytes-x.Bytes()), r.Peak, 0.03)

		tape = nn.NewTape()
		tape.Dispatched, tape.Training = true, false
		x = tape.Hold(tape.Input(nn.F32, 1, r.Shape[1], r.Shape[2], r.Shape[3]))
		tape.NoGrad(func() {
			tape.FreezeParams(func() { tape.Autocast(low, func() { tape.Hold(between(tape, x, forward)) }) })
		})
		near("peak of inference", int64(tape.Peak().Bytes-x.Bytes()), r.Eval["32"], 0.03)
	}
	if seen != 2*len(networks) {
		t.Errorf("%d rows for %d networks", seen, len(networks))
	}
}

// Beside the gradients of its input and its output, backward of var holds a tensor like each of them.
func TestVarBackward(t *testing.T) {
	tape := nn.NewTape()
	x := tape.Param("x", 2, 1<<20)
	y := tape.Hold(tape.VarDim(x, 0))
	forward := tape.Peak().Bytes
	tape.Backward(tape.Mean(y))
	if got, want := tape.Peak().Bytes-forward, 2*x.Bytes()+2*y.Bytes(); got < want || got > want+1024 {
		t.Errorf("backward adds %d bytes, want %d", got, want)
	}
}
