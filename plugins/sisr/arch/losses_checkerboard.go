package arch

import (
	"github.com/launch-ml/launch/core/nn"
)

// The checkerboard loss: traiNNer/losses/checkerboard_loss.py of Phhofm's tree at 069b6d59, as autocast has it. Within each
// square of scale×scale pixels it compares every pixel with every other, so that its tensors are scale² times as large as
// an image.
var _ = registerLoss(func(a *args) lossFunc {
	scale := a.int("scale", 4)
	refuse(scale <= 0, "scale must be a positive integer")
	name := a.string("criterion", "charbonnier")
	refuse(name != "l1" && name != "l2" && name != "charbonnier",
		"criterion must be one of l1, l2, charbonnier, and not %s", name)
	a.ignore("eps")
	return func(t *nn.Tape, x, y nn.Tensor) nn.Tensor { return checkerboard(t, x, y, scale, name) }
}, "checkerboardloss")

// checkerboard is CheckerboardLoss.forward (line 163).
func checkerboard(t *nn.Tape, pred, target nn.Tensor, scale int64, name string) nn.Tensor {
	k := scale * scale
	triupper := t.Buffer("triupper_mask", nn.Bool, 1, 1, k, k, 1, 1)
	pred, target = t.Hold(t.PixelUnshuffle(pred, scale)), t.Hold(t.PixelUnshuffle(target, scale))
	b, c, h, w := pred.Dim(0), pred.Dim(1)/k, pred.Dim(2), pred.Dim(3)
	diffs := func(x nn.Tensor) nn.Tensor {
		return t.Hold(t.Sub(t.View(x, b, c, 1, k, h, w), t.View(x, b, c, k, 1, h, w)))
	}
	predDiffs, targetDiffs := diffs(pred), diffs(target)
	pairs := k * (k - 1) / 2
	selected := func(x nn.Tensor) nn.Tensor {
		return t.View(t.Hold(t.MaskedSelect(x, triupper, b*c*pairs*h*w)), b, c, pairs, h, w)
	}
	x, y := selected(predDiffs), selected(targetDiffs)
	return t.MulScalar(t.Mean(t.Hold(apart(t, x, y, name))))
}

// apart is the distance of each element of two tensors: F.l1_loss and F.mse_loss with reduction="none", in float32 under
// autocast, or Charbonnier's written out.
func apart(t *nn.Tape, x, y nn.Tensor, name string) (z nn.Tensor) {
	switch name {
	case "l1":
		t.Scope("", func() { z = t.Abs(t.Hold(t.Sub(t.Hold(t.To(x, nn.F32)), t.Hold(t.To(y, nn.F32))))) }, x, y)
	case "l2":
		z = elementwiseLoss(t, "torch.nn.functional.mse_loss", x, y)
	default:
		z = t.Sqrt(t.AddScalar(t.Pow(t.Sub(x, y))))
	}
	return z
}

// elementwiseLoss is a loss of one kernel with reduction="none", in float32 under autocast. Saved: both (derivatives.yaml,
// mse_loss and huber_loss).
func elementwiseLoss(t *nn.Tape, name string, x, y nn.Tensor) nn.Tensor {
	x, y = t.To(x, nn.F32), t.To(y, nn.F32)
	return t.Apply(nn.Function{Name: name, Forward: func() (nn.Tensor, []nn.Tensor) { return t.ZerosLike(x), []nn.Tensor{x, y} }}, x, y)
}
