package stablesr

import (
	"fmt"
	"slices"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/unit"
	"github.com/launch-ml/launch/plugins/stablesr/arch"
)

// A phase is priced from a step of so many samples of a micro-batch at most.
type phase struct {
	name  string
	price func(arch.Step) mem.Tensors
	most  int64
	blind func(*variant) // takes out what the phase does not see
}

// The phases, and where they stand in the list of them.
const (
	training = iota
	validation
	logging
)

var phases = [...]phase{
	training:   {ladder.Training, arch.Step.Training, ladder.MaxBatch, func(*variant) {}},
	validation: {ladder.Validation, arch.Step.Validation, ladder.MaxBatch, func(v *variant) { v.structCkpt = false }}, // without a gradient nothing is recomputed
	logging:    {images, arch.Step.Images, ladder.MaxBatch, func(v *variant) { v.structCkpt = false }},
}

// A group is rungs that are priced together in a phase: they differ in the micro-batch and the pool.
type group struct {
	phase    int
	rungs    []int // by index
	variants []variant
}

// groups are all rungs in all phases.
func groups(rungs []shared) (out []group) {
	for n, p := range phases {
		for _, alike := range mem.Alike(len(rungs), func(i int) variant {
			k := rungs[i].variant
			k.micro, k.accum, k.queue, k.expandable = 0, 0, 0, false
			p.blind(&k)
			return k
		}) {
			g := group{phase: n, rungs: alike}
			for _, i := range alike {
				g.variants = append(g.variants, rungs[i].variant)
			}
			out = append(out, g)
		}
	}
	return out
}

// modelOf is the model of a variant.
func (b *builder) modelOf(v variant) (*arch.Model, error) {
	if !v.edgeOff && !v.structCkpt {
		return b.model, b.modelErr
	}
	root := deepCopy(b.root)
	if v.edgeOff {
		_ = override{keyEdge, false}.set(root)
		_ = override{keyUNetEdge, false}.set(root)
	}
	if v.structCkpt {
		_ = override{keyStructCkpt, true}.set(root)
	}
	return b.readModel(root)
}

// most is the largest micro-batch that a phase's memory grows up to: StableSR's image log takes some of a batch.
func (b *builder) most(phase int) int64 {
	if phase == logging && b.stableSR() {
		return arch.Logged
	}
	return phases[phase].most
}

// price estimates a phase of variants on the device that are alike.
func (b *builder) price(phase int, vs []variant) []mem.Estimate {
	tensors, ok := b.ahead.take(phase, vs)
	if !ok {
		tensors = b.bare(phase, vs)
	}
	most := b.most(phase)
	same := func(i int) int { // they differ in what this phase does not see
		return slices.IndexFunc(vs[:i], func(o variant) bool {
			return min(o.micro, most) == min(vs[i].micro, most) && o.queue == vs[i].queue && o.expandable == vs[i].expandable
		})
	}
	out := make([]mem.Estimate, len(vs))
	var tasks []func()
	for i, w := range vs {
		switch {
		case !tensors[i].Known():
			out[i] = tensors[i].Alone()
		case same(i) < 0:
			tasks = append(tasks, func() { out[i] = b.around(tensors[i], w) })
		}
	}
	mem.Together(tasks)
	for i := range vs {
		if k := same(i); tensors[i].Known() && k >= 0 {
			out[i] = out[k]
			out[i].Items = slices.Clone(out[k].Items)
		}
	}
	return out
}

// bare are the estimates without what is around them. They are the same on every card.
func (b *builder) bare(phase int, vs []variant) []mem.Tensors {
	p := phases[phase]
	v := vs[0]
	m, err := b.modelOf(v)
	why := ""
	switch {
	case err != nil:
		why = err.Error() + ": launch works from what it measures"
	case slices.ContainsFunc(vs, func(v variant) bool { return v.micro <= 0 }):
		why = "the recipe does not say how large a micro-batch is"
	case v.size <= 0:
		why = "the recipe does not say how large the images are"
	case v.size%m.Factor() != 0:
		why = fmt.Sprintf("images of %d do not make whole latents", v.size)
	case phase == validation && b.valSize%m.Factor() != 0:
		why = fmt.Sprintf("images of %d do not make whole latents", b.valSize)
	}
	if why != "" {
		return slices.Repeat([]mem.Tensors{mem.Unpriced(why)}, len(vs))
	}
	if phase == validation && v.size == b.size {
		v.size = b.valSize
	}
	card := b.device.Kind != gpu.CPU
	major, _, torchKnown := b.python.Torch()
	step := arch.Step{
		Model: m, Size: v.size, Queue: v.queue, Xformers: b.fuses() && b.python.Has("xformers"), Torch1: torchKnown &&
			major < 2,
		DDP: card && b.namesCards(), Foreach: card && torchKnown && major >= 2, Swaps: b.swaps(m), Amp: b.amp(m),
	}
	var batches []int64
	pools := map[int64][]int{} // by micro-batch, what has another pool
	for i, w := range vs {
		batches = append(batches, min(w.micro, b.most(phase)))
		if w.queue != v.queue {
			pools[batches[i]] = append(pools[batches[i]], i)
		}
	}
	pooled := map[int]mem.Tensors{}
	out := mem.AtBatches(func(n int64) mem.Tensors {
		s := step
		s.Batch = n
		e := p.price(s)
		for _, i := range pools[n] {
			pooled[i] = s.WithPool(e, vs[i].queue)
		}
		return e
	}, batches...)
	for i, w := range vs {
		if w.queue == v.queue {
			continue
		}
		e, ok := pooled[i]
		if !ok { // between two micro-batches there is no tape to take it from
			s := step
			s.Batch, s.Queue = batches[i], w.queue
			e = p.price(s)
		}
		out[i] = e
	}
	return out
}

// amp is the type that a step's forward is cast to. A StableSR that is told to cast never gets through a step.
func (r *recipe) amp(m *arch.Model) nn.DType {
	if m.StableSR() || m.Resi() {
		return nn.F32
	}
	switch v, _ := get(r.root, keyPrecision); fmt.Sprint(v) {
	case "16":
		return nn.F16
	case "bf16":
		return nn.BF16
	}
	return nn.F32
}

// swaps reports whether the averages of use_ema are ever swapped in: by the sanity check or a validation, or by an
// image log.
func (b *builder) swaps(m *arch.Model) bool {
	if !m.EMA {
		return false
	}
	return b.validates() || b.logsImages() && m.LogsAverages()
}

// around adds what no forward asks for: the context and the libraries' workspace on a card, the interpreter on a CPU.
func (b *builder) around(tensors mem.Tensors, v variant) mem.Estimate {
	if b.device.Kind == gpu.CPU {
		e := tensors.Alone()
		e.Add(mem.RuntimeOf(b.python.TorchCUDA()))
		return e
	}
	e := tensors.OnCard(b.device, b.caching().With(v.expandable))
	e.Add(mem.Collectives(b.device, b.ranks)...)
	if b.share < 1 {
		e.Add(mem.Item{Kind: mem.Slack, What: "the script's limit", Bytes: unit.Bytes((1 - b.share) * float64(b.device.Total)), Guess: true,
			From: fmt.Sprintf("set_per_process_memory_fraction(%s): out of memory comes at that share of the card", b.spelled)})
	}
	return e
}
