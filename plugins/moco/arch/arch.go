// Package arch is what the MoCo family costs: its encoders, each as its Python forward on an nn.Tape, and a training step
// of each of its projects, line by line.
//
// facebookresearch/moco at 7397dfe (v1 and v2), facebookresearch/moco-v3 at c349e6e, solar-ssl/moco-v3 at 7ee2801
// (2026-02-05), d3649f9 (main) and 023a7ec (experiment--large-batch-size); torchvision's resnet.py and
// vision_transformer.py; timm's vision_transformer.py at 0.4.9, which moco-v3 asks for, and as of 1.0.
package arch

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/launch-ml/launch/core/nn"
)

// ErrUnknown is the error for an encoder without a formula. It says nothing about the job: its cost is unknown, not
// wrong.
var ErrUnknown = errors.New("no formula for it")

// An Encoder is a backbone: images (n, 3, h, w) to features (n, Features).
type Encoder struct {
	Name      string
	Features  int64
	HeadName  string // what the module calls the layer behind its features: "fc", "head"
	Image     int64  // the one image size that it takes; 0 for any
	BatchNorm bool
	// Naive says that attention is written out, so that the attention matrix is saved.
	Naive bool

	body func(o Options) nn.Module
}

// Options are how a project builds an encoder.
type Options struct {
	Ranks int64 // of SyncBatchNorm; 1 or less for plain batch normalisation
	// FrozenStem takes the gradient from the first convolution or the patch projection (stop_grad_conv1).
	FrozenStem bool
	Head       nn.Module // behind the features, as the module's own last layer; nil for none
}

// Module is the encoder as a module.
func (e Encoder) Module(o Options) nn.Module {
	body := e.body(o)
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		x = body(t, x)
		if o.Head != nil {
			x = t.Call(e.HeadName, x, o.Head)
		}
		return x
	}
}

// A Library is where a project's encoders come from.
type Library int

const (
	Torchvision Library = iota
	VITs                // moco-v3's vits.py, on timm 0.4.9
	Timm                // timm of today, whose attention is fused where torch has it
	Small               // the example's own
)

var encoders = map[Library]map[string]Encoder{
	Torchvision: torchvision(),
	VITs:        vits(),
	Timm:        timm(),
	Small:       small(),
}

// Build finds an encoder by its name in a library.
func Build(l Library, name string) (Encoder, error) {
	e, ok := encoders[l][name]
	if !ok {
		return Encoder{Name: name}, fmt.Errorf("encoder %q: %w", name, ErrUnknown)
	}
	e.Name = name
	return e, nil
}

// Names lists the encoders that have a formula.
func Names() []string {
	all := map[string]bool{}
	for _, l := range encoders {
		for name := range l {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}
