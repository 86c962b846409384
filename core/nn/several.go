package nn

// Functions is a [Function] with several results.
type Functions struct {
	Name string
	// Forward returns the results, and what it passes to ctx.save_for_backward; its parameters may be left out.
	Forward func() (ys, saved []Tensor)
	// Temps is how many bytes of intermediates backward has beside the gradients that it returns.
	Temps int64
}

// ApplyAll is f.apply(*xs). Backward runs once, when the gradients of all results are there.
func (t *Tape) ApplyAll(f Functions, xs ...Tensor) []Tensor {
	o, ys, zs := t.applied(f.Name, f.Forward, xs)
	if t.recording(xs...) {
		o.btmp(f.Temps)
		for _, x := range xs {
			computed := x
			computed.dtype = ys[0].dtype
			o.fresh(x, computed)
		}
	}
	o.end()
	return zs
}

// applied begins a function of autograd: its forward, in which nothing is recorded, and what it saves. ys are the
// results of forward, and zs are those of the function, which have a gradient.
func (t *Tape) applied(name string, forward func() (ys, saved []Tensor), xs []Tensor) (o recorder, ys, zs []Tensor) {
	var saved []Tensor
	t.NoGrad(func() {
		t.Scope("", func() {
			ys, saved = forward()
		}, xs...)
	})
	o = t.op(name, append(append([]Tensor{}, ys...), saved...)...)
	zs = make([]Tensor, len(ys))
	for i, y := range ys {
		zs[i] = o.result(y)
	}
	if t.recording(xs...) {
		for i := range zs {
			zs[i].grad = true
		}
		o.save(saved...)
	}
	return o, ys, zs
}
