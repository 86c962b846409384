package arch

import (
	"github.com/launch-ml/launch/core/nn"
)

// Losses of colour: cosim_loss.py of traiNNer/losses at 68629319; consistency_loss.py and chc_loss.py of Phhofm's tree at
// 22faa2a6.
var _ = entry(func() {
	registerLoss(func(a *args) lossFunc {
		a.ignore("cosim_lambda")
		return float32Loss(func(t *nn.Tape, x, y nn.Tensor) nn.Tensor {
			x, y = t.Hold(t.Clamp(x)), t.Hold(t.Clamp(y))
			return t.MulScalar(t.Neg(t.Mean(cosineSimilarity(t, x, y))))
		})
	}, "cosimloss")
	registerLoss(func(a *args) lossFunc {
		a.ignore("blur_sigma", "saturation", "brightness", "cosim_weight", "chc_lambda")
		l := consistencyLoss{blur: a.bool("blur", true), kernel: a.int("blur_kernel_size", 21), cosim: a.bool("cosim", true)}
		switch name := a.string("criterion", "chc"); name {
		case "chc":
			l.criterion = chcLoss("huber")
		case "l1":
			l.criterion = l1Loss
		default:
			reject("criterion %q: %w", name, ErrUnknown)
		}
		return l.forward
	}, "consistencyloss")
	registerLoss(func(a *args) lossFunc {
		a.ignore("loss_lambda", "clip_min", "clip_max")
		name, r := a.string("criterion", "huber"), a.string("reduction", "mean")
		refuse(name != "l1" && name != "huber", "unsupported criterion %s: l1 or huber", name)
		refuse(r != "mean" && r != "sum", "reduction %q: %w", r, ErrUnknown)
		return chcLoss(name)
	}, "chcloss")
})

// cosineSimilarity is torch.nn.functional.cosine_similarity over dimension 1: each factor divided by a copy of its norm
// (cosine_similarity in Distance.cpp), in float32 under autocast.
func cosineSimilarity(t *nn.Tape, x, y nn.Tensor) nn.Tensor {
	return t.Within("", func() nn.Tensor {
		x, y := t.Hold(t.To(x, nn.F32)), t.Hold(t.To(y, nn.F32))
		xNorm, yNorm := t.Hold(t.Clone(t.Norm(x, 1))), t.Hold(t.Clone(t.Norm(y, 1)))
		xUnit, yUnit := t.Hold(t.Div(x, xNorm)), t.Hold(t.Div(y, yNorm)) // of one C++ expression, to whose end they live
		return t.SumDim(t.Hold(t.Mul(xUnit, yUnit)), 1)
	}, x, y)
}

// chcLoss is CHCLoss with the pseudo-Huber distance, or with l1.
func chcLoss(name string) lossFunc {
	return func(t *nn.Tape, pred, target nn.Tensor) nn.Tensor {
		return t.Within("", func() nn.Tensor {
			cosineTerm := t.Hold(t.Mean(t.Neg(cosineSimilarity(t, pred, target))))
			base := t.Sub(pred, target)
			if name == "l1" {
				base = t.Hold(t.Abs(base))
			} else {
				base = t.Hold(t.Sqrt(t.AddScalar(t.Pow(base))))
			}
			combined := t.Hold(t.Add(base, t.MulScalar(cosineTerm)))
			clipped := t.Hold(t.Clamp(combined))
			return t.MulScalar(t.Mean(clipped))
		}, pred, target)
	}
}

// A consistencyLoss is ConsistencyLoss.
type consistencyLoss struct {
	blur, cosim bool
	kernel      int64
	criterion   lossFunc
}

func (l consistencyLoss) forward(t *nn.Tape, x, y nn.Tensor) nn.Tensor {
	mean := t.Buffer("chroma_mean", nn.F32, 1, 2, 1, 1)
	rgb2y := t.Buffer("rgb2y", nn.F32, 3)
	x, y = t.Hold(t.Clamp(x)), t.Hold(t.Clamp(y))
	xBlur, yBlur := x, y
	if l.blur {
		xBlur, yBlur = t.Hold(t.Clamp(l.gaussianBlur(t, x))), t.Hold(t.Clamp(l.gaussianBlur(t, y)))
	}
	inputLuma := t.Hold(lStar(t, xBlur, rgb2y))
	targetLuma := t.Hold(t.MulScalar(lStar(t, yBlur, rgb2y)))

	inputChroma := t.Hold(oklabChroma(t, x))
	targetChroma := t.Hold(t.MulScalar(oklabChroma(t, y)))
	inputChroma = t.Rebind(inputChroma, t.Clamp(t.Add(inputChroma, mean)))
	targetChroma = t.Rebind(targetChroma, t.Clamp(t.Add(targetChroma, mean)))

	loss := t.Add(l.criterion(t, inputLuma, targetLuma), l.criterion(t, inputChroma, targetChroma))
	if l.cosim {
		plane := func(x nn.Tensor) nn.Tensor { return t.View(x, x.Dim(0), 1, x.Dim(1), x.Dim(2)) }
		luma := t.Neg(t.Mean(cosineSimilarity(t, plane(inputLuma), plane(targetLuma))))
		chroma := t.Neg(t.Mean(cosineSimilarity(t, inputChroma, targetChroma)))
		loss = t.Add(loss, t.MulScalar(t.Add(luma, chroma)))
	}
	return t.MulScalar(loss)
}

// gaussianBlur is torchvision's: padded by reflection, and one depthwise convolution of the whole kernel. The kernel is a
// product of two, so that autocast has it in its own type, to which the image is cast for as long.
func (l consistencyLoss) gaussianBlur(t *nn.Tape, x nn.Tensor) (y nn.Tensor) {
	c, k := x.Dim(1), l.kernel
	return t.Within("", func() nn.Tensor {
		kernel := t.Hold(t.Matmul(t.Zeros(x.DType(), k, 1), t.Zeros(x.DType(), 1, k)))
		y = t.Hold(t.To(x, kernel.DType()))
		y = t.Rebind(y, t.Pad(y, k-1, k-1, true))
		y = t.Rebind(y, t.ConvWeight(y, t.Expand(t.View(kernel, 1, 1, k, k), c, 1, k, k), nn.Tensor{}, nn.Conv{Groups: c, Valid: true}))
		return t.To(y, x.DType())
	}, x)
}

// linearRGB is _lin_rgb.
func linearRGB(t *nn.Tape, img nn.Tensor) nn.Tensor {
	return t.Where(t.Compare(img, img), t.DivScalar(img), t.Pow(t.Clamp(t.DivScalar(t.AddScalar(img)))))
}

// lStar is _rgb_to_l_star: (b, 3, h, w) to (b, h, w).
func lStar(t *nn.Tape, img, rgb2y nn.Tensor) (y nn.Tensor) {
	return t.Within("", func() nn.Tensor {
		lin := t.Hold(linearRGB(t, t.Permute(img, 0, 2, 3, 1)))
		t.Autocast(nn.F32, func() { // tensordot keeps its widest input's type
			y = t.Hold(t.View(t.MatmulConst(lin, 1), img.Dim(0), img.Dim(2), img.Dim(3)))
		})
		y = t.Rebind(y, t.Where(t.Compare(y, y), t.MulScalar(y),
			t.AddScalar(t.MulScalar(t.Pow(t.Clamp(y))))))
		return t.Clamp(t.DivScalar(y))
	}, img)
}

// oklabChroma is _rgb_to_oklab_chroma: (b, 3, h, w) to (b, 2, h, w).
func oklabChroma(t *nn.Tape, img nn.Tensor) (y nn.Tensor) {
	return t.Within("", func() nn.Tensor {
		lin := t.Hold(linearRGB(t, img))
		r, g, b := t.Select(lin, 1), t.Select(lin, 1), t.Select(lin, 1)
		sum := func(x, y, z nn.Tensor) nn.Tensor {
			return t.Hold(t.Add(t.Add(t.MulScalar(x), t.MulScalar(y)), t.MulScalar(z)))
		}
		l, m, s := sum(r, g, b), sum(r, g, b), sum(r, g, b)
		root := func(x nn.Tensor) nn.Tensor {
			sign := t.Elementwise("torch.sign", x, false, false)
			return t.Hold(t.Mul(sign, t.Pow(t.Clamp(t.Abs(x)))))
		}
		l, m, s = root(l), root(m), root(s)
		a, c := sum(l, m, s), sum(l, m, s)
		shape := []int64{a.Dim(0), 1, a.Dim(1), a.Dim(2)}
		return t.Cat(1, t.View(a, shape...), t.View(c, shape...))
	}, img)
}
