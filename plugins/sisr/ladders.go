package sisr

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/python"
	"github.com/launch-ml/launch/plugins/sisr/arch"
)

// scanTime bounds the reading of image headers. What was not read by then is a warning.
const scanTime = 1500 * time.Millisecond

// Ladders implements [plugin.Recognized].
func (r *recognized) Ladders(ctx context.Context, d gpu.Device) (*ladder.Set, error) {
	b := builder{recognized: r, device: d}
	return b.build(ctx), nil
}

// builder makes the ladders of one job.
type builder struct {
	*recognized
	device gpu.Device
	disc   arch.Discriminator

	torchOnce  sync.Once
	torchMajor int
	torchCUDA  string
	caching    mem.Caching // as the user has it

	image    scan
	imageErr error
	trainSet scan
}

// a setting is one way to compute: the shared ladder's rungs, as the formulas see them.
type setting struct {
	amp        nn.DType
	expandable bool
}

// variant is one way to train.
type variant struct {
	micro, accum, lq int64
	checkpointing    bool
}

func (v variant) split() ladder.Split { return ladder.Split{Micro: v.micro, Accumulation: v.accum} }

func (b *builder) build(ctx context.Context) *ladder.Set {
	ctx, cancel := context.WithTimeout(ctx, scanTime)
	defer cancel()
	r := b.recipe
	if r.valOn {
		b.image, b.imageErr = scanImages(ctx, b.prog.Dir, expand(r.valRoots))
	}
	if r.enlargeAuto {
		b.trainSet, _ = countImages(ctx, b.prog.Dir, expand(r.trainRoots))
	}
	if b.netErr == nil && r.disc.kind != "" {
		b.disc, _, _ = arch.BuildDiscriminator(b.discSpec())
	}
	set := &ladder.Set{
		Values: map[string]int64{job.MicroBatch: r.microBatch, job.Accumulation: r.accum, knobCrop: r.lqSize},
	}
	if r.microBatch > 0 {
		set.Invariants = append(set.Invariants, ladder.Invariant{
			Name: "global batch", Factors: []string{job.MicroBatch, job.Accumulation}, Equals: r.microBatch * r.accum, Until: ladder.Recipe,
		})
		if r.otf && r.queueSize%r.microBatch == 0 { // RealESRGANModel asserts it
			set.Values[knobQueue] = r.queueSize
			set.Invariants = append(set.Invariants, ladder.Invariant{
				Name: "degradation queue", Factors: []string{job.MicroBatch}, Divides: knobQueue,
			})
		}
	}
	if why := b.idleCard(); why != "" { // nothing that happens on the card is to be fitted to it
		phases := []string{ladder.Training}
		if r.valOn {
			phases = append(phases, ladder.Validation)
		}
		set.Idle(why, phases...)
		set.Host = b.host(ctx)
		return set
	}
	settings := b.shared(set)
	tasks := []func(){func() { set.Phases[0] = b.training(settings) }, func() { set.Host = b.host(ctx) }}
	set.Phases = make([]ladder.Ladder, 1, 2)
	if r.valOn {
		set.Phases = set.Phases[:2]
		tasks = append(tasks, func() { set.Phases[1] = b.validation(settings) })
	}
	mem.Together(tasks)
	set.DropUseless()
	return set
}

// idleCard says why the job takes nothing of a card that it is priced for, or "". In redux and BasicSR num_gpu 0 is the
// CPU (models/base_model.py:47 at 68629319; basicsr/models/base_model.py:18 as StableSR bundles it); neosr takes the card whatever it says (models/base.py:27 at
// 31c70226).
func (b *builder) idleCard() string {
	if n, ok := b.recipe.at(b.recipe.gpus).Int(); ok && n == 0 && b.device.Kind != gpu.CPU && b.recipe.dialect != &neosr {
		return "with num_gpu 0 it runs on the CPU as typed: it takes nothing of the card"
	}
	return ""
}

// shared builds the ladder of what touches all phases, and what its rungs mean to the formulas.
func (b *builder) shared(set *ladder.Set) []setting {
	r := b.recipe
	asked := setting{amp: nn.F32}
	if r.useAMP && b.device.Kind != gpu.CPU {
		asked.amp = b.halfType(r.half)
	}
	set.Shared = ladder.Ladder{Phase: ladder.Shared, Rungs: []ladder.Rung{ladder.AsAsked()}}
	settings := []setting{asked}
	if b.device.Kind == gpu.CPU {
		return settings
	}
	env := python.Of(b.prog, b.job.Command.Env)
	b.caching = mem.CachingOf(env.AllocatorConf())
	if e, ok := env.ExpandableSegments(); ok {
		set.Shared.Rungs = append(set.Shared.Rungs, ladder.Rung{Name: "expandable segments", Cost: ladder.None, Slowdown: 1, Edits: []config.Edit{e}})
		settings = append(settings, setting{asked.amp, true})
	}
	if !r.useAMP && b.accepts(r.amp) {
		half, name := "fp16", "float16"
		edits := []config.Edit{b.edit(knobAMP, r.amp, true, ladder.Numerics, "half the bytes for what convolutions and matrix products save")}
		if b.device.Capability >= "8" || len(b.device.Capability) > 3 || b.net.NoFP16 {
			half, name = "bf16", "bfloat16"
			edits = append(edits, b.edit(knobBF16, r.bf16, true, ladder.Numerics, "bfloat16 needs no loss scaling"))
		}
		set.Shared.Rungs = append(set.Shared.Rungs, ladder.Rung{Name: "mixed precision in " + name, Cost: ladder.Numerics, Slowdown: 0.8, Edits: edits})
		settings = append(settings, setting{b.halfType(half), false})
	}
	return settings
}

func (b *builder) halfType(half string) nn.DType {
	if half == "bf16" || b.net.NoFP16 {
		return nn.BF16
	}
	return nn.F16
}

// training builds the ladder of the training step.
func (b *builder) training(settings []setting) ladder.Ladder {
	r := b.recipe
	asked := variant{r.microBatch, r.accum, r.lqSize, b.net.Checkpointing}
	l := ladder.Ladder{Phase: ladder.Training}
	var smaller, larger []variant
	if !r.automations && r.microBatch > 0 && b.accepts(r.micro) {
		smaller, larger = b.smaller(asked), b.larger(asked)
	}
	prices := b.priceTraining(append(append([]variant{asked}, smaller...), larger...), settings)
	for _, v := range larger {
		l.Rungs = append(l.Rungs, b.trainingRung(v, asked, prices[v]))
	}
	l.Asked = len(l.Rungs)
	var below []ladder.Rung
	for _, v := range smaller {
		below = append(below, b.trainingRung(v, asked, prices[v]))
	}
	l.Rungs = append(l.Rungs, ladder.Descend(b.trainingRung(asked, asked, prices[asked]), below, 0)...)
	return l
}

// smaller lists the ways to train with less: micro-batches at the same global batch, activation checkpointing, smaller
// crops.
func (b *builder) smaller(asked variant) (out []variant) {
	checkpointing := []bool{asked.checkpointing}
	if !asked.checkpointing && b.netErr == nil && b.net.CheckpointArg != "" {
		checkpointing = append(checkpointing, true)
	}
	_, splits := asked.split().Others(func(s ladder.Split) bool { return s.Divides(asked.split()) && s.Micro >= b.net.MinBatch })
	for _, ckpt := range checkpointing {
		for _, s := range append([]ladder.Split{asked.split()}, splits...) {
			v := asked
			v.checkpointing = ckpt
			v.micro, v.accum = s.Micro, s.Accumulation
			if !b.accepts(b.recipe.accumulation) {
				v.accum = asked.accum // then it is another global batch
			}
			if v != asked {
				out = append(out, v)
			}
		}
	}
	// A smaller crop is another experiment, so everything that is not comes first: it is taken together with the
	// smallest micro-batch.
	least := asked
	for _, v := range out {
		if v.checkpointing == asked.checkpointing && v.micro < least.micro {
			least = v
		}
	}
	for _, share := range []int64{50, 25} {
		lq := asked.lq * share / 100 / 8 * 8
		lq = lq / b.multiple() * b.multiple()
		if lq < max(16, b.net.MinLQ) || lq >= asked.lq || !b.accepts(b.cropPath()) {
			continue
		}
		v := least
		v.lq = lq
		out = append(out, v)
	}
	return out
}

// cropPath is where the recipe says how large the crop is: at low resolution, or at high.
func (b *builder) cropPath() string {
	if r := b.recipe; r.at(r.gt).Exists() && !r.at(r.lq).Exists() {
		return r.gt
	}
	return b.recipe.lq
}

func (b *builder) multiple() int64 { return max(1, b.net.Multiple) }

// larger lists the ways to train with more: the same global batch in fewer, larger pieces.
func (b *builder) larger(asked variant) (out []variant) {
	larger, _ := asked.split().Others(func(s ladder.Split) bool {
		return s.Divides(asked.split()) && (!b.recipe.otf || b.recipe.queueSize%s.Micro == 0)
	})
	for _, s := range larger {
		v := asked
		v.micro, v.accum = s.Micro, s.Accumulation
		out = append(out, v)
	}
	return out
}

// trainingRung names one way to train and makes its edits.
func (b *builder) trainingRung(v, asked variant, prices []mem.Estimate) ladder.Rung {
	r := b.recipe
	if v == asked {
		return ladder.AsAsked(prices...)
	}
	rung := ladder.Rung{Slowdown: 1, Estimates: prices,
		Values: map[string]int64{job.MicroBatch: v.micro, job.Accumulation: v.accum, knobCrop: v.lq}}
	name := func(s string) {
		if rung.Name != "" {
			rung.Name += ", "
		}
		rung.Name += s
	}
	if v.lq != asked.lq {
		rung.Cost = max(rung.Cost, ladder.Recipe)
		name(fmt.Sprintf("low-resolution crop %d", v.lq))
		value := v.lq
		if b.cropPath() == r.gt {
			value *= r.scale
		}
		rung.Edits = append(rung.Edits, b.edit(knobCrop, b.cropPath(), value, ladder.Recipe, "a smaller crop is another experiment"))
	}
	if v.micro != asked.micro {
		pieces := "smaller"
		if v.micro > asked.micro {
			pieces = "larger"
		}
		cost, why := ladder.Speed, fmt.Sprintf("the same global batch of %d in %s pieces", v.micro*v.accum*max(1, b.job.Batch.Ranks), pieces)
		switch {
		case v.micro*v.accum != asked.micro*asked.accum:
			cost, why = ladder.Recipe, fmt.Sprintf("%s has no accumulation: the global batch becomes %d", r.name, v.micro*v.accum*max(1, b.job.Batch.Ranks))
		case b.netErr == nil && b.net.BatchNorm:
			cost, why = ladder.Numerics, why+"; batch normalisation sees the piece"
		case r.lossScheduling():
			cost, why = ladder.Numerics, why+"; dynamic_loss_scheduling counts pieces, so its smoothing and its momentum act on each"
		}
		rung.Cost = max(rung.Cost, cost)
		rung.Slowdown *= ladder.SplitSlowdown(float64(v.accum) / float64(asked.accum))
		name(fmt.Sprintf("micro-batch %d × accumulation %d", v.micro, v.accum))
		rung.Edits = append(rung.Edits, b.edit(knobMicro, r.micro, v.micro, cost, why))
		if v.accum != asked.accum {
			rung.Edits = append(rung.Edits, b.edit(knobAccumulation, r.accumulation, v.accum, cost, why))
		}
		if ratio, ok := b.enlargeRatio(); ok {
			rung.Edits = append(rung.Edits, b.edit(knobEnlarge, r.enlarge, ratio, ladder.None,
				"\"auto\" would follow the micro-batch, and with it the length of an epoch, by which a resume counts"))
		}
	}
	if v.checkpointing != asked.checkpointing {
		rung.Cost = max(rung.Cost, ladder.Speed)
		rung.Slowdown *= checkpointSlowdown
		name("activation checkpointing")
		rung.Edits = append(rung.Edits, b.edit(knobCheckpoint, config.JoinPath("network_g", b.net.CheckpointArg), true, ladder.Speed,
			"activations are computed again in the backward pass instead of kept"))
	}
	return rung
}

// checkpointSlowdown is expected of activation checkpointing, under which of three passes one is computed twice. Like
// [ladder.SplitSlowdown] it orders rungs and promises nothing.
const checkpointSlowdown = 1.33

// enlargeRatio is what the trainer would compute for "auto" at the micro-batch as asked: max(2000·batch // images, 1)
// (train.py:106 at 68629319). ok is false where the images cannot be counted.
func (b *builder) enlargeRatio() (int64, bool) {
	if !b.recipe.enlargeAuto || b.trainSet.images == 0 || b.trainSet.cut || !b.accepts(b.recipe.enlarge) {
		return 0, false
	}
	return max(2000*b.recipe.microBatch/int64(b.trainSet.images), 1), true
}

// validation builds the ladder of the validation pass: tiles, then no GPU metrics, then no validation.
func (b *builder) validation(settings []setting) ladder.Ladder {
	r := b.recipe
	tiles := b.smallerTiles()
	prices := b.priceValidations(append([]int64{r.tileSize}, tiles...), settings)
	asked := ladder.AsAsked(prices[0]...)
	var below []ladder.Rung
	var least ladder.Rung
	for i, tile := range tiles {
		t := ladder.Rung{Name: fmt.Sprintf("validation in tiles of %d", tile), Cost: ladder.Metrics, Slowdown: 1 + 16/float64(tile), Estimates: prices[i+1]}
		t.Edits = append(t.Edits, b.edit(knobTile, r.tile, tile, ladder.Metrics, "validation takes the image in pieces; its figures are not comparable with whole images"))
		if overlap := min(tile/4, 16); r.overlap != "" && b.accepts(r.overlap) && (r.tileOverlap == 0 || r.tileOverlap >= tile) {
			t.Edits = append(t.Edits, b.edit(knobOverlap, r.overlap, overlap, ladder.Metrics, "without overlap the borders of the tiles show as seams"))
		}
		below, least = append(below, t), t
	}
	if len(r.gpuMetrics) > 0 && b.accepts("val.metrics_enabled") {
		t := ladder.Rung{Name: "no metrics", Cost: ladder.Metrics, Slowdown: max(1, least.Slowdown), Estimates: asked.Estimates}
		if least.Name != "" {
			t.Name, t.Estimates, t.Edits = least.Name+", no metrics", least.Estimates, slices.Clone(least.Edits)
		}
		t.Estimates = withoutMetrics(t.Estimates)
		t.Edits = append(t.Edits, b.edit(knobMetrics, "val.metrics_enabled", false, ladder.Metrics, "each of them builds a network on the card for every image"))
		below = append(below, t)
	}
	if b.accepts("val.val_enabled") && r.at("val.val_enabled").Exists() {
		t := ladder.Rung{Name: "no validation", Cost: ladder.Recipe, Slowdown: 1}
		for range settings {
			t.Estimates = append(t.Estimates, mem.Estimate{})
		}
		t.Edits = append(t.Edits, b.edit("validation", "val.val_enabled", false, ladder.Recipe, "the training then has no validation at all"))
		below = append(below, t)
	}
	return ladder.Ladder{Phase: ladder.Validation, Rungs: ladder.Descend(asked, below, 0)}
}

// smallerTiles lists the sizes of tiles that are smaller than what validation takes now.
func (b *builder) smallerTiles() (tiles []int64) {
	r := b.recipe
	if r.tile == "" || !b.accepts(r.tile) {
		return nil
	}
	now := r.tileSize
	if now <= 0 && b.image.images > 0 {
		now = int64(max(b.image.width, b.image.height))
	}
	for _, tile := range []int64{512, 256, 128, 64, 32} {
		if (now <= 0 || tile < now) && tile%b.multiple() == 0 {
			tiles = append(tiles, tile)
		}
	}
	return tiles
}

// edit makes the edit that sets a path of the recipe; the text is spelled for the recipe's format.
func (b *builder) edit(knob, path string, value any, cost ladder.Cost, why string) config.Edit {
	text, err := b.recipe.tree.Text(value)
	if err != nil { // whole numbers and bools always can be
		text = fmt.Sprint(value)
	}
	from, ok := b.recipe.tree.Get(path)
	return config.Edit{Knob: knob, At: config.Address{Doc: b.recipe.path, Path: path}, From: from, To: text, Add: !ok, Cost: cost.String(), Why: why}
}
