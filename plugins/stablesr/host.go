package stablesr

import (
	"fmt"
	"image"
	_ "image/jpeg"
	_ "image/png"
	"os"
	"path/filepath"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/file"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
)

const dataSource = "basicsr/data/realesrgan_dataset.py"

// kernel is one of three blur kernels of a sample, padded to 21 × 21 (realesrgan_dataset.py:198 at 398ee93).
const kernel = unit.Bytes(21 * 21 * 4)

// decodedPixel is what a worker holds of a whole image: imdecode's three bytes, and float32 before and after it is divided
// by 255 (basicsr/utils/img_util.py, imfrombytes, at 398ee93).
const decodedPixel = 3 + 12 + 12

// sample is what one sample of a data set's tensors takes, in float32; why says what is not known.
func (r *recipe) sample(set string) (n unit.Bytes, from, why string) {
	target := text(r.root, set+".target")
	if !strings.HasSuffix(target, "realesrgan_dataset.RealESRGANDataset") {
		return 0, "", fmt.Sprintf("what a sample of %s holds is not known", target)
	}
	crop, ok := integer(r.root, set+".params.crop_size")
	if !ok {
		crop = 512 // realesrgan_dataset.py:44
	}
	square := unit.Bytes(3 * crop * crop * 4)
	n, from = square+3*kernel, fmt.Sprintf("3 × %d² × 4 B and three kernels", crop)
	if strings.Contains(r.source(dataSource).Code, `'img_edge': img_edge`) { // realesrgan_dataset.py:258 at cea3b81b
		n, from = n+square, from+", and as much of edges"
	}
	return n, from, ""
}

// looked is of how many images the headers are read to guess how large the data set's are.
const looked = 16

// decoded guesses what a worker holds while it makes a sample.
func (r *recipe) decoded(set string) (unit.Bytes, string) {
	var folders []string
	switch v, _ := get(r.root, set+".params.gt_path"); v := v.(type) {
	case string:
		folders = []string{v}
	case []any:
		for _, f := range v {
			folders = append(folders, fmt.Sprint(f))
		}
	}
	var most, seen int64
	for _, folder := range folders {
		d, err := os.Open(absolute(r.prog.Dir, folder))
		if err != nil {
			continue
		}
		names, _ := d.Readdirnames(looked)
		d.Close()
		for _, name := range names {
			f, err := file.Open(filepath.Join(absolute(r.prog.Dir, folder), name))
			if err != nil {
				continue
			}
			if c, _, err := image.DecodeConfig(f); err == nil {
				most, seen = max(most, int64(c.Width)*int64(c.Height)), seen+1
			}
			f.Close()
		}
	}
	if seen == 0 { // the recipes name DIV8K, DIV2K, Flickr2K and OST (configs/stableSRNew at 398ee93)
		return 7680 * 4320 * decodedPixel, fmt.Sprintf("an image of 7680 × 4320, as DIV8K has them, %d B a pixel: none could be looked at", decodedPixel)
	}
	return unit.Bytes(most * decodedPixel), fmt.Sprintf("the largest of %d images, %d B a pixel", seen, decodedPixel)
}

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
		key := "data.params." + set
		if !has(b.root, key) {
			continue
		}
		l := mem.Loader{What: map[string]string{"train": "training", "validation": "validation"}[set], Ranks: ranks, Prefetch: 2, Samples: 1, Queued: 1}
		var unknown string
		l.Sample, l.From, unknown = b.sample(key)
		if why == "" {
			why = unknown
		}
		l.Making, l.MakingFrom = b.decoded(key)
		loaders = append(loaders, l)
	}
	lines := func(f ladder.Feed) (out []mem.HostLine) {
		for _, l := range loaders {
			l.Workers, l.Prefetch = f.Workers, f.Prefetch
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
	for _, key := range []string{"model.params.ckpt_path", "model.params.first_stage_config.params.ckpt_path"} {
		if info, err := os.Stat(absolute(b.prog.Dir, text(b.root, key))); err == nil && info.Mode().IsRegular() {
			size = max(size, unit.Bytes(info.Size()))
		}
	}
	return size
}
