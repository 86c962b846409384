// Package nn counts what a PyTorch module costs without running it.
//
// A model is written here as its Python forward is: the same calls in the same order under the same names. Each call
// takes and returns a [Tensor], which has a shape, an element type and a storage but no data, and leaves on the
// [Tape] what PyTorch would do at that moment: allocate, save for backward, release. The tape is then replayed
// ([Tape.Peak]), so that the peak, its moment, and the requests that led to it come out, rather than a sum of sums.
//
//	func rdb(t *nn.Tape, x nn.Tensor) nn.Tensor {
//		x1 := t.Hold(t.LeakyReLUInplace(t.Conv2d("conv1.0", x, nn.Conv{Out: 32, K: 3})))
//		x2 := t.Hold(t.LeakyReLUInplace(t.Conv2d("conv2.0", t.Cat(1, x, x1), nn.Conv{Out: 32, K: 3})))
//		…
//		return t.Add(t.MulScalar(x5), x)
//	}
//
// # Lifetimes
//
// PyTorch frees a tensor when nothing refers to it: no Python variable, no argument of a call in progress, no node
// of the autograd graph. A value on the tape is free after the last operation that reads it (a Python temporary).
// Three things keep it longer, and they are said where Python would do them:
//
//   - the arguments of a module live until it returns: [Tape.Call], [Tape.Sequential], [Tape.Scope], [Tape.Within];
//   - a local variable lives until its function returns: [Tape.Hold], [Tape.HoldAll], and [Tape.Assign] in a loop;
//   - a variable that is assigned anew keeps its old value until the new one exists: [Tape.Rebind].
//
// # Identity
//
// A parameter is its path, as in a state dict: a layer called twice under one path has one weight. A storage is
// counted once however many views of it there are and however many nodes have saved it.
//
// # Sources
//
// What each operation saves is PyTorch's own table, tools/autograd/derivatives.yaml; every layer here names its
// entry. When saved tensors go, in which order backward runs and when gradients are added in place is
// torch/csrc/autograd/engine.cpp (evaluate_function) and input_buffer.cpp. The autocast lists are
// aten/src/ATen/autocast_mode.h (AT_FORALL_LOWER_PRECISION_FP, AT_FORALL_FP32, AT_FORALL_FP32_SET_OPT_DTYPE).
// All of it is checked against PyTorch itself by tools/capture, whose recordings are this package's tests.
package nn
