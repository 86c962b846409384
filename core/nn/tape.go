package nn

import (
	"fmt"
	"slices"
	"sync"

	"github.com/launch-ml/launch/core/unit"
)

// A Module is a forward: of a layer, a block or a network. Layers without parameters are modules as they are:
// (*Tape).GELU.
type Module func(t *Tape, x Tensor) Tensor

// A Tape records what a program does with memory, in the order in which it does it.
type Tape struct {
	// Training is module.training: what model.train() and model.eval() set.
	Training bool
	// UpsampleLow keeps interpolate in the input's type under autocast. Newer PyTorch has the upsample operations
	// on the float32 list (AT_FORALL_FP32 in autocast_mode.h of 2.15; not in 1.13).
	UpsampleLow bool
	// Torch1 is PyTorch 1.13, where a mean over dimensions saves its input (its formula asks for self.numel(), which
	// was no size then), and where prelu and maximum make fewer intermediates in backward.
	Torch1 bool
	// MathSDPA makes scaled_dot_product_attention the plain computation, as without a fused kernel.
	MathSDPA bool
	// CPU leaves out the scratch memory of kernels that the CPU does without.
	CPU bool
	// OneDNN counts the copies in blocks of channels that convolutions make on a CPU: see [Tape.ConvWeight].
	OneDNN bool
	// ChannelsLast is model.to(memory_format=torch.channels_last), which lays out parameters and buffers of four
	// dimensions.
	ChannelsLast bool
	// Card counts what operations copy on a card to have it in another memory format, in a forward: a convolution's
	// input, weight and result, and what kernels for contiguous tensors alone make contiguous. No card has shown what a
	// backward copies.
	Card bool
	// ParamType is the type of parameters that are made from here on: that of torch_dtype, or an adapter's own.
	ParamType DType
	// Frozen makes parameters that never require a gradient: model.requires_grad_(False), as adapters want it.
	Frozen bool
	// Dispatched counts only tensors that operations hand to one another, as a recording on the CPU can see, and
	// leaves out the contiguous copies that kernels make for themselves of gradients that are not.
	Dispatched bool
	// Reduced takes the gradient of a parameter away as soon as its last use is through backward, as a hook does that
	// averages it with other processes and keeps a part of it elsewhere.
	Reduced bool
	// Scattered is what stays of such a gradient beside the model: the part of this process. nil for nothing.
	Scattered func(param Tensor) unit.Bytes

	noGrad  int        // depth of torch.no_grad
	frozen  int        // depth of FreezeParams
	auto    bool       // inside an autocast region
	low     DType      // its type
	casts   *castCache // of the outermost autocast region; nil outside
	node    int32      // the module that runs
	line    string     // of its forward
	part    uint8
	parts   []string
	nodes   []node
	tensors []modelled  // parameters and buffers
	sizes   []partSizes // by part
	weights []int32     // of tensors, the parameters that require a gradient

	ops    []op // of the list that is being recorded: the main one, or a checkpointed segment's
	stores []store
	values int32
	uses   []int32 // arenas, into which an op holds ranges
	saves  []int32
	grads  []gradient
	temps  []temp
	args   []int32         // storages that the caller of the op to come holds
	attrs  map[int32]int32 // storages of attributes of modules, which live on, by module
	held   []int32         // storages of local variables, innermost function last
	frame  int             // where those of the innermost begin
	segs   []segment
	seg    int32 // 0 is the main list
	unseen bool  // there are copies that no card has shown
}

// A node is a module or a parameter by its name, in the tree of the model.
type node struct {
	name                     string
	parent, child, next, hot int32 // 0 for none; hot is the child that was asked for last
	tensor                   int32 // of a parameter or buffer, 1 for the first
}

// A modelled tensor is there for as long as the model lives.
type modelled struct {
	Tensor
	buffer bool
}

type partSizes struct {
	params, trainable, buffers int64 // elements
	paramBytes, gradBytes      int64
	bufferBytes                int64
}

// A store is a storage: what the allocator gives and takes back.
type store struct {
	bytes int64
	last  int32 // the last op of its own list that needs it
	seg   int32
	value int32 // of a parameter or a buffer
	part  uint8
	kind  uint8
}

// Kinds of storages. The last two are what a replay makes of an activation and of a gradient.
const (
	isActivation = iota
	isParam      // counted by Size, never by the replay
	isInput      // the batch
	isCast       // a copy of a parameter in the autocast type
	isSaved      // held by the graph
	isGradient   // of a parameter
)

type opKind uint8

const (
	opCompute opKind = iota
	opTouch          // reads, and does nothing else: the end of a Python variable
	opBackward
	opStep
	opStepAlone // without the zero_grad after it
	opZeroGrad
	opGradients
	opCheckpoint
)

type op struct {
	kind       opKind
	part       uint8
	name       string
	line       string // of the module's forward, or ""
	node       int32
	out        int32 // first value that it makes
	outs       int32 // how many
	use0, use1 int32 // storages made, in t.uses
	save0      int32
	save1      int32
	grad0      int32
	grad1      int32
	temp       int32 // in t.temps, 0 for none
	seg        int32 // of opCheckpoint
	dense      bool  // its backward makes a contiguous copy of a gradient that is not
	follows    bool  // its gradients are laid out as the result's: an elementwise op
	overwrites bool  // its backward writes over what it saved: see Kernel
}

// A temp is what is live only while an op runs, and while its backward runs. It stands beside the ops so that they hold no
// size: see [Peak.Between].
type temp struct {
	forward, backward int64
	blocked           blocked
	copies            cudnn
}

// cudnn are a convolution's copies of its input, its result and its weight in cuDNN's workspace, on an account of
// their own.
type cudnn struct {
	input, result, weight int64
	part                  uint8
	unseen                bool // no card has shown them
}

func (c cudnn) sum() int64 { return c.input + c.result + c.weight }

// blocked are a convolution's copies of its input and of its result as oneDNN lays them out, on an account of their own.
type blocked struct {
	input, result int64
	part          uint8
}

// A gradient says what an op's backward makes for one of its inputs.
type gradient struct {
	value int32
	param int32 // index of the parameter's storage, or -1
	from  int32 // the op's output, counted from its first, whose gradient is passed on when bytes is 0
	own   int64 // the size of the input, and so of a sum of its gradients
	bytes int64 // 0: the gradient of the output itself, or a view of it
	raw   int64 // the size before it is summed to the input's shape and cast to its type; 0 for no such step
	flip  bool  // passed on as a permuted view
}

type segment struct {
	ops []op
	in  []Tensor // the detached inputs inside the segment
	out Tensor
}

// spent pools finished tapes: a program makes tens of similar ones, and allocating their buffers is most of a tape's cost.
// See [Peak.Done].
var spent sync.Pool

// NewTape returns an empty tape in training mode, with gradients and without autocast.
func NewTape() *Tape {
	t, ok := spent.Get().(*Tape)
	if !ok { // of a large network; memory that is never written to costs nothing
		const n = 8192
		t = &Tape{
			ops: make([]op, 0, n), stores: make([]store, 0, n), uses: make([]int32, 0, n), saves: make([]int32, 0, n),
			grads: make([]gradient, 0, n), nodes: make([]node, 0, n), tensors: make([]modelled, 0, n/2), weights: make([]int32, 0, n/2), attrs: map[int32]int32{},
		}
	}
	clear(t.attrs)
	*t = Tape{
		Training: true, attrs: t.attrs, parts: append(t.parts[:0], ""), sizes: append(t.sizes[:0], partSizes{}),
		nodes: append(t.nodes[:0], node{}), stores: append(t.stores[:0], store{}), // number 0 is none
		ops: t.ops[:0], uses: t.uses[:0], saves: t.saves[:0], grads: t.grads[:0], temps: append(t.temps[:0], temp{}), args: t.args[:0], held: t.held[:0],
		tensors: t.tensors[:0], weights: t.weights[:0], segs: t.segs[:0],
	}
	return t
}

// Done says that the tape will be asked nothing any more. Its memory is the next one's.
func (t *Tape) Done() {
	if t.ops != nil {
		next := *t
		*t = Tape{}
		spent.Put(&next)
	}
}

// Part runs f with what it allocates under the name of a part of the job, such as "network_g".
func (t *Tape) Part(name string, f func()) {
	old, at, line := t.part, t.node, t.line
	t.part = t.partOf(name)
	t.enter(name)
	f()
	t.part, t.node, t.line = old, at, line
}

// partOf is the number of the part of that name, which is there from now on.
func (t *Tape) partOf(name string) uint8 {
	for i, p := range t.parts {
		if p == name {
			return uint8(i)
		}
	}
	t.parts = append(t.parts, name)
	t.sizes = append(t.sizes, partSizes{})
	return uint8(len(t.parts) - 1)
}

// under enters the module of that name. What it returns goes back to where it was.
func (t *Tape) under(name string) (back func()) {
	at, line := t.node, t.line
	t.enter(name)
	return func() { t.node, t.line = at, line }
}

// Scope runs f as the body of the module of that name, whose arguments live until it returns.
func (t *Tape) Scope(name string, f func(), args ...Tensor) {
	at, line, frame := t.node, t.line, t.frame
	t.enter(name)
	t.frame = len(t.held)
	f()
	t.leave(frame)
	for _, a := range args {
		t.touch(a.store)
	}
	t.node, t.line = at, line
}

// Within is a Scope that returns what f returns.
func (t *Tape) Within(name string, f func() Tensor, args ...Tensor) (y Tensor) {
	t.Scope(name, func() { y = f() }, args...)
	return y
}

// Call calls the submodule m of that name with x. It returns what m returns.
func (t *Tape) Call(name string, x Tensor, m Module) (y Tensor) {
	at, line, frame := t.node, t.line, t.frame
	t.enter(name)
	t.frame = len(t.held)
	y = m(t, x)
	t.leave(frame)
	t.touch(x.store)
	t.node, t.line = at, line
	return y
}

// leave ends the variables of the innermost function.
func (t *Tape) leave(frame int) {
	t.touch(t.held[t.frame:]...)
	t.held = t.held[:t.frame]
	t.frame = frame
}

// Sequential is torch.nn.Sequential under that name: the modules "0", "1", … each called with what the one before
// returned. Only the first argument is held.
func (t *Tape) Sequential(name string, x Tensor, ms ...Module) Tensor {
	return t.Call(name, x, func(t *Tape, x Tensor) Tensor {
		for i, m := range ms {
			x = t.Call(index(i), x, m)
		}
		return x
	})
}

// Repeat is [m for _ in range(n)]: each has parameters of its own, by its place in a Sequential.
func Repeat(m Module, n int64) []Module {
	ms := make([]Module, max(n, 0))
	for i := range ms {
		ms[i] = m
	}
	return ms
}

// Hold marks x as a local variable, which lives until its function returns.
func (t *Tape) Hold(x Tensor) Tensor {
	t.held = append(t.held, x.store)
	return x
}

// HoldAll marks each as a local variable.
func (t *Tape) HoldAll(xs ...Tensor) {
	for _, x := range xs {
		t.Hold(x)
	}
}

// Assign is the assignment of a new value in a loop: it makes the variable the first time, and rebinds it from then on.
func (t *Tape) Assign(first bool, old, new Tensor) Tensor {
	if first {
		return t.Hold(new)
	}
	return t.Rebind(old, new)
}

// Rebind is the assignment of a new value to the variable that held old, which lives until the new value exists:
// attn = t.Rebind(attn, t.Softmax(t.DivScalar(attn))).
func (t *Tape) Rebind(old, new Tensor) Tensor {
	t.touch(old.store)
	for i := range t.held[t.frame:] { // another function's variable of the same value keeps it
		if h := &t.held[t.frame+i]; *h == old.store {
			*h = new.store
		}
	}
	return new
}

// Line says which line of the module's forward the operations that follow stand for, until the next Line or the
// module's end. It is what a request for memory is reported under.
func (t *Tape) Line(python string) { t.line = python }

// NoGrad runs f under torch.no_grad or inference_mode.
func (t *Tape) NoGrad(f func()) {
	t.noGrad++
	f()
	t.noGrad--
}

// Inference reports whether no graph is recorded, so that nothing outlives its variables: a loop whose turns are of
// one size then needs to be recorded for two of them only.
func (t *Tape) Inference() bool { return t.noGrad > 0 }

// FreezeParams runs f while no parameter requires a gradient, though the graph goes on through it.
func (t *Tape) FreezeParams(f func()) {
	t.frozen++
	f()
	t.frozen--
}

// Autocast runs f inside torch.autocast of that type; F32 stands for autocast(enabled=False). Weight copies made
// inside the outermost region live until it ends, or until the nodes that have saved them have run.
func (t *Tape) Autocast(low DType, f func()) {
	auto, old, casts := t.auto, t.low, t.casts
	t.auto, t.low = low != F32, low
	if casts == nil && t.auto {
		t.casts = &castCache{}
	}
	f()
	if casts == nil && t.casts != nil {
		t.casts.end(t)
	}
	t.auto, t.low, t.casts = auto, old, casts
}

// Input puts a batch on the tape, which lives as long as it is held.
func (t *Tape) Input(d DType, shape ...int64) Tensor {
	x := Tensor{dtype: d}.resized(shape...)
	o := t.op("input")
	y := o.out(x)
	t.stores[y.store].kind = isInput
	o.end()
	return y
}

// Param is the module's parameter of that name; it is made on first use.
func (t *Tape) Param(name string, shape ...int64) Tensor { return t.param(name, false, shape) }

// FrozenParam is a parameter that never requires a gradient, yet is counted among the parameters.
func (t *Tape) FrozenParam(name string, shape ...int64) Tensor { return t.param(name, true, shape) }

func (t *Tape) param(name string, frozen bool, shape []int64) Tensor {
	n := t.join(name)
	if t.nodes[n].tensor == 0 {
		t.newParam(n, Tensor{grad: !frozen && !t.Frozen, dtype: t.ParamType}.resized(shape...))
	}
	w := t.tensors[t.nodes[n].tensor-1].Tensor
	if !w.is(shape) {
		panic(fmt.Sprintf("nn: the parameter %s is %v, and is asked for as %v", t.path(n), w.Shape(), slices.Clone(shape)))
	}
	w.grad = w.grad && t.frozen == 0
	return w
}

// Buffer is the module's buffer of that name; it is made on first use.
func (t *Tape) Buffer(name string, d DType, shape ...int64) Tensor {
	n := t.join(name)
	if t.nodes[n].tensor == 0 {
		t.newBuffer(n, Tensor{dtype: d}.resized(shape...))
	}
	return t.tensors[t.nodes[n].tensor-1].Tensor
}

func (t *Tape) newParam(n int32, w Tensor) {
	w = t.model(n, w, false)
	s := &t.sizes[t.part]
	s.params += w.Numel()
	s.paramBytes += w.bytes()
	if w.grad {
		t.weights = append(t.weights, t.nodes[n].tensor-1)
		s.trainable += w.Numel()
		s.gradBytes += w.bytes()
	}
}

func (t *Tape) newBuffer(n int32, b Tensor) {
	b = t.model(n, b, true)
	s := &t.sizes[t.part]
	s.buffers += b.Numel()
	s.bufferBytes += b.bytes()
}

// Alike enters a submodule of that name with the parameters and buffers of another one, and does not call it: the turns of
// a loop that need not be recorded, see [Tape.Inference].
func (t *Tape) Alike(name, like string) { t.alike(t.join(like), t.join(name)) }

func (t *Tape) alike(from, to int32) {
	at := t.node
	for c := t.nodes[from].child; c != 0; c = t.nodes[c].next {
		t.node = to
		n := t.join(t.nodes[c].name)
		if k := t.nodes[c].tensor; k != 0 && t.nodes[n].tensor == 0 {
			if x := t.tensors[k-1]; x.buffer {
				t.newBuffer(n, x.Tensor)
			} else {
				t.newParam(n, x.Tensor)
			}
		}
		t.alike(c, n)
	}
	t.node = at
}

// model enters a parameter or a buffer at its node.
func (t *Tape) model(n int32, x Tensor, buffer bool) Tensor {
	if t.ChannelsLast && x.dims == 4 {
		x = x.lastChannels()
	}
	x.store = t.newStore(x.bytes(), isParam)
	x.value = t.newValue()
	t.stores[x.store].value = x.value
	t.tensors = append(t.tensors, modelled{x, buffer})
	t.nodes[n].tensor = int32(len(t.tensors))
	return x
}

// Size is what a part keeps for as long as the model lives.
type Size struct {
	Params, Trainable, Buffers         int64 // elements
	ParamBytes, GradBytes, BufferBytes unit.Bytes
}

// Size is the sum over the parts of these names, or over all for none.
func (t *Tape) Size(parts ...string) (s Size) {
	for i, p := range t.sizes {
		if len(parts) > 0 && !slices.Contains(parts, t.parts[i]) {
			continue
		}
		s.Params += p.params
		s.Trainable += p.trainable
		s.Buffers += p.buffers
		s.ParamBytes += unit.Bytes(p.paramBytes)
		s.GradBytes += unit.Bytes(p.gradBytes)
		s.BufferBytes += unit.Bytes(p.bufferBytes)
	}
	return s
}

// Detach is x.detach(): the same storage outside the graph.
func (t *Tape) Detach(x Tensor) Tensor {
	x.grad = false
	x.value = t.newValue()
	return x
}

// Backward is loss.backward(). Everything recorded since the Backward before that the loss depends on runs
// backwards, and the graph is gone.
func (t *Tape) Backward(loss Tensor) {
	o := t.op("torch.Tensor.backward", loss)
	t.ops[o.i].kind = opBackward
	t.ops[o.i].out = loss.value
	o.end()
}

// OptimizerStep is optimizer.step() of one part, which needs tmp bytes while it runs, followed by
// zero_grad(set_to_none=True), which frees the part's gradients.
func (t *Tape) OptimizerStep(part string, tmp unit.Bytes) {
	t.Part(part, func() {
		o := t.op("optimizer.step()")
		t.ops[o.i].kind = opStep
		o.tmp(int64(tmp))
		o.end()
	})
}

// KeepGradients says that the gradients of a part exist already: the step before accumulated into them.
func (t *Tape) KeepGradients(part string) {
	t.Part(part, func() {
		o := t.op("gradients of the micro-batch before")
		t.ops[o.i].kind = opGradients
		o.end()
	})
}

func (t *Tape) enter(name string) { t.node, t.line = t.join(name), "" }

// join is the child of the current module of that name. Children are mostly asked for in their order, so the search
// begins behind the last.
func (t *Tape) join(name string) int32 {
	if name == "" {
		return t.node
	}
	parent := t.node
	if hot := t.nodes[parent].hot; hot != 0 {
		for _, from := range [...]int32{hot, t.nodes[parent].child} {
			for c := from; c != 0; c = t.nodes[c].next {
				if t.nodes[c].name == name {
					t.nodes[parent].hot = c
					return c
				}
			}
		}
	}
	c := int32(len(t.nodes))
	t.nodes = append(t.nodes, node{name: name, parent: parent})
	if last := t.nodes[parent].hot; last == 0 {
		t.nodes[parent].child = c
	} else {
		for t.nodes[last].next != 0 {
			last = t.nodes[last].next
		}
		t.nodes[last].next = c
	}
	t.nodes[parent].hot = c
	return c
}

// path is that of a node, such as "body.0.attn.weight".
func (t *Tape) path(n int32) (path string) {
	for ; n != 0; n = t.nodes[n].parent {
		if path != "" {
			path = "." + path
		}
		path = t.nodes[n].name + path
	}
	return path
}

// where is the path and the line of an op, as a person reads it: "body.0.attn: attn = torch.bmm(q, k)".
func (t *Tape) where(o *op) string {
	what := o.name
	if o.line != "" {
		what = o.line
	}
	if path := t.path(o.node); path != "" {
		return path + ": " + what
	}
	return what
}
