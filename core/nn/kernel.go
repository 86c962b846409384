package nn

// A Kernel is a function of autograd that is written for one kernel: its backward may write its gradients over memory
// that is there already.
type Kernel struct {
	Name string
	// Forward returns the results, and what it passes to ctx.save_for_backward; its parameters may be left out.
	Forward func() (ys, saved []Tensor)
	// Over is, for each input, where backward writes its gradient.
	Over []Over
	// Temps is how many bytes of intermediates backward has.
	Temps int64
	// Dense: backward copies a gradient of the results that is not contiguous (contiguous() at its head).
	Dense bool
}

// Over is where a kernel's backward writes a gradient.
type Over uint8

const (
	OverNothing Over = iota // into memory of its own
	OverResult              // over the gradient of the result of the same place
	// OverSaved is over a saved tensor of the input's shape and type: what was saved ends when backward begins.
	OverSaved
)

// ApplyKernel is k.apply(*xs).
func (t *Tape) ApplyKernel(k Kernel, xs ...Tensor) []Tensor {
	o, _, zs := t.applied(k.Name, k.Forward, xs)
	if t.recording(xs...) {
		o.btmp(k.Temps)
		t.ops[o.i].dense = k.Dense
		for i, x := range xs {
			o.written(x, i, k.Over[i])
		}
	}
	o.end()
	return zs
}

// written is the gradient of a kernel's input i.
func (r recorder) written(x Tensor, i int, over Over) {
	switch {
	case !x.grad:
	case over == OverResult:
		r.gradient(x, 0, 0)
		r.t.grads[len(r.t.grads)-1].from = int32(i)
	default:
		r.t.ops[r.i].overwrites = r.t.ops[r.i].overwrites || over == OverSaved
		r.gradient(x, x.bytes(), 0)
	}
}
