package lm

import (
	"fmt"
	"slices"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/plugins/lm/arch"
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
		if b.adds(r.rung.Edits) {
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
	e := b.editText(knobOptimizer, b.optim(), "paged_adamw_32bit", cost,
		"states in unified memory: the driver moves them to host memory where the card has no room")
	asked.optim = "paged_adamw_32bit"
	return []switched{b.renewed(knobOptimizer, "paged AdamW", cost, 1.2, e, asked)}
}

// eightBit is AdamW with states of 8 bits.
func (b *builder) eightBit(asked way) []switched {
	if !b.bitsandbytes() {
		return nil
	}
	e := b.editText(knobOptimizer, b.optim(), "adamw_8bit", ladder.Numerics, "states of 8 bits")
	asked.optim = "adamw_8bit"
	return []switched{b.renewed(knobOptimizer, "8-bit AdamW", ladder.Numerics, 1, e, asked)}
}

// bitsandbytes reports whether its optimizers can take the place of the one asked for.
func (b *builder) bitsandbytes() bool {
	return b.device.Kind != gpu.CPU && b.hasBitsandbytes() && !b.sharded() &&
		slices.Contains([]string{"adamw_torch", "adamw_torch_fused"}, b.step.Optimizer)
}

// hasBitsandbytes reports whether it can be imported. A plan for another machine takes it for granted, as it does the
// versions of the other packages.
func (b *builder) hasBitsandbytes() bool {
	return b.offered || b.env.Missing() || b.env.Has("bitsandbytes")
}

// absent is what the ladders would be with bitsandbytes, where it is not installed and the card is too small for the
// job as asked; nil where they would be the same.
func (b *builder) absent(set *ladder.Set) *ladder.Absent {
	tooLarge := slices.ContainsFunc(set.Phases, func(l ladder.Ladder) bool {
		e := l.Rungs[l.Asked].At(set.Shared.Asked)
		return e.Known() && e.Total() > b.device.Total
	})
	if b.hasBitsandbytes() || !tooLarge {
		return nil
	}
	with := (&builder{training: b.training, device: b.device, caching: b.caching, offered: true}).set()
	if len(with.Shared.Rungs) == len(set.Shared.Rungs) {
		return nil
	}
	return &ladder.Absent{Package: "bitsandbytes", Set: with}
}

// optim is the field of the optimizer.
func (b *builder) optim() string {
	if b.kind.optim != "" {
		return b.kind.optim
	}
	return "optim"
}

// trainedType is the type of what is trained.
func (b *builder) trainedType() nn.DType {
	if b.step.LoRA != nil {
		return b.step.LoRA.Type
	}
	return b.step.Weights
}

// leastRank is the smallest rank that is offered.
const leastRank = 4

// ranks are adapters of a smaller rank.
func (b *builder) smallerRanks(asked way) (out []switched) {
	if b.kind.rank == "" || b.step.LoRA == nil {
		return nil
	}
	for n := b.step.LoRA.Rank / 2; n >= leastRank; n /= 2 {
		e := b.edit(knobRank, b.kind.rank, fmt.Sprint(n), ladder.Recipe, "smaller adapters: another experiment")
		asked.rank = n
		out = append(out, b.renewed(knobRank, fmt.Sprintf("LoRA rank %d", n), ladder.Recipe, 1, e, asked))
	}
	return out
}

// fourBits are the frozen weights of adapters in 4 bits, also with shorter sequences.
func (b *builder) fourBits(asked way, least ladder.Split) []switched {
	edits := b.quantEdits()
	if len(edits) == 0 || b.step.LoRA == nil || b.model.Experts != nil { // experts are no linear layers
		return nil
	}
	if b.device.Kind == gpu.CPU || !b.hasBitsandbytes() || b.ranks > 1 ||
		b.typeless() || b.sharded() {
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
	_, ok := weightTypes[b.text("dtype", "float32")]
	return b.kind.dialect == sftKind.dialect && !ok
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
		s.Quant = &arch.Quant{Bits: 4, Nested: b.kind.pairs || b.kind.own != nil, Compute: s.Weights, Loaded: s.Weights}
		if b.kind.own != nil {
			l.Kernels = b.kernels("qlora", false)
		}
		if b.kind.dialect == sftKind.dialect { // sft_trainer.py:908
			l.Type, l.Whole.Type = nn.BF16, nn.BF16
		}
	}
	s.LoRA = &l
	return s
}
