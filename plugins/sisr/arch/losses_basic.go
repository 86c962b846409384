package arch

import (
	"slices"

	"github.com/launch-ml/launch/core/nn"
)

// The rest of traiNNer/losses/basic_loss.py, ncc_loss.py and bcewithlogitsdice_loss.py at 68629319. None of them leaves
// autocast.
var _ = entry(func() {
	of := func(f func(a *args, c lossFunc) lossFunc, allowed ...string) lossBuilder {
		return func(a *args) lossFunc {
			name := a.string("criterion", "l1")
			refuse(!slices.Contains(allowed, name), "%s criterion has not been supported", name)
			return f(a, criterion(name))
		}
	}
	all := []string{"l1", "l2", "charbonnier"}
	registerLoss(of(func(a *args, c lossFunc) lossFunc {
		scale := a.int("scale", 4)
		return func(t *nn.Tape, x, y nn.Tensor) nn.Tensor { return colorLoss(t, x, y, scale, c) }
	}, all...), "colorloss")
	registerLoss(of(func(a *args, c lossFunc) lossFunc {
		scale := a.int("scale", 4)
		return func(t *nn.Tape, x, y nn.Tensor) nn.Tensor {
			return c(t, t.AvgPool2d(x, scale, scale, 0), t.AvgPool2d(y, scale, scale, 0))
		}
	}, "l1", "l2"), "averageloss")
	registerLoss(of(func(a *args, c lossFunc) lossFunc {
		scale := a.int("scale", 4)
		down := func(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.Interpolate(x, x.Dim(2)/scale, x.Dim(3)/scale) }
		return func(t *nn.Tape, x, y nn.Tensor) nn.Tensor { return c(t, down(t, x), down(t, y)) }
	}, all...), "bicubicloss")
	registerLoss(of(func(_ *args, c lossFunc) lossFunc {
		return func(t *nn.Tape, x, y nn.Tensor) nn.Tensor {
			xLuma := t.Hold(t.Call("", x, rgbToLuma))
			return c(t, xLuma, t.Hold(t.Call("", y, rgbToLuma)))
		}
	}, all...), "lumaloss")
	registerLoss(plainLoss(fftLoss), "fftloss")
	registerLoss(func(a *args) lossFunc {
		toY := a.bool("to_y", false)
		return func(t *nn.Tape, x, y nn.Tensor) nn.Tensor { return psnrLoss(t, x, y, toY) }
	}, "psnrloss")
	registerLoss(plainLoss(nccLoss), "nccloss")
	registerLoss(func(a *args) lossFunc { // of Phhofm's tree at 069b6d59
		refuse(a.float("delta", 1) <= 0, "delta must be positive")
		r := a.string("reduction", "mean")
		refuse(r != "mean" && r != "sum", "reduction %q: %w", r, ErrUnknown)
		return func(t *nn.Tape, x, y nn.Tensor) (z nn.Tensor) {
			t.Scope("", func() { z = t.Mean(t.Hold(elementwiseLoss(t, "torch.nn.functional.huber_loss", x, y))) }, x, y)
			return t.MulScalar(z)
		}
	}, "huberloss")
	registerLoss(plainLoss(bceDiceLoss), "bcewithlogitsdiceloss")
})

// colorLoss is ColorLoss: the two chroma planes, each averaged over squares.
func colorLoss(t *nn.Tape, x, y nn.Tensor, scale int64, c lossFunc) nn.Tensor {
	ycbcr := func(t *nn.Tape, img nn.Tensor) nn.Tensor { // rgb2ycbcr_pt
		bias := t.Hold(t.Zeros(img.DType(), 1, 3, 1, 1))
		out := t.Hold(t.Add(t.Permute(t.MatmulConst(t.Permute(img, 0, 2, 3, 1), 3), 0, 3, 1, 2), bias))
		return t.Rebind(out, t.DivScalar(out))
	}
	xYUV, yYUV := t.Hold(t.Call("", x, ycbcr)), t.Hold(t.Call("", y, ycbcr))
	down := func(yuv nn.Tensor) nn.Tensor { return t.Hold(t.AvgPool2d(t.Narrow(yuv, 1, 2), scale, scale, 0)) }
	xDown, yDown := down(xYUV), down(yYUV)
	return c(t, xDown, yDown)
}

// rgbToLuma is rgb_to_luma of traiNNer/utils/color_util.py.
func rgbToLuma(t *nn.Tape, img nn.Tensor) nn.Tensor {
	out := t.Hold(t.Clamp(t.Permute(img, 0, 2, 3, 1)))
	out = t.Rebind(out, t.Where(t.Compare(out, out), t.DivScalar(out), t.Pow(t.DivScalar(t.AddScalar(out)))))
	out = t.Rebind(out, t.View(t.MatmulConst(out, 1), img.Dim(0), img.Dim(2), img.Dim(3)))
	out = t.Rebind(out, t.Where(t.Compare(out, out), t.Mul(out, t.MulScalar(out)), t.AddScalar(t.MulScalar(t.Pow(out)))))
	return t.Rebind(out, t.Clamp(t.DivScalar(out)))
}

// fftLoss is FFTLoss: half a spectrum, real and imaginary parts side by side.
func fftLoss(t *nn.Tape, pred, target nn.Tensor) nn.Tensor {
	spectrum := func(x nn.Tensor) nn.Tensor { return t.Hold(t.RFFT2(x)) }
	stacked := func(x nn.Tensor) nn.Tensor { return t.Rebind(x, t.Copy("torch.stack", x, x.Shape()...)) }
	predFFT, targetFFT := spectrum(pred), spectrum(target)
	predFFT, targetFFT = stacked(predFFT), stacked(targetFFT)
	return t.L1Loss(predFFT, targetFFT)
}

// psnrLoss is PSNRLoss.
func psnrLoss(t *nn.Tape, pred, target nn.Tensor, toY bool) nn.Tensor {
	if toY {
		coef := t.Hold(t.Zeros(nn.F32, 1, 3, 1, 1))
		y := func(x nn.Tensor) nn.Tensor { return t.Hold(t.AddScalar(t.SumDim(t.Mul(x, coef), 1))) }
		pred, target = y(pred), y(target)
		p, g := t.DivScalar(pred), t.DivScalar(target)
		pred, target = t.Rebind(pred, p), t.Rebind(target, g)
	}
	mse := t.AddScalar(t.MeanDim(t.Pow(t.Sub(pred, target)), 1, 2, 3))
	return t.MulScalar(t.Mean(t.Elementwise("torch.log", mse, true, false)))
}

// nccLoss is NCCLoss: the correlation of each channel.
func nccLoss(t *nn.Tape, sr, hr nn.Tensor) nn.Tensor {
	cc := t.Within("", func() nn.Tensor {
		c := sr.Dim(1)
		raw, dst := t.View(sr, c, -1), t.View(hr, c, -1)
		meanRaw, meanDst := t.Hold(t.MeanDim(raw, 1)), t.Hold(t.MeanDim(dst, 1))
		above := t.SumDim(t.Mul(t.Sub(raw, meanRaw), t.Sub(dst, meanDst)), 1)
		below := t.Mul(t.SumDim(t.Pow(t.Sub(raw, meanRaw)), 1), t.SumDim(t.Pow(t.Sub(dst, meanDst)), 1))
		return t.Mean(t.Div(above, t.Sqrt(below)))
	}, sr, hr)
	return t.Neg(t.MulScalar(t.AddScalar(cc)))
}

// bceDiceLoss is BCEWithLogitsDiceLoss.
func bceDiceLoss(t *nn.Tape, logits, target nn.Tensor) nn.Tensor {
	bce := t.Hold(t.BCEWithLogits(logits, target))
	probs := t.Hold(t.Sigmoid(logits))
	num := t.Hold(t.MulScalar(t.SumDim(t.Mul(probs, target), 1, 2, 3)))
	den := t.Hold(t.AddScalar(t.Add(t.SumDim(probs, 1, 2, 3), t.SumDim(target, 1, 2, 3))))
	dice := t.Hold(t.Neg(t.Mean(t.Div(num, den))))
	return t.Add(t.MulScalar(bce), t.MulScalar(dice))
}
