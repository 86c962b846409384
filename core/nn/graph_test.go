package nn_test

import (
	"testing"

	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/unit"
)

// graphSize is the batch and width of the tensors below: 64 KiB each.
const graphSize, graphBytes = 128, unit.Bytes(128 * 128 * 4)

func squashed(t T, name string, x X) X { return t.Sigmoid(t.Linear(name, x, graphSize, true)) }

// A graph that no loss depends on is kept until the last variable of it goes, and gives its weights no gradient.
func TestDeadGraph(t *testing.T) {
	at := func(early bool) nn.Peak {
		tape := nn.NewTape()
		x := tape.Hold(tape.Input(nn.F32, graphSize, graphSize))
		drop := tape.Dead(func() {
			for range 3 {
				squashed(tape, "dead", x)
			}
		})
		if early {
			drop()
		}
		loss := tape.Mean(squashed(tape, "alive", x))
		if !early {
			drop()
		}
		tape.Backward(loss)
		return tape.Peak()
	}
	late, early := at(false), at(true)
	if late.Saved != early.Saved || late.Saved != graphBytes {
		t.Errorf("the backward begins with %v and %v, want one sigmoid: %v", late.Saved, early.Saved, graphBytes)
	}
	if want := graphBytes + graphSize*4; late.Gradients != want {
		t.Errorf("%v of gradients, want those of one layer: %v", late.Gradients, want)
	}
	// Late: the input, three dead sigmoids, and a linear with its sigmoid. Early: the input, two, and the third with its linear.
	if late.ForwardPeak != 6*graphBytes || early.ForwardPeak != 5*graphBytes {
		t.Errorf("forward peaks of %v and %v", late.ForwardPeak, early.ForwardPeak)
	}
}

// Of several arguments all are kept, and all get their gradients; inside nothing is.
func TestCheckpointAll(t *testing.T) {
	at := func(checkpointed bool) nn.Peak {
		tape := nn.NewTape()
		in := tape.Hold(tape.Input(nn.F32, graphSize, graphSize))
		x, y := squashed(tape, "x", in), squashed(tape, "y", in)
		f := func(t *nn.Tape, xs []nn.Tensor) nn.Tensor {
			z := t.Add(xs[0], xs[1])
			for range 4 {
				z = squashed(t, "z", z)
			}
			return z
		}
		var z X
		if checkpointed {
			z = tape.CheckpointAll("f", f, x, y)
		} else {
			z = f(tape, []X{x, y})
		}
		tape.Backward(tape.Mean(z))
		return tape.Peak()
	}
	plain, kept := at(false), at(true)
	if plain.Gradients != kept.Gradients || kept.Gradients != 3*(graphBytes+graphSize*4) {
		t.Errorf("gradients of %v and %v", plain.Gradients, kept.Gradients)
	}
	// Recomputed: the two sigmoids that are its arguments. Otherwise also its sum and its four sigmoids.
	if kept.Saved != 2*graphBytes || plain.Saved != 7*graphBytes {
		t.Errorf("saved %v recomputed and %v not", kept.Saved, plain.Saved)
	}
}
