package sisr

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"strings"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/gpu"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/python"
	"github.com/launch-ml/launch/core/unit"
	"github.com/launch-ml/launch/plugins/sisr/arch"
)

// The knobs of the host's ladder.
const (
	knobPrefetch   = "prefetch"
	knobPinned     = "pinned memory"
	knobPersistent = "persistent workers"
)

// feeding is how a project's loader is fed: what its code takes where the recipe says nothing, and what it reads at all.
//
//	traiNNer-redux  data/__init__.py:83-157 and utils/redux_options.py:68-72 at 68629319
//	BasicSR         data/__init__.py:40-94 at 8d56e3a0
//	neosr           data/__init__.py at 3fe001f4
type feeding struct {
	files            []string // where the loader is built, beside the script
	workers          int64    // where the recipe names none; -1: it must
	prefetch         int64
	pinned, persists bool
}

func (d *dialect) feeding() feeding {
	switch d {
	case &basicSR:
		return feeding{[]string{"basicsr/data/__init__.py"}, -1, 2, false, false}
	case &neosr:
		return feeding{[]string{"neosr/data/__init__.py"}, 4, 8, true, false}
	}
	return feeding{[]string{"traiNNer/data/__init__.py", "sisr/data.py"}, -1, 2, true, true}
}

const trainSet = "datasets.train."

// loader reads how the checkout feeds its training; why says what is not known.
type loader struct {
	mem.Loader
	persists bool // persistent_workers
	onCard   bool // a batch is ahead on the card too, which needs pinned memory
	why      string
	source   python.Source // of the file that builds the loader, if that is there
}

func (b *builder) loader() (l loader) {
	r, f := b.recipe, b.recipe.feeding()
	for _, name := range f.files {
		if path, ok := b.find(name); ok {
			l.source = python.ReadSource(path, maxRecipe)
			break
		}
	}
	at := func(key string) config.Value { return r.at(trainSet + key) }
	flag := func(key string, otherwise bool) bool {
		if v, ok := at(key).Bool(); ok && l.reads(key) {
			return v
		}
		return otherwise
	}
	l.What, l.Ranks, l.Samples = "training", 1, 1
	l.Workers, l.Prefetch = f.workers, f.prefetch
	switch n, ok := r.at(r.workers).Int(); {
	case ok:
		l.Workers = n
	case r.dialect == &neosr && r.at(r.workers).Text() == "auto": // os.cpu_count()
		l.Workers = int64(runtime.NumCPU())
	}
	if n, ok := at("prefetch_factor").Int(); ok && l.reads("prefetch_factor") {
		l.Prefetch = n
	}
	l.Pinned = flag("pin_memory", f.pinned) && b.device.Kind != gpu.CPU // DataLoader pins only where there is a card
	l.persists = flag("persistent_workers", f.persists)
	switch mode := at("prefetch_mode").Text(); {
	case !l.reads("prefetch_mode"):
	case mode == "cpu": // PrefetchGenerator: a queue, and one that waits to be put there (prefetch_dataloader.py:11-33)
		l.Queued = r.int(trainSet+"num_prefetch_queue", 1) + 1
	case mode == "cuda":
		l.onCard = true
	}
	// With a launcher each process has a loader; without one, one loader feeds all cards (data/__init__.py:86-94).
	for _, p := range b.prog.Launchers {
		n, _ := p.PerNode(b.job.Command.Devices)
		l.Ranks = max(l.Ranks, int64(cmp.Or(n, p.Procs)))
	}
	if b.job.Batch.Replicas {
		n := b.job.Batch.Ranks
		l.Samples, l.Workers = n, l.Workers*n
	}
	l.Sample, l.From, l.why = b.sample()
	if l.Workers < 0 {
		l.Workers, l.why = 0, "the recipe does not say how many loader workers there are"
	}
	return l
}

// reads reports whether the code that builds the loader reads a key. Without a checkout the dialect's is taken for it.
func (l loader) reads(key string) bool {
	return !l.source.Exists() || l.source.Names(key)
}

// sample is what one sample's tensors take, in float32: crops at both resolutions, and of the on-the-fly degradations the
// kernels that make one of the other.
func (b *builder) sample() (n unit.Bytes, from, why string) {
	r := b.recipe
	lq, gt := r.lqSize, r.lqSize*r.scale
	square := func(side int64) unit.Bytes { return unit.Bytes(3 * side * side * 4) }
	paired := square(lq) + square(gt)
	kind := strings.ToLower(r.at(trainSet + "type").Text())
	switch {
	case lq <= 0:
		return 0, "", "the recipe does not say how large the training crop is"
	case r.dialect == &neosr && kind != "paired":
		return 0, "", fmt.Sprintf("what a sample of neosr's data set %q holds is not known", kind)
	case kind == "realesrgandataset" && r.dialect == &basicSR: // crop_pad_size = 400 (realesrgan_dataset.py, "crop or pad to 400", at 8d56e3a0)
		return square(400) + 3*kernel, "3 × 400² × 4 B and three kernels", ""
	case kind == "realesrgandataset" || kind == "realesrganpaireddataset": // realesrgan_dataset.py:139 at 68629319
		n = square(gt+32) + 3*kernel
		from = fmt.Sprintf("3 × (%d + 32)² × 4 B and three kernels", gt)
		if kind == "realesrganpaireddataset" {
			n, from = n+paired, from+", and a pair"
		}
		return n, from, ""
	case kind == "singlegtdataset":
		return square(gt), fmt.Sprintf("3 × %d² × 4 B", gt), ""
	case kind == "pairedvideodataset": // the clip at low resolution, its middle at high (paired_video_dataset.py:195-206)
		clip := r.int(trainSet+"clip_size", 1)
		return square(lq)*unit.Bytes(clip) + square(gt), fmt.Sprintf("3 × (%d × %d² + %d²) × 4 B", clip, lq, gt), ""
	case strings.HasPrefix(kind, "paired"), kind == "":
		return paired, fmt.Sprintf("3 × (%d² + %d²) × 4 B", lq, gt), ""
	}
	return 0, "", fmt.Sprintf("what a sample of the data set %q holds is not known", kind)
}

// kernel is a blur kernel of the degradations, padded to 21 × 21 (realesrgan_dataset.py:173).
const kernel = unit.Bytes(21 * 21 * 4)

// looked is of how many training images the headers are read to guess how large those are.
const looked = 64

// decoded guesses what a worker holds of whole images: those at both resolutions, of the largest of the first few. Redux
// streams what it can through libvips (vipsimfrompath, access="sequential"), in bytes; BasicSR decodes to float32.
func (b *builder) decoded(ctx context.Context) (unit.Bytes, string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var s scan
	_ = eachImage(ctx, b.prog.Dir, expand(b.recipe.trainRoots), &s, func(path string) {
		if w, h, err := imageSize(path); err == nil && w*h > s.width*s.height {
			s.width, s.height = w, h
		}
		if s.images >= looked {
			cancel()
		}
	})
	pixel := int64(3)
	if b.recipe.dialect == &basicSR {
		pixel = 12 + 3
	}
	gt := int64(s.width) * int64(s.height)
	if gt == 0 {
		return unit.Bytes(pixel) * unit.MiB, "a whole image of a megapixel: none could be looked at"
	}
	n := pixel * (gt + gt/(b.recipe.scale*b.recipe.scale))
	return unit.Bytes(n), fmt.Sprintf("a whole image of %d × %d at both resolutions, %d B a pixel: the largest of the first %d", s.width, s.height, pixel, s.images)
}

// host builds the ladder of the host's memory.
func (b *builder) host(ctx context.Context) *ladder.HostLadder {
	l := b.loader()
	l.Making, l.MakingFrom = b.decoded(ctx)
	var params unit.Bytes
	if b.netErr == nil {
		params = unit.Bytes(4 * arch.Parameters(b.net))
	}
	python := mem.RuntimeOf(b.torch())
	lines := func(f ladder.Feed) []mem.HostLine {
		now := l.Loader
		now.Workers, now.Prefetch, now.Pinned = f.Workers, f.Prefetch, f.Pinned
		out := append(now.Lines(), mem.HostProcesses(l.Ranks, python))
		if params > 0 && b.device.Kind != gpu.CPU {
			ranks := unit.Bytes(l.Ranks)
			out = append(out,
				mem.HostLine{When: mem.Starting, Item: mem.Item{Kind: mem.HostModel, What: "network_g", Bytes: params * ranks, From: "its parameters, made on the host in every process (base_model.py:195 at 68629319)"}},
				mem.HostLine{When: mem.Training, Item: mem.Item{Kind: mem.Saving, What: "network_g", Bytes: params, From: "its parameters, copied to the host to be saved (base_model.py:424 at 68629319)"}})
		}
		return out
	}
	h := ladder.Feeds(ladder.Feed{Workers: l.Workers, Prefetch: l.Prefetch, Pinned: l.Pinned}, func(f ladder.Feed) ([]config.Edit, bool) { return b.feed(l, f) }, lines)
	h.Unknown = l.why
	return h
}

// feed makes the edits that lead to a feed; ok is false where the code does not read what they set.
func (b *builder) feed(l loader, f ladder.Feed) (edits []config.Edit, ok bool) {
	r := b.recipe
	ok = true
	set := func(knob, path, key string, to any, why string) {
		path = cmp.Or(path, trainSet+key)
		if !b.accepts(path) || !l.reads(key) || r.dialect == &neosr && to == nil {
			ok = false
			return
		}
		edits = append(edits, b.edit(knob, path, to, ladder.None, why))
	}
	if f.Workers != l.Workers {
		if f.Workers%l.Samples != 0 { // one loader for several cards has as many workers for each
			return nil, false
		}
		set(knobWorkers, r.workers, "num_worker_per_gpu", f.Workers/l.Samples, ladder.WhyHost)
	}
	readsPrefetch := r.prefetch != "" && l.reads("prefetch_factor")
	switch {
	case f.Workers == 0 && r.dialect == &neosr: // which always gives prefetch_factor, and DataLoader refuses it without workers
		return nil, false
	case f.Workers == 0 && l.Workers > 0:
		const why = "without workers DataLoader takes neither of the two"
		if l.persists {
			set(knobPersistent, r.persistent, "persistent_workers", false, why)
		}
		if readsPrefetch && !r.at(r.prefetch).IsNull() {
			set(knobPrefetch, r.prefetch, "prefetch_factor", nil, why)
		}
	case f.Prefetch != l.Prefetch:
		if !readsPrefetch {
			return nil, false
		}
		set(knobPrefetch, r.prefetch, "prefetch_factor", f.Prefetch, ladder.WhyHost)
	}
	if f.Pinned != l.Pinned {
		if l.onCard { // train.py:377 refuses prefetch_mode "cuda" without it
			return nil, false
		}
		set(knobPinned, "", "pin_memory", false, ladder.WhyHost)
	}
	return edits, ok
}
