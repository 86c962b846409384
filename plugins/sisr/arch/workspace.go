package arch

import (
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
)

// Workspace is what cuDNN may ask for in a validation in float32, as far as anything is known: the copies as NHWC that
// it makes of contiguous maps in lower precision (see nn.Tape.Card, whose lines are no guess), by as much as the peak
// would be higher with them. Its kernels for TF32, which PyTorch lets convolutions use, want NHWC as well; whether the
// fastest of them makes copies depends on card and shape, and no card has shown it.
//
// A training has no such line: the peaks that an RTX 3060 reserved for ParagonSR2 Stream under autocast, at five
// batches, are 0.989 to 1.019 of the estimates without one (torch 2.9, a log of the project's checkout at ea36e5c8).
func Workspace(p nn.Peak) []mem.Item {
	more, moment := p.Unseen()
	return []mem.Item{{
		Kind: mem.Workspace, What: nn.CuDNN, Bytes: more, Guess: true,
		From: "copies as NHWC that cuDNN may make in float32, as it does in lower precision on an RTX 4090, in " + moment,
	}}
}
