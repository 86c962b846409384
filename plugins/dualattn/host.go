package dualattn

import (
	"fmt"
	"slices"

	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/core/lazy"
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/unit"
)

// The knobs of the host's ladder.
const (
	knobWorkers = "loader workers"
	knobPinned  = "pinned memory"
)

// decoded is taken for the whole image that a worker holds while it is resized and cropped, in PIL's three bytes a pixel;
// CUB-200-2011's are at most 500 × 500.
const decoded = 3 * unit.MiB

// reFlagWorkers is a program that takes its workers from --num_workers; upstream parses the option and reads it nowhere.
var reFlagWorkers = lazy.MustCompile(`\bargs\.num_workers\b`)

// loads is a field of the configuration that the loaders are built with; ok is false where it is not there, is no literal,
// or is read by nothing that runs.
func (b *builder) loads(field string) (s setting, ok bool) {
	s, ok = b.class.field(field)
	return s, ok && s.item.Literal && b.handsOn(field)
}

// handsOn reports whether the code gives the field of its configuration to something (train.py:249 at 227722e).
func (b *builder) handsOn(field string) bool {
	re := lazy.MustCompile(`=\s*[\w.]*\bconfig\.` + field + `\b`)
	return slices.ContainsFunc(b.sources, func(s *config.PythonSource) bool { return re.Match(code(s)) })
}

// host builds the ladder of the host's memory. training is the training as asked, whose parameters are made on the host.
//
// The loaders of both phases have the same settings (train.py:249, fgvc_datasets.py:369-382 at 227722e), and the
// training's ends before the other begins. A batch is images of the network's input in float32; pairs are made of it on
// the card.
func (b *builder) host(training mem.Estimate) *ladder.HostLadder {
	h, w, sized := b.class.pair("input_size")
	workers, turnable := b.loads("num_workers")
	if slices.ContainsFunc(b.sources, func(s *config.PythonSource) bool { return reFlagWorkers.Match(code(s)) }) {
		turnable = false
	}
	pinned, unpinnable := b.loads("pin_memory")
	pins := b.class.bool("pin_memory")
	l := mem.Loader{
		What: "training", Ranks: 1, Workers: b.class.int("num_workers", 0), Prefetch: 2, Pinned: pins && !b.cpu,
		Sample: unit.Bytes(3 * h * w * 4), Samples: 1, From: fmt.Sprintf("3 × %d × %d × 4 B", h, w),
		Making: decoded, MakingFrom: "an image of a megapixel: how large they are was not looked at",
	}
	python := mem.RuntimeOf(b.python().TorchCUDA())
	lines := func(f ladder.Feed) []mem.HostLine {
		now := l
		now.Workers, now.Pinned = f.Workers, f.Pinned
		out := append(now.Lines(), mem.HostProcesses(1, python))
		if model := training.Of(mem.Parameters); model > 0 && !b.cpu {
			out = append(out, mem.HostLine{When: mem.Starting, Item: mem.Item{Kind: mem.HostModel, What: "network", Bytes: model, From: "its parameters, made on the host"}})
		}
		return out
	}
	edits := func(f ladder.Feed) (edits []config.Edit, ok bool) {
		if f.Prefetch != l.Prefetch || f.Workers != l.Workers && !turnable || f.Pinned != l.Pinned && !unpinnable {
			return nil, false
		}
		set := func(s setting, knob string, to any) error {
			e, err := s.edit(knob, to, ladder.None, ladder.WhyHost)
			edits = append(edits, e)
			return err
		}
		if f.Workers != l.Workers && set(workers, knobWorkers, f.Workers) != nil {
			return nil, false
		}
		if f.Pinned != l.Pinned && set(pinned, knobPinned, false) != nil {
			return nil, false
		}
		return edits, true
	}
	out := ladder.Feeds(ladder.Feed{Workers: l.Workers, Prefetch: l.Prefetch, Pinned: l.Pinned}, edits, lines)
	switch _, there := b.class.field("num_workers"); {
	case b.problem != "":
		out.Unknown = b.problem
	case !sized:
		out.Unknown = "how large its images are is not known"
	case !there || b.class.computed("num_workers") != "" || !b.handsOn("num_workers"):
		out.Unknown = "how many loader workers there are is not known"
	}
	return out
}
