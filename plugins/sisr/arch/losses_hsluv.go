package arch

import "github.com/launch-ml/launch/core/nn"

// HSLuv: HSLuvLoss of traiNNer/losses/basic_loss.py and traiNNer/utils/hsluv.py at 68629319, in float32 whatever
// autocast says. Nearly every line makes a plane that its derivative wants back, which is why it outweighs a small
// network.
var _ = registerLoss(func(a *args) lossFunc {
	name, down := a.string("criterion", "l1"), a.int("downscale_factor", 1)
	if name != "l1" {
		criterion(name)
	}
	return float32Loss(func(t *nn.Tape, x, y nn.Tensor) nn.Tensor { return hsluvLoss(t, x, y, name, down) })
}, "hsluvloss")

// hsluvOnce is HSLuvLoss.forward_once: hue, saturation and lightness.
func hsluvOnce(t *nn.Tape, x nn.Tensor, down int64) (hue, saturation, lightness nn.Tensor) {
	if down > 1 {
		x = t.Clamp(t.Interpolate(x, x.Dim(2)/down, x.Dim(3)/down))
	}
	xHSLuv := t.Hold(t.Call("", x, rgbToHSLuv))
	hue = t.Hold(t.DivScalar(t.Select(xHSLuv, 1)))
	saturation = t.Hold(t.DivScalar(t.Select(xHSLuv, 1)))
	lightness = t.Hold(t.DivScalar(t.Select(xHSLuv, 1)))
	return hue, saturation, lightness
}

func hsluvLoss(t *nn.Tape, x, y nn.Tensor, name string, down int64) nn.Tensor {
	xHue, xSaturation, xLightness := hsluvOnce(t, x, down)
	yHue, ySaturation, yLightness := hsluvOnce(t, y, down)

	both := func(a, b nn.Tensor) nn.Tensor { // (a < eps) & (b < eps)
		return t.Compare(t.Compare(a, a), t.Compare(b, b))
	}
	zero := t.Zeros(nn.F32)
	hueDiff := t.MulScalar(t.Max(t.Abs(t.Sub(xHue, yHue)), t.Neg(t.Abs(t.Sub(xHue, yHue)))))
	hueDiff = t.Rebind(hueDiff, t.Where(both(xSaturation, ySaturation), zero, hueDiff))
	mixed := t.Compare(both(xSaturation, ySaturation), both(xSaturation, ySaturation))
	hueDiff = t.Rebind(hueDiff, t.Where(mixed, t.Max(xSaturation, ySaturation), hueDiff))
	hueDiff = t.Rebind(hueDiff, t.Where(both(xLightness, yLightness), zero, hueDiff))
	hueDiff = t.Hold(t.Rebind(hueDiff, t.Where(both(xLightness, yLightness), zero, hueDiff)))
	hueLoss := t.Mean(hueDiff)

	elementwise := func(a, b nn.Tensor) nn.Tensor {
		switch name {
		case "l1":
			return t.Abs(t.Sub(a, b))
		case "charbonnier":
			return t.Sqrt(t.AddScalar(t.Pow(t.Sub(a, b))))
		}
		return t.Pow(t.Sub(a, b))
	}
	saturationDiff := t.Hold(elementwise(xSaturation, ySaturation))
	weightX := t.Hold(t.Clamp(t.Max(xLightness, t.Neg(xLightness))))
	weightY := t.Hold(t.Clamp(t.Max(yLightness, t.Neg(yLightness))))
	weight := t.Hold(t.Add(weightX, weightY))
	weightedSatDiff := t.Hold(t.Mul(saturationDiff, weight))
	saturationLoss := t.Mean(weightedSatDiff)

	lightnessLoss := t.Mean(elementwise(xLightness, yLightness))
	return t.Add(t.Add(hueLoss, saturationLoss), lightnessLoss)
}

func rgbToHSLuv(t *nn.Tape, x nn.Tensor) nn.Tensor {
	rgb := t.Hold(t.Clamp(t.Permute(x, 0, 2, 3, 1)))
	xyz := t.Hold(rgbToXYZ(t, rgb))
	luv := t.Hold(xyzToLuv(t, xyz))
	lch := t.Hold(luvToLch(t, luv))
	l, c, h := t.Select(lch, -1), t.Select(lch, -1), t.Select(lch, -1)
	return t.Permute(lchToHSLuv(t, l, c, h), 0, 3, 1, 2)
}

func rgbToXYZ(t *nn.Tape, rgb nn.Tensor) nn.Tensor {
	rgbl := t.Where(t.Compare(rgb, rgb), t.DivScalar(rgb), t.Pow(t.DivScalar(t.AddScalar(rgb))))
	return t.MatmulConst(rgbl, 3)
}

// yToL is _y_to_l.
func yToL(t *nn.Tape, y nn.Tensor) nn.Tensor {
	return t.Where(t.Compare(y, y), t.AddScalar(t.MulScalar(t.Pow(t.DivScalar(y)))), t.MulScalar(t.DivScalar(y)))
}

func xyzToLuv(t *nn.Tape, xyz nn.Tensor) nn.Tensor {
	return t.Within("", func() nn.Tensor {
		x, y, z := t.Select(xyz, -1), t.Select(xyz, -1), t.Select(xyz, -1)
		l := t.Hold(yToL(t, y))
		divider := t.Hold(t.Add(t.Add(x, t.MulScalar(y)), t.MulScalar(z)))
		safeDivider := t.Hold(t.Clamp(divider))
		varU := t.Hold(t.Div(t.MulScalar(x), safeDivider))
		varV := t.Hold(t.Div(t.MulScalar(y), safeDivider))
		u := t.Mul(t.MulScalar(l), t.AddScalar(varU))
		v := t.Mul(t.MulScalar(l), t.AddScalar(varV))
		zero := t.Zeros(nn.F32)
		u = t.Hold(t.Where(t.Compare(l, l), zero, u))
		v = t.Hold(t.Where(t.Compare(l, l), zero, v))
		return t.StackLast(l, u, v)
	}, xyz)
}

func luvToLch(t *nn.Tape, luv nn.Tensor) nn.Tensor {
	return t.Within("", func() nn.Tensor {
		l := t.Select(luv, -1)
		clamped := func() nn.Tensor {
			u := t.Select(luv, -1)
			eps := t.ZerosLike(u)
			eps = t.Hold(t.Where(t.Compare(u, u), eps, t.Neg(eps)))
			return t.Hold(t.Where(t.Compare(u, u), eps, u))
		}
		clampedU, clampedV := clamped(), clamped()
		c := t.Hold(t.Sqrt(t.Add(t.Pow(clampedU), t.Pow(clampedV))))
		h := t.DivScalar(t.MulScalar(t.Atan2(clampedV, clampedU)))
		h = t.Rebind(h, t.Where(t.Compare(h, h), t.AddScalar(h), h))
		h = t.Hold(t.Rebind(h, t.Where(t.Compare(c, c), t.Zeros(nn.F32), h)))
		return t.StackLast(l, c, h)
	}, luv)
}

func lchToHSLuv(t *nn.Tape, l, c, h nn.Tensor) nn.Tensor {
	return t.Within("", func() nn.Tensor {
		maxChroma := t.Hold(maxChromaForLH(t, l, h))
		safeMaxChroma := t.Hold(t.Clamp(maxChroma))
		s := t.MulScalar(t.Div(c, safeMaxChroma))
		s = t.Hold(t.Rebind(s, t.Where(t.Compare(t.Compare(l, l), t.Compare(l, l)), t.Zeros(nn.F32), s)))
		l = t.Hold(t.Clamp(l))
		return t.StackLast(h, t.Clamp(s), l)
	}, l, c, h)
}

type bound struct{ slope, intercept nn.Tensor }

// safe is sign(x) * clamp(abs(x), min), and min where x is zero. The sign is in the graph too: its gradient is zeros.
func safe(t *nn.Tape, x nn.Tensor) nn.Tensor {
	y := t.Mul(t.Elementwise("torch.sign", x, false, false), t.Clamp(t.Abs(x)))
	return t.Rebind(y, t.Where(t.Compare(x, x), t.Zeros(nn.F32), y))
}

// getBounds is _get_bounds. Its matrix is constant, so only sizes are saved beside the planes.
func getBounds(t *nn.Tape, l nn.Tensor) (result []bound) {
	t.Scope("", func() {
		sub1 := t.Hold(t.DivScalar(t.Pow(t.AddScalar(l))))
		sub2 := t.Hold(t.Where(t.Compare(sub1, sub1), sub1, t.DivScalar(l)))
		for range 3 {
			for range 2 {
				t.Scope("", func() { // what a turn of the loop binds, the next binds anew
					top1 := t.Hold(t.MulScalar(sub2))
					top2 := t.Hold(t.Sub(t.Mul(t.MulScalar(l), sub2), t.MulScalar(l)))
					bottom := t.Hold(t.AddScalar(t.MulScalar(sub2)))
					safeBottom := t.Hold(safe(t, bottom))
					slope, intercept := t.Div(top1, safeBottom), t.Div(top2, safeBottom)
					result = append(result, bound{slope, intercept})
				})
			}
		}
		for _, b := range result {
			t.Hold(b.slope)
			t.Hold(b.intercept)
		}
	}, l)
	return result
}

// maxChromaForLH is _max_chroma_for_lh.
func maxChromaForLH(t *nn.Tape, l, h nn.Tensor) nn.Tensor {
	return t.Within("", func() nn.Tensor {
		hrad := t.Hold(t.MulScalar(h))
		bounds := getBounds(t, l)
		for _, line := range bounds {
			t.Hold(line.slope)
			t.Hold(line.intercept)
		}
		lengths := make([]nn.Tensor, 0, 6)
		for _, line := range bounds {
			denominator := t.Sub(t.Elementwise("torch.sin", hrad, true, false),
				t.Mul(line.slope, t.Elementwise("torch.cos", hrad, true, false)))
			lengths = append(lengths, t.Div(line.intercept, safe(t, denominator)))
		}
		stacked := t.Hold(t.Stack(lengths...))
		nonNegative := t.Hold(t.Where(t.Compare(stacked, stacked), stacked, t.MaxAll(stacked)))
		return t.MinDim(nonNegative, 0)
	}, l, h)
}
