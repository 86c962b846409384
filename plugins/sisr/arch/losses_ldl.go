package arch

import (
	"strings"

	"github.com/launch-ml/launch/core/nn"
)

// LDL (Liang et al., 2022): traiNNer/losses/ldl_loss.py at 68629319, in float32 whatever autocast says. The step runs the
// averaged network for it (sr_model.py:634).
var _ = entry(func() { registerLoss(ldlLoss, "ldlloss") })

func ldlLoss(a *args) lossFunc {
	c := criterion(a.string("criterion", "l1"))
	return float32Loss(func(t *nn.Tape, output, gt nn.Tensor) nn.Tensor {
		ema := t.Hold(t.Zeros(nn.F32, gt.Shape()...)) // output_ema
		pixelWeight := t.Hold(refinedArtifactMap(t, gt, output, ema))
		return c(t, t.Mul(pixelWeight, output), t.Mul(pixelWeight, gt))
	})
}

// wantsEMA reports whether the loss judges what the averaged network makes of the batch, too.
func (l Loss) wantsEMA() bool { return strings.ToLower(l.Type) == "ldlloss" }

// refinedArtifactMap is get_refined_artifact_map.
func refinedArtifactMap(t *nn.Tape, gt, output, ema nn.Tensor) nn.Tensor {
	const k = 7
	return t.Within("", func() nn.Tensor {
		residualEMA := t.Hold(t.SumDim(t.Abs(t.Sub(gt, ema)), 1))
		residual := t.Hold(t.SumDim(t.Abs(t.Sub(gt, output)), 1))
		b, h, w := residual.Dim(0), residual.Dim(2), residual.Dim(3)

		flat := t.View(t.Clone(residual), b, h*w)
		patch := t.Hold(t.Pow(t.View(t.VarDim(flat, 1), b, 1, 1, 1)))
		padded := t.Hold(t.Pad(t.Clone(residual), k-1, k-1, true)) // get_local_weights
		pixel := t.Hold(t.VarUnfolded(padded, k))
		overall := t.Hold(t.Mul(patch, pixel))
		return t.MaskedFill(overall, t.Compare(residual, residualEMA))
	}, gt, output, ema)
}
