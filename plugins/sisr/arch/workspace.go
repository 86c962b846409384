package arch

import "github.com/launch-ml/launch/core/mem"

// Workspace is what cuDNN asks for beside the tensors of a validation image, as far as anything is known: networks of
// dense 3×3 convolutions reached twice the bytes of their tensors, others about as much as their tensors alone.
//
// Source: the peaks that upstream publishes for an RTX 4090 at 480×640 with AMP and channels_last
// (docs/source/benchmarks.md at 68629319) over the tape's: ESRGAN 2.48 GiB over 1.27, SPAN 0.65 over 0.34, Compact
// 0.20 over 0.09; of 43 rows of at least 0.45 GiB the median is 0.97. It depends on device, driver and shape, so it
// is a guess until a run has been measured.
func Workspace(n Network, validation mem.Estimate) []mem.Item {
	if !n.ConvDominated {
		return nil
	}
	return []mem.Item{{
		Kind: mem.Workspace, What: "network_g", Bytes: validation.Growing(), Guess: true,
		From: "cuDNN: as much again as the tensors of a network of dense 3×3 convolutions (RTX 4090, upstream's benchmarks)",
	}}
}
