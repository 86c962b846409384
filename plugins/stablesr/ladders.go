package stablesr

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
	"github.com/launch-ml/launch/plugins/stablesr/arch"
)

// Ladders implements [plugin.Recognized].
//
// The sanity check, the validation and the image log run at the training's micro-batch, and the pool stays on the card
// through all of them, so every knob is on the shared ladder and each phase is priced on it. Structcond's activation
// checkpointing concerns the training alone, and is there too: it gives back so little (84 MiB a sample at 512) that it is
// worth a rung only when the micro-batch cannot be smaller.
func (r *recognized) Ladders(_ context.Context, d gpu.Device) (*ladder.Set, error) {
	b := newBuilder(r.recipe, r.job, d).apart()
	if d.Kind == gpu.CPU {
		r.ahead.drop()
	} else {
		b.ahead = r.ahead
	}
	return b.build(), nil
}

// builder makes the ladders of one job.
type builder struct {
	*recipe
	device gpu.Device
	job    *job.Job
	share  float64 // of the card that the script lets PyTorch take
	// spelled is that share as it stands in the script.
	spelled string
	ahead   *ahead // what was priced before the device was known, or nil
}

func newBuilder(r *recipe, j *job.Job, d gpu.Device) *builder {
	b := &builder{recipe: r, device: d, job: j}
	b.share, b.spelled = r.fraction()
	return b
}

// variant is one way to run, as the formulas see it.
type variant struct {
	micro, accum, queue, size int64
	edgeOff                   bool
	structCkpt                bool
	expandable                bool
}

// asked is the job as it was typed.
func (r *recipe) asked() variant {
	return variant{micro: r.micro, accum: r.accum, queue: r.queue, size: r.size}
}

// A rung of the shared ladder and what it means.
type shared struct {
	ladder.Rung
	variant
}

// build makes the ladders.
func (b *builder) build() *ladder.Set {
	asked, names := b.asked(), b.phases()
	set := b.empty()
	if why := b.idleCard(); why != "" { // nothing that happens on the card is to be fitted to it
		set.Idle(why, names...)
		set.Host = b.host(mem.Estimate{Unknown: why})
		return set
	}
	// Which edits the program would take is found out while what they would save is priced: nearly always it takes all.
	expected, first := b.expecting().shared(asked)
	rungs, at := expected, first
	tasks := []func(){func() { rungs, at = b.shared(asked) }}
	estimates := make([][]mem.Estimate, len(phases)) // by what is expected
	for n := range phases {
		estimates[n] = make([]mem.Estimate, len(expected))
	}
	feeding := b.apart()
	for _, g := range groups(expected) {
		tasks = append(tasks, func() {
			for k, e := range b.price(g.phase, g.variants) {
				estimates[g.phase][g.rungs[k]] = e
			}
			if g.phase == training && slices.Contains(g.rungs, first) {
				set.Host = feeding.host(estimates[training][first])
			}
		})
	}
	mem.Together(tasks)
	ladders := map[string]*ladder.Ladder{}
	for _, name := range names {
		set.Phases = append(set.Phases, ladder.Ladder{Phase: name, Rungs: []ladder.Rung{ladder.AsAsked()}})
	}
	for i := range set.Phases {
		ladders[set.Phases[i].Phase] = &set.Phases[i]
	}
	set.Shared = ladder.Ladder{Phase: ladder.Shared, Asked: at}
	for _, s := range rungs {
		set.Shared.Rungs = append(set.Shared.Rungs, s.Rung)
		i := slices.IndexFunc(expected, func(x shared) bool { return x.variant == s.variant })
		for n, p := range phases {
			l := ladders[p.name]
			switch {
			case l == nil: // the job has no such phase
			case i >= 0:
				l.Rungs[0].Estimates = append(l.Rungs[0].Estimates, estimates[n][i])
			default: // the smallest micro-batch that the program takes is another one than expected
				l.Rungs[0].Estimates = append(l.Rungs[0].Estimates, b.price(n, []variant{s.variant})[0])
			}
		}
	}
	dropIdle(set)
	return set
}

// empty is the set without its ladders.
func (b *builder) empty() *ladder.Set {
	set := &ladder.Set{Values: map[string]int64{knobMicro: b.micro, knobAccumulation: b.accum}}
	if b.micro > 0 && b.accum > 0 {
		set.Invariants = append(set.Invariants, ladder.Invariant{
			Name: "global batch", Factors: []string{knobMicro, knobAccumulation}, Equals: b.micro * b.accum, Until: ladder.Recipe,
		})
		if b.queue > 0 && b.queue%b.micro == 0 { // ddpm.py:1885 asserts it
			set.Values[knobQueue] = b.queue
			set.Invariants = append(set.Invariants, ladder.Invariant{Name: "pool of degraded pairs", Factors: []string{knobMicro}, Divides: knobQueue})
		}
	}
	return set
}

// phases are the names of those that the job has.
func (b *builder) phases() []string {
	names := []string{phases[training].name}
	if b.validates() {
		names = append(names, phases[validation].name)
	}
	if b.logsImages() {
		names = append(names, phases[logging].name)
	}
	return names
}

// apart is a builder that works while another does.
func (b *builder) apart() *builder {
	r, c := *b.recipe, *b
	r.taken, c.recipe = nil, &r
	return &c
}

// expecting is a builder that takes every edit for one that the program would take.
func (b *builder) expecting() *builder {
	c := b.apart()
	c.expects = true
	return c
}

// idleCard says why the job takes nothing of a card that it is priced for, or "".
func (b *builder) idleCard() string {
	v, there := b.cards()
	switch {
	case b.device.Kind == gpu.CPU:
		return ""
	case b.entry == mainPy && !b.trains():
		return "without --train nothing is trained"
	case b.readsDevices() && !has(b.root, keyGPUs): // with it Lightning trains on a card, or main.py stops
	case !there, v == int64(0), v == "0":
		return "as typed it runs on the CPU: it takes nothing of the card"
	}
	return ""
}

// validates reports whether there is a validation, of which the sanity check is the first.
func (b *builder) validates() bool {
	if !has(b.root, "data.params.validation") {
		return false
	}
	if v, ok := get(b.root, trainerKey+"limit_val_batches"); ok && (v == int64(0) || v == 0.0) {
		return false
	}
	sanity, given := integer(b.root, keySanity)
	interval, _ := integer(b.root, keyValCheck)
	return !given || sanity != 0 || interval < never
}

// never is after how many micro-batches a validation never comes: zero123's recipe has five million.
const never = 1_000_000

// logsImages reports whether there is an image log: main.py adds ImageLogger whatever the recipe says.
func (b *builder) logsImages() bool {
	if n, ok := integer(b.root, keyImages+".max_images"); ok && n == 0 || truth(b.root, keyImages+".disabled", false) {
		return false
	}
	if b.model == nil {
		return false
	}
	return b.stableSR() || b.model.Resi() || has(b.root, keyImages) || strings.Contains(b.main.Code, "main.ImageLogger")
}

// shared lists the rungs that concern every phase, from the one that needs most, and where the job as asked stands.
func (b *builder) shared(asked variant) (rungs []shared, at int) {
	larger, smaller := b.splits(asked)
	for _, v := range larger {
		if s, ok := b.splitRung(v, asked); ok {
			rungs = append(rungs, s)
		}
	}
	at = len(rungs)
	rungs = append(rungs, shared{ladder.AsAsked(), asked})
	var below []shared
	least := asked
	for _, v := range smaller {
		if s, ok := b.splitRung(v, asked); ok {
			below = append(below, s)
			least = v
		}
	}
	if s, ok := b.structRung(least, asked); ok {
		below = append(below, s)
	}
	if e, ok := b.expandable(); ok {
		v := asked
		v.expandable = true
		below = append(below, shared{ladder.Rung{Name: "expandable segments", Cost: ladder.None, Slowdown: 1, Edits: []config.Edit{e}}, v})
		if least != asked {
			if s, ok := b.splitRung(least, asked); ok {
				s.Name, s.expandable = s.Name+", expandable segments", true
				s.Edits = append(s.Edits, e)
				s.Slowdown += 0.01
				below = append(below, s)
			}
		}
	}
	below = append(below, b.otherExperiments(least, asked)...)
	slices.SortStableFunc(below, func(x, y shared) int { return cmp.Or(cmp.Compare(x.Cost, y.Cost), cmp.Compare(x.Slowdown, y.Slowdown)) })
	return append(rungs, below...), at
}

// splits lists the ways to make up the same global batch whose micro-batch divides the pool, larger ones first, then
// smaller ones.
func (b *builder) splits(asked variant) (larger, smaller []variant) {
	more, less := ladder.Split{Micro: asked.micro, Accumulation: asked.accum}.Others(func(s ladder.Split) bool {
		return asked.queue <= 0 || asked.queue%s.Micro == 0
	})
	variants := func(splits []ladder.Split) (out []variant) {
		for _, s := range splits {
			v := asked
			v.micro, v.accum = s.Micro, s.Accumulation
			out = append(out, v)
		}
		return out
	}
	return variants(more), variants(less)
}

// splitCost is what a split gives up.
func (b *builder) splitCost() (ladder.Cost, string) {
	switch {
	case b.model != nil && b.model.Resi(): // contperceptual.py:58 against :73
		return ladder.Recipe, "; the loss divides the reconstruction's part by the micro-batch once more and the discriminator's not, so that they weigh otherwise"
	case b.model != nil && b.model.Autoencoder():
		return ladder.Numerics, "; the discriminator's batch normalisation sees the piece"
	case b.model != nil && b.model.BatchNorm:
		return ladder.Numerics, "; the edge processor's batch normalisation sees the piece"
	case b.model != nil && b.model.EMA:
		return ladder.Numerics, "; the averages of use_ema follow every piece"
	}
	return ladder.Speed, ""
}

// splitChanges divide the global batch in another way. What would follow the micro-batch is written down as it is.
func (b *builder) splitChanges(v, asked variant) []change {
	if v.micro == asked.micro {
		return nil
	}
	cost, more := b.splitCost()
	why := fmt.Sprintf("the same global batch of %d in pieces of %d%s", v.micro*v.accum*max(1, b.ranks), v.micro, more)
	changes := []change{
		{knobMicro, keyMicro, v.micro, cost, why},
		{knobAccumulation, keyAccum, v.accum, cost, why + "; every image log then runs as often in a row"},
	}
	if !has(b.root, keyWorkers) { // main.py:171: 2 × batch_size
		changes = append(changes, change{knobWorkers, keyWorkers, 2 * asked.micro, ladder.None, "main.py would take two for each sample of a micro-batch"})
	}
	if b.queue > 0 && !has(b.root, keyQueue) { // ddpm.py:1883: 50 × batch_size
		changes = append(changes, change{knobQueue, keyQueue, asked.queue, ladder.None, "the pool would follow the micro-batch"})
	}
	return changes
}

// splitRung is one division of the global batch.
func (b *builder) splitRung(v, asked variant) (shared, bool) {
	edits, err := b.makes(b.job, b.splitChanges(v, asked)...)
	if err != nil {
		return shared{}, false
	}
	cost, _ := b.splitCost()
	return shared{ladder.Rung{
		Name: fmt.Sprintf("micro-batch %d × accumulation %d", v.micro, v.accum), Cost: cost, Edits: edits,
		Slowdown: ladder.SplitSlowdown(float64(v.accum) / float64(asked.accum)),
		Values:   map[string]int64{knobMicro: v.micro, knobAccumulation: v.accum},
	}, v}, true
}

// otherExperiments are the rungs that change the experiment: a smaller pool, a smaller crop, no edge maps. They are taken
// together with the smallest micro-batch, because everything that is not another experiment comes first.
func (b *builder) otherExperiments(least, asked variant) (out []shared) {
	base, ok := shared{variant: asked}, true
	if least != asked {
		base, ok = b.splitRung(least, asked)
	}
	if !ok || !b.stableSR() {
		return nil
	}
	add := func(name string, v variant, cost ladder.Cost, changes ...change) {
		for i := range changes {
			changes[i].cost = cost
		}
		edits, err := b.makes(b.job, append(slices.DeleteFunc(b.splitChanges(least, asked), func(c change) bool { return sets(changes, c.key) }), changes...)...)
		if err != nil {
			return
		}
		s := shared{ladder.Rung{Name: name, Cost: cost, Edits: edits, Slowdown: max(1, base.Slowdown), Values: map[string]int64{}}, v}
		if base.Name != "" {
			s.Name = base.Name + ", " + name
		}
		maps.Copy(s.Values, base.Values)
		if v.queue != asked.queue {
			s.Values[knobQueue] = v.queue
		}
		out = append(out, s)
	}
	smallest, pool := least, []change(nil) // what no edge maps is taken together with
	if b.queue > 0 && least.micro > 0 {
		for _, share := range []int64{3, 8} {
			v := least
			if v.queue = max(1, asked.queue/share/least.micro) * least.micro; v.queue < asked.queue {
				pool = []change{{knob: knobQueue, key: keyQueue, value: v.queue, why: "fewer degradations are mixed in a batch"}}
				smallest = v
				add(fmt.Sprintf("pool of %d", v.queue), v, ladder.Recipe, slices.Clone(pool)...)
			}
		}
	}
	b.smallerCrops(least, asked, add)
	if b.edgeOn() && b.model.Edge() != arch.NoEdge {
		v, name := smallest, "no edge maps"
		if v.edgeOff = true; v.queue != asked.queue {
			name = fmt.Sprintf("pool of %d, %s", v.queue, name)
		}
		const why = "without its edge maps it is another model; both places must agree"
		add(name, v, ladder.Model, append(pool, change{knob: knobEdge, key: keyEdge, value: false, why: why},
			change{knob: knobEdge, key: keyUNetEdge, value: false, why: why})...)
	}
	return out
}

// smallerCrops adds crops of three quarters and of a half, in whole latents.
func (b *builder) smallerCrops(least, asked variant, add func(string, variant, ladder.Cost, ...change)) {
	sizes := b.cropKeys()
	if b.model.Edge() != arch.NoEdge || len(sizes) == 0 || b.edgeOn() {
		return
	}
	for _, share := range []int64{75, 50} {
		v := least
		if v.size = asked.size * share / 100 / b.model.Multiple() * b.model.Multiple(); v.size < b.model.Multiple() || v.size >= asked.size {
			continue
		}
		var changes []change
		for _, key := range sizes {
			changes = append(changes, change{knob: cropKnobs[key], key: key, value: v.size, why: "a smaller crop is another experiment; all sizes change together"})
		}
		add(fmt.Sprintf("high-resolution crop %d", v.size), v, ladder.Recipe, changes...)
	}
}

func sets(changes []change, key string) bool {
	return slices.ContainsFunc(changes, func(c change) bool { return c.key == key })
}

// cropKnobs name the sizes that have to change together (facts of ddpm.py:2194, realesrgan_dataset.py, ddpm.py:1384).
var cropKnobs = map[string]string{keyGTSize: knobCrop, keyTrainCrop: "training crop", keyValCrop: "validation crop", keyImageSize: "image size"}

// cropKeys are the keys that say the resolution, if all of them agree: then they can be changed together.
func (b *builder) cropKeys() (out []string) {
	for _, key := range []string{keyGTSize, keyTrainCrop, keyValCrop, keyImageSize} {
		n, ok := integer(b.root, key)
		switch {
		case !ok && key == keyGTSize, ok && n != b.size:
			return nil
		case ok:
			out = append(out, key)
		}
	}
	return out
}

// structRung is structcond's activation checkpointing, the only one that works, beside the smallest micro-batch.
func (b *builder) structRung(least, asked variant) (shared, bool) {
	if !b.stableSR() || truth(b.root, keyStructCkpt, false) {
		return shared{}, false
	}
	s := shared{ladder.Rung{Name: knobStruct, Cost: ladder.Speed, Slowdown: 1.03}, least}
	if least != asked {
		split, ok := b.splitRung(least, asked)
		if !ok {
			return shared{}, false
		}
		s.Name, s.Cost, s.Slowdown, s.Values = split.Name+", "+knobStruct, split.Cost, split.Slowdown+0.03, split.Values
	}
	s.structCkpt = true
	var err error
	s.Edits, err = b.makes(b.job, append(b.splitChanges(least, asked),
		change{knobStruct, keyStructCkpt, true, ladder.Speed, "its activations are computed again in the backward pass instead of kept"})...)
	return s, err == nil
}

// expandable is the allocator's edit, where nothing overwrites it.
func (b *builder) expandable() (config.Edit, bool) {
	if b.device.Kind == gpu.CPU || b.checkout.allocator() != "" {
		return config.Edit{}, false
	}
	return b.python.ExpandableSegments()
}

// caching is what the allocator is told where no rung tells it more.
func (b *builder) caching() mem.Caching {
	conf, torch := b.python.AllocatorConf()
	return mem.CachingOf(cmp.Or(b.checkout.allocator(), conf), torch)
}

// dropIdle takes away what saves nothing: rungs of the shared ladder below the job as asked that need no less than one
// above them, in every phase.
func dropIdle(set *ladder.Set) {
	total := func(i int) (sum unit.Bytes, known bool) {
		for _, l := range set.Phases {
			e := l.Rungs[0].At(i)
			if !e.Known() {
				return 0, false
			}
			sum = max(sum, e.Total())
		}
		return sum, true
	}
	least, known := total(set.Shared.Asked)
	for i := set.Shared.Asked + 1; i < len(set.Shared.Rungs); i++ {
		here, ok := total(i)
		if !known || !ok || here < least {
			if ok {
				least, known = here, true
			}
			continue
		}
		set.DropShared(i)
		i--
	}
}
