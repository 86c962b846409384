package arch

import (
	"math"

	"github.com/launch-ml/launch/core/nn"
)

// LDR-FLIP (Andersson et al., 2020): traiNNer/losses/flip_loss.py at 68629319, in float32 whatever autocast says. Its filters
// are as wide as the eye's, by how many pixels a degree of the visual angle has; they are made anew in each forward. Phhofm's tree
// at 069b6d59 keeps a few planes more for its distance of colours: 3.6 % more saved, and a peak of 2.5 % more.
var _ = registerLoss(func(a *args) lossFunc {
	// 0.7 m away from a screen of that width with 3840 pixels (line 70).
	perDegree := a.float("pixels_per_degree", 3840*math.Pi/180)
	refuse(perDegree <= 0, "pixels_per_degree must be positive")
	// generate_spatial_filter and feature_detection (lines 200 and 354): three standard deviations.
	l := flipLoss{
		radius:   int64(math.Ceil(3 * math.Sqrt(0.04/(2*math.Pi*math.Pi)) * perDegree)),
		features: int64(math.Ceil(3 * 0.5 * 0.082 * perDegree)),
	}
	return float32Loss(l.forward)
}, "fliploss")

// A flipLoss is FLIPLoss with the radii of its two pipelines' filters.
type flipLoss struct{ radius, features int64 }

func (l flipLoss) forward(t *nn.Tape, test, reference nn.Tensor) nn.Tensor {
	reference, test = t.Hold(t.Clamp(reference)), t.Hold(t.Clamp(test))
	ycxcz := func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		y := t.Hold(t.Call("", x, flipLinearRGB))
		y = t.Rebind(y, t.Call("", y, flipMatrix))
		return t.Rebind(y, t.Call("", y, func(t *nn.Tape, x nn.Tensor) nn.Tensor { return flipOpponent(t, flipIlluminant(t, x)) }))
	}
	reference, test = t.Hold(t.Call("", reference, ycxcz)), t.Hold(t.Call("", test, ycxcz))
	deltaE := t.Within("", func() nn.Tensor { return l.compute(t, test, reference) }, test, reference)
	return t.Mean(t.Hold(deltaE))
}

// compute is compute_ldrflip (line 121): the colours and the features.
func (l flipLoss) compute(t *nn.Tape, test, reference nn.Tensor) nn.Tensor {
	filteredReference, filteredTest := t.Hold(t.Call("", reference, l.spatialFilter)), t.Hold(t.Call("", test, l.spatialFilter))
	adjusted := func(x nn.Tensor) nn.Tensor {
		lab := t.Call("", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			y := t.Hold(t.Call("", x, flipMatrix))
			return t.Rebind(y, t.Call("", y, flipLab))
		})
		return t.Hold(t.Call("", lab, huntAdjustment))
	}
	adjustedReference, adjustedTest := adjusted(filteredReference), adjusted(filteredTest)

	deltaHyAB := t.Hold(hyAB(t, adjustedReference, adjustedTest))
	power := t.Hold(t.Pow(deltaHyAB))
	deltaC := t.Hold(t.Call("", power, redistributeErrors))

	luma := func(x nn.Tensor) nn.Tensor { return t.Hold(t.DivScalar(t.AddScalar(t.Narrow(x, 1, 1)))) }
	refY, testY := luma(reference), luma(test)
	edgesRef, pointsRef := t.Hold(t.Call("", refY, l.detect)), t.Hold(t.Call("", refY, l.detect))
	edgesTest, pointsTest := t.Hold(t.Call("", testY, l.detect)), t.Hold(t.Call("", testY, l.detect))
	apart := func(x, y nn.Tensor) nn.Tensor {
		norm := t.Norm(x, 1)
		return t.Abs(t.Sub(norm, t.Norm(y, 1)))
	}
	edges := apart(edgesRef, edgesTest)
	deltaF := t.Hold(t.Max(edges, apart(pointsTest, pointsRef)))
	deltaF = t.Rebind(deltaF, t.Clamp(deltaF))
	deltaF = t.Rebind(deltaF, t.Pow(t.MulScalar(deltaF)))
	return t.PowTensor(deltaC, t.Neg(deltaF))
}

// spatialFilter is spatial_filter (line 255): each channel through a window of its own.
func (l flipLoss) spatialFilter(t *nn.Tape, img nn.Tensor) nn.Tensor {
	n, c, h, w, r := img.Dim(0), img.Dim(1), img.Dim(2), img.Dim(3), l.radius
	padded := t.Hold(t.Zeros(nn.F32, n, c, h+2*r, w+2*r))
	for range 3 {
		padded = t.Rebind(padded, t.WriteSlice(padded, t.Pad(t.Narrow(img, 1, 1), 2*r, 2*r, true), false))
	}
	opponent := t.Hold(t.Zeros(nn.F32, n, c, h, w))
	for range 3 {
		window := t.Zeros(nn.F32, 1, 1, 2*r+1, 2*r+1)
		y := t.ConvWeight(t.Narrow(padded, 1, 1), window, nn.Tensor{}, nn.Conv{Valid: true})
		opponent = t.Rebind(opponent, t.WriteSlice(opponent, y, false))
	}
	linear := t.Call("", opponent, func(t *nn.Tape, x nn.Tensor) nn.Tensor { // ycxcz2linrgb
		xyz := t.Call("", x, func(t *nn.Tape, in nn.Tensor) nn.Tensor {
			y := t.Hold(t.DivScalar(t.AddScalar(t.Narrow(in, 1, 1))))
			cx, cz := t.Hold(t.DivScalar(t.Narrow(in, 1, 1))), t.Hold(t.DivScalar(t.Narrow(in, 1, 1)))
			x, z := t.Hold(t.Add(y, cx)), t.Hold(t.Sub(y, cz))
			out := t.Hold(t.Cat(1, x, y, z))
			return t.Rebind(out, flipIlluminant(t, out))
		})
		xyz = t.Hold(xyz)
		return t.Rebind(xyz, t.Call("", xyz, flipMatrix))
	})
	return t.Clamp(t.Hold(linear))
}

// flipLinearRGB is color_space_transform(…, "srgb2linrgb") (line 421).
func flipLinearRGB(t *nn.Tape, x nn.Tensor) nn.Tensor {
	mask := t.Compare(x, x)
	power := t.Pow(t.DivScalar(t.AddScalar(t.Clamp(x))))
	return t.Where(mask, power, t.DivScalar(x))
}

// flipMatrix is "linrgb2xyz" and "xyz2linrgb" (line 437): three by three numbers times the channels.
func flipMatrix(t *nn.Tape, x nn.Tensor) nn.Tensor {
	return t.Elementwise("torch.matmul", x, false, false)
}

// flipIlluminant is the product with three numbers of the light.
func flipIlluminant(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.Mul(x, t.Zeros(nn.F32, 3, 1, 1)) }

// flipOpponent is the end of "xyz2ycxcz" (line 469) and of "xyz2lab" (line 487): one channel, and two differences.
func flipOpponent(t *nn.Tape, x nn.Tensor) nn.Tensor {
	t.Hold(x)
	y := t.Hold(t.AddScalar(t.MulScalar(t.Narrow(x, 1, 1))))
	difference := func() nn.Tensor { return t.Hold(t.MulScalar(t.Sub(t.Narrow(x, 1, 1), t.Narrow(x, 1, 1)))) }
	a, b := difference(), difference()
	return t.Cat(1, y, a, b)
}

// flipLab is "xyz2lab" (line 487).
func flipLab(t *nn.Tape, x nn.Tensor) nn.Tensor {
	x = t.Hold(flipIlluminant(t, x))
	clamped := t.Hold(t.Pow(t.Clamp(x)))
	div := t.Hold(t.AddScalar(t.MulScalar(x)))
	x = t.Rebind(x, t.Where(t.Compare(x, x), clamped, div))
	return flipOpponent(t, x)
}

// huntAdjustment is hunt_adjustment (line 300).
func huntAdjustment(t *nn.Tape, img nn.Tensor) nn.Tensor {
	luminance := t.Narrow(img, 1, 1)
	y := t.Hold(t.Zeros(nn.F32, img.Shape()...))
	y = t.Rebind(y, t.WriteSlice(y, luminance, false))
	for range 2 {
		y = t.Rebind(y, t.WriteSlice(y, t.Mul(t.MulScalar(luminance), t.Narrow(img, 1, 1)), false))
	}
	return y
}

// hyAB is hyab (line 319).
func hyAB(t *nn.Tape, reference, test nn.Tensor) nn.Tensor {
	return t.Within("", func() nn.Tensor {
		delta := t.Hold(t.Sub(reference, test))
		luminance := t.Hold(t.Abs(t.Narrow(delta, 1, 1)))
		squares := t.Hold(t.SumDim(t.Pow(t.Narrow(delta, 1, 2)), 1))
		norm := t.Hold(t.Sqrt(t.AddScalar(squares)))
		return t.Add(luminance, norm)
	}, reference, test)
}

// redistributeErrors is redistribute_errors (line 330).
func redistributeErrors(t *nn.Tape, power nn.Tensor) nn.Tensor {
	y := t.Hold(t.Zeros(nn.F32, power.Shape()...))
	mask := t.Compare(power, power)
	low := t.MulScalar(power)
	high := t.AddScalar(t.MulScalar(t.DivScalar(t.AddScalar(power))))
	return t.Rebind(y, t.Where(mask, low, high))
}

// detect is feature_detection (line 354): along the rows and along the columns.
func (l flipLoss) detect(t *nn.Tape, y nn.Tensor) nn.Tensor {
	r := l.features
	g := t.Hold(t.Zeros(nn.F32, 1, 1, 2*r+1, 2*r+1))
	filter := func() nn.Tensor {
		return t.Hold(t.ConvWeight(t.Pad(y, 2*r, 2*r, true), g, nn.Tensor{}, nn.Conv{Valid: true}))
	}
	x, z := filter(), filter()
	return t.Cat(1, x, z)
}
