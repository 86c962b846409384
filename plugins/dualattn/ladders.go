package dualattn

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/job"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/plugins/dualattn/arch"
)

// The program validates at the training micro-batch: one knob for both phases, so it stands on the shared ladder, and
// with it every other setting, for all of them touch both. Training and validation have a ladder of one rung each, priced
// once for each shared rung. So an out-of-memory in either phase leads to a smaller micro-batch, and a plan fits only
// where both phases do.

// variant is one way to run the job. The zero values of amp, size and glca are those asked for.
type variant struct {
	micro, accum int64
	expandable   bool
	amp          bool  // mixed precision, where it was off
	side         int64 // a smaller square input
	noGLCA       bool
}

// Ladders implements [plugin.Recognized].
func (x *checkout) Ladders(_ context.Context, d gpu.Device) (*ladder.Set, error) {
	b := builder{checkout: x, cpu: d.Kind == gpu.CPU, device: d}
	return b.build(), nil
}

type builder struct {
	*checkout
	device gpu.Device
	cpu    bool
}

func (b *builder) build() *ladder.Set {
	asked := variant{micro: b.micro, accum: b.accum}
	set := &ladder.Set{
		Values: map[string]int64{job.MicroBatch: b.micro, job.Accumulation: b.accum},
		Shared: ladder.Ladder{Phase: ladder.Shared},
		Phases: []ladder.Ladder{
			{Phase: ladder.Training, Rungs: []ladder.Rung{ladder.AsAsked()}},
			{Phase: ladder.Validation, Rungs: []ladder.Rung{ladder.AsAsked()}},
		},
	}
	if b.micro > 0 {
		set.Invariants = []ladder.Invariant{{Name: "global batch", Factors: []string{job.MicroBatch, job.Accumulation}, Equals: b.micro * b.accum}}
	}
	rungs, vs := []ladder.Rung{ladder.AsAsked()}, []variant{asked}
	for _, v := range b.variants(asked) {
		if r, ok := b.rung(v, asked); ok {
			rungs, vs = append(rungs, r), append(vs, v)
		}
	}
	prices := map[string]estimated{} // by rung
	for i, p := range b.price(vs) {
		prices[rungs[i].Name] = p
	}
	first := rungs[0]
	var above, below []ladder.Rung
	for i, r := range rungs[1:] {
		if vs[i+1].micro > asked.micro {
			above = append(above, r)
		} else {
			below = append(below, r)
		}
	}
	slices.SortStableFunc(above, func(p, q ladder.Rung) int { return cmp.Compare(prices[q.Name].total(), prices[p.Name].total()) })
	slices.SortStableFunc(below, func(p, q ladder.Rung) int {
		return cmp.Or(cmp.Compare(p.Cost, q.Cost), cmp.Compare(p.Slowdown, q.Slowdown))
	})
	set.Shared.Asked = len(above)
	set.Shared.Rungs = slices.Concat(above, []ladder.Rung{first}, below)
	for _, r := range set.Shared.Rungs {
		for i, e := range []mem.Estimate{prices[r.Name].training, prices[r.Name].validation} {
			set.Phases[i].Rungs[0].Estimates = append(set.Phases[i].Rungs[0].Estimates, e)
		}
	}
	set.Host = b.host(prices[first.Name].training)
	return set
}

// floor is the smallest micro-batch that is offered: one image is always its own pair, and a re-identification's triplets
// want two identities.
func (b *builder) floor() int64 {
	if b.task == "reid" {
		return 2 * max(1, b.class.int("images_per_id", 1))
	}
	return 2
}

// variants lists the other ways to run the job: every split of its global batch, with and without expandable segments,
// mixed precision where it is off, and, at the smallest micro-batch, a smaller input and no GLCA branch.
func (b *builder) variants(asked variant) (out []variant) {
	if b.problem != "" || b.micro <= 0 {
		return nil
	}
	per := int64(1)
	if b.task == "reid" {
		per = b.perID()
	}
	larger, smaller := ladder.Split{Micro: asked.micro, Accumulation: asked.accum}.Others(func(s ladder.Split) bool {
		return b.hasAccum && s.Micro >= b.floor() && s.Micro%per == 0
	})
	splits := []variant{}
	for _, s := range slices.Concat(larger, []ladder.Split{{Micro: asked.micro, Accumulation: asked.accum}}, smaller) {
		splits = append(splits, variant{micro: s.Micro, accum: s.Accumulation})
	}
	least := splits[len(splits)-1]
	on := b.class.bool("mixed_precision")
	_, switchable := b.class.field("mixed_precision")
	for _, v := range splits {
		out = append(out, v)
		if switchable && !on && !b.cpu && v.micro <= asked.micro {
			with := v
			with.amp = true
			out = append(out, with)
		}
	}
	if h, w, ok := b.class.pair("input_size"); ok && b.sizeReachable() && h == w && h > 384 {
		small := least
		small.side = 384
		out = append(out, small)
	}
	if b.net().Local > 0 && !b.ablated() && b.class.computed(sizes...) == "" { // what it saves is part of its reason
		without := least
		without.noGLCA = true
		out = append(out, without)
	}
	if _, ok := b.expandable(); ok {
		for _, v := range slices.Clone(out) {
			v.expandable = true
			out = append(out, v)
		}
	}
	return slices.DeleteFunc(out, func(v variant) bool { return v == asked })
}

func (b *builder) expandable() (config.Edit, bool) {
	if b.cpu {
		return config.Edit{}, false
	}
	return b.python().ExpandableSegments()
}

// rung names a variant and makes its edits; ok is false where one of them cannot be placed.
func (b *builder) rung(v, asked variant) (r ladder.Rung, ok bool) {
	r.Slowdown, r.Values = 1, map[string]int64{job.MicroBatch: v.micro, job.Accumulation: v.accum}
	name := func(s string) {
		if r.Name != "" {
			r.Name += ", "
		}
		r.Name += s
	}
	ok = true
	set := func(field, knob string, to any, cost ladder.Cost, why string) {
		s, found := b.class.field(field)
		b.put(&r, &ok, s, found, knob, to, cost, why)
	}
	if v.noGLCA {
		name("without GLCA")
		set("num_glca_layers", knobGLCA, int64(0), ladder.Model, "the network of "+paper+" without its global-local branch; saves "+b.localShare()+", not the 10 % of MEMORY_OPTIMIZATION_GUIDE.md")
	}
	if v.side > 0 {
		name(fmt.Sprintf("input %d × %d", v.side, v.side))
		why := paper + " trains at 448 × 448; an evaluation of this model needs the same two edits"
		resize := b.class.int("resize_size", 0) * v.side / b.netSide()
		set("input_size", knobSize, []int64{v.side, v.side}, ladder.Recipe, why)
		set("resize_size", knobResize, resize, ladder.Recipe, why)
		for _, it := range [...]struct {
			path, knob string
			to         int64
		}{{itemInput, knobSize, v.side}, {itemResize, knobResize, resize}} {
			item, found := b.transforms.Item(it.path)
			b.put(&r, &ok, setting{b.transforms, item}, found, it.knob, it.to, ladder.Recipe, why)
		}
	}
	if v.micro != asked.micro {
		name(fmt.Sprintf("micro-batch %d × accumulation %d", v.micro, v.accum))
		cost, why := b.splitCost(v, asked)
		r.Slowdown *= ladder.SplitSlowdown(float64(asked.micro) / float64(v.micro))
		b.split(&r, &ok, v, cost, why)
	}
	if v.amp {
		name("mixed precision in float16")
		r.Slowdown *= 0.6
		set("mixed_precision", knobAMP, true, ladder.Numerics, "matrix products and what they save in float16, with loss scaling")
	}
	if v.expandable {
		name("expandable segments")
		e, _ := b.expandable()
		r.Edits = append(r.Edits, e)
	}
	return r, ok
}

// put adds an edit to a rung.
func (b *builder) put(r *ladder.Rung, ok *bool, s setting, found bool, knob string, to any, cost ladder.Cost, why string) {
	if !found || !s.item.Literal {
		*ok = false
		return
	}
	e, err := s.edit(knob, to, cost, why)
	if err != nil {
		*ok = false
		return
	}
	r.Cost = max(r.Cost, cost)
	r.Edits = append(r.Edits, e)
}

// split makes the edits of micro-batch and accumulation, both where the configuration class declares them, so that what
// it derives from them follows. Where --batch_size outranks the configuration, its value is changed in the arguments; the
// configuration's own product, from which the learning rate is derived, is then held by its own batch_size.
func (b *builder) split(r *ladder.Rung, ok *bool, v variant, cost ladder.Cost, why string) {
	batch, found := b.class.field("batch_size")
	accum, hasAccum := b.class.field("gradient_accumulation_steps")
	b.put(r, ok, accum, hasAccum, job.Accumulation, v.accum, cost, why)
	if !b.batchFlag {
		b.put(r, ok, batch, found, job.MicroBatch, v.micro, cost, why)
		return
	}
	from, _ := b.argv.Get("--batch_size")
	r.Edits = append(r.Edits, config.Edit{Knob: job.MicroBatch, At: config.Address{Doc: config.ArgvDoc, Path: "--batch_size"},
		From: from, To: fmt.Sprint(v.micro), Cost: cost.String(), Why: why + "; --batch_size outranks the configuration"})
	derived := b.class.int("batch_size", 0) * b.accum
	file, keeps, held := max(1, derived/v.accum), ladder.None, "the learning rate is derived from the configuration's own product, which stays"
	if file*v.accum != derived {
		keeps = ladder.Recipe
		held = fmt.Sprintf("the learning rate is derived from the configuration's own product, which becomes %d instead of %d", file*v.accum, derived)
		r.Cost = max(r.Cost, keeps)
	}
	if file != b.class.int("batch_size", 0) {
		b.put(r, ok, batch, found, knobDerived, file, keeps, held)
	}
}

// splitCost is what another micro-batch at the same global batch gives up.
func (b *builder) splitCost(v, asked variant) (ladder.Cost, string) {
	why := fmt.Sprintf("the same global batch of %d in pieces of %d", v.micro*v.accum, v.micro)
	switch {
	case b.task == "reid":
		return ladder.Recipe, why + fmt.Sprintf("; triplets are mined within the micro-batch, which holds %d identities instead of %d", v.micro/b.perID(), asked.micro/b.perID())
	case v.micro < 4:
		return ladder.Numerics, why + "; " + pairing(v.micro)
	case asked.micro < 4:
		return ladder.Numerics, why + fmt.Sprintf("; in %d %% of them an image is paired with itself, instead of %d %%", selfPaired(v.micro), selfPaired(asked.micro))
	}
	return ladder.Speed, why
}

func (b *builder) perID() int64 { return max(1, b.class.int("images_per_id", 1)) }

func (b *builder) netSide() int64 { return max(1, b.net().Height) }

// sizes are the settings that decide what the network needs.
var sizes = []string{"input_size", "patch_size", "num_classes", "num_identities", "embed_dim", "num_heads", "hidden_dim", "num_sa_layers",
	"num_glca_layers", "dropout", "top_k_ratio", "use_stochastic_depth", "stochastic_depth_prob", "mixed_precision", "gradient_accumulation_steps"}

// net is the network as configured. What the configuration leaves out is upstream's default; see sizes for what it
// computes.
func (x *checkout) net() arch.Net {
	c := x.class
	n := arch.Net{
		Patch: c.int("patch_size", 16), Classes: c.int("num_classes", c.int("num_identities", 0)), Dim: c.int("embed_dim", 768), Heads: c.int("num_heads", 12),
		Hidden: c.int("hidden_dim", 3072), Layers: c.int("num_sa_layers", 12), Local: c.int("num_glca_layers", 1),
		Dropout: c.float("dropout", 0.1), TopK: c.float("top_k_ratio", 0.1), Loop: x.version.loop, ExtraBlock: x.version.extra,
	}
	n.Height, n.Width, _ = c.pair("input_size")
	stochastic := c.bool("use_stochastic_depth")
	n.DropPath = x.version.drop && stochastic && c.float("stochastic_depth_prob", 0) > 0
	flag := x.version.flag
	if c.bool("use_gradient_checkpointing") && (flag == wrong || flag == crashes || flag == works) {
		n.Loop = arch.Recomputed
	}
	if x.ablated() {
		n.Local = 0
	}
	return n
}

// validated is how many images are validated, of the data sets whose split is published: 5,794 in CUB-200-2011.
var validated = map[string]int64{"cub": 5794}

// step is the training of a variant.
func (x *checkout) step(v variant, cuda bool) arch.StepConfig {
	cfg := arch.StepConfig{Net: x.net(), Batch: v.micro, Accumulate: v.accum, AMP: x.amp(!cuda), SGD: x.class.text("optimizer") == "sgd"}
	cfg.LastVal, cfg.LastValGuess = v.micro, true
	if n, ok := validated[x.dataset]; ok {
		cfg.LastVal, cfg.LastValGuess = cmp.Or(n%v.micro, v.micro), false
	}
	if v.amp {
		cfg.AMP = nn.F16
	}
	if v.side > 0 {
		cfg.Net.Height, cfg.Net.Width = v.side, v.side
	}
	if v.noGLCA {
		cfg.Net.Local = 0
	}
	cfg.CPU = !cuda
	return cfg
}
