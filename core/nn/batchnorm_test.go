package nn_test

import (
	"testing"

	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/unit"
)

// classifier is a network with each of the layers that a classifier has beside the others' tests: a batch norm without
// weights, a padded pool, a batch norm of features, a cross entropy.
func classifier(t *nn.Tape, x nn.Tensor) nn.Tensor {
	return t.Call("", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		x = t.BatchNorm("bn", t.Conv2d("conv", x, nn.Conv{Out: 16, K: 3, NoBias: true}), nn.BatchNorm{NoAffine: true})
		x = t.Rebind(x, t.MaxPool2dPadded(x, 3, 2, 1))
		x = t.Rebind(x, t.BatchNorm("bn2", t.Linear("fc", t.View(x, x.Dim(0), -1), 64, false), nn.BatchNorm{}))
		labels := t.Hold(t.Indices(8))
		return t.CrossEntropy(t.Linear("head", x, 1000, true), labels)
	})
}

// Measured with tools/capture's measure.py on the network above, with torch 1.13 and 2.15 on CPU, 2026, which agree:
// what the graph holds when the forward of 8 images of 33×33 is done, without the batch.
func TestClassifierSavedBytes(t *testing.T) {
	for _, r := range []struct {
		low          nn.DType
		saved, casts unit.Bytes
	}{
		{nn.F32, 1595844, 0}, {nn.BF16, 1014516, 720736},
	} {
		tape := nn.NewTape()
		tape.Dispatched = true
		x := tape.Hold(tape.Input(nn.F32, 8, 3, 33, 33))
		tape.Autocast(r.low, func() { tape.Hold(classifier(tape, x)) })
		p := tape.Peak()
		if p.SavedCasts != r.casts || p.Saved-p.SavedCasts != r.saved {
			t.Errorf("%v: saves %d and %d of casts, PyTorch %d and %d", r.low, p.Saved-p.SavedCasts, p.SavedCasts, r.saved, r.casts)
		}
		if s := tape.Size(); s.Params != 361496 || s.Buffers != 162 {
			t.Errorf("%d parameters and %d numbers in buffers", s.Params, s.Buffers)
		}
	}
}

// A synchronised batch norm saves what a plain one does, and gathers statistics while it runs.
func TestSyncBatchNorm(t *testing.T) {
	run := func(ranks int64) nn.Peak {
		tape := nn.NewTape()
		x := tape.Hold(tape.Input(nn.F32, 4, 64, 8, 8))
		y := tape.Hold(tape.BatchNorm("bn", x, nn.BatchNorm{Ranks: ranks}))
		tape.Backward(tape.Mean(y))
		return tape.Peak()
	}
	one, many := run(1), run(1024)
	if one.Saved != many.Saved {
		t.Errorf("saves %v, and with others %v", one.Saved, many.Saved)
	}
	if many.Bytes <= one.Bytes {
		t.Errorf("gathering from 1024 ranks needs nothing: %v", many.Bytes)
	}
}

// CUDA's log_softmax reads float16 and writes float32: nothing is copied, which bfloat16 is.
func TestCrossEntropyInHalf(t *testing.T) {
	peak := func(low nn.DType) unit.Bytes {
		tape := nn.NewTape()
		tape.Autocast(low, func() {
			x := tape.RequireGrad(tape.Hold(tape.Input(low, 64, 4096)))
			tape.Hold(tape.CrossEntropy(x, tape.Hold(tape.Indices(64))))
		})
		return tape.Peak().ForwardPeak
	}
	const copied = 64 * 4096 * 4
	if got := peak(nn.BF16) - peak(nn.F16); got < copied-16 || got > copied { // the loss itself is made when the copy is gone
		t.Errorf("a copy in float32 of %d bytes is %d", copied, got)
	}
}

func TestLargestParam(t *testing.T) {
	tape := nn.NewTape()
	x := tape.Input(nn.F32, 1, 8)
	tape.Part("a", func() { tape.Linear("fc", x, 16, true) })
	tape.Part("b", func() { tape.Linear("fc", x, 32, true) })
	if a, all := tape.LargestParam("a"), tape.LargestParam(); a != 8*16*4 || all != 8*32*4 {
		t.Errorf("the largest of a is %d, of all %d", a, all)
	}
}
