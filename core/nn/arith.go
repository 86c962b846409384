package nn

// Add is x + y. Saved: nothing (derivatives.yaml, add.Tensor); both inputs get the result's own gradient.
func (t *Tape) Add(x, y Tensor) Tensor { return t.linearPair("torch.add", x, y, false) }

// Sub is x - y. Saved: nothing (derivatives.yaml, sub.Tensor); y gets a negated copy of the gradient.
func (t *Tape) Sub(x, y Tensor) Tensor { return t.linearPair("torch.sub", x, y, true) }

func (t *Tape) linearPair(name string, x, y Tensor, negate bool) Tensor {
	o := t.op(name, x, y)
	z := o.out(broadcast(x, y))
	return o.ends(z, func() {
		o.pass(x, z)
		if negate {
			o.fresh(y, z)
		} else {
			o.pass(y, z)
		}
	}, x, y)
}

// AddInplace is x += y: the result is x's storage.
func (t *Tape) AddInplace(x, y Tensor) Tensor {
	o := t.op("torch.Tensor.add_", x, y)
	z := o.result(x)
	return o.ends(z, func() {
		o.pass(x, z)
		o.pass(y, z)
	}, x, y)
}

// Mul is x * y. Saved: each factor for the other's gradient (derivatives.yaml, mul.Tensor). A gradient is computed
// at the size of the result before it is summed to the size of a smaller factor.
func (t *Tape) Mul(x, y Tensor) Tensor {
	o := t.op("torch.mul", x, y)
	z := o.out(broadcast(x, y))
	return o.ends(z, func() {
		if x.grad {
			o.save(y)
		}
		if y.grad {
			o.save(x)
		}
		o.fresh(x, z)
		o.fresh(y, z)
		o.follows()
	}, x, y)
}

// Div is x / y. Saved: y; and x too if y requires a gradient (derivatives.yaml, div.Tensor), which is
// -grad * ((x / y) / y).
func (t *Tape) Div(x, y Tensor) Tensor {
	o := t.op("torch.div", x, y)
	z := o.out(broadcast(x, y))
	return o.ends(z, func() {
		o.save(y)
		if y.grad {
			o.save(x)
			o.btmp(2 * z.bytes())
		}
		o.fresh(x, z)
		o.fresh(y, z)
	}, x, y)
}

// MulScalar is x times a Python number. Saved: nothing (derivatives.yaml, mul.Tensor with a wrapped number).
func (t *Tape) MulScalar(x Tensor) Tensor { return t.unary(x, saving{name: "torch.mul"}) }

// DivScalar is x divided by a Python number. Saved: nothing (derivatives.yaml, div.Tensor with a wrapped number).
func (t *Tape) DivScalar(x Tensor) Tensor { return t.unary(x, saving{name: "torch.div"}) }

// AddScalar is x plus or minus a Python number. Saved: nothing; the gradient is the result's own (add.Scalar).
func (t *Tape) AddScalar(x Tensor) Tensor {
	o := t.op("torch.add", x)
	y := o.out(x.like(x))
	return o.ends(y, func() { o.pass(x, y) }, x)
}

// Neg is -x, and 1 - x (rsub): nothing saved, a gradient of its own.
func (t *Tape) Neg(x Tensor) Tensor { return t.unary(x, saving{name: "torch.neg"}) }

// Abs is x.abs(). Saved: its input; backward makes the sign (derivatives.yaml, abs).
func (t *Tape) Abs(x Tensor) Tensor {
	return t.unary(x, saving{name: "torch.abs", input: true, temps: 1})
}

// Sqrt is torch.sqrt. Saved: its result; backward doubles it first (derivatives.yaml, sqrt).
func (t *Tape) Sqrt(x Tensor) Tensor {
	return t.unary(x, saving{name: "torch.sqrt", result: true, temps: 1})
}

// Pow is x ** n for a number n, which autocast runs in float32. Saved: its input (derivatives.yaml,
// pow.Tensor_Scalar); backward makes x**(n-1) and n times it.
func (t *Tape) Pow(x Tensor) Tensor {
	return t.unary(t.toFull(x), saving{name: "torch.pow", input: true, temps: 2})
}

// Exp is torch.exp, which autocast runs in float32. Saved: its result (derivatives.yaml, exp).
func (t *Tape) Exp(x Tensor) Tensor {
	return t.unary(t.toFull(x), saving{name: "torch.exp", result: true})
}

// Clamp is x.clamp(a, b). Saved: its input; backward makes two masks (derivatives.yaml, clamp).
func (t *Tape) Clamp(x Tensor) Tensor {
	return t.unary(x, saving{name: "torch.clamp", input: true, masks: 2})
}

// To is x.to(dtype) or x.float() outside autocast's own casts: nothing for the same type. Saved: nothing.
func (t *Tape) To(x Tensor, d DType) Tensor {
	if x.dtype == d {
		return x
	}
	o := t.op("Tensor.to("+d.String()+")", x)
	y := x
	y.dtype = d
	y = o.out(y.preserved())
	return o.ends(y, func() { o.gradient(x, x.bytes(), 0) }, x)
}

// Zeros is torch.zeros, ones, empty, full or arange: a new tensor outside the graph.
func (t *Tape) Zeros(d DType, shape ...int64) Tensor {
	o := t.op("torch.zeros")
	y := o.out(Tensor{dtype: d}.resized(shape...))
	o.end()
	return y
}

// ZerosLike is torch.zeros_like or ones_like.
func (t *Tape) ZerosLike(x Tensor) Tensor {
	o := t.op("torch.zeros_like")
	y := o.out(x.like(x))
	o.end()
	return y
}

// Compare is x < y and its like: a mask outside the graph.
func (t *Tape) Compare(x, y Tensor) Tensor {
	o := t.op("torch.lt", x, y)
	z := broadcast(x, y)
	z.dtype = Bool
	z = o.out(z)
	o.end()
	return z
}

// Where is torch.where(mask, x, y). Saved: the mask (derivatives.yaml, where.self); each gradient is a tensor of its
// own.
func (t *Tape) Where(mask, x, y Tensor) Tensor {
	z := broadcast(x, y)
	if mask.Numel() > z.Numel() {
		d := z.dtype
		z = mask
		z.dtype = d
	}
	z = z.iterated(mask, x, y)
	o := t.op("torch.where", mask, x, y)
	z = o.out(z)
	return o.ends(z, func() {
		o.save(mask)
		o.fresh(x, z)
		o.fresh(y, z)
	}, x, y)
}

// Max is torch.maximum or minimum of two tensors. Saved: both (derivatives.yaml, maximum); backward makes masks.
func (t *Tape) Max(x, y Tensor) Tensor {
	o := t.op("torch.maximum", x, y)
	z := o.out(broadcast(x, y))
	return o.ends(z, func() {
		o.save(x, y)
		// where(x == y, grad / 2, grad).masked_fill(x < y, 0): four intermediates
		if t.Torch1 { // masked_fill_ in place
			o.btmp(2*z.Numel() + z.bytes())
		} else {
			o.btmp(2 * (z.Numel() + z.bytes()))
		}
		o.fresh(x, z)
		o.fresh(y, z)
	}, x, y)
}

// Elementwise is any other op of one input and a result of its shape and type, by what derivatives.yaml has it save:
// its input (sin, cos, log), its result, or nothing (sign, ceil).
func (t *Tape) Elementwise(name string, x Tensor, savesInput, savesResult bool) Tensor {
	return t.unary(x, saving{name: name, input: savesInput, result: savesResult})
}

// Atan2 is torch.atan2. Saved: both (derivatives.yaml, atan2), whose sum of squares backward inverts.
func (t *Tape) Atan2(x, y Tensor) Tensor {
	o := t.op("torch.atan2", x, y)
	z := o.out(broadcast(x, y))
	return o.ends(z, func() {
		o.save(x, y)
		o.btmp(2 * z.bytes())
		o.fresh(x, z)
		o.fresh(y, z)
	}, x, y)
}
