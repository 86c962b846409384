package lm

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
)

// ladders are the ways to make a training on a device, with what each needs.
func ladders(s *settings, t *training, d gpu.Device) *ladder.Set {
	b := &builder{s: s, t: t, device: d, caching: mem.CachingOf(s.env.AllocatorConf())}
	set := b.set()
	set.Host = b.host()
	set.Absent = b.absent(set)
	return set
}

// set is the ladders of the card.
func (b *builder) set() *ladder.Set {
	t := b.t
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
	asked := way{autocast: b.t.step.Autocast, length: b.t.step.Length, split: b.t.split, optim: b.t.step.Optimizer}
	if b.t.step.LoRA != nil {
		asked.rank = b.t.step.LoRA.Rank
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
	if e, ok := b.s.env.ExpandableSegments(); ok {
		w := asked
		w.expandable = true
		b.offer(set, switched{ladder.Rung{Name: "expandable segments", Cost: ladder.None, Slowdown: 1,
			Edits: []config.Edit{e}}, w})
	}
	b.offer(set, b.unpadded(asked)...)
	b.precompute(set)
	b.offer(set, b.paged(asked)...)
	if asked.autocast == nn.F32 && b.t.step.Weights == nn.F32 && !b.before(8) && b.t.unknown == "" && !b.s.is(axolotl) &&
		!b.t.wrapped {
		w := asked
		w.autocast = nn.BF16
		b.offer(set, switched{ladder.Rung{Name: "mixed precision in bfloat16", Cost: ladder.Numerics, Slowdown: 0.8,
			Edits: []config.Edit{b.s.edit(knobPrecision, "bf16", "true", ladder.Numerics,
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
	if !b.t.coupled {
		return b.t.split
	}
	larger, smaller := b.t.split.Others(func(ladder.Split) bool { return true })
	rungs, ways := set.Shared.Rungs, b.ways
	set.Shared.Rungs, b.ways = nil, nil
	set.Shared.Asked, b.asksAt = len(larger), len(larger)
	add := func(splits []ladder.Split) {
		for _, s := range splits {
			w := asked
			w.split = s
			b.offer(set, switched{b.rung(variant{s, b.t.step.Checkpointing}, nil), w})
		}
	}
	add(larger)
	set.Shared.Rungs, b.ways = append(set.Shared.Rungs, rungs...), append(b.ways, ways...)
	add(smaller)
	return b.ways[len(b.ways)-1].split
}

// trainingLadder is every division of the global batch, with and without activation checkpointing.
func (b *builder) trainingLadder() ladder.Ladder {
	asked := b.asked()
	larger, smaller := asked.split.Others(func(ladder.Split) bool { return true })
	var above, below []variant
	// or the shared ladder has them
	if b.t.coupled || b.t.pinned || !b.s.turns("per_device_train_batch_size", "gradient_accumulation_steps") {
		larger, smaller = nil, nil
	}
	for _, s := range larger {
		if !b.t.single {
			above = append(above, variant{s, asked.checkpointing})
		}
	}
	for _, s := range smaller {
		below = append(below, variant{s, asked.checkpointing})
	}
	field := checkpointField(b.s)
	if !asked.checkpointing && !b.s.negated(field) && b.s.turns(field) { // which no value can switch on
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

// validationLadder is smaller batches of an evaluation.
func (b *builder) validationLadder() ladder.Ladder {
	batches := []int64{b.t.evals}
	for n := b.t.evals / 2; n >= 1 && !b.t.evalPacks && b.s.turns("per_device_eval_batch_size"); n /= 2 {
		batches = append(batches, n)
	}
	prices := b.evaluations(batches)
	var below []ladder.Rung
	for i, n := range batches[1:] {
		below = append(below, ladder.Rung{Name: fmt.Sprintf("validation batch %d", n), Cost: ladder.Speed,
			Slowdown: ladder.SplitSlowdown(float64(b.t.evals) / float64(n)), Values: map[string]int64{knobValidation: n},
			Estimates: prices[1+i],
			Edits: []config.Edit{b.s.edit(knobValidation, "per_device_eval_batch_size", fmt.Sprint(n), ladder.Speed,
				"the same validation, in smaller batches")}})
	}
	return ladder.Ladder{Phase: ladder.Validation, Rungs: ladder.Descend(ladder.AsAsked(prices[0]...), below, b.asksAt)}
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
	with := (&builder{s: b.s, t: b.t, device: b.device, caching: b.caching, offered: true}).set()
	if len(with.Shared.Rungs) == len(set.Shared.Rungs) {
		return nil
	}
	return &ladder.Absent{Package: "bitsandbytes", Set: with}
}
