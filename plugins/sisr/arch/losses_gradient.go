package arch

import (
	"github.com/launch-ml/launch/core/nn"
)

// Losses of differences between neighbours: sobel_edge_loss.py and gradient_variance_loss.py of traiNNer/losses at
// 68629319; hfen_loss.py, tv_loss.py and adaptive_block_tv_loss.py of Phhofm's tree at 22faa2a6.
var _ = entry(func() {
	registerLoss(plainLoss(sobelEdgeLoss), "sobeledgeloss")
	registerLoss(func(a *args) lossFunc {
		patch := a.int("patch_size", 16)
		c := criterion(a.string("criterion", "charbonnier"))
		return func(t *nn.Tape, x, y nn.Tensor) nn.Tensor { return gradientVarianceLoss(t, x, y, patch, c) }
	}, "gradientvarianceloss")
	registerLoss(func(a *args) lossFunc {
		a.ignore("sigma", "reduction", "eps")
		k, name := a.int("kernel_size", 7), a.string("criterion", "charbonnier")
		return func(t *nn.Tape, x, y nn.Tensor) nn.Tensor { return hfenLoss(t, x, y, k, name) }
	}, "hfenloss")
	registerLoss(func(a *args) lossFunc {
		a.ignore("reduction", "eps")
		return func(t *nn.Tape, x, _ nn.Tensor) nn.Tensor { return t.Mean(totalVariation(t, x)) }
	}, "tvloss")
	registerLoss(func(a *args) lossFunc {
		a.ignore("sharpness", "reduction", "eps")
		block := a.int("block_size", 2)
		refuse(block < 2, "block_size must be >= 2")
		return func(t *nn.Tape, x, _ nn.Tensor) nn.Tensor { return adaptiveBlockTVLoss(t, x, block) }
	}, "adaptiveblocktvloss")
})

// gray is a weighted sum of the three channels.
func gray(t *nn.Tape, x nn.Tensor) nn.Tensor {
	channel := func() nn.Tensor { return t.MulScalar(t.Narrow(x, 1, 1)) }
	return t.Add(t.Add(channel(), channel()), channel())
}

func sobelEdgeLoss(t *nn.Tape, pred, gt nn.Tensor) nn.Tensor {
	sobelX, sobelY := t.Buffer("sobel_x", nn.F32, 1, 1, 3, 3), t.Buffer("sobel_y", nn.F32, 1, 1, 3, 3)
	predLuma, gtLuma := t.Hold(gray(t, pred)), t.Hold(gray(t, gt))
	filter := func(x, w nn.Tensor) nn.Tensor { return t.Hold(t.ConvWeight(x, w, nn.Tensor{}, nn.Conv{})) }
	predX, predY := filter(predLuma, sobelX), filter(predLuma, sobelY)
	gtX, gtY := filter(gtLuma, sobelX), filter(gtLuma, sobelY)
	predGrad, gtGrad := t.Hold(t.Cat(1, predX, predY)), t.Hold(t.Cat(1, gtX, gtY))
	return t.MSELoss(predGrad, gtGrad)
}

// gradientVarianceLoss is GradientVarianceLoss: the variance of gradients within patches that do not overlap.
func gradientVarianceLoss(t *nn.Tape, output, target nn.Tensor, patch int64, c lossFunc) nn.Tensor {
	kernelX, kernelY := t.Buffer("kernel_x", nn.F32, 1, 1, 3, 3), t.Buffer("kernel_y", nn.F32, 1, 1, 3, 3)
	grayOutput, grayTarget := t.Hold(gray(t, output)), t.Hold(gray(t, target))
	filter := func(x, w nn.Tensor) nn.Tensor { return t.Hold(t.ConvWeight(x, w, nn.Tensor{}, nn.Conv{})) }
	gxTarget, gyTarget := filter(grayTarget, kernelX), filter(grayTarget, kernelY)
	gxOutput, gyOutput := filter(grayOutput, kernelX), filter(grayOutput, kernelY)
	unfold := func(x nn.Tensor) nn.Tensor {
		n := (x.Dim(2) / patch) * (x.Dim(3) / patch)
		return t.Hold(t.Copy("torch.nn.functional.unfold", x, x.Dim(0), patch*patch, n))
	}
	p := [...]nn.Tensor{unfold(gxTarget), unfold(gyTarget), unfold(gxOutput), unfold(gyOutput)}
	variance := func(x nn.Tensor) nn.Tensor { return t.Hold(t.VarDim(x, 1)) }
	varTargetX, varOutputX := variance(p[0]), variance(p[2])
	varTargetY, varOutputY := variance(p[1]), variance(p[3])
	return t.Add(c(t, varTargetX, varOutputX), c(t, varTargetY, varOutputY))
}

// hfenLoss is HFENLoss: the difference of two images through the Laplacian of a Gaussian.
func hfenLoss(t *nn.Tape, pred, target nn.Tensor, k int64, name string) nn.Tensor {
	t.Buffer("kernel_placeholder", nn.F32, 1)
	applyLog := func(img nn.Tensor) nn.Tensor {
		c := img.Dim(1)
		return t.Hold(t.ConvWeight(img, t.Zeros(nn.F32, c, 1, k, k), nn.Tensor{}, nn.Conv{Groups: c}))
	}
	hfPred, hfTgt := applyLog(pred), applyLog(target)
	diff := t.Hold(t.Sub(hfPred, hfTgt))
	var element nn.Tensor
	switch name {
	case "l2":
		element = t.Mul(diff, diff)
	case "l1":
		element = t.Abs(diff)
	default:
		element = t.Sqrt(t.AddScalar(t.Mul(diff, diff)))
	}
	return t.MulScalar(t.Mean(t.Hold(element)))
}

// totalVariation is the map that TVLoss averages.
func totalVariation(t *nn.Tape, x nn.Tensor) nn.Tensor {
	difference := func(dim int) nn.Tensor {
		d := t.Sub(t.Narrow(x, dim, x.Dim(dim)-1), t.Narrow(x, dim, x.Dim(dim)-1))
		shape := x.Shape()
		shape[dim] = 1
		return t.Hold(t.Cat(dim, d, t.Zeros(x.DType(), shape...)))
	}
	dx, dy := difference(3), difference(2)
	return t.Hold(t.Sqrt(t.AddScalar(t.Add(t.Mul(dx, dx), t.Mul(dy, dy)))))
}

// adaptiveBlockTVLoss is AdaptiveBlockTVLoss.
func adaptiveBlockTVLoss(t *nn.Tape, x nn.Tensor, block int64) nn.Tensor {
	tvMap := totalVariation(t, x)
	weight := t.Within("", func() nn.Tensor { // _compute_checkerboard_weight
		b, c, h, w := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
		hb, wb := h/block, w/block
		xc := t.Narrow(t.Narrow(x, 2, hb*block), 3, wb*block)
		blk := t.Hold(t.View(xc, b, c, hb, block, wb, block))
		diff := t.Hold(t.Abs(t.Sub(blk, t.Hold(t.MeanDim(blk, 3, 5)))))
		diffMap := t.View(diff, b, c, hb*block, wb*block)
		if hb*block != h || wb*block != w {
			diffMap = t.Hold(t.PadTo(diffMap, false, b, c, h, w))
		}
		normDiff := t.Hold(t.Div(diffMap, t.AddScalar(t.Mean(diffMap))))
		return t.Sigmoid(t.MulScalar(normDiff))
	}, x)
	weighted := t.Hold(t.Mul(tvMap, t.Hold(weight)))
	return t.MulScalar(t.Mean(weighted))
}
