package moco

import (
	"slices"

	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/unit"
	"github.com/launch-ml/launch/plugins/moco/arch"
)

// stepFor is the training step of a variant, for the formulas.
func (b *builder) stepFor(v variant, c computing, e arch.Encoder) arch.Step {
	major, _, ok := b.env.Torch()
	return arch.Step{
		Project: b.step, Encoder: e, Batch: v.micro, World: b.world, DDP: b.spawns || b.solar == nil, Image: v.crop,
		Dim: b.dim, MLPDim: b.mlpDim, MLP: b.mlp, K: v.queue, Queue: b.usesQueue, FrozenStem: b.stopGrad, AMP: c.amp,
		Optimizer: b.optimizer, Accumulate: v.accum, Checkpoint: b.onCard(), Torch1: ok && major < 2,
	}
}

// onCard is what a saved state keeps of the card: facebookresearch's load it there and hold on to it; solar-ssl's
// experiment branch loads it into the host's memory (map_location="cpu").
func (p *project) onCard() unit.Bytes {
	if p.solar != nil {
		return 0
	}
	return p.checkpoint.size
}

// price estimates variants, for every way to compute. Variants that differ in their batch only are priced together.
func (b *builder) price(vs []variant, ways []computing) [][]mem.Estimate {
	out := make([][]mem.Estimate, len(vs))
	for i := range out {
		out[i] = make([]mem.Estimate, len(ways))
	}
	e, err := arch.Build(b.library, b.encoder)
	why := ""
	switch {
	case b.solar != nil && b.solar.unread != "":
		why = "its settings could not be read"
	case b.spawns && b.gpus < 0:
		why = "how many GPUs share the batch is not known (--gpus says it where no card can be seen)"
	case b.micro <= 0:
		why = "how many images each process gets is not known"
	case err != nil:
		why = err.Error() + ": launch works from what it measures"
	case b.dim <= 0 || b.step != arch.V2 && b.mlpDim <= 0:
		why = "the width of its heads is not known"
	}
	if why != "" {
		for i := range out {
			out[i] = slices.Repeat([]mem.Estimate{{Unknown: why}}, len(ways))
		}
		return out
	}
	// What decides the price beside the batch; with accumulation gradients stay from piece to piece.
	type alike struct {
		crop, queue  int64
		accumulation bool
	}
	var tasks []func()
	for _, group := range mem.Alike(len(vs), func(i int) alike { return alike{vs[i].crop, vs[i].queue, vs[i].accum > 1} }) {
		var batches []int64
		for _, i := range group {
			batches = append(batches, vs[i].micro)
		}
		for _, same := range mem.Alike(len(ways), func(w int) nn.DType { return ways[w].amp }) { // segments change nothing of what is asked
			tasks = append(tasks, func() {
				estimates := arch.Trainings(b.stepFor(vs[group[0]], ways[same[0]], e), batches...)
				var rungs []func()
				for k, i := range group {
					for _, w := range same {
						rungs = append(rungs, func() { out[i][w] = b.around(estimates[k], ways[w]) })
					}
				}
				mem.Together(rungs)
			})
		}
	}
	mem.Together(tasks)
	return out
}

// around adds what no forward asks for: the context and the libraries' workspace on a card, the interpreter on a CPU.
func (b *builder) around(tensors mem.Tensors, c computing) mem.Estimate {
	if b.device.Kind == gpu.CPU {
		e := tensors.Alone()
		e.Add(mem.RuntimeOf(b.env.TorchCUDA()))
		return e
	}
	e := tensors.OnCard(b.device, b.caching.With(c.expandable))
	e.Add(convolutions)
	e.Add(mem.Collectives(b.device, b.world)...)
	e.Beside(b.crowd, "nothing joins the launcher's processes, and each takes GPU 0")
	return e
}

// convolutions is what cuDNN asks for under cudnn.benchmark, which every trainer here sets. Of lightly's published peaks
// by max_memory_allocated (docs/source/benchmarks.rst at 0243660: MoCo and SimCLR, resnet18 in float32, one GPU) seven
// lie 0.0 to 0.35 GiB above what the tensors alone need, 0.16 GiB on average.
var convolutions = mem.Item{Kind: mem.Workspace, What: "cuDNN", Bytes: 164 * unit.MiB, Guess: true,
	From: "cudnn.benchmark: lightly's published peaks of MoCo and SimCLR lie 0 to 0.35 GiB above their tensors"}
