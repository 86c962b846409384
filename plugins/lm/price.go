package lm

import (
	"fmt"
	"slices"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/unit"
	"github.com/launch-ml/launch/plugins/lm/arch"
)

// A builder makes the ladders of one job on one device.
type builder struct {
	s       *settings
	t       *training
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

// before reports whether the card's compute capability is older than that.
func (b *builder) before(major int) bool {
	var have int
	n, _ := fmt.Sscanf(b.device.Capability, "%d.", &have)
	return n == 1 && have < major
}

func (b *builder) asked() variant { return variant{b.t.split, b.t.step.Checkpointing} }

// price estimates variants of the training, once for each way.
func (b *builder) price(vs []variant) [][]mem.Estimate {
	return b.priced(len(vs), func(i int, w way) (variant, int64) {
		v := vs[i]
		if b.t.coupled {
			v.split = w.split
		}
		return v, v.split.Micro
	}, func(v variant, w way, micro int64) mem.Tensors {
		s := b.at(w)
		s.Accumulate, s.Checkpointing = v.split.Accumulation, v.checkpointing
		b.fill(&s, w, micro, b.t.packs)
		return arch.Training(s)
	})
}

// evaluations estimates an evaluation at other batches, once for each way.
func (b *builder) evaluations(batches []int64) [][]mem.Estimate {
	return b.priced(len(batches), func(i int, w way) (variant, int64) {
		if b.t.coupled && i == 0 {
			return variant{}, w.split.Micro
		}
		return variant{}, batches[i]
	}, func(_ variant, w way, batch int64) mem.Tensors {
		s := b.at(w)
		b.fill(&s, w, batch, b.t.evalPacks)
		return evaluation(b.s, b.t, s)
	})
}

// padded reports whether a batch of so many sequences or pairs may have padding.
func (b *builder) padded(batch int64, w way) bool {
	return b.t.pads && (batch > 1 || b.t.multiple && !w.unpadded || b.t.step.Preference != nil)
}

// at is the step in one way.
func (b *builder) at(w way) arch.Step {
	s := w.in(b, w.answering(b.t.step))
	s.Autocast, s.Length, s.CPU = w.autocast, w.length, b.device.Kind == gpu.CPU
	s.Old = b.before(8)
	if s.Old { // torch.addmm has no sum in float32 there (liger_kernel/ops/fused_linear_cross_entropy.py:341)
		s.Liger.Wide = s.Liger.Head
	}
	if s.CPU && b.t.inferred {
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
		out[i] = slices.Repeat([]mem.Estimate{{Unknown: b.t.unknown}}, len(b.ways))
	}
	if b.t.unknown != "" {
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
	if !b.t.step.Fused && !b.t.step.Packed && !b.t.step.Liger.Head && !b.t.step.Cut {
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
	e = doubted(b.s, b.t, e)
	if b.device.Kind == gpu.CPU {
		out := e.Alone()
		out.Add(append(b.libraries(), mem.RuntimeOf(b.s.env.TorchCUDA()))...)
		out.AtMost = assumes(b.t)
		return out
	}
	if b.s.on("use_cpu") || b.s.on("no_cuda") {
		return mem.Estimate{Unknown: "it trains on the CPU, and this estimate is for a card: --device cpu makes one for it"}
	}
	if b.before(8) && b.t.step.Flash {
		return mem.Estimate{Unknown: "FlashAttention has no kernel for a card of compute capability " + b.device.Capability}
	}
	half := w.autocast == nn.BF16 || w.autocast == nn.F32 && b.t.step.Weights == nn.BF16
	if b.before(8) && half && !b.t.step.Eager {
		return mem.Estimate{Unknown: "attention in bfloat16 has no fused kernel on a card of compute capability " +
			b.device.Capability}
	}
	if b.before(8) && b.t.model.Experts != nil { // _can_use_grouped_mm (integrations/moe.py:343)
		return mem.Estimate{Unknown: "experts have no grouped products on a card of compute capability " +
			b.device.Capability}
	}
	out := e.OnCard(b.device, b.caching.With(w.expandable))
	out.Add(mem.Collectives(b.device, b.t.ranks)...)
	out.AtMost = assumes(b.t)
	return out
}

// libraries is what the programs import beside torch, on a CPU, in VmData. In runs of them it came to 2064 (trl sft),
// 2096 to 2108 (run_clm.py) and 2138 to 2148 MiB (LLaMA-Factory 0.9.5, whole and with LoRA), with the 1024 that
// [mem.RuntimeOf] has for the interpreter and torch. The largest part is the first arena of mimalloc, with which
// pyarrow allocates unless it is told otherwise: import datasets adds 1090 MiB, and 78 with
// ARROW_DEFAULT_MEMORY_POOL=system (torch 2.15, transformers 5.6.0 and 5.23.0, datasets 4.0.0 and 5.2.0, pyarrow
// 26.0.1, one thread, 2026-11-23).
func (b *builder) libraries() (items []mem.Item) {
	if pool := b.s.getenv("ARROW_DEFAULT_MEMORY_POOL"); pool == "" || pool == "mimalloc" {
		items = append(items, mem.Item{Kind: mem.Runtime, What: "pyarrow's first arena", Bytes: unit.GiB,
			From: "mimalloc takes 1 GiB at once: import datasets adds 1090 MiB, and 78 with ARROW_DEFAULT_MEMORY_POOL=system"})
	}
	return append(items, mem.Item{Kind: mem.Runtime, What: "datasets, evaluate, peft", Bytes: 100 * unit.MiB, Guess: true,
		From: "what is left of 2064 to 2148 MiB beside tensors in runs of run_clm.py, trl sft and LLaMA-Factory"})
}

// pack puts a packed micro-batch into a step (readAttention).
func (b *builder) pack(s *arch.Step) {
	switch {
	case s.Flash:
		s.Packed, s.Padded = true, false
	case usesVarlen(b.t, *s):
		s.Varlen, s.Padded = true, false
	default:
		s.Padded = true
	}
}

// usesVarlen reports whether torch's varlen_attn tells the packed sequences of a step apart.
func usesVarlen(t *training, step arch.Step) bool {
	half := step.Weights != nn.F32 || step.Autocast != nn.F32
	return t.varlen && !step.CPU && half && step.Model.HeadDim <= 256 && step.Model.Window == 0
}

// tokenBytes is what an evaluation with predictions gathers for each token of its set: the likeliest token and the
// label, in int64 (evaluation_loop in trainer.py:2896; EvalLoopContainer in trainer_pt_utils.py:355).
const tokenBytes = 16

// gathered is what the evaluation has gathered at its end, on the device: of max_eval_samples sequences, or of as many
// batches as eval_accumulation_steps leaves there. ok is false where neither bounds it.
func gathered(s *settings, step arch.Step) (item mem.Item, ok bool) {
	sequences, from := int64(0), ""
	if n, err := s.count("max_eval_samples", 0); err == nil && n > 0 {
		sequences, from = n, fmt.Sprintf("max_eval_samples of %d", n)
	}
	// on a CPU what is moved to the host stays in the same memory
	if n, err := s.count("eval_accumulation_steps", 0); err == nil && n > 0 && !step.CPU {
		if batches := n * step.Batch * max(1, step.World); sequences == 0 || batches < sequences {
			sequences, from = batches, fmt.Sprintf("eval_accumulation_steps of %d", n)
		}
	}
	if sequences == 0 {
		return item, false
	}
	tokens := sequences * step.Length
	return mem.Item{Kind: mem.Buffers, What: "gathered predictions", Bytes: unit.Bytes(tokenBytes * tokens),
		Count: 2 * tokens, From: from + ": the likeliest token and the label of each, in int64"}, true
}

// evaluation is the estimate of an evaluation, with what it has gathered at its end.
func evaluation(s *settings, t *training, step arch.Step) mem.Tensors {
	e := arch.Evaluation(step, t.predicted)
	if item, ok := gathered(s, step); ok && t.predicted && e.Known() {
		e.Add(item)
	}
	return e
}

// assumes is why the estimate is for the largest case; "" if it is for this one.
func assumes(t *training) string {
	if !t.atMost {
		return ""
	}
	return "the rows may be shorter than is assumed"
}

// doubted marks an estimate that takes a version for granted, or the length of the rows: these lines refuse nothing.
// Where the command's Python is not on
// this machine it cannot run here, and nothing can be refused that would.
func doubted(s *settings, t *training, e mem.Tensors) mem.Tensors {
	versions := len(t.assumed) > 0 && !s.env.Missing()
	if !versions && !t.atMost {
		return e
	}
	e.Items = slices.Clone(e.Items)
	for i := range e.Items {
		if versions || e.Items[i].Kind.Grows() {
			e.Items[i].Guess = true
		}
	}
	return e
}

// answering is the step with the reference as a way has it.
func (w way) answering(s arch.Step) arch.Step {
	if w.precomputed {
		p := *s.Preference
		p.Precomputed, s.Preference = true, &p
	}
	return s
}

// in is the step with what a way changes beside precision and length.
func (w way) in(b *builder, s arch.Step) arch.Step {
	s.Optimizer = w.optim
	if s.LoRA == nil || w.rank == s.LoRA.Rank && !w.quant {
		return s
	}
	l := *s.LoRA
	l.Rank = w.rank
	if w.quant {
		s.Quant = &arch.Quant{Bits: 4, Nested: b.s.is(llamaFactory) || b.s.is(axolotl), Compute: s.Weights, Loaded: s.Weights}
		if b.s.is(axolotl) {
			l.Kernels = b.t.kernels
		}
		if b.s.is(trlSFT) { // sft_trainer.py:908
			l.Type, l.Whole.Type = nn.BF16, nn.BF16
		}
	}
	s.LoRA = &l
	return s
}
