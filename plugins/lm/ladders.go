package lm

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/unit"
	"github.com/launch-ml/launch/plugins/lm/arch"
)

// A builder makes the ladders of one job on one device.
type builder struct {
	*training
	device  gpu.Device
	caching mem.Caching // as the user has it
	ways    []way
	asksAt  int // of the ways, that which is asked for
	// offered takes bitsandbytes for installed.
	offered bool
}

// A way is a rung of the shared ladder, as the formulas see it.
type way struct {
	autocast   nn.DType
	expandable bool
	length     int64
	split      ladder.Split // where an evaluation has the training's micro-batch, and otherwise as asked
	// precomputed is a reference that has answered before the training.
	precomputed bool
	optim       string
	rank        int64 // of adapters; 0 for none
	quant       bool  // 4-bit weights that were not asked for
	unpadded    bool  // rows are padded to the longest of a batch, which was not asked for
}

// A variant is one way to train.
type variant struct {
	split         ladder.Split
	checkpointing bool
}

// Ladders implements [plugin.Recognized].
func (t *training) Ladders(_ context.Context, d gpu.Device) (*ladder.Set, error) {
	b := &builder{training: t, device: d, caching: mem.CachingOf(t.env.AllocatorConf())}
	set := b.set()
	set.Host = b.host()
	set.Absent = b.absent(set)
	return set, nil
}

// set is the ladders of the card.
func (b *builder) set() *ladder.Set {
	t := b.training
	set := &ladder.Set{
		Values: map[string]int64{job.MicroBatch: t.split.Micro, job.Accumulation: t.split.Accumulation},
		Invariants: []ladder.Invariant{{Name: job.GlobalBatch, Until: ladder.Recipe,
			Equals:  t.split.Micro * t.split.Accumulation,
			Factors: []string{job.MicroBatch, job.Accumulation}}},
	}
	b.shared(set)
	set.Phases = []ladder.Ladder{b.trainingLadder()}
	if t.evals > 0 {
		set.Values[knobValidation] = t.evals
		set.Phases = append(set.Phases, b.validationLadder())
	}
	set.DropUseless()
	return set
}

// shared are the rungs that touch both phases.
func (b *builder) shared(set *ladder.Set) {
	set.Shared = ladder.Ladder{Phase: ladder.Shared, Rungs: []ladder.Rung{ladder.AsAsked()}}
	asked := way{autocast: b.step.Autocast, length: b.step.Length, split: b.split, optim: b.step.Optimizer}
	if b.step.LoRA != nil {
		asked.rank = b.step.LoRA.Rank
	}
	b.ways = []way{asked}
	defer func() { // in the order of their cost
		least := b.splits(set, asked)
		b.offer(set, b.eightBit(asked)...)
		b.offer(set, b.shorter(asked, least)...)
		b.offer(set, b.smallerRanks(asked)...)
		b.offer(set, b.fourBits(asked, least)...)
		b.inOrder(set)
	}()
	if b.device.Kind == gpu.CPU {
		b.offer(set, b.unpadded(asked)...)
		b.precompute(set)
		return
	}
	if e, ok := b.env.ExpandableSegments(); ok {
		w := asked
		w.expandable = true
		b.offer(set, switched{ladder.Rung{Name: "expandable segments", Cost: ladder.None, Slowdown: 1,
			Edits: []config.Edit{e}}, w})
	}
	b.offer(set, b.unpadded(asked)...)
	b.precompute(set)
	b.offer(set, b.paged(asked)...)
	if asked.autocast == nn.F32 && b.step.Weights == nn.F32 && !b.before(8) && b.unknown == "" && b.kind.own == nil &&
		!b.wraps() {
		w := asked
		w.autocast = nn.BF16
		b.offer(set, switched{ladder.Rung{Name: "mixed precision in bfloat16", Cost: ladder.Numerics, Slowdown: 0.8,
			Edits: []config.Edit{b.edit(knobPrecision, "bf16", "true", ladder.Numerics,
				"products in bfloat16, and what they keep")}}, w})
	}
}

// inOrder puts the rungs below the job as asked in the order of their cost, with the ways that they make.
func (b *builder) inOrder(set *ladder.Set) {
	below := make([]switched, 0, len(b.ways))
	for i := set.Shared.Asked + 1; i < len(b.ways); i++ {
		below = append(below, switched{set.Shared.Rungs[i], b.ways[i]})
	}
	slices.SortStableFunc(below, func(x, y switched) int { return cmp.Compare(x.rung.Cost, y.rung.Cost) })
	set.Shared.Rungs, b.ways = set.Shared.Rungs[:set.Shared.Asked+1], b.ways[:set.Shared.Asked+1]
	b.offer(set, below...)
}

// splits are the divisions of the global batch where they touch both phases: an evaluation has the micro-batch, too. It
// returns the division with the smallest micro-batch there, and otherwise the one that was asked for.
func (b *builder) splits(set *ladder.Set, asked way) (least ladder.Split) {
	if !b.coupled {
		return b.split
	}
	larger, smaller := b.split.Others(func(ladder.Split) bool { return true })
	rungs, ways := set.Shared.Rungs, b.ways
	set.Shared.Rungs, b.ways = nil, nil
	set.Shared.Asked, b.asksAt = len(larger), len(larger)
	add := func(splits []ladder.Split) {
		for _, s := range splits {
			w := asked
			w.split = s
			b.offer(set, switched{b.rung(variant{s, b.step.Checkpointing}, nil), w})
		}
	}
	add(larger)
	set.Shared.Rungs, b.ways = append(set.Shared.Rungs, rungs...), append(b.ways, ways...)
	add(smaller)
	return b.ways[len(b.ways)-1].split
}

// shorter are rungs with shorter sequences, where the phases share the micro-batch with the smallest of it.
func (b *builder) shorter(asked way, least ladder.Split) (out []switched) {
	floor := min(common, max(shortest, b.step.Length/8)) // shorter ones would cut off most of what was meant
	fold := b.folds()
	for n, left := b.step.Length/2/fold*fold, mostLengths; n >= floor && left > 0; n, left = n/2/fold*fold, left-1 {
		r := ladder.Rung{Name: fmt.Sprintf("sequences of %d tokens", n), Slowdown: 1}
		if least != b.split {
			r = b.rung(variant{least, b.step.Checkpointing}, nil)
			r.Name += ", " + fmt.Sprintf("sequences of %d tokens", n)
		}
		r.Cost = ladder.Recipe
		r.Edits = append(r.Edits, b.edit(knobLength, b.kind.length, fmt.Sprint(n), ladder.Recipe,
			"shorter sequences: another experiment"))
		w := asked
		w.length, w.split = n, least
		out = append(out, switched{r, w})
	}
	return out
}

// shortest is the shortest sequence that is offered, and common a length that is offered for any longer one. Seven
// halves lead from 131,072 tokens to 1,024.
const (
	shortest    = 128
	common      = 1024
	mostLengths = 7
)

// before reports whether the card's compute capability is older than that.
func (b *builder) before(major int) bool {
	var have int
	n, _ := fmt.Sscanf(b.device.Capability, "%d.", &have)
	return n == 1 && have < major
}

func (b *builder) asked() variant { return variant{b.split, b.step.Checkpointing} }

// trainingLadder is every division of the global batch, with and without activation checkpointing.
func (b *builder) trainingLadder() ladder.Ladder {
	asked := b.asked()
	larger, smaller := asked.split.Others(func(ladder.Split) bool { return true })
	var above, below []variant
	// or the shared ladder has them
	if b.coupled || b.pinned || !b.turns("per_device_train_batch_size", "gradient_accumulation_steps") {
		larger, smaller = nil, nil
	}
	for _, s := range larger {
		if !b.single {
			above = append(above, variant{s, asked.checkpointing})
		}
	}
	for _, s := range smaller {
		below = append(below, variant{s, asked.checkpointing})
	}
	field := b.checkpointing()
	if !asked.checkpointing && !b.negated(field) && b.turns(field) { // which no value can switch on
		for _, s := range append([]ladder.Split{asked.split}, smaller...) {
			below = append(below, variant{s, true})
		}
	}
	prices := b.price(append(append([]variant{asked}, above...), below...))
	l := ladder.Ladder{Phase: ladder.Training, Asked: len(above)}
	for i, v := range above {
		l.Rungs = append(l.Rungs, b.rung(v, prices[1+i]))
	}
	var rungs []ladder.Rung
	for i, v := range below {
		rungs = append(rungs, b.rung(v, prices[1+len(above)+i]))
	}
	l.Rungs = append(l.Rungs, ladder.Descend(ladder.AsAsked(prices[0]...), rungs, b.asksAt)...)
	return l
}

// rung is a variant with its edits and its prices.
func (b *builder) rung(v variant, prices []mem.Estimate) ladder.Rung {
	asked := b.asked()
	name := fmt.Sprintf("micro-batch %d × accumulation %d", v.split.Micro, v.split.Accumulation)
	switch {
	case v.split == asked.split:
		name = knobCheckpointing
	case v.checkpointing != asked.checkpointing:
		name += ", " + knobCheckpointing
	}
	r := ladder.Rung{Name: name, Cost: ladder.Speed,
		Slowdown: ladder.SplitSlowdown(float64(asked.split.Micro) / float64(v.split.Micro)),
		Values:   map[string]int64{job.MicroBatch: v.split.Micro, job.Accumulation: v.split.Accumulation}, Estimates: prices}
	if v.split.Micro != asked.split.Micro {
		why := "the same global batch, and so the same learning rate, in pieces of another size"
		if cost, more := b.averaged(); more != "" {
			r.Cost, why = cost, why+"; "+more
		}
		r.NewState = b.restores()
		r.Edits = append(r.Edits, b.edit(job.MicroBatch, "per_device_train_batch_size", fmt.Sprint(v.split.Micro), r.Cost,
			why))
	}
	if v.split.Accumulation != asked.split.Accumulation {
		const why = "so that an optimizer step sees as many sequences as before"
		r.Edits = append(r.Edits, b.edit(job.Accumulation, "gradient_accumulation_steps", fmt.Sprint(v.split.Accumulation),
			r.Cost, why))
	}
	if v.checkpointing != asked.checkpointing {
		r.Slowdown *= 1.3
		r.Edits = append(r.Edits, b.edit(knobCheckpointing, b.checkpointing(), strconv.FormatBool(!b.kind.pairs), r.Cost,
			"each layer keeps its input, and computes the rest again"))
	}
	return r
}

// validationLadder is smaller batches of an evaluation.
func (b *builder) validationLadder() ladder.Ladder {
	batches := []int64{b.evals}
	for n := b.evals / 2; n >= 1 && !b.evalPacks && b.turns("per_device_eval_batch_size"); n /= 2 {
		batches = append(batches, n)
	}
	prices := b.evaluations(batches)
	var below []ladder.Rung
	for i, n := range batches[1:] {
		below = append(below, ladder.Rung{Name: fmt.Sprintf("validation batch %d", n), Cost: ladder.Speed,
			Slowdown: ladder.SplitSlowdown(float64(b.evals) / float64(n)), Values: map[string]int64{knobValidation: n},
			Estimates: prices[1+i],
			Edits: []config.Edit{b.edit(knobValidation, "per_device_eval_batch_size", fmt.Sprint(n), ladder.Speed,
				"the same validation, in smaller batches")}})
	}
	return ladder.Ladder{Phase: ladder.Validation, Rungs: ladder.Descend(ladder.AsAsked(prices[0]...), below, b.asksAt)}
}

// price estimates variants of the training, once for each way.
func (b *builder) price(vs []variant) [][]mem.Estimate {
	return b.priced(len(vs), func(i int, w way) (variant, int64) {
		v := vs[i]
		if b.coupled {
			v.split = w.split
		}
		return v, v.split.Micro
	}, func(v variant, w way, micro int64) mem.Tensors {
		s := b.at(w)
		s.Accumulate, s.Checkpointing = v.split.Accumulation, v.checkpointing
		b.fill(&s, w, micro, b.packs)
		return arch.Training(s)
	})
}

// evaluations estimates an evaluation at other batches, once for each way.
func (b *builder) evaluations(batches []int64) [][]mem.Estimate {
	return b.priced(len(batches), func(i int, w way) (variant, int64) {
		if b.coupled && i == 0 {
			return variant{}, w.split.Micro
		}
		return variant{}, batches[i]
	}, func(_ variant, w way, batch int64) mem.Tensors {
		s := b.at(w)
		b.fill(&s, w, batch, b.evalPacks)
		return b.evaluation(s)
	})
}

// padded reports whether a batch of so many sequences or pairs may have padding.
func (b *builder) padded(batch int64, w way) bool {
	return b.pads && (batch > 1 || b.multiple && !w.unpadded || b.step.Preference != nil)
}

// at is the step in one way.
func (b *builder) at(w way) arch.Step {
	s := w.in(b, w.answering(b.step))
	s.Autocast, s.Length, s.CPU = w.autocast, w.length, b.device.Kind == gpu.CPU
	if b.before(8) { // torch.addmm has no sum in float32 there (liger_kernel/ops/fused_linear_cross_entropy.py:341)
		s.Liger.Wide = s.Liger.Head
	}
	if s.CPU && b.inferred {
		s.Weights = nn.F32
	}
	return s
}

// fill puts so many sequences into a step.
func (b *builder) fill(s *arch.Step, w way, batch int64, packed bool) {
	s.Batch, s.Padded = batch, b.padded(batch, w)
	if packed {
		b.pack(s)
	}
}

// priced prices n things, once for each way: those together that differ in their batch only.
func (b *builder) priced(n int, of func(i int, w way) (variant, int64),
	price func(v variant, w way, batch int64) mem.Tensors) [][]mem.Estimate {
	out := make([][]mem.Estimate, n)
	for i := range out {
		out[i] = slices.Repeat([]mem.Estimate{{Unknown: b.unknown}}, len(b.ways))
	}
	if b.unknown != "" {
		return out
	}
	type alike struct {
		accumulates, checkpointing bool
		way
	}
	at := func(k int) (i, w int) { return k / len(b.ways), k % len(b.ways) }
	var tasks []func()
	for _, group := range mem.Alike(n*len(b.ways), func(k int) alike {
		i, w := at(k)
		v, _ := of(i, b.ways[w])
		same := b.ways[w]
		same.expandable, same.split = false, ladder.Split{}
		return alike{v.split.Accumulation > 1, v.checkpointing, same}
	}) {
		i, w := at(group[0])
		v, _ := of(i, b.ways[w])
		var batches []int64
		for _, k := range group {
			i, w := at(k)
			_, batch := of(i, b.ways[w])
			batches = append(batches, batch)
		}
		tasks = append(tasks, func() {
			oneWay := func(batch int64) mem.Tensors { return price(v, b.ways[w], batch) }
			prices := b.atBatches(oneWay, batches)
			for j, k := range group {
				i, w := at(k)
				out[i][w] = b.around(prices[j], b.ways[w])
			}
		})
	}
	mem.Together(tasks)
	return out
}

// atBatches prices one thing at several batches. The tiles of a fused head, Liger's pieces and the locks of cut cross
// entropy are no line in the batch.
func (b *builder) atBatches(price func(batch int64) mem.Tensors, batches []int64) (prices []mem.Tensors) {
	if !b.step.Fused && !b.step.Packed && !b.step.Liger.Head && !b.step.Cut {
		return mem.AtBatches(price, batches...)
	}
	known := map[int64]mem.Tensors{}
	for _, n := range batches {
		if _, ok := known[n]; !ok {
			known[n] = price(n)
		}
		prices = append(prices, known[n])
	}
	return prices
}

// around adds what no forward asks for: the context and the libraries' workspace on a card, the interpreter on a CPU.
func (b *builder) around(e mem.Tensors, w way) mem.Estimate {
	if !e.Known() {
		return e.Alone()
	}
	e = b.doubted(e)
	if b.device.Kind == gpu.CPU {
		out := e.Alone()
		out.Add(append(b.libraries(), mem.RuntimeOf(b.env.TorchCUDA()))...)
		out.AtMost = b.assumes()
		return out
	}
	if b.on("use_cpu") || b.on("no_cuda") {
		return mem.Estimate{Unknown: "it trains on the CPU, and this estimate is for a card: --device cpu makes one for it"}
	}
	if b.before(8) && b.step.Flash {
		return mem.Estimate{Unknown: "FlashAttention has no kernel for a card of compute capability " + b.device.Capability}
	}
	if b.before(8) && (w.autocast == nn.BF16 || w.autocast == nn.F32 && b.step.Weights == nn.BF16) {
		return mem.Estimate{Unknown: "attention in bfloat16 has no fused kernel on a card of compute capability " +
			b.device.Capability}
	}
	if b.before(8) && b.model.Experts != nil { // _can_use_grouped_mm (integrations/moe.py:343)
		return mem.Estimate{Unknown: "experts have no grouped products on a card of compute capability " +
			b.device.Capability}
	}
	out := e.OnCard(b.device, b.caching.With(w.expandable))
	out.Add(mem.Collectives(b.device, b.ranks)...)
	out.AtMost = b.assumes()
	return out
}

// libraries is what the programs import beside torch, on a CPU, in VmData. In runs of them it came to 2064 (trl sft),
// 2096 to 2108 (run_clm.py) and 2138 to 2148 MiB (LLaMA-Factory 0.9.5, whole and with LoRA), with the 1024 that
// [mem.RuntimeOf] has for the interpreter and torch. The largest part is the first arena of mimalloc, with which
// pyarrow allocates unless it is told otherwise: import datasets adds 1090 MiB, and 78 with
// ARROW_DEFAULT_MEMORY_POOL=system (torch 2.15, transformers 5.6.0 and 5.23.0, datasets 4.0.0 and 5.2.0, pyarrow
// 26.0.1, one thread, 2026-11-23).
func (b *builder) libraries() (items []mem.Item) {
	if pool := b.getenv("ARROW_DEFAULT_MEMORY_POOL"); pool == "" || pool == "mimalloc" {
		items = append(items, mem.Item{Kind: mem.Runtime, What: "pyarrow's first arena", Bytes: unit.GiB,
			From: "mimalloc takes 1 GiB at once: import datasets adds 1090 MiB, and 78 with ARROW_DEFAULT_MEMORY_POOL=system"})
	}
	return append(items, mem.Item{Kind: mem.Runtime, What: "datasets, evaluate, peft", Bytes: 100 * unit.MiB, Guess: true,
		From: "what is left of 2064 to 2148 MiB beside tensors in runs of run_clm.py, trl sft and LLaMA-Factory"})
}
