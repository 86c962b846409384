package nn

import "fmt"

// Linear is torch.nn.Linear under that name, over the last dimension.
//
// Saved: input and weight (derivatives.yaml, addmm and mm), each for the other's gradient.
func (t *Tape) Linear(name string, x Tensor, out int64, bias bool) Tensor {
	defer t.under(name)()
	return t.linear(x, out, bias)
}

// Linear describes a torch.nn.Linear without its name, for a Sequential.
type Linear struct {
	Out    int64
	NoBias bool
}

// Module is the layer as a module.
func (l Linear) Module() Module {
	return func(t *Tape, x Tensor) Tensor { return t.linear(x, l.Out, !l.NoBias) }
}

func (t *Tape) linear(x Tensor, out int64, bias bool) Tensor {
	w := t.Param("weight", out, x.Dim(-1))
	var b Tensor
	if bias {
		b = t.toLow(t.Param("bias", out))
	}
	x, w = t.toLow(x), t.toLow(w)
	// Flattening to two dimensions copies what has no such view (_flatten_nd_linear in aten/src/ATen/native/Linear.cpp).
	if _, ok := x.viewed(x.Numel()/x.Dim(-1), x.Dim(-1)); !ok {
		x = t.Contiguous(x)
	}
	return t.mm("torch.nn.functional.linear", x.with(-1, out), x, w, b)
}

// Matmul is torch.matmul of two tensors of at least two dimensions and equal leading ones.
//
// Saved: both operands, each for the other's gradient (derivatives.yaml, bmm). Leading dimensions are merged, which
// copies what is not laid out for it (reshape in _matmul_impl, LinearAlgebra.cpp).
func (t *Tape) Matmul(a, b Tensor) Tensor {
	if a.Dims() < 2 || a.Dims() != b.Dims() || a.Dim(-1) != b.Dim(-2) || a.Numel()/(a.Dim(-1)*a.Dim(-2)) != b.Numel()/(b.Dim(-1)*b.Dim(-2)) {
		panic(fmt.Sprintf("nn: no product of %v and %v", a, b))
	}
	x, y := a.store, b.store
	a, b = t.toLow(a), t.toLow(b)
	lowX, lowY := a.store, b.store
	shape := a.with(-1, b.Dim(-1))
	a = t.Reshape(a, t.merged(a).Shape()...)
	b = t.Reshape(b, t.merged(b).Shape()...)
	t.args = append(t.args, x, y, lowX, lowY) // the caller, and autocast's, hold both while their copies are multiplied
	z := t.mm("torch.matmul", t.merged(shape), a, b, Tensor{})
	return t.View(z, shape.Shape()...)
}

// merged is the shape of x with its leading dimensions in one.
func (t *Tape) merged(x Tensor) Tensor {
	return x.resized(x.Numel()/(x.Dim(-1)*x.Dim(-2)), x.Dim(-2), x.Dim(-1))
}

// Bmm is torch.bmm. Operands may be permuted: their strides are passed to cuBLAS.
//
// Saved: both operands, each for the other's gradient (derivatives.yaml, bmm).
func (t *Tape) Bmm(a, b Tensor) Tensor {
	a, b = t.toLow(a), t.toLow(b)
	return t.mm("torch.bmm", a.with(-1, b.Dim(-1)), a, b, Tensor{})
}

func (t *Tape) mm(name string, shape, a, b, bias Tensor) Tensor {
	o := t.op(name, a, b, bias)
	y := o.out(shape)
	return o.ends(y, func() {
		if a.grad {
			o.save(b)
		}
		if b.grad {
			o.save(a)
		}
		o.fresh(a, a)
		o.fresh(b, b)
		if bias.dims > 0 {
			o.fresh(bias, bias)
		}
	}, a, b, bias)
}

// SDPA is torch.nn.functional.scaled_dot_product_attention of q, k, v in (batch, heads, tokens, channels).
//
// Saved by a fused kernel: q, k, v, its result, and the logarithm of the sum of exponentials in float32
// (derivatives.yaml, _scaled_dot_product_flash_attention and _scaled_dot_product_efficient_attention).
func (t *Tape) SDPA(q, k, v Tensor) Tensor {
	q, k, v = t.toLow(q), t.toLow(k), t.toLow(v)
	if t.MathSDPA {
		return t.mathSDPA(q, k, v)
	}
	o := t.op("torch.nn.functional.scaled_dot_product_attention", q, k, v)
	// The memory-efficient kernel writes (batch, tokens, heads, channels) and returns its transpose; FlashAttention, which
	// half types have, lays out its result as q (mha_fwd in native/transformers/cuda/flash_attn/flash_api.cpp).
	y := q.with(-1, v.Dim(-1))
	laid := y.permuted(0, 2, 1, 3).dense().permuted(0, 2, 1, 3)
	if y.dtype != F32 {
		laid = q
	}
	y = o.out(y.like(laid))
	lse := q.with(-1, 1)
	lse.dtype = F32
	lse = o.out(lse)
	return o.ends(y, func() {
		o.save(q, k, v, y, lse)
		o.scratch(q)
		o.fresh(q, q)
		o.fresh(k, k)
		o.fresh(v, v)
	}, q, k, v)
}

// mathSDPA is _scaled_dot_product_attention_math: q and k each scaled by the root, softmax, product.
func (t *Tape) mathSDPA(q, k, v Tensor) Tensor {
	attn := t.Matmul(t.MulScalar(q), t.Transpose(t.MulScalar(k), -2, -1))
	return t.Matmul(t.softmax(attn), v)
}

// GroupedMathSDPA is scaled_dot_product_attention with is_causal and enable_gqa where no fused kernel takes groups of
// heads: the memory-efficient kernel takes none (can_use_mem_efficient_attention in transformers/cuda/sdp_utils.cpp),
// and FlashAttention has no float32. What is left is _scaled_dot_product_attention_math (transformers/attention.cpp):
// half types become float32, keys and values are repeated, a causal mask is added.
func (t *Tape) GroupedMathSDPA(q, k, v Tensor) (y Tensor) {
	q, k, v = t.toLow(q), t.toLow(k), t.toLow(v)
	t.Scope("", func() {
		t.Line("torch.nn.functional.scaled_dot_product_attention")
		kind, full := q.dtype, F32
		q, k, v := t.Hold(t.To(q, full)), t.Hold(t.To(k, full)), t.Hold(t.To(v, full))
		scaled := t.Hold(t.MulScalar(q))
		t.Hold(t.Zeros(full, q.Dim(2), k.Dim(2))) // the mask
		repeat := func(x Tensor) Tensor {
			return t.Hold(t.Copy("repeat_interleave", x, x.Dim(0), q.Dim(1), x.Dim(2), x.Dim(3)))
		}
		k, v = repeat(k), repeat(v)
		attn := t.Hold(t.Matmul(scaled, t.MulScalar(t.Transpose(k, -2, -1))))
		attn = t.Rebind(attn, t.softmax(attn))
		y = t.Matmul(attn, v)
		if kind != full {
			y = t.Rebind(y, t.To(y, kind))
			t.Hold(t.To(attn, kind)) // the second result, which nobody takes
		}
	}, q, k, v)
	return y
}

// MatmulConst is torch.matmul of x with a small constant matrix of out columns. Saved: the matrix alone. What is
// permuted is copied before (reshape in _matmul_impl).
func (t *Tape) MatmulConst(x Tensor, out int64) Tensor {
	x = t.Contiguous(t.toLow(x))
	o := t.op("torch.matmul", x)
	y := o.out(x.with(-1, out))
	return o.ends(y, func() { o.fresh(x, x) }, x)
}
