package moco

import (
	"fmt"
	"strconv"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/python"
	"github.com/launch-ml/launch/core/unit"
)

const knobWorkers = "loader workers"

// Each process takes its share of the workers, rounded up: main_moco.py:269 at 7397dfe, main_moco.py:207 at c349e6e,
// train_moco.py:114 at d3649f9.
var (
	reDivideWorkers = lazy.MustCompile(`(?m)^\s*\w+\.(?:num_)?workers\s*=\s*int\(\s*\(\s*\w+\.(?:num_)?workers\s*\+\s*ngpus_per_node\s*-\s*1\s*\)\s*/+\s*ngpus_per_node\s*\)`)
	reSetsWorkers   = lazy.MustCompile(`(?m)^\s*\w+\.(?:num_)?workers\s*=[^=]`)
	reReadsWorkers  = lazy.MustCompile(`=\s*\w+\.workers\b`)
	rePrefetch      = lazy.MustCompile(`\bprefetch_factor\s*=\s*(\d+)\b`)
	rePinned        = lazy.MustCompile(`\bpin_memory\s*=\s*[^F\s]`)
)

// trains is the file of the training loop.
func (p *project) trains() python.Source {
	if p.solar != nil {
		return p.solar.trainer
	}
	return readText(p.script)
}

// workers finds the knob of the loader's workers, which is divided as the batch is and is no less a knob for it.
func (p *project) workers(trainer python.Source) knob {
	if p.solar == nil {
		k := p.flag(knobWorkers, "--workers")
		if k.found && !trainer.Has(reReadsWorkers) {
			k.dead = "nothing that runs reads it"
		}
		return k
	}
	k := p.setting(knobWorkers, "num_workers")
	divisions := len(reDivideWorkers.FindAllString(trainer.Code, -1))
	if it, _, ok := p.field("num_workers"); ok && it.Literal && p.readsField("num_workers") && divisions == len(reSetsWorkers.FindAllString(trainer.Code, -1)) {
		k.dead = ""
	}
	return k
}

// cropBytes is what one sample holds: two crops in float32, and an index that nobody uses
// (moco/loader.py, TwoCropsTransform, at 7397dfe).
func cropBytes(side int64) unit.Bytes { return unit.Bytes(2 * 3 * side * side * 4) }

// decoded is taken for the whole image that a worker holds while it cuts both crops, in PIL's three bytes a pixel.
const decoded = 3 * unit.MiB

// maxCount is more workers, and a larger crop, than anybody has: with a mistyped number nothing is known of the host's
// memory, and no product overflows.
const maxCount = 1 << 16

// host builds the ladder of the host's memory, of all processes of this node.
func (b *builder) host(training mem.Estimate) *ladder.HostLadder {
	trainer := b.trains()
	k := b.workers(trainer)
	by := int64(1)
	ranks := max(1, b.gpus)
	if !b.spawns {
		ranks = 1
	} else if trainer.Has(reDivideWorkers) {
		by = ranks
	}
	onCard := b.device.Kind != gpu.CPU
	crop := b.asked().crop
	l := mem.Loader{
		What: "training", Ranks: ranks, Workers: (min(k.int(), 1<<40) + by - 1) / by, Prefetch: 2,
		Pinned: onCard && trainer.Has(rePinned),
		Sample: cropBytes(crop), Samples: 1, From: fmt.Sprintf("2 crops × 3 × %d² × 4 B", crop),
		Making: decoded, MakingFrom: "an image of a megapixel: how large they are was not looked at",
	}
	if m := rePrefetch.FindStringSubmatch(trainer.Code); m != nil {
		l.Prefetch, _ = strconv.ParseInt(m[1], 10, 64)
	}
	if max(l.Workers, l.Prefetch, ranks, crop) > maxCount || min(l.Workers, l.Prefetch, crop) < 0 {
		return nil
	}
	python := mem.RuntimeOf(b.env.TorchCUDA())
	lines := func(f ladder.Feed) []mem.HostLine {
		now := l
		now.Workers = f.Workers
		out := append(now.Lines(), mem.HostProcesses(ranks, python))
		if model := training.Of(mem.Parameters) + training.Of(mem.Buffers); onCard && model > 0 {
			out = append(out, mem.HostLine{When: mem.Starting, Item: mem.Item{Kind: mem.HostModel, What: "encoders", Bytes: model * unit.Bytes(ranks),
				From: "parameters and buffers, the queue among them, made on the host in every process"}})
		}
		if p := b.checkpoint.size; p > 0 { // torch.load reads a state whole, wherever its tensors go
			out = append(out, mem.HostLine{When: mem.Starting, Item: mem.Item{Kind: mem.HostModel, What: "resumed state", Bytes: p * unit.Bytes(ranks), Guess: true,
				From: "the size of the saved state, which every process reads: with map_location on a card a tensor at a time"}})
		}
		return out
	}
	edits := func(f ladder.Feed) ([]config.Edit, bool) {
		if f.Prefetch != l.Prefetch || f.Pinned != l.Pinned || !k.live() || f.Workers == 0 && rePrefetch.MatchString(trainer.Code) {
			return nil, false
		}
		e, err := b.edit(k, f.Workers*by, ladder.None.String(), ladder.WhyHost)
		return []config.Edit{e}, err == nil
	}
	h := ladder.Feeds(ladder.Feed{Workers: l.Workers, Prefetch: l.Prefetch, Pinned: l.Pinned}, edits, lines)
	switch {
	case !k.found, k.dead != "" && k.value == "":
		h.Unknown = "how many loader workers there are is not known"
	case b.spawns && b.gpus < 0:
		h.Unknown = "how many GPUs share the workers is not known"
	}
	return h
}
