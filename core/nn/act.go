package nn

// saving is an op of one input and one result of the same shape and type, that saves its input or its result.
type saving struct {
	name   string
	input  bool  // saves its input
	result bool  // saves its result
	temps  int64 // tensors of the input's size that backward makes and drops
	masks  int64 // tensors of one byte an element that backward makes and drops
}

func (t *Tape) unary(x Tensor, s saving) Tensor {
	o := t.op(s.name, x)
	y := o.out(x.like(x))
	return o.ends(y, func() {
		if s.input {
			o.save(x)
		}
		if s.result {
			o.save(y)
		}
		o.btmp(s.temps*x.bytes() + s.masks*x.Numel())
		o.fresh(x, x)
		o.follows()
	}, x)
}

// inplace is an op that overwrites x. If backward needs the input, a copy is saved (the in-place variants that
// gen_variable_type.py writes save self.clone()); if it needs the result, that is x's own storage.
func (t *Tape) inplace(x Tensor, s saving) Tensor {
	recording := t.recording(x)
	o := t.op(s.name, x)
	y := o.result(x)
	var copied Tensor
	if recording && s.input {
		copied = o.out(x.like(x))
	}
	if recording {
		y.grad = true
		if s.input {
			o.save(copied)
		}
		if s.result {
			o.save(y)
		}
		o.fresh(x, x)
	}
	o.end()
	return y
}

// ReLU is torch.nn.ReLU. Saved: its result (derivatives.yaml, relu).
func (t *Tape) ReLU(x Tensor) Tensor {
	return t.unary(x, saving{name: "torch.nn.functional.relu", result: true})
}

// ReLUInplace is torch.nn.ReLU(inplace=True). Saved: its result, which is its input's storage (relu).
func (t *Tape) ReLUInplace(x Tensor) Tensor {
	return t.inplace(x, saving{name: "torch.nn.functional.relu_", result: true})
}

// LeakyReLU is torch.nn.LeakyReLU. Saved: its input (derivatives.yaml, leaky_relu).
func (t *Tape) LeakyReLU(x Tensor) Tensor {
	return t.unary(x, saving{name: "torch.nn.functional.leaky_relu", input: true})
}

// LeakyReLUInplace is torch.nn.LeakyReLU(inplace=True). Saved: its result, which is its input's storage
// (derivatives.yaml, leaky_relu_, whose formula takes the result).
func (t *Tape) LeakyReLUInplace(x Tensor) Tensor {
	return t.inplace(x, saving{name: "torch.nn.functional.leaky_relu_", result: true})
}

// SiLU is torch.nn.SiLU. Saved: its input (derivatives.yaml, silu).
func (t *Tape) SiLU(x Tensor) Tensor {
	return t.unary(x, saving{name: "torch.nn.functional.silu", input: true})
}

// SiLUInplace is torch.nn.SiLU(inplace=True). Saved: a copy of its input (derivatives.yaml, silu).
func (t *Tape) SiLUInplace(x Tensor) Tensor {
	return t.inplace(x, saving{name: "torch.nn.functional.silu_", input: true})
}

// GELU is torch.nn.GELU. Saved: its input (derivatives.yaml, gelu).
func (t *Tape) GELU(x Tensor) Tensor {
	return t.unary(x, saving{name: "torch.nn.functional.gelu", input: true})
}

// Mish is torch.nn.Mish. Saved: its input (derivatives.yaml, mish).
func (t *Tape) Mish(x Tensor) Tensor {
	return t.unary(x, saving{name: "torch.nn.functional.mish", input: true})
}

// MishInplace is torch.nn.Mish(inplace=True). Saved: a copy of its input (derivatives.yaml, mish).
func (t *Tape) MishInplace(x Tensor) Tensor {
	return t.inplace(x, saving{name: "torch.nn.functional.mish_", input: true})
}

// Sigmoid is torch.sigmoid. Saved: its result (derivatives.yaml, sigmoid).
func (t *Tape) Sigmoid(x Tensor) Tensor {
	return t.unary(x, saving{name: "torch.sigmoid", result: true})
}

// Tanh is torch.tanh. Saved: its result (derivatives.yaml, tanh).
func (t *Tape) Tanh(x Tensor) Tensor { return t.unary(x, saving{name: "torch.tanh", result: true}) }

// PReLU is torch.nn.PReLU(n) under that name. It is on autocast's list of lower precision.
//
// Saved: input and weight (derivatives.yaml, _prelu_kernel). Backward makes a weight gradient of the input's size
// before it is summed.
func (t *Tape) PReLU(name string, x Tensor, n int64) Tensor {
	defer t.under(name)()
	return t.prelu(x, n)
}

func (t *Tape) prelu(x Tensor, n int64) Tensor {
	w := t.Param("weight", n)
	x, w = t.toLow(x), t.toLow(w)
	o := t.op("torch.nn.functional.prelu", x, w)
	y := o.out(x.like(x))
	return o.ends(y, func() {
		o.save(x, w)
		o.fresh(x, x)
		if t.Torch1 {
			o.fresh(w, w)
		} else {
			o.fresh(w, x)
		}
	}, x, w)
}

// Softmax is torch.softmax over the last dimension, which autocast runs in float32.
//
// Saved: its result (derivatives.yaml, _softmax). From float16 CUDA needs no copy in float32: the kernel reads one and
// writes the other (softmax in SoftMax.cpp, half_to_float), which it does not do from bfloat16.
func (t *Tape) Softmax(x Tensor) Tensor {
	if t.auto && x.dtype == F16 {
		o := t.op("torch.softmax", x)
		y := x
		y.dtype = F32
		y = o.out(y.dense())
		return o.ends(y, func() {
			o.save(y)
			o.product(y)
			o.gradient(x, x.bytes(), 0)
			o.dense()
		}, x)
	}
	return t.softmax(t.toFull(x))
}

func (t *Tape) softmax(x Tensor) Tensor {
	o := t.op("torch.softmax", x)
	y := o.out(x.dense())
	o.kernel(x, false)
	return o.ends(y, func() {
		o.save(y)
		o.product(y)
		o.fresh(x, x)
		o.dense()
	}, x)
}

// product enters what a card's softmax makes in backward beside the gradient of its input: that of its result y times y
// (softmax_backward_cuda_out in native/cuda/SoftMax.cu). The CPU's kernel makes none, nor is it seen by a recording.
func (r recorder) product(y Tensor) {
	if !r.t.CPU && !r.t.Dispatched {
		r.btmp(y.bytes())
	}
}

// Dropout is torch.nn.Dropout(p) while training, on CUDA; nothing in eval or for p = 0.
//
// Saved: a mask of one byte an element (derivatives.yaml, native_dropout).
func (t *Tape) Dropout(x Tensor, p float64) Tensor {
	if p == 0 || !t.Training {
		return x
	}
	o := t.op("torch.nn.functional.dropout", x)
	mask := x
	if !t.CPU { // which multiplies by numbers of the input's type (_dropout_impl in native/Dropout.cpp)
		mask.dtype = Bool
	}
	y := o.out(x)
	mask = o.out(mask)
	return o.ends(y, func() {
		o.save(mask)
		o.fresh(x, x)
	}, x)
}
