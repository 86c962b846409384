package nn

import (
	"slices"
	"strconv"
)

// A recorder writes one op. Between op and end nothing else may be recorded, so casts come first.
type recorder struct {
	t *Tape
	i int
}

// op starts an operation that reads xs.
func (t *Tape) op(name string, xs ...Tensor) recorder {
	i := len(t.ops)
	t.ops = append(t.ops, op{
		name: name, line: t.line, node: t.node, part: t.part, out: t.values,
		use0: int32(len(t.uses)), save0: int32(len(t.saves)), grad0: int32(len(t.grads)),
	})
	for _, x := range xs {
		t.use(x.store, int32(i))
	}
	// Whoever calls an autocast op still holds what it passed while the op works on the cast.
	for _, s := range t.args {
		t.use(s, int32(i))
	}
	t.args = t.args[:0]
	return recorder{t, i}
}

// use makes the storage live until op i at least.
func (t *Tape) use(s, i int32) {
	if st := &t.stores[s]; st.seg == t.seg {
		st.last = i
	}
}

func (t *Tape) touch(stores ...int32) {
	n := 0
	for _, s := range stores {
		if s != 0 && t.stores[s].kind != isParam {
			n++
		}
	}
	if n == 0 {
		return
	}
	// Nothing happens between the last op and this: what lives until now lives until that.
	if len(t.ops) == 0 {
		o := t.op("")
		t.ops[o.i].kind = opTouch
		o.end()
	}
	for _, s := range stores {
		t.use(s, int32(len(t.ops)-1))
	}
}

func (t *Tape) newStore(bytes int64, kind uint8) int32 {
	t.stores = append(t.stores, store{bytes: bytes, last: int32(len(t.ops) - 1), seg: t.seg, part: t.part, kind: kind})
	return int32(len(t.stores) - 1)
}

func (t *Tape) newValue() int32 {
	t.values++
	return t.values - 1
}

// out allocates a result of x's shape and type; its graph is set by save and grad.
func (r recorder) out(x Tensor) Tensor {
	x.store = r.t.newStore(x.bytes(), isActivation)
	r.t.uses = append(r.t.uses, x.store)
	return r.result(x)
}

// result makes a new value on x's storage: a view, or x changed in place.
func (r recorder) result(x Tensor) Tensor {
	x.value = r.t.newValue()
	x.grad = false
	r.t.ops[r.i].outs++
	return x
}

// recording reports whether an op on xs becomes a node of the graph.
func (t *Tape) recording(xs ...Tensor) bool {
	if t.noGrad > 0 {
		return false
	}
	return slices.ContainsFunc(xs, func(x Tensor) bool { return x.grad })
}

// save keeps x's storage until the op's backward has run. Parameters are there anyway.
func (r recorder) save(xs ...Tensor) {
	for _, x := range xs {
		if r.t.stores[x.store].kind != isParam {
			r.t.saves = append(r.t.saves, x.store)
		}
	}
}

// pass gives x the gradient of the op's result y, without a copy unless shape or type differ.
func (r recorder) pass(x, y Tensor) {
	if !x.grad {
		return
	}
	if x.Numel() == y.Numel() && x.dtype == y.dtype {
		r.gradient(x, 0, 0)
		return
	}
	r.gradient(x, x.bytes(), 0)
}

// fresh gives x a gradient of its own. computed is the tensor that backward computes, which is summed to x's shape
// and cast to x's type where these differ (validate_outputs in engine.cpp).
func (r recorder) fresh(x, computed Tensor) {
	if !x.grad {
		return
	}
	raw := int64(0)
	if computed.Numel() != x.Numel() || computed.dtype != x.dtype {
		raw = computed.bytes()
	}
	r.gradient(x, x.bytes(), raw)
}

func (r recorder) gradient(x Tensor, bytes, raw int64) {
	g := gradient{value: x.value, param: -1, own: x.bytes(), bytes: bytes, raw: raw}
	if r.t.leaf(x) {
		g.param = x.store
	}
	r.t.grads = append(r.t.grads, g)
}

func (r recorder) tmp(bytes int64)  { r.temp().forward += bytes }
func (r recorder) btmp(bytes int64) { r.temp().backward += bytes }

// kernel enters the copy that an operation's kernel on a card makes of an input in another memory format.
func (r recorder) kernel(x Tensor, last bool) {
	if r.t.Card {
		r.tmp(x.formatted(last))
	}
}

func (r recorder) temp() *temp {
	o := &r.t.ops[r.i]
	if o.temp == 0 {
		o.temp = int32(len(r.t.temps))
		r.t.temps = append(r.t.temps, temp{})
	}
	return &r.t.temps[o.temp]
}

// dense marks an op whose kernels want contiguous gradients (expect_contiguous, or contiguous() at their head).
func (r recorder) dense() { r.t.ops[r.i].dense = true }

// follows marks an elementwise op (TensorIterator keeps its inputs' layout).
func (r recorder) follows() { r.t.ops[r.i].follows = true }

// ends closes the op, whose result is y: where one of xs wants a gradient, with what record says its backward needs.
func (r recorder) ends(y Tensor, record func(), xs ...Tensor) Tensor {
	if r.t.recording(xs...) {
		y.grad = true
		record()
	}
	r.end()
	return y
}

// end closes the op.
func (r recorder) end() {
	t, o := r.t, &r.t.ops[r.i]
	o.use1, o.save1, o.grad1 = int32(len(t.uses)), int32(len(t.saves)), int32(len(t.grads))
}

// leaf reports whether x is a parameter or a buffer itself, and no view of one.
func (t *Tape) leaf(x Tensor) bool {
	s := &t.stores[x.store]
	return s.kind == isParam && s.value == x.value
}

// cast is x.to(d) as autocast does it: nothing for a tensor that is not floating or has the type already; once per
// region for a parameter that requires a gradient, and each time for a view of one (cached_cast in autocast_mode.cpp).
func (t *Tape) cast(x Tensor, d DType) Tensor {
	if x.dtype == d || !x.dtype.Floating() || x.dims == 0 {
		return x
	}
	param := t.stores[x.store].kind == isParam
	cached := t.leaf(x) && d == t.low && x.grad && t.casts != nil
	if cached {
		if y, ok := t.casts.get(x.value); ok {
			y.grad = y.grad && t.noGrad == 0
			return y
		}
	}
	args := t.args
	t.args = nil
	o := t.op(castNames[d], x)
	t.args = append(args, x.store)
	y := x
	y.dtype = d
	y = o.out(y.preserved())
	if param {
		t.stores[y.store].kind = isCast
	}
	if t.recording(x) { // to.dtype_layout, ToCopyBackward0: the type alone
		y.grad = true
		o.gradient(x, x.bytes(), 0)
		o.follows()
	}
	o.end()
	if cached {
		t.casts.put(x.value, y)
	}
	return y
}

// A castCache is autocast's cache of weight copies, by the parameter's value.
type castCache struct {
	at     []int32 // by value: where its copy is, from 1
	copies []Tensor
}

func (c *castCache) get(value int32) (Tensor, bool) {
	if int(value) >= len(c.at) || c.at[value] == 0 {
		return Tensor{}, false
	}
	return c.copies[c.at[value]-1], true
}

func (c *castCache) put(value int32, y Tensor) {
	if n := int(value) + 1; n > len(c.at) {
		c.at = append(c.at, make([]int32, n-len(c.at)+1024)...)
	}
	c.copies = append(c.copies, y)
	c.at[value] = int32(len(c.copies))
}

// end is the end of the region: the copies are let go.
func (c *castCache) end(t *Tape) {
	stores := make([]int32, len(c.copies))
	for i, y := range c.copies {
		stores[i] = y.store
	}
	t.touch(stores...)
}

var castNames = func() (names [len(dtypes)]string) {
	for d := range names {
		names[d] = "Tensor.to(" + DType(d).String() + ")"
	}
	return names
}()

// toLow casts to the autocast type, for an op of its lower_precision_fp list.
func (t *Tape) toLow(x Tensor) Tensor {
	if t.auto {
		return t.cast(x, t.low)
	}
	return x
}

// toFull casts to float32, for an op of the fp32 lists.
func (t *Tape) toFull(x Tensor) Tensor {
	if t.auto {
		return t.cast(x, F32)
	}
	return x
}

var indices = func() (names [64]string) {
	for i := range names {
		names[i] = strconv.Itoa(i)
	}
	return names
}()

func index(i int) string {
	if i < len(indices) {
		return indices[i]
	}
	return strconv.Itoa(i)
}
