package arch

import (
	"slices"

	"github.com/launch-ml/launch/core/nn"
)

// The Laplacian pyramid: traiNNer/losses/laplacian_loss.py of Phhofm's tree at 069b6d59, as autocast has it.
var _ = registerLoss(func(a *args) lossFunc {
	levels, name := int(a.int("levels", 4)), a.string("criterion", "charbonnier")
	refuse(!slices.Contains([]string{"l1", "l2", "charbonnier"}, name), "unsupported criterion: %s", name)
	c := criterion(name)
	return func(t *nn.Tape, x, y nn.Tensor) nn.Tensor { return laplacianPyramidLoss(t, x, y, levels, c) }
}, "laplacianpyramidloss")

// laplacianPyramidLoss is LaplacianPyramidLoss.forward.
func laplacianPyramidLoss(t *nn.Tape, sr, gt nn.Tensor, levels int, c lossFunc) nn.Tensor {
	srPyramid, gtPyramid := laplacianPyramid(t, sr, levels), laplacianPyramid(t, gt, levels)
	loss := t.Zeros(nn.F32)
	for i, x := range srPyramid {
		levelLoss := t.Hold(c(t, x, gtPyramid[i]))
		if i == 0 {
			loss = levelLoss // 0.0 of the host's plus the first
			continue
		}
		loss = t.AddInplace(loss, levelLoss)
	}
	return t.MulScalar(loss)
}

// laplacianPyramid is build_laplacian_pyramid, without the coarsest level, which nothing is compared with: it is held all the
// same.
func laplacianPyramid(t *nn.Tape, img nn.Tensor, levels int) (pyramid []nn.Tensor) {
	coarsest := t.Within("", func() nn.Tensor {
		gaussian := []nn.Tensor{img}
		current := img
		for range levels {
			current = t.Hold(t.Interpolate(current, current.Dim(2)/2, current.Dim(3)/2))
			gaussian = append(gaussian, current)
		}
		var upsampled nn.Tensor
		for i := range levels {
			y := t.Interpolate(gaussian[i+1], gaussian[i].Dim(2), gaussian[i].Dim(3))
			upsampled = t.Assign(i == 0, upsampled, y)
			pyramid = append(pyramid, t.Hold(t.Sub(gaussian[i], upsampled)))
		}
		return current
	}, img)
	t.HoldAll(pyramid...)
	t.Hold(coarsest)
	return pyramid
}
