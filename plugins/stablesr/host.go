package stablesr

import (
	"cmp"
	"os"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
)

// clip is what FrozenOpenCLIPEmbedder makes before it throws the image tower away: 986 million parameters in float32.
const clip = unit.Bytes(986e6 * 4)

// host builds the ladder of the host's memory. training is the training as asked, whose parameters are made on the host.
//
// Both loaders have the same workers (main.py:205-218 at 398ee93), and the training's stay while the other's run. Lightning
// looks one batch ahead of the one in use (trainer/supporters.py:615, prefetch_iterator, at 1.4.2). Measured by statfs on
// /dev/shm with 2 workers (Lightning 1.4.2, torch 1.13, 2026-11-22): 6.07 batches in a training step, 12.15 in a step of a
// validation within an epoch; the formula gives 6 and 12.
func (b *builder) host(training mem.Estimate) *ladder.HostLadder {
	asked, ok := integer(b.root, keyWorkers)
	if !ok {
		asked = 2 * b.micro // main.py:171
	}
	ranks := max(1, b.ranks)
	loaders := []mem.Loader{}
	why := ""
	for _, set := range []string{"train", "validation"} {
		if !has(b.root, keyData+set) {
			continue
		}
		l := mem.Loader{What: map[string]string{"train": "training", "validation": "validation"}[set], Ranks: ranks, Prefetch: 2, Samples: 1, Queued: 1}
		var unknown string
		l.Sample, l.From, unknown = b.sample(set)
		why = cmp.Or(why, unknown)
		l.Making, l.MakingFrom = b.decoded(set)
		loaders = append(loaders, l)
	}
	lines := func(f ladder.Feed) (out []mem.HostLine) {
		for _, l := range loaders {
			l.Workers, l.Prefetch = f.Workers, f.Prefetch
			// main.py:185 of justinpinkney's at c63ca47a
			if n, ok := integer(b.root, keyData+"num_val_workers"); ok && l.What == "validation" {
				l.Workers = n
			}
			out = append(out, l.Lines()...)
		}
		out = append(out, mem.HostProcesses(ranks, mem.RuntimeOf(b.python.TorchCUDA())))
		return append(out, b.states(training, unit.Bytes(ranks))...)
	}
	h := ladder.Feeds(ladder.Feed{Workers: asked, Prefetch: 2}, func(f ladder.Feed) ([]config.Edit, bool) {
		if f.Prefetch != 2 { // DataModuleFromConfig gives no prefetch_factor
			return nil, false
		}
		edits, err := b.makes(b.job, change{knobWorkers, keyWorkers, f.Workers, ladder.None, ladder.WhyHost})
		return edits, err == nil
	}, lines)
	h.Unknown = why
	return h
}

// states is what the model takes of the host before it is on the card, and a saved state before it is on the disk, which
// Lightning makes whole in memory (utilities/cloud_io.py:56, atomic_save, at 1.4.2).
func (b *builder) states(training mem.Estimate, ranks unit.Bytes) (out []mem.HostLine) {
	model := training.Of(mem.Parameters)
	if b.device.Kind == gpu.CPU || model == 0 {
		return nil
	}
	add := func(when mem.Moment, kind mem.Kind, what string, n unit.Bytes, guess bool, from string) {
		if n > 0 {
			out = append(out, mem.HostLine{When: when, Item: mem.Item{Kind: kind, What: what, Bytes: n, Guess: guess, From: from}})
		}
	}
	add(mem.Starting, mem.HostModel, "model", model*ranks, false, "its parameters, made on the host in every process")
	read, what := b.checkpoints(), "the largest of the files that it loads, one after the other"
	if strings.HasSuffix(text(b.root, "model.params.cond_stage_config.target"), "FrozenOpenCLIPEmbedder") && clip > read {
		read, what = clip, "OpenCLIP's 986 million parameters, of which the image's are thrown away"
	}
	add(mem.Starting, mem.HostModel, "while it is loaded", read*ranks, true, "in every process: "+what)
	add(mem.Training, mem.Saving, "last.ckpt", model+training.Of(mem.Optimizer), false, "parameters and optimizer states, written into memory first")
	return out
}

// checkpoints is the size of the largest file that the model is loaded from.
func (b *builder) checkpoints() (size unit.Bytes) {
	files := []string{text(b.root, "model.params.ckpt_path"), text(b.root,
		"model.params.first_stage_config.params.ckpt_path")}
	// of Dreambooth and textual inversion, of justinpinkney's and zero123
	for _, flag := range []string{"--actual_resume", "--finetune_from"} {
		v, _ := b.argv.Get(flag)
		files = append(files, v)
	}
	for _, path := range files {
		if info, err := os.Stat(file.In(b.prog.Dir, path)); path != "" && err == nil && info.Mode().IsRegular() {
			size = max(size, unit.Bytes(info.Size()))
		}
	}
	return size
}
