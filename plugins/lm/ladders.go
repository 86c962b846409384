package lm

import (
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
}

// A way is a rung of the shared ladder, as the formulas see it.
type way struct {
	autocast   nn.DType
	expandable bool
	length     int64
}

// A variant is one way to train.
type variant struct {
	split         ladder.Split
	checkpointing bool
}

// Ladders implements [plugin.Recognized].
func (t *training) Ladders(_ context.Context, d gpu.Device) (*ladder.Set, error) {
	b := &builder{training: t, device: d, caching: mem.CachingOf(t.env.AllocatorConf())}
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
	return set, nil
}

// shared are the rungs that touch both phases.
func (b *builder) shared(set *ladder.Set) {
	set.Shared = ladder.Ladder{Phase: ladder.Shared, Rungs: []ladder.Rung{ladder.AsAsked()}}
	asked := way{b.step.Autocast, false, b.step.Length}
	b.ways = []way{asked}
	defer b.shorter(set)
	if b.device.Kind == gpu.CPU {
		return
	}
	if e, ok := b.env.ExpandableSegments(); ok {
		set.Shared.Rungs = append(set.Shared.Rungs, ladder.Rung{Name: "expandable segments", Cost: ladder.None,
			Slowdown: 1, Edits: []config.Edit{e}})
		b.ways = append(b.ways, way{asked.autocast, true, asked.length})
	}
	if asked.autocast == nn.F32 && b.step.Weights == nn.F32 && !b.before(8) && b.unknown == "" {
		set.Shared.Rungs = append(set.Shared.Rungs, ladder.Rung{Name: "mixed precision in bfloat16", Cost: ladder.Numerics,
			Slowdown: 0.8,
			Edits: []config.Edit{b.edit(knobPrecision, "bf16", "true", ladder.Numerics,
				"products in bfloat16, and what they keep")}})
		b.ways = append(b.ways, way{nn.BF16, false, asked.length})
	}
}

// shorter are rungs with shorter sequences.
func (b *builder) shorter(set *ladder.Set) {
	for n := b.step.Length / 2; n >= shortest && len(b.ways) < mostWays; n /= 2 {
		set.Shared.Rungs = append(set.Shared.Rungs, ladder.Rung{Name: fmt.Sprintf("sequences of %d tokens", n),
			Cost: ladder.Recipe, Slowdown: 1,
			Edits: []config.Edit{b.edit(knobLength, b.kind.length, fmt.Sprint(n), ladder.Recipe,
				"shorter sequences: another experiment")}})
		b.ways = append(b.ways, way{b.step.Autocast, false, n})
	}
}

// shortest is the shortest sequence that is offered. Nine ways are enough to halve 131,072 tokens to 1,024.
const (
	shortest = 128
	mostWays = 9
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
	for _, s := range larger {
		above = append(above, variant{s, asked.checkpointing})
	}
	for _, s := range smaller {
		below = append(below, variant{s, asked.checkpointing})
	}
	if !asked.checkpointing && !b.negated(b.checkpointing()) { // which no value can switch on
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
	if r, ok := b.eightBit(); ok {
		rungs = append(rungs, r)
	}
	l.Rungs = append(l.Rungs, ladder.Descend(ladder.AsAsked(prices[0]...), rungs, 0)...)
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
		const why = "the same global batch, and so the same learning rate, in pieces of another size"
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

// eightBit is Adam with states of 8 bits, where bitsandbytes is installed. It has no formula, and a state of the other
// optimizer cannot be read with it.
func (b *builder) eightBit() (r ladder.Rung, ok bool) {
	if b.device.Kind == gpu.CPU || !b.env.Has("bitsandbytes") || !slices.Contains([]string{"adamw_torch",
		"adamw_torch_fused"}, b.step.Optimizer) {
		return r, false
	}
	why := mem.Estimate{Unknown: "8-bit Adam has no formula"}
	return ladder.Rung{Name: "8-bit Adam", Cost: ladder.Numerics, Slowdown: 1, NewState: true,
		Estimates: slices.Repeat([]mem.Estimate{why}, len(b.ways)),
		Edits:     []config.Edit{b.editText("optimizer", "optim", "adamw_8bit", ladder.Numerics, "states of 8 bits")}}, true
}

// validationLadder is smaller batches of an evaluation.
func (b *builder) validationLadder() ladder.Ladder {
	batches := []int64{b.evals}
	for n := b.evals / 2; n >= 1; n /= 2 {
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
	return ladder.Ladder{Phase: ladder.Validation, Rungs: ladder.Descend(ladder.AsAsked(prices[0]...), below, 0)}
}

// price estimates variants of the training, once for each way.
func (b *builder) price(vs []variant) [][]mem.Estimate {
	type alike struct{ accumulates, checkpointing bool }
	groups := mem.Alike(len(vs), func(i int) alike { return alike{vs[i].split.Accumulation > 1, vs[i].checkpointing} })
	return b.priced(len(vs), groups, func(i int) int64 { return vs[i].split.Micro }, func(i int, w way,
		micro int64) mem.Tensors {
		v := vs[i]
		s := b.at(w)
		s.Batch, s.Accumulate, s.Checkpointing = micro, v.split.Accumulation, v.checkpointing
		s.Padded = b.pads && (micro > 1 || b.kind.pairs)
		return arch.Training(s)
	})
}

// evaluations estimates an evaluation at other batches, once for each way.
func (b *builder) evaluations(batches []int64) [][]mem.Estimate {
	all := make([]int, len(batches))
	for i := range all {
		all[i] = i
	}
	return b.priced(len(batches), [][]int{all}, func(i int) int64 { return batches[i] }, func(_ int, w way,
		batch int64) mem.Tensors {
		s := b.at(w)
		s.Batch, s.Padded = batch, b.pads && (batch > 1 || b.kind.pairs)
		return arch.Evaluation(s, b.predicted)
	})
}

// at is the step in one way.
func (b *builder) at(w way) arch.Step {
	s := b.step
	s.Autocast, s.Length, s.CPU = w.autocast, w.length, b.device.Kind == gpu.CPU
	return s
}

// priced prices n things in groups that differ in their batch only, once for each way.
func (b *builder) priced(n int, groups [][]int, batch func(i int) int64, price func(i int, w way,
	batch int64) mem.Tensors) [][]mem.Estimate {
	out := make([][]mem.Estimate, n)
	for i := range out {
		out[i] = slices.Repeat([]mem.Estimate{{Unknown: b.unknown}}, len(b.ways))
	}
	if b.unknown != "" {
		return out
	}
	var tasks []func()
	for _, group := range groups {
		var batches []int64
		for _, i := range group {
			batches = append(batches, batch(i))
		}
		for _, same := range mem.Alike(len(b.ways), func(w int) way {
			return way{b.ways[w].autocast, false,
				b.ways[w].length}
		}) {
			tasks = append(tasks, func() {
				at := func(micro int64) mem.Tensors { return price(group[0], b.ways[same[0]], micro) }
				var prices []mem.Tensors
				if b.step.Fused { // whose tiles are no line in the batch
					for _, n := range batches {
						prices = append(prices, at(n))
					}
				} else {
					prices = mem.AtBatches(at, batches...)
				}
				for k, i := range group {
					for _, w := range same {
						out[i][w] = b.around(prices[k], b.ways[w])
					}
				}
			})
		}
	}
	mem.Together(tasks)
	return out
}

// around adds what no forward asks for: the context and the libraries' workspace on a card, the interpreter on a CPU.
func (b *builder) around(e mem.Tensors, w way) mem.Estimate {
	if !e.Known() {
		return e.Alone()
	}
	if b.device.Kind == gpu.CPU {
		out := e.Alone()
		out.Add(mem.RuntimeOf(b.env.TorchCUDA()), libraries)
		return out
	}
	if b.on("use_cpu") || b.on("no_cuda") {
		return mem.Estimate{Unknown: "it trains on the CPU, and this estimate is for a card: --device cpu makes one for it"}
	}
	if b.before(8) && (w.autocast == nn.BF16 || w.autocast == nn.F32 && b.step.Weights == nn.BF16) {
		return mem.Estimate{Unknown: "attention in bfloat16 has no fused kernel on a card of compute capability " +
			b.device.Capability}
	}
	out := e.OnCard(b.device, b.caching.With(w.expandable))
	out.Add(mem.Collectives(b.device, b.ranks)...)
	return out
}

// libraries is what run_clm.py imports beside torch, on a CPU: import datasets alone adds 1102 MiB of VmData, most of
// it pyarrow's, import evaluate 194 MiB. A run of a small llama had 2531 MiB in its training where its tensors came to
// 307 (torch 2.15, transformers 5.23.0, datasets 5.2.0, one thread, 2026-11-23).
var libraries = mem.Item{Kind: mem.Runtime, What: "datasets and evaluate", Bytes: 1200 * unit.MiB, Guess: true,
	From: "run_clm.py's imports beside torch: 2531 MiB of VmData, less 307 of tensors and 1024 of torch"}
