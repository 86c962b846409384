package arch

import (
	"github.com/launch-ml/launch/core/nn"
)

// The losses of neosr: neosr/losses at 31c7022. Those that are the same as traiNNer-redux's are in neosr.go.
var _ = entry(func() {
	losses.add(Neosr, func(a *args) lossFunc { // ssim_loss.py:61
		a.ignore("sigma", "K1", "K2", "L", "in_channels")
		a.onlyNone("padding")
		k := a.int("window_size", 11)
		refuse(k%2 != 1, "window_size: %d: Window size must be odd", k)
		return float32Loss(func(t *nn.Tape, x, y nn.Tensor) nn.Tensor { return mssimNeosr(t, x, y, k) })
	}, "mssim_loss")
	losses.add(Neosr, func(a *args) lossFunc { // consistency_loss.py:14
		a.ignore("saturation", "brightness")
		l := consistencyNeosr{blur: a.bool("blur", true), cosim: a.bool("cosim", true)}
		switch name := a.string("criterion", "chc"); name {
		case "chc":
			l.criterion = chcNeosr("huber")
		case "l1":
			l.criterion = l1Loss
		default:
			reject("%s criterion has not been supported", name)
		}
		return l.forward
	}, "consistency_loss")
	losses.add(Neosr, func(a *args) lossFunc { // ldl_loss.py:14
		c, k := criterionNeosr(a.string("criterion", "l1")), a.int("ksize", 7)
		return func(t *nn.Tape, output, gt nn.Tensor) nn.Tensor { return ldlNeosr(t, output, gt, k, c) }
	}, "ldl_loss")
	losses.add(Neosr, func(a *args) lossFunc { // basic_loss.py:127
		a.ignore("loss_lambda", "clip_min", "clip_max")
		name, r := a.string("criterion", "huber"), a.string("reduction", "mean")
		refuse(name != "l1" && name != "huber", "%s not implemented", name)
		refuse(r != "mean" && r != "sum" && r != "none", "unsupported reduction mode: %s", r)
		return chcNeosr(name)
	}, "chc_loss")
})

// criterionNeosr is a criterion by the name that neosr's losses give it.
func criterionNeosr(name string) lossFunc {
	switch name {
	case "l1":
		return l1Loss
	case "l2":
		return mseLoss
	case "chc":
		return chcNeosr("huber")
	case "huber":
		return func(t *nn.Tape, x, y nn.Tensor) nn.Tensor { return t.HuberLoss(x, y) }
	}
	reject("%s criterion has not been supported", name)
	return nil
}

// mssimNeosr is mssim_loss.msssim (ssim_loss.py:145): of the first four scales the contrast alone is used, and the
// rest of such a scale's graph goes when the next one's results have its names.
func mssimNeosr(t *nn.Tape, x, y nn.Tensor, k int64) nn.Tensor {
	const scales = 5
	var components []nn.Tensor
	var dead []func()
	for i := range scales {
		before, last := dead, i == scales-1
		dead = nil
		ssim, cs := ssimNeosr(t, x, y, k, func(f func()) {
			if last {
				f()
				return
			}
			dead = append(dead, t.Dead(f))
		})
		for _, drop := range before {
			drop()
		}
		if last {
			components = append(components, t.Hold(t.Pow(t.Mean(ssim))))
			break
		}
		components = append(components, t.Hold(t.Pow(t.Mean(cs))))
		x = t.Rebind(x, t.AvgPool2d(x, 2, 2, x.Dim(2)%2))
		y = t.Rebind(y, t.AvgPool2d(y, 2, 2, y.Dim(2)%2))
	}
	product := components[0]
	for _, c := range components[1:] {
		product = t.Mul(product, c)
	}
	return t.MulScalar(t.Neg(product))
}

// ssimNeosr is mssim_loss._ssim (ssim_loss.py:125), with a Gaussian filter that keeps the size. rest runs what the
// contrast does not depend on.
func ssimNeosr(t *nn.Tape, x, y nn.Tensor, k int64, rest func(f func())) (ssim, cs nn.Tensor) {
	c := x.Dim(1)
	t.Scope("gaussian_filter", func() {
		window := t.Buffer("gaussian_window", nn.F32, c, 1, k, k)
		filter := func(x nn.Tensor) nn.Tensor { return t.ConvWeight(x, window, nn.Tensor{}, nn.Conv{K: k, Groups: c}) }
		muX, muY := t.Hold(filter(x)), t.Hold(filter(y))
		sigma := func(a, b, muA, muB nn.Tensor) nn.Tensor {
			return t.Hold(t.Sub(filter(t.Mul(a, b)), t.Mul(muA, muB)))
		}
		sigma2X, sigma2Y, sigmaXY := sigma(x, x, muX, muX), sigma(y, y, muY, muY), sigma(x, y, muX, muY)
		var a1, b1 nn.Tensor
		rest(func() { a1 = t.Hold(t.AddScalar(t.Mul(t.MulScalar(muX), muY))) })
		a2 := t.Hold(t.AddScalar(t.MulScalar(sigmaXY)))
		rest(func() { b1 = t.Hold(t.AddScalar(t.Add(t.Pow(muX), t.Pow(muY)))) })
		b2 := t.Hold(t.AddScalar(t.Add(sigma2X, sigma2Y)))
		var l1 nn.Tensor
		rest(func() { l1 = t.Hold(t.Div(a1, b1)) })
		cs = t.Hold(t.Div(a2, b2))
		rest(func() { ssim = t.Mul(l1, cs) })
	}, x, y)
	return ssim, cs
}

// chcNeosr is chc_loss.forward (basic_loss.py:180). It is the pseudo-Huber distance, or l1.
func chcNeosr(name string) lossFunc { return chcLoss(name) }

// A consistencyNeosr is consistency_loss (consistency_loss.py:14), under autocast.
type consistencyNeosr struct {
	blur, cosim bool
	criterion   lossFunc
}

func (l consistencyNeosr) forward(t *nn.Tape, x, y nn.Tensor) nn.Tensor {
	x, y = t.Hold(t.Clamp(x)), t.Hold(t.Clamp(y))
	luma := func(x nn.Tensor) nn.Tensor { return lStarNeosr(t, x) }
	var inputLuma, targetLuma nn.Tensor
	if l.blur {
		blur := consistencyLoss{kernel: 21} // GaussianBlur(21, 3)
		xBlur, yBlur := t.Hold(t.Clamp(blur.gaussianBlur(t, x))), t.Hold(t.Clamp(blur.gaussianBlur(t, y)))
		inputLuma, targetLuma = t.Hold(luma(xBlur)), t.Hold(t.MulScalar(luma(yBlur)))
	} else {
		inputLuma, targetLuma = t.Hold(luma(x)), t.Hold(t.MulScalar(luma(y)))
	}
	inputChroma := t.Hold(oklabNeosr(t, x))
	targetChroma := t.Hold(t.MulScalar(oklabNeosr(t, y)))
	inputChroma = t.Rebind(inputChroma, t.Clamp(t.AddScalar(inputChroma)))
	targetChroma = t.Rebind(targetChroma, t.Clamp(t.AddScalar(targetChroma)))

	loss := t.Hold(t.Add(l.criterion(t, inputLuma, targetLuma), l.criterion(t, inputChroma, targetChroma)))
	if l.cosim { // it counts where it is small, as it is after the first iterations (line 187)
		chroma := t.Hold(t.Neg(t.Mean(cosineSimilarity(t, inputChroma, targetChroma))))
		luma := t.Hold(t.Neg(t.Mean(cosineSimilarity(t, inputLuma, targetLuma))))
		loss = t.Rebind(loss, t.Add(loss, t.Hold(t.Add(t.MulScalar(chroma), t.MulScalar(luma)))))
	}
	return t.MulScalar(loss)
}

// linearNeosr is lin_rgb (line 63).
func linearNeosr(t *nn.Tape, img nn.Tensor) nn.Tensor {
	return t.Where(t.Compare(img, img), t.DivScalar(img), t.Pow(t.DivScalar(t.AddScalar(img))))
}

// lStarNeosr is rgb_to_l_star (line 110): (b, 3, h, w) to (b, h, w).
func lStarNeosr(t *nn.Tape, img nn.Tensor) (y nn.Tensor) {
	return t.Within("", func() nn.Tensor {
		y = t.Hold(linearNeosr(t, t.Permute(img, 0, 2, 3, 1)))
		y = t.Rebind(y, t.View(t.MatmulConst(y, 1), img.Dim(0), img.Dim(2), img.Dim(3)))
		low := t.Compare(y, y)
		linear := t.Mul(y, t.MulScalar(y))
		root := t.AddScalar(t.MulScalar(t.Mul(t.Elementwise("torch.sign", y, false, false), t.Pow(t.Abs(y)))))
		y = t.Rebind(y, t.Where(low, linear, root))
		return t.Clamp(t.DivScalar(y))
	}, img)
}

// oklabNeosr is rgb_to_oklab_chroma (line 77): (b, 3, h, w) to (b, 2, h, w). Its lightness is computed and not used.
func oklabNeosr(t *nn.Tape, img nn.Tensor) (y nn.Tensor) {
	t.Scope("", func() {
		img = t.Hold(linearNeosr(t, img))
		r, g, b := t.Select(img, 1), t.Select(img, 1), t.Select(img, 1)
		sum := func(x, y, z nn.Tensor) nn.Tensor {
			return t.Add(t.Add(t.MulScalar(x), t.MulScalar(y)), t.MulScalar(z))
		}
		l, m, s := t.Hold(sum(r, g, b)), t.Hold(sum(r, g, b)), t.Hold(sum(r, g, b))
		root := func(x nn.Tensor) nn.Tensor {
			return t.Hold(t.Mul(t.Elementwise("torch.sign", x, false, false), t.Pow(t.Abs(x))))
		}
		lRoot, mRoot, sRoot := root(l), root(m), root(s)
		drop := t.Dead(func() { l = t.Rebind(l, sum(lRoot, mRoot, sRoot)) })
		a, c := t.Hold(sum(lRoot, mRoot, sRoot)), t.Hold(sum(lRoot, mRoot, sRoot))
		y = t.StackSecond(a, c)
		drop()
	}, img)
	return y
}

// ldlNeosr is ldl_loss.forward (ldl_loss.py:98), under autocast. The loss itself holds both of its images.
func ldlNeosr(t *nn.Tape, output, gt nn.Tensor, k int64, c lossFunc) nn.Tensor {
	overall := t.Hold(artifactMapNeosr(t, gt, output, k))
	x := t.Attribute("output", t.Mul(overall, output))
	y := t.Attribute("gt", t.Mul(overall, gt))
	return t.MulScalar(c(t, x, y))
}

// artifactMapNeosr is get_refined_artifact_map (line 75).
func artifactMapNeosr(t *nn.Tape, gt, output nn.Tensor, k int64) nn.Tensor {
	return t.Within("", func() nn.Tensor {
		residual := t.Hold(t.SumDim(t.Abs(t.Sub(gt, output)), 1))
		b, h, w := residual.Dim(0), residual.Dim(2), residual.Dim(3)
		flat := t.View(t.Clone(residual), b, h*w)
		patch := t.Hold(t.Pow(t.View(t.VarDim(flat, 1), b, 1, 1, 1)))
		padded := t.Hold(t.Pad(t.Clone(residual), k-1, k-1, true)) // get_local_weights
		pixel := t.Hold(t.VarUnfolded(padded, k))
		return t.Mul(patch, pixel)
	}, gt, output)
}
