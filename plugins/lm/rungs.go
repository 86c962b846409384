package lm

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
)

// The knobs of this file.
const (
	knobOptimizer = "optimizer"
	knobRank      = "LoRA rank"
	knobQuant     = "quantised weights"
)

// A switched is a shared rung and the way that it makes.
type switched struct {
	rung ladder.Rung
	way  way
}

// offer puts rungs on the shared ladder, with the ways that they make.
func (b *builder) offer(set *ladder.Set, rungs ...switched) {
	for _, r := range rungs {
		if b.s.adds(r.rung.Edits) {
			continue
		}
		set.Shared.Rungs = append(set.Shared.Rungs, r.rung)
		b.ways = append(b.ways, r.way)
	}
}

// renewed is a rung that changes one setting, after which a saved state cannot be read: it starts over.
func (b *builder) renewed(knob, name string, cost ladder.Cost, slowdown float64, e config.Edit, w way) switched {
	e.Knob, e.Cost = knob, cost.String()
	return switched{ladder.Rung{Name: name, Cost: cost, Slowdown: slowdown, NewState: true, Edits: []config.Edit{e}}, w}
}

// paged are states of AdamW in unified memory. Those of half parameters become float32, and so the cost is another one.
func (b *builder) paged(asked way) []switched {
	if !b.bitsandbytes() {
		return nil
	}
	cost := ladder.Speed
	if b.trainedType() != nn.F32 {
		cost = ladder.Numerics
	}
	e := b.s.editText(knobOptimizer, "optim", "paged_adamw_32bit", cost,
		"states in unified memory: the driver moves them to host memory where the card has no room")
	asked.optim = "paged_adamw_32bit"
	return []switched{b.renewed(knobOptimizer, "paged AdamW", cost, 1.2, e, asked)}
}

// eightBit is AdamW with states of 8 bits.
func (b *builder) eightBit(asked way) []switched {
	if !b.bitsandbytes() {
		return nil
	}
	e := b.s.editText(knobOptimizer, "optim", "adamw_8bit", ladder.Numerics, "states of 8 bits")
	asked.optim = "adamw_8bit"
	return []switched{b.renewed(knobOptimizer, "8-bit AdamW", ladder.Numerics, 1, e, asked)}
}

// bitsandbytes reports whether its optimizers can take the place of the one asked for.
func (b *builder) bitsandbytes() bool {
	return b.device.Kind != gpu.CPU && b.hasBitsandbytes() && !b.t.sharded &&
		slices.Contains([]string{"adamw_torch", "adamw_torch_fused"}, b.t.step.Optimizer)
}

// hasBitsandbytes reports whether it can be imported. A plan for another machine takes it for granted, as it does the
// versions of the other packages.
func (b *builder) hasBitsandbytes() bool {
	return b.offered || b.s.env.Missing() || b.s.env.Has("bitsandbytes")
}

// trainedType is the type of what is trained.
func (b *builder) trainedType() nn.DType {
	if b.t.step.LoRA != nil {
		return b.t.step.LoRA.Type
	}
	return b.t.step.Weights
}

// leastRank is the smallest rank that is offered.
const leastRank = 4

// ranks are adapters of a smaller rank.
func (b *builder) smallerRanks(asked way) (out []switched) {
	if b.s.kind.rank == "" || b.t.step.LoRA == nil {
		return nil
	}
	for n := b.t.step.LoRA.Rank / 2; n >= leastRank; n /= 2 {
		e := b.s.edit(knobRank, b.s.kind.rank, fmt.Sprint(n), ladder.Recipe, "smaller adapters: another experiment")
		asked.rank = n
		out = append(out, b.renewed(knobRank, fmt.Sprintf("LoRA rank %d", n), ladder.Recipe, 1, e, asked))
	}
	return out
}

// fourBits are the frozen weights of adapters in 4 bits, also with shorter sequences.
func (b *builder) fourBits(asked way, least ladder.Split) []switched {
	edits := b.quantEdits()
	if len(edits) == 0 || b.t.step.LoRA == nil || b.t.model.Experts != nil { // experts are no linear layers
		return nil
	}
	if b.device.Kind == gpu.CPU || !b.hasBitsandbytes() || b.t.ranks > 1 ||
		b.typeless() || b.t.sharded {
		return nil
	}
	asked.quant = true
	out := []switched{b.renewed(knobQuant, "weights in 4 bits", ladder.Model, 1.4, edits[0], asked)}
	out[0].rung.Edits = edits
	for _, s := range b.shorter(asked, least) {
		whole := out[0].rung
		s.rung.Name, s.rung.Cost = whole.Name+", "+s.rung.Name, whole.Cost
		s.rung.Slowdown, s.rung.NewState = s.rung.Slowdown*whole.Slowdown, true
		s.rung.Edits = append(slices.Clone(whole.Edits), s.rung.Edits...)
		out = append(out, s)
	}
	return out
}

// typeless reports whether no type is set for bitsandbytes to compute in, where the setting is also that (trl's --dtype
// auto).
func (b *builder) typeless() bool {
	_, ok := weightTypes[b.s.text("dtype", "float32")]
	return b.s.is(trlSFT) && !ok
}

const knobPrecompute = "reference before the training"

// precompute is the rung that lets the reference answer before the training, so that its weights are gone then. A
// streamed data set does not allow it (dpo_trainer.py:1171).
func (b *builder) precompute(set *ladder.Set) {
	p := b.t.step.Preference
	if p == nil || p.Precomputed || !b.s.turns("precompute_ref_log_probs") || !b.t.step.Fused ||
		b.s.on("dataset_streaming") || b.t.step.FSDP != nil {
		return
	}
	asked := b.ways[0]
	asked.precomputed = true
	set.Shared.Rungs = append(set.Shared.Rungs, ladder.Rung{Name: knobPrecompute, Cost: ladder.Speed, Slowdown: 1,
		Edits: []config.Edit{b.s.edit(knobPrecompute, "precompute_ref_log_probs", "true", ladder.Speed,
			"the reference answers all pairs once before the training, and its weights are gone then")}})
	b.ways = append(b.ways, asked)
}

// unpadded is the rung that pads each batch to its longest row, where the data set has none as long as all are padded
// to: without that it is not known to save anything in the batch that decides.
func (b *builder) unpadded(asked way) []switched {
	if b.t.row == 0 {
		return nil
	}
	e := b.s.edit(knobPadding, "pad_to_sequence_len", "false", ladder.None,
		"a batch is padded to its longest row: nothing but padding is left out")
	asked.length, asked.unpadded = b.t.row, true
	return []switched{{ladder.Rung{Name: "padding to the longest row", Cost: ladder.None, Slowdown: 1,
		Edits: []config.Edit{e}}, asked}}
}

const knobPadding = "padding"

// shortest is the shortest sequence that is offered, and common a length that is offered for any longer one. Seven
// halves lead from 131,072 tokens to 1,024.
const (
	shortest    = 128
	common      = 1024
	mostLengths = 7
)

// shorter are rungs with shorter sequences, where the phases share the micro-batch with the smallest of it.
func (b *builder) shorter(asked way, least ladder.Split) (out []switched) {
	floor := min(common, max(shortest, b.t.step.Length/8)) // shorter ones would cut off most of what was meant
	fold := max(1, b.t.folds)
	for n, left := b.t.step.Length/2/fold*fold, mostLengths; n >= floor && left > 0; n, left = n/2/fold*fold, left-1 {
		r := ladder.Rung{Name: fmt.Sprintf("sequences of %d tokens", n), Slowdown: 1}
		if least != b.t.split {
			r = b.rung(variant{least, b.t.step.Checkpointing}, nil)
			r.Name += ", " + fmt.Sprintf("sequences of %d tokens", n)
		}
		r.Cost = ladder.Recipe
		r.Edits = append(r.Edits, b.s.edit(knobLength, b.s.kind.length, fmt.Sprint(n), ladder.Recipe,
			"shorter sequences: another experiment"))
		w := asked
		w.length, w.split = n, least
		out = append(out, switched{r, w})
	}
	return out
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
		if more := b.t.averages; more != "" {
			r.Cost, why = b.t.averaging, why+"; "+more
		}
		r.NewState = restores(b.s)
		r.Edits = append(r.Edits, b.s.edit(job.MicroBatch, "per_device_train_batch_size", fmt.Sprint(v.split.Micro), r.Cost,
			why))
	}
	if v.split.Accumulation != asked.split.Accumulation {
		const why = "so that an optimizer step sees as many sequences as before"
		r.Edits = append(r.Edits, b.s.edit(job.Accumulation, "gradient_accumulation_steps", fmt.Sprint(v.split.Accumulation),
			r.Cost, why))
	}
	if v.checkpointing != asked.checkpointing {
		r.Slowdown *= 1.3
		r.Edits = append(r.Edits, b.s.edit(knobCheckpointing, checkpointField(b.s),
			strconv.FormatBool(!b.s.is(llamaFactory)), r.Cost, "each layer keeps its input, and computes the rest again"))
	}
	return r
}

// quantEdits are the edits that put frozen weights into 4 bits; nil where there are none, or the weights are so
// already. axolotl's adapter is another one then, and weights of 8 bits are no longer asked for.
func (b *builder) quantEdits() (edits []config.Edit) {
	const why = "frozen weights in 4 bits: the adapters are trained for another model"
	four, q := b.s.kind.fourBits, b.t.step.Quant
	switch {
	case b.s.is(axolotl) && (q == nil || q.Bits == 8):
		fields := []string{"adapter", "load_in_4bit", "load_in_8bit"}
		if slices.ContainsFunc(fields, func(field string) bool { return !b.s.filed(field) }) {
			return nil // an option outranks the file
		}
		edits = []config.Edit{b.s.editText(knobQuant, "adapter", "qlora", ladder.Model, why),
			b.s.edit(knobQuant, "load_in_4bit", "true", ladder.Model, why)}
		if b.s.on("load_in_8bit") {
			edits = append(edits, b.s.edit(knobQuant, "load_in_8bit", "false", ladder.Model, "4 bits in their place"))
		}
	case four != [2]string{} && q == nil:
		edits = []config.Edit{b.s.edit(knobQuant, four[0], four[1], ladder.Model, why)}
	}
	return edits
}
