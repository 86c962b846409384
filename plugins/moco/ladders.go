package moco

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
	"github.com/launch-ml/launch/core/python"
	"github.com/launch-ml/launch/plugins/moco/arch"
)

// Ladders implements [plugin.Recognized].
func (r recognized) Ladders(_ context.Context, d gpu.Device) (*ladder.Set, error) {
	b := &builder{project: r.project, device: d, env: python.Of(r.prog, r.command.Env)}
	b.caching = mem.CachingOf(b.env.AllocatorConf())
	return b.build()
}

// builder makes the ladders of one job.
type builder struct {
	*project
	device  gpu.Device
	env     python.Environment
	caching mem.Caching // as the user has it
}

// a setting is one way to compute: the shared ladder's rungs, as the formulas see them.
type computing struct {
	amp        nn.DType
	expandable bool
}

// A variant is one way to train.
type variant struct {
	micro, accum int64 // of each process
	crop         int64
	queue        int64
	cost         ladder.Cost
	why          string
}

func (b *builder) build() (*ladder.Set, error) {
	set := &ladder.Set{Values: map[string]int64{job.Accumulation: b.accumulate()}}
	if b.micro > 0 {
		set.Values[job.MicroBatch], set.Values[knobRanks] = b.micro, b.world
		set.Invariants = append(set.Invariants, ladder.Invariant{
			Name: "global batch", Factors: []string{job.MicroBatch, job.Accumulation, knobRanks},
			Equals: b.micro * b.accumulate() * b.world, Until: ladder.Recipe,
		})
		if b.asserts && b.aligned(b.micro, b.queue.int()) {
			set.Values[knobQueue] = b.queue.int()
			set.Invariants = append(set.Invariants, ladder.Invariant{
				Name: "queue", Factors: []string{job.MicroBatch, knobRanks}, Divides: knobQueue,
			})
		}
	}
	ways, err := b.shared(set)
	if err != nil {
		return nil, err
	}
	l, err := b.training(ways)
	if err != nil {
		return nil, err
	}
	set.Phases = []ladder.Ladder{l}
	set.DropUseless()
	set.Host = b.host(l.Rungs[l.Asked].At(set.Shared.Asked))
	return set, nil
}

// shared builds the ladder of what touches all phases, and what its rungs mean to the formulas.
func (b *builder) shared(set *ladder.Set) ([]computing, error) {
	asked := computing{amp: nn.F32}
	onCard := b.device.Kind != gpu.CPU // torch.cuda.amp does nothing without a card
	if b.amp.found && b.amp.on() && (b.amp.dead == "" || b.step == arch.V3) && onCard {
		asked.amp = nn.F16 // torch.cuda.amp.autocast's default
	}
	set.Shared = ladder.Ladder{Phase: ladder.Shared, Rungs: []ladder.Rung{ladder.AsAsked()}}
	ways := []computing{asked}
	if !onCard {
		return ways, nil
	}
	if e, ok := b.env.ExpandableSegments(); ok {
		set.Shared.Rungs = append(set.Shared.Rungs, ladder.Rung{Name: "expandable segments", Cost: ladder.None, Slowdown: 1, Edits: []config.Edit{e}})
		ways = append(ways, computing{asked.amp, true})
	}
	if b.amp.live() && !b.amp.on() {
		e, err := b.edit(b.amp, true, ladder.Numerics.String(), "half the bytes for what a resnet saves, and about a quarter less for a vision transformer")
		if err != nil {
			return nil, err
		}
		set.Shared.Rungs = append(set.Shared.Rungs, ladder.Rung{Name: "mixed precision in float16", Cost: ladder.Numerics, Slowdown: 0.8, Edits: []config.Edit{e}})
		ways = append(ways, computing{nn.F16, false})
	}
	return ways, nil
}

// training builds the ladder of the training step, the only phase there is: nothing here validates.
func (b *builder) training(ways []computing) (ladder.Ladder, error) {
	asked := b.asked()
	smaller, larger := b.variants()
	prices := b.price(append(append([]variant{asked}, smaller...), larger...), ways)
	l := ladder.Ladder{Phase: ladder.Training}
	for i, v := range larger {
		r, err := b.rung(v, prices[1+len(smaller)+i])
		if err != nil {
			return l, err
		}
		l.Rungs = append(l.Rungs, r)
	}
	l.Asked = len(l.Rungs)
	var below []ladder.Rung
	for i, v := range smaller {
		r, err := b.rung(v, prices[1+i])
		if err != nil {
			return l, err
		}
		below = append(below, r)
	}
	l.Rungs = append(l.Rungs, ladder.Descend(ladder.AsAsked(prices[0]...), below, 0)...)
	return l, nil
}

func (p *project) asked() variant {
	v := variant{micro: p.micro, accum: p.accumulate(), queue: p.queue.int(), crop: vitCrop}
	if p.crop.found {
		v.crop = p.crop.int()
	}
	return v
}

// vitCrop is the side of a crop where the code fixes it: RandomResizedCrop(224) in both of facebookresearch's.
const vitCrop = 224

// minMicro is what BatchNorm1d needs of one process to have a variance.
const minMicro = 2

// maxGlobal is the largest global batch that anybody trains moco with: moco-v3's own 4096 (main_moco.py:60 at c349e6e).
const maxGlobal = 4096

// variants lists the ways to train with less and with more.
func (p *project) variants() (smaller, larger []variant) {
	if p.micro == 0 || !p.batch.live() {
		return nil, nil
	}
	if p.accumulation.live() {
		smaller, larger = p.splits()
	} else {
		smaller = p.halve()
	}
	larger = append(larger, p.grow()...)
	slices.SortStableFunc(larger, func(a, b variant) int { return cmp.Compare(b.micro, a.micro) })
	smaller = append(smaller, p.crops(smaller)...)
	return smaller, larger
}

// splits keep the global batch: smaller micro-batches and more of them, or larger ones and fewer.
func (p *project) splits() (smaller, larger []variant) {
	asked := p.asked()
	now := ladder.Split{Micro: asked.micro, Accumulation: asked.accum}
	more, less := now.Others(func(s ladder.Split) bool {
		v := variant{micro: s.Micro, accum: s.Accumulation, queue: asked.queue}
		return s.Divides(now) && p.bounded(v.micro, v.accum) && p.aligned(v.micro, v.queue) &&
			(v.micro > asked.micro && p.room(v) || v.micro < asked.micro && v.micro >= minMicro)
	})
	variants := func(splits []ladder.Split) (out []variant) {
		for _, s := range splits {
			v := asked
			v.micro, v.accum, v.cost = s.Micro, s.Accumulation, ladder.Numerics
			v.why = p.coupled(v)
			out = append(out, v)
		}
		return out
	}
	return variants(less), variants(more)
}

// coupled says what a split at the same global batch changes all the same.
func (p *project) coupled(v variant) string {
	why := fmt.Sprintf("the same global batch of %d; batch normalisation sees the micro-batch", v.micro*v.accum*p.world)
	if v.accum != p.accumulate() {
		why += fmt.Sprintf(", and the momentum encoder follows with every one: %d updates of it an optimizer step, not %d", v.accum, p.accumulate())
	}
	if was, is := p.perEpoch(p.asked()), p.perEpoch(v); was != is {
		why += fmt.Sprintf("; an epoch has %d optimizer steps instead of %d", is, was)
	}
	return why
}

// perEpoch is how many optimizer steps an epoch has; 0 where that is not known.
func (p *project) perEpoch(v variant) int64 {
	if p.cut || v.micro == 0 {
		return 0
	}
	return p.iterations(v.micro) / v.accum
}

// room reports whether the queue can take what a step enqueues: solar-ssl's enqueues the keys of both crops, and writes
// round the end once.
func (p *project) room(v variant) bool {
	return p.step != arch.Solar || !p.usesQueue || v.queue == 0 || 2*v.micro*p.world <= v.queue
}

// halve makes the global batch smaller, where nothing accumulates.
func (p *project) halve() (out []variant) {
	for v := p.asked(); v.micro%2 == 0 && v.micro/2 >= minMicro; {
		v.micro /= 2
		v.cost = ladder.Recipe
		if !p.aligned(v.micro, v.queue) {
			break
		}
		v.why = p.fewer(v)
		out = append(out, v)
	}
	return out
}

// fewer says what a smaller or larger global batch means for the project.
func (p *project) fewer(v variant) string {
	g := v.micro * v.accum * p.world
	why := fmt.Sprintf("the global batch becomes %d", g)
	switch p.step {
	case arch.V3:
		return why + "; the code scales --lr by it, and the negatives are the keys of the batch, so they become as many"
	case arch.SolarExp:
		return why + "; the negatives are the keys of the batch, so they become as many"
	}
	return why
}

// grow lists variants with a larger global batch: one and a half times, as solar-ssl's guide has it, and then doublings
// from the largest micro-batch that the asked global batch allows.
func (p *project) grow() (out []variant) {
	asked := p.asked()
	add := func(micro, accum int64) {
		v := asked
		v.micro, v.accum, v.cost = micro, accum, ladder.Recipe
		if g := micro * accum * p.world; g > max(maxGlobal, asked.micro*asked.accum*p.world) || !p.bounded(micro, accum) {
			return
		}
		if !p.aligned(v.micro, v.queue) {
			if v.queue = p.alignedQueue(v); v.queue == 0 {
				return
			}
		}
		if !p.room(v) {
			return
		}
		v.why = p.fewer(v)
		out = append(out, v)
	}
	if asked.micro%2 == 0 {
		add(asked.micro/2*3, asked.accum)
	}
	top, accum := asked.micro*asked.accum, int64(1)
	if !p.accumulation.live() {
		top, accum = asked.micro, asked.accum
	}
	for _, k := range []int64{2, 4, 8, 16} {
		add(top*k, accum)
	}
	return out
}

// alignedQueue is the length of a queue that takes a variant's keys, as near to the recipe's as can be: 0 where it must
// not be changed, which a run that can go on from a saved state never is: the state holds the queue.
func (p *project) alignedQueue(v variant) int64 {
	g := v.micro * p.world
	if !p.queue.live() || g == 0 || p.resumable() {
		return 0
	}
	k := (p.queue.int() + g/2) / g * g
	return max(k, g)
}

// crops are smaller crops together with the smallest micro-batch; torchvision's transformers take no other than 224.
func (p *project) crops(smaller []variant) (out []variant) {
	e, err := arch.Build(p.library, p.encoder)
	if !p.crop.live() || err != nil || e.Image != 0 {
		return nil
	}
	least := p.asked()
	for _, v := range smaller {
		if v.micro < least.micro {
			least = v
		}
	}
	for _, crop := range []int64{192, 160, 128} {
		v := least
		if crop >= p.crop.int() || !p.bounded(v.micro, v.accum) {
			continue
		}
		v.crop, v.cost = crop, ladder.Recipe
		out = append(out, v)
	}
	return out
}

// rung names one way to train and makes its edits.
func (b *builder) rung(v variant, prices []mem.Estimate) (ladder.Rung, error) {
	asked := b.asked()
	r := ladder.Rung{Cost: v.cost, Slowdown: 1, Estimates: prices, Values: map[string]int64{
		job.MicroBatch: v.micro, job.Accumulation: v.accum, knobQueue: v.queue,
	}}
	if !b.asserts {
		delete(r.Values, knobQueue)
	}
	var failed error
	set := func(k knob, to any, why string) {
		e, err := b.edit(k, to, v.cost.String(), why)
		if err != nil && failed == nil {
			failed = err
		}
		r.Edits = append(r.Edits, e)
	}
	was, is := asked.micro*asked.accum*b.world, v.micro*v.accum*b.world
	r.Name = fmt.Sprintf("batch %d", b.batchFor(v.micro))
	if b.accumulation.live() {
		r.Name = fmt.Sprintf("batch %d × accumulation %d", b.batchFor(v.micro), v.accum)
	}
	if v.micro != asked.micro {
		set(b.batch, b.batchFor(v.micro), v.why)
	}
	if v.accum != asked.accum {
		set(b.accumulation, v.accum, v.why)
	}
	if v.queue != asked.queue {
		set(b.queue, v.queue, fmt.Sprintf("a step enqueues %d keys, and %s asserts that they divide the queue", v.micro*b.world, b.assertAt))
		r.Name += fmt.Sprintf(", queue of %d", v.queue)
	}
	if was != is && b.scalesRate() {
		set(b.rate, scaled(b.rate.float(), is, was), b.rateRule())
	}
	if v.crop != asked.crop {
		set(b.crop, v.crop, "a smaller crop is another experiment")
		r.Name += fmt.Sprintf(", crops of %d", v.crop)
	}
	if e, ok := b.refit(v); ok {
		r.Edits = append(r.Edits, e)
	}
	if v.micro > 0 && asked.micro > 0 { // a card is filled worse by a smaller batch
		r.Slowdown = ladder.SplitSlowdown(float64(asked.micro) / float64(v.micro))
	}
	return r, failed
}

// scalesRate reports whether the learning rate must follow the global batch by an edit: moco-v3 scales its own
// (main_moco.py:189 at c349e6e).
func (p *project) scalesRate() bool { return p.step != arch.V3 && p.rate.live() }

// rateRule names the rule by which the rate follows the global batch: facebookresearch's README asks for it, and the
// settings of solar-ssl that name a base_lr follow it.
func (p *project) rateRule() string {
	if p.solar == nil || p.setting("", "base_lr").found {
		return "the project's own rule: linear in the global batch"
	}
	return "linear in the global batch; the project itself states no rule"
}

// scaled is a rate times is/was, as short as it can be said.
func scaled(rate float64, is, was int64) float64 {
	f, err := strconv.ParseFloat(strconv.FormatFloat(rate*float64(is)/float64(was), 'g', 12, 64), 64)
	if err != nil {
		return rate * float64(is) / float64(was)
	}
	return f
}

// pointers notes which pointers the variants want in a copy of the saved state.
func (p *project) pointers() {
	c := &p.checkpoint
	smaller, larger := p.variants()
	for _, v := range append(smaller, larger...) {
		if g := v.micro * p.world; p.asserts && !c.fits(g) && !slices.Contains(c.to, c.refit(g)) {
			c.to = append(c.to, c.refit(g))
		}
	}
}

// refit sets the pointer of the queue in a copy of the saved state to where the variant can go on from.
func (p *project) refit(v variant) (config.Edit, bool) {
	c := p.checkpoint
	g := v.micro * p.world
	if !p.asserts || c.fits(g) || len(c.to) == 0 {
		return config.Edit{}, false
	}
	return config.Edit{
		Knob: knobPointer, At: config.Address{Doc: c.path, Path: "queue_ptr"},
		From: strconv.FormatInt(c.ptr, 10), To: strconv.FormatInt(c.refit(g), 10), Cost: v.cost.String(),
		Why: fmt.Sprintf("a step enqueues %d keys, and the queue can only go on from a multiple of that; the keys themselves stay", g),
	}, true
}
