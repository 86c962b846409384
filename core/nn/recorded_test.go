package nn_test

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/launch-ml/launch/core/nn"
)

// A recording is what tools/capture wrote.
type recording struct {
	Torch string `json:"torch"`
	Rows  []struct {
		Name    string           `json:"name"`
		Shape   []int64          `json:"shape"`
		AMP     bool             `json:"amp"`
		Params  int64            `json:"params"`
		Buffers int64            `json:"buffers"`
		Saved   int64            `json:"saved"`
		Casts   int64            `json:"casts"`
		Peak    int64            `json:"peak"`
		PeakOp  string           `json:"peak_op"`
		Eval    map[string]int64 `json:"eval"`
	} `json:"rows"`
}

// checkpointed are the rows whose saved tensors a recording cannot see: the non-reentrant checkpoint keeps its
// inputs in a closure.
var checkpointed = map[string]bool{"two blocks, checkpointed": true}

// TestRecorded compares the tape with PyTorch's own account of each kind of layer: parameters and saved bytes, and
// the peaks of a step and of inference.
func TestRecorded(t *testing.T) {
	seen := map[string]bool{}
	for _, file := range []string{"testdata/layers_113.json", "testdata/layers_215.json"} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var rec recording
		if err := json.Unmarshal(data, &rec); err != nil {
			t.Fatal(err)
		}
		compare(t, rec, seen)
	}
	for name := range layers {
		if !seen[name] {
			t.Errorf("%s: not recorded", name)
		}
	}
}

func compare(t *testing.T, rec recording, seen map[string]bool) {
	t.Helper()
	const savedTolerance, peakTolerance = 0.01, 0.03
	var peaks []float64
	for _, row := range rec.Rows {
		forward, ok := layers[row.Name]
		if !ok {
			t.Errorf("%s: recorded, and not written down here", row.Name)
			continue
		}
		seen[row.Name] = true
		low := nn.F32
		if row.AMP {
			low = nn.BF16
		}
		near := func(what string, got, want int64, tolerance float64) float64 {
			off := float64(got-want) / float64(want)
			if math.Abs(off) > tolerance {
				t.Errorf("%s, autocast %v: %s %d, PyTorch %s has %d (%+.1f %%; %s)", row.Name, row.AMP, what, got, rec.Torch, want,
					100*off, row.PeakOp)
			}
			return math.Abs(off)
		}

		newTape := func(shape []int64) (*nn.Tape, nn.Tensor) {
			tape := nn.NewTape()
			tape.Dispatched, tape.Torch1 = true, strings.HasPrefix(rec.Torch, "1.")
			return tape, tape.Hold(tape.Input(nn.F32, shape...))
		}
		tape, x := newTape(row.Shape)
		tape.Autocast(low, func() { tape.Hold(between(tape, x, forward)) })
		if got := tape.Size().Params; got != row.Params {
			t.Errorf("%s: %d parameters, PyTorch has %d", row.Name, got, row.Params)
		}
		if got := tape.Size().Buffers; got != row.Buffers {
			t.Errorf("%s: buffers of %d elements, PyTorch has %d", row.Name, got, row.Buffers)
		}
		if !checkpointed[row.Name] {
			near("saved", int64(tape.Peak().Saved), row.Saved+row.Casts, savedTolerance)
		}

		tape, x = newTape(row.Shape)
		var y nn.Tensor
		tape.Autocast(low, func() { y = tape.Hold(between(tape, x, forward)) })
		tape.Backward(tape.Mean(tape.Abs(y)))
		peak := tape.Peak()
		peaks = append(peaks, near("peak of a step", int64(peak.Bytes-x.Bytes()), row.Peak, peakTolerance))
		if peak.Gradients != tape.Size().GradBytes {
			t.Errorf("%s: gradients of %v for parameters of %v", row.Name, peak.Gradients, tape.Size().GradBytes)
		}

		tape, x = newTape([]int64{1, row.Shape[1], row.Shape[2], row.Shape[3]})
		tape.Training = false
		tape.NoGrad(func() {
			tape.FreezeParams(func() { tape.Autocast(low, func() { tape.Hold(between(tape, x, forward)) }) })
		})
		peaks = append(peaks, near("peak of inference", int64(tape.Peak().Bytes-x.Bytes()), row.Eval["32"], peakTolerance))
	}
	slices.Sort(peaks)
	t.Logf("%d peaks against PyTorch %s: median %.2f %%, worst %.2f %%", len(peaks), rec.Torch,
		100*peaks[len(peaks)/2], 100*peaks[len(peaks)-1])
}

// between is layers.py's Between: a convolution, the layer, a convolution.
func between(t *nn.Tape, x nn.Tensor, f nn.Module) nn.Tensor {
	return t.Call("", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		x = t.Conv2d("head", x, nn.Conv{Out: channels, K: 3})
		x = t.Rebind(x, t.Call("", x, f))
		return t.Conv2d("tail", x, nn.Conv{Out: 3, K: 3})
	})
}
