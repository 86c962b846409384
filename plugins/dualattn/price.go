package dualattn

import (
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
	"github.com/launch-ml/launch/plugins/dualattn/arch"
)

// An estimated variant.
type estimated struct{ training, validation mem.Estimate }

func (p estimated) total() unit.Bytes { return max(p.training.Total(), p.validation.Total()) }

// price estimates variants, in their order. Those that differ in their micro-batch only are priced together.
func (b *builder) price(vs []variant) []estimated {
	if why := b.unpriced(); why != "" {
		out := make([]estimated, len(vs))
		for i := range out {
			out[i].training.Unknown, out[i].validation.Unknown = why, why
		}
		return out
	}
	major, _ := b.python().TorchCUDA()
	return b.tensors(vs, !b.cpu, func(s *arch.StepConfig) { s.OldTorch = major == 1 }, b.around())
}

// tensors prices what the code itself asks for, and adds to each estimate what is around it.
func (x *checkout) tensors(vs []variant, cuda bool, adjust func(*arch.StepConfig), around func(mem.Tensors) mem.Estimate) []estimated {
	out, steps := make([]estimated, len(vs)), make([]arch.StepConfig, len(vs))
	for i, v := range vs {
		steps[i] = x.step(v, cuda)
		adjust(&steps[i])
	}
	var tasks []func()
	phase := func(of func(*estimated) *mem.Estimate, price func(arch.StepConfig, ...int64) []mem.Tensors, beside func(arch.StepConfig) arch.StepConfig) {
		for _, group := range mem.Alike(len(vs), func(i int) arch.StepConfig { return beside(steps[i]) }) {
			tasks = append(tasks, func() {
				var batches []int64
				for _, i := range group {
					batches = append(batches, vs[i].micro)
				}
				es := price(steps[group[0]], batches...)
				for _, same := range mem.Alike(len(group), func(k int) int64 { return batches[k] }) { // with expandable segments and without
					e := around(es[same[0]])
					for _, k := range same {
						*of(&out[group[k]]) = e
					}
				}
			})
		}
	}
	phase(func(p *estimated) *mem.Estimate { return &p.training }, arch.Trainings, func(s arch.StepConfig) arch.StepConfig {
		if s.LastVal == s.Batch {
			s.LastVal = -1
		}
		s.Batch, s.Accumulate = 0, min(max(s.Accumulate, 1), 2) // within a group of two or more gradients are there
		return s
	})
	phase(func(p *estimated) *mem.Estimate { return &p.validation }, arch.Validations, func(s arch.StepConfig) arch.StepConfig {
		return arch.StepConfig{Net: s.Net} // without autocast, whatever the training does
	})
	mem.Together(tasks)
	return out
}

// unpriced says why nothing can be estimated, or "".
func (b *builder) unpriced() string {
	if b.problem != "" {
		return b.problem
	}
	if b.micro <= 0 {
		return "the configuration does not say how large a micro-batch is"
	}
	if name := b.class.computed(sizes...); name != "" {
		return "the configuration computes " + name + ", which launch does not run"
	}
	return ""
}

// around adds what no forward asks for.
func (b *builder) around() func(mem.Tensors) mem.Estimate {
	major, cuda := b.python().TorchCUDA()
	caching := b.caching()
	return func(tensors mem.Tensors) mem.Estimate {
		tensors.Items = slices.Clone(tensors.Items)
		if !b.version.known { // an upper bound refuses nothing
			for i := range tensors.Items {
				tensors.Items[i].Guess = true
			}
		}
		if b.cpu {
			e := tensors.Alone()
			e.Add(mem.RuntimeOf(major, cuda))
			return e
		}
		e := tensors.OnCard(b.device, caching)
		if e.Known() {
			e.Add(b.late(e)...)
		}
		return e
	}
}

// caching is what the allocator is told, but for expandable segments: what they save of the slack stays free for late growth.
func (b *builder) caching() mem.Caching {
	c := mem.CachingOf(b.python().AllocatorConf())
	if c.Expandable {
		c.Expandable, c.Other = false, strings.Trim(c.Other+",expandable_segments:True", ",")
	}
	return c
}

// lateGrowth is what the one recorded failure had reserved and could not use: 1.25 GiB of a P100's 15.89 GiB, 8 %, in the
// first batch after the third validation, when epochs 1 to 15 had fitted (the author's log at b74c628 and at 6a4e6b6,
// torch 2, micro-batch 4). Much of it are the blocks that held the validation's attention maps, which serve no request of
// a training step.
const (
	lateGrowth = 1280 * unit.MiB
	lateShare  = 0.08
)

// late is what has to stay free for what comes after the first validation, beyond the slack that the allocator has in any
// case: both together were measured. A run that dies of it has lost hours and starts over, so it is kept with expandable segments as
// well, with which nobody has measured it.
func (b *builder) late(e mem.Estimate) []mem.Item {
	const what = "after the first validation"
	slack := e.Of(mem.Slack)
	return []mem.Item{
		{Kind: mem.Late, What: what, Bytes: max(0, lateGrowth-slack),
			From: "1.25 GiB reserved and not usable on a P100 of 15.89 GiB, at epoch 16, after a validation (the author's log at 6a4e6b6): a step that fits is no run that fits, and no state can be resumed"},
		{Kind: mem.Late, What: what, Bytes: max(0, unit.Bytes(lateShare*float64(b.device.Total))-max(lateGrowth, slack)), Guess: true,
			From: "8 % of the card, as it was of the P100: on larger cards nobody has measured it"},
	}
}
