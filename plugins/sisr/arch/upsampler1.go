package arch

import (
	"github.com/launch-ml/launch/core/nn"
)

// An upsampler1 is UniUpsample, the first of upstream's upsamplers (traiNNer/archs/arch_util.py at 68629319, line 283).
// It is UniUpsampleV3 without transposed convolution, lda and pa_up, and its dysample has no convolution before it.
type upsampler1 struct {
	kind            string
	scale, out, mid int64
}

// check finds what upstream's constructor, or the loss of the first step, stops at, with in channels to come.
func (u upsampler1) check(in int64) {
	switch u.kind {
	case "conv", "pixelshuffledirect", "pixelshuffle", "nearest+conv":
		upsampler3(u).check()
	case "dysample":
		refuse(u.scale > 1 && (in < 4 || in%4 != 0),
			"upsampler: %d channels do not divide among the 4 groups of dysample", in)
	default:
		reject("upsampler %q is none of conv, pixelshuffledirect, pixelshuffle, nearest+conv, dysample", u.kind)
	}
}

func (u upsampler1) module(t *nn.Tape, x nn.Tensor) nn.Tensor {
	if u.kind == "dysample" {
		u.mid = x.Dim(1)
	}
	return upsampler3(u).module(t, x)
}
