package sisr

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/config/command"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/python"
	"github.com/launch-ml/launch/core/unit"
	"github.com/launch-ml/launch/plugins/sisr/arch"
)

// spec names the network to the formulas, with arguments that a rung sets.
func (x *checkout) spec(set map[string]any) arch.Spec {
	args := map[string]any{}
	maps.Copy(args, x.recipe.net.args)
	maps.Copy(args, set)
	return arch.Spec{
		Project: x.recipe.project, Type: x.recipe.net.kind, Scale: x.recipe.scale, Args: args, Source: x.arch,
		Frames: x.recipe.frames(),
	}
}

// discSpec names the discriminator to the formulas.
func (x *checkout) discSpec() arch.Spec {
	return arch.Spec{Project: x.recipe.project, Type: x.recipe.disc.kind, Args: x.recipe.disc.args, Source: x.munet}
}

// step is the training step of a variant, for the formulas.
func (b *builder) step(v variant, s setting) (arch.StepConfig, error) {
	net := b.net
	if b.netErr != nil {
		return arch.StepConfig{}, b.netErr
	}
	if v.checkpointing != net.Checkpointing {
		var err error
		if net, _, err = arch.Build(b.spec(map[string]any{net.CheckpointArg: v.checkpointing})); err != nil {
			return arch.StepConfig{}, err
		}
	}
	cfg := arch.StepConfig{
		Project: b.recipe.project, Model: b.recipe.model, Net: net, Batch: v.micro, LQ: v.lq, AMP: s.amp, Accumulate: v.accum,
		DDP: slices.ContainsFunc(b.prog.Launchers, b.starts), OptimG: b.recipe.optG, OptimD: b.recipe.optD, EMA: b.recipe.withEMA, Disc: b.disc, OldTorch: b.oldTorch(), CPU: b.device.Kind == gpu.CPU, OneDNN: b.device.Kind == gpu.CPU,
	}
	if !launched(b.prog, b.job.Command.Env) && b.device.OnCard() {
		cfg.Replicas = b.job.Batch.Ranks
	}
	if b.recipe.project == arch.Neosr {
		cfg.Neosr = b.recipe.neosrStep()
	}
	for _, l := range b.recipe.losses {
		cfg.Losses = append(cfg.Losses, l.loss(b.recipe.project))
	}
	return cfg, nil
}

// starts reports whether a launcher starts processes that are ranks, one or more.
func (b *builder) starts(l command.Launcher) bool {
	n, asks := l.Ranks(b.job.Command.Devices)
	return n > 0 || asks
}

// loss is a loss of the recipe, for the formulas.
func (l part) loss(p arch.Project) arch.Loss {
	weight := 1.0
	switch w := l.args["loss_weight"].(type) {
	case float64:
		weight = w
	case int64:
		weight = float64(w)
	}
	if p.ComputesAll() {
		weight = 1
	}
	return arch.Loss{Project: p, Type: l.kind, Name: ledgerName(l), Weight: weight, Args: l.args}
}

// ledgerName is what a ledger calls a loss: its key in the recipe, or of a list its type.
func ledgerName(l part) string {
	if key, ok := strings.CutPrefix(l.at, "train."); ok && strings.HasSuffix(key, "_opt") {
		return key
	}
	return "losses." + l.kind
}

// priceTraining estimates the training step of every variant, for every setting. Variants that differ in their batch only
// are priced together.
func (b *builder) priceTraining(variants []variant, settings []setting) map[variant][]mem.Estimate {
	out := map[variant][]mem.Estimate{}
	why := ""
	switch {
	case b.recipe.microBatch <= 0 || b.recipe.lqSize <= 0:
		why = "the recipe does not say how large a micro-batch is"
	case b.recipe.automations:
		why = "train.training_automations changes batch and crop while the training runs"
	case b.netErr != nil:
		why = unknown(b.netErr)
	}
	if why != "" {
		for _, v := range variants {
			out[v] = slices.Repeat([]mem.Estimate{{Unknown: why}}, len(settings))
		}
		return out
	}
	// What decides the price beside the batch; with accumulation gradients stay from piece to piece.
	type alike struct {
		lq                          int64
		checkpointing, accumulation bool
	}
	groups := mem.Alike(len(variants), func(i int) alike {
		return alike{variants[i].lq, variants[i].checkpointing, variants[i].accum > 1}
	})
	for _, v := range variants { // all of them before the first is filled: the map is only read from then on
		out[v] = make([]mem.Estimate, len(settings))
	}
	var tasks []func()
	for _, group := range groups {
		var batches []int64
		for _, i := range group {
			batches = append(batches, variants[i].micro)
		}
		for _, same := range alikeSettings(settings) {
			tasks = append(tasks, func() {
				estimates := b.priceBatches(variants[group[0]], batches, settings[same[0]])
				var rungs []func()
				for k, n := range group {
					v := variants[n]
					if b.recipe.otf {
						estimates[k].Add(b.queueItem(v))
					}
					for _, i := range same {
						rungs = append(rungs, func() { out[v][i] = b.around(estimates[k], settings[i]) })
					}
				}
				mem.Together(rungs)
			})
		}
	}
	mem.Together(tasks)
	return out
}

// alikeSettings are the settings by index, those together that compute the same: the allocator's segments change nothing of
// what is asked of it.
func alikeSettings(settings []setting) [][]int {
	return mem.Alike(len(settings), func(i int) nn.DType { return settings[i].amp })
}

// priceBatches estimates a variant at several micro-batches.
func (b *builder) priceBatches(v variant, batches []int64, s setting) []mem.Tensors {
	cfg, err := b.step(v, s)
	if err != nil {
		return slices.Repeat([]mem.Tensors{mem.Unpriced(unknown(err))}, len(batches))
	}
	return arch.Trainings(cfg, batches...)
}

// vggWeights is what the largest of the usual losses keeps on the card: VGG19's features up to conv5_4, 77 MB in float32.
const vggWeights = 77 * unit.MiB

// priceValidations estimates the validation of the largest image, in tiles of each size (0: whole), for every setting.
func (b *builder) priceValidations(tiles []int64, settings []setting) [][]mem.Estimate {
	out := make([][]mem.Estimate, len(tiles))
	why := b.unpriced()
	for k := range tiles {
		out[k] = slices.Repeat([]mem.Estimate{{Unknown: why}}, len(settings))
	}
	if why != "" {
		return out
	}
	var tasks []func()
	for _, same := range alikeSettings(settings) {
		s := settings[same[0]]
		step, err := b.step(variant{b.recipe.microBatch, b.recipe.accum, b.recipe.lqSize, b.net.Checkpointing}, s)
		var states mem.Tensors
		around := err == nil && b.recipe.microBatch > 0 && b.recipe.lqSize > 0
		if around {
			states = arch.States(step)
			if states.Unknown != "" { // of the training; beside a validation only what its parts keep counts
				states.Add(mem.Item{Kind: mem.Parameters, What: "uncounted parts", Bytes: vggWeights, Count: int64(vggWeights) / 4, Guess: true,
					From: "not known (" + states.Unknown + "); the weights of a VGG19 are taken for it"})
				states.Unknown = ""
			}
		}
		for k, tile := range tiles {
			tasks = append(tasks, func() {
				cfg := arch.ValConfig{
					Net: b.net, H: int64(b.image.height), W: int64(b.image.width), AMP: s.amp, Tile: max(0, tile), Overlap: b.recipe.tileOverlap,
					GT: len(b.recipe.valGT) > 0, Layout: b.recipe.layout(s.amp), OldTorch: b.oldTorch(),
					Neosr: b.recipe.project == arch.Neosr,
				}
				if around {
					cfg.Step, cfg.States = &step, &states
				}
				if b.device.Kind == gpu.CPU {
					cfg.Host = &arch.Host{Several: b.image.images > 1, Metrics: b.recipe.hostMetrics}
				}
				e := b.priceValidation(cfg)
				for _, i := range same {
					out[k][i] = b.around(e, settings[i])
				}
			})
		}
	}
	mem.Together(tasks)
	return out
}

// unpriced says why no validation has a price, or "".
func (b *builder) unpriced() string {
	switch {
	case b.netErr != nil:
		return unknown(b.netErr)
	case b.imageErr != nil:
		return "how large the validation images are is not known: " + b.imageErr.Error()
	case strings.HasPrefix(b.recipe.model, "videorecurrent"):
		return "validation takes whole clips, whose lengths are not known"
	case b.recipe.bool("val.grids") && b.recipe.project == arch.NAFNet:
		return "val.grids: the image is cut into a batch of crops, which has no formula yet"
	}
	return ""
}

// priceValidation estimates one image's validation, without what is around it.
func (b *builder) priceValidation(cfg arch.ValConfig) mem.Tensors {
	e := arch.Validation(cfg)
	if e.Known() && len(b.recipe.gpuMetrics) > 0 {
		e.Unknown = fmt.Sprintf("the metrics %s run a network of their own on the card, which has no formula yet", strings.Join(b.recipe.gpuMetrics, ", "))
	}
	return e
}

// withoutMetrics is what is left when no metric runs on the card.
func withoutMetrics(es []mem.Estimate) (out []mem.Estimate) {
	for _, e := range es {
		if strings.HasPrefix(e.Unknown, "the metrics ") {
			e.Unknown = ""
		}
		out = append(out, e)
	}
	return out
}

// unknown says why there is no estimate.
func unknown(err error) string {
	if errors.Is(err, arch.ErrUnknown) {
		return err.Error() + ": launch works from what it measures"
	}
	return err.Error()
}

// queueItem is the pool of the on-the-fly degradations, in float32, both sizes (realesrgan_model.py at 68629319).
func (b *builder) queueItem(v variant) mem.Item {
	q, gt := b.recipe.queueSize, v.lq*b.recipe.scale
	n := q * 3 * (v.lq*v.lq + gt*gt)
	return mem.Item{Kind: mem.Buffers, What: "degradation queue", Bytes: unit.Bytes(n * 4), Count: n,
		From: fmt.Sprintf("queue_size %d × 3 × (%d² + %d²) × 4 B", q, v.lq, gt)}
}

// around adds what no forward asks for: the context and the libraries' workspace on a card, the interpreter on a CPU.
func (b *builder) around(tensors mem.Tensors, s setting) mem.Estimate {
	tensors.Items = slices.Clip(tensors.Items) // other settings begin with the same ones
	if b.device.Kind == gpu.CPU {
		e := tensors.Alone()
		e.Add(mem.RuntimeOf(b.torch()))
		return e
	}
	e := tensors.OnCard(b.device, b.caching.With(s.expandable))
	e.Add(mem.Collectives(b.device, b.job.Batch.Ranks)...)
	for _, l := range b.prog.Launchers {
		e.Beside(int64(perCard(l, b.job.Command.Devices)), "the launcher starts more processes than there are GPUs")
	}
	return e
}

// torch is the major version of the torch that the command's interpreter would import, and what it was built for; 0 and ""
// where that is not known.
func (b *builder) torch() (major int, cuda string) {
	b.torchOnce.Do(func() {
		b.torchMajor, b.torchCUDA = python.Of(b.prog, b.job.Command.Env).TorchCUDA()
	})
	return b.torchMajor, b.torchCUDA
}

// oldTorch reports whether the program's torch is known to be of the 1.x line, which keeps some tensors that 2.x does not.
func (b *builder) oldTorch() bool {
	major, _ := b.torch()
	return major == 1
}

// expand replaces a leading ~ by the home folder, as the trainer does (os.path.expanduser).
func expand(roots []string) (out []string) {
	home, err := os.UserHomeDir()
	for _, r := range roots {
		if rest, ok := strings.CutPrefix(r, "~/"); ok && err == nil {
			r = filepath.Join(home, rest)
		}
		out = append(out, r)
	}
	return out
}
