package arch

import (
	"strings"

	"github.com/launch-ml/launch/core/nn"
)

// The contextual loss (Mechrez et al., 2018): traiNNer/losses/contextual_loss.py at 68629319, under autocast. Of the
// VGG-19 layers in its settings it keeps only those with an underscore among the first five letters of their names
// (alt_layers_names, line 15). Its own default has none: the loss is then the constant 0, without a gradient. With such
// a layer the loss fails, because it adds a float tensor to an integer one in place (line 120).
var _ = registerLoss(func(a *args) lossFunc {
	a.ignore("b", "band_width", "net", "z_norm")
	if !a.bool("use_vgg", true) {
		a.ignore("layer_weights")
		return contextualOfImages(a)
	}
	a.ignore("crop_quarter", "max_1d_size", "distance_type", "calc_type")
	if v, ok := a.get("layer_weights"); ok && v != nil {
		table, ok := v.(map[string]any)
		refuse(!ok, "layer_weights: %v is not a table", v)
		for name := range table {
			for _, c := range name[:min(len(name), 5)] {
				refuse(c == '_', "layer_weights: with %s the first step stops: result type Float can't be cast to Long", name)
			}
		}
	}
	return func(t *nn.Tape, x, gt nn.Tensor) nn.Tensor {
		look := func(x nn.Tensor) { // VGGFeatureExtractor.forward, which keeps nothing of the one layer that is left
			t.Autocast(nn.F32, func() {
				x := t.To(x, nn.F32)
				mean, std := t.Buffer("mean", nn.F32, 1, 3, 1, 1), t.Buffer("std", nn.F32, 1, 3, 1, 1)
				drop := t.Dead(func() {
					y := t.Div(t.Sub(x, mean), std)
					t.Conv2d("vgg_net.conv1_1", y, nn.Conv{Out: 64, K: 3, Frozen: true})
				})
				drop()
			})
		}
		look(x)
		look(gt)
		return t.Zeros(nn.I64)
	}
}, "contextualloss")

// Constant reports whether the loss is a number that does not depend on the network, so that alone it has no gradient and
// its backward raises: the contextual loss of VGG's layers, of which it keeps none.
func (l Loss) Constant() bool {
	if !strings.EqualFold(l.Type, "contextualloss") {
		return false
	}
	_, err := l.build()
	a := &args{values: l.Args, used: map[string]bool{}}
	return err == nil && a.bool("use_vgg", true)
}

// contextualOfImages is the loss without VGG: each pixel of the output against each of the target.
func contextualOfImages(a *args) lossFunc {
	crop, side := a.bool("crop_quarter", false), a.int("max_1d_size", 100)
	distance, ok := map[string]lossFunc{"cosine": cosineDistance, "l1": l1Distance, "l2": l2Distance}[a.string("distance_type", "cosine")]
	refuse(!ok, "distance_type: select one of cosine, l1, l2")
	c := a.string("calc_type", "regular")
	refuse(c == "bilateral", "calc_type %q: %w", c, ErrUnknown)
	refuse(side < 1, "max_1d_size must be positive")
	return func(t *nn.Tape, x, gt nn.Tensor) nn.Tensor {
		if crop {
			x, gt = t.Hold(cropQuarters(t, x)), t.Hold(cropQuarters(t, gt))
		}
		if x.Dim(2)*x.Dim(3) > side*side {
			x, gt = t.Hold(randomPooling(t, x, side)), t.Hold(randomPooling(t, gt, side))
		}
		var loss nn.Tensor
		calculate := func(x, gt nn.Tensor) nn.Tensor {
			t.Scope("", func() { loss = contextual(t, x, gt, distance) }, x, gt)
			return loss
		}
		if c == "symetric" {
			return t.DivScalar(t.Add(t.Hold(calculate(gt, x)), t.Hold(calculate(x, gt))))
		}
		return calculate(x, gt)
	}
}

// cropQuarters is _crop_quarters (line 197).
func cropQuarters(t *nn.Tape, x nn.Tensor) nn.Tensor {
	h, w := x.Dim(2), x.Dim(3)
	var quarters []nn.Tensor
	for _, y := range []int64{h / 2, h - h/2} {
		for _, z := range []int64{w / 2, w - w/2} {
			quarters = append(quarters, t.Narrow(t.Narrow(x, 2, y), 3, z))
		}
	}
	return t.Cat(0, quarters...)
}

// randomPooling is _random_pooling (line 169): so many pixels, the same of all channels.
func randomPooling(t *nn.Tape, x nn.Tensor, side int64) nn.Tensor {
	n, c := x.Dim(0), x.Dim(1)
	index := t.Indices(side * side)
	y := t.Gather(t.View(x, n, c, x.Dim(2)*x.Dim(3)), index, n, c, side*side)
	return t.View(y, n, c, side, side)
}

// contextual is calculate_cx_loss (line 357).
func contextual(t *nn.Tape, x, gt nn.Tensor, distance lossFunc) nn.Tensor {
	finite := func(xs ...nn.Tensor) { // none may be all NaN, or all infinite
		for _, x := range xs {
			x = t.Detach(x)
			t.Compare(x, x)
			t.Compare(t.Abs(x), x)
		}
	}
	finite(x, gt)
	raw := t.Hold(distance(t, x, gt))
	finite(raw)
	nearest := t.View(t.MinDim(raw, 3), x.Dim(0), x.Dim(2), x.Dim(3), 1)
	relative := t.Hold(t.Div(raw, t.AddScalar(nearest)))
	finite(relative)
	exp := t.Rebind(raw, t.Exp(t.DivScalar(t.Neg(relative))))
	finite(exp)
	similar := t.Rebind(relative, t.Div(exp, t.SumDim(exp, 3)))
	finite(similar)
	best := t.Hold(t.MinDim(t.MinDim(similar, 1), 1))
	return t.Mean(t.Neg(t.Elementwise("torch.log", t.MeanDim(best, 1), true, false)))
}

// cosineDistance is _create_using_dot_p (line 262): (n, h, w, h·w).
func cosineDistance(t *nn.Tape, x, gt nn.Tensor) nn.Tensor {
	return t.Within("", func() nn.Tensor {
		n, c, h, w := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
		mean := t.Hold(t.MeanDim(gt, 0, 2, 3))
		i, g := t.Hold(t.Sub(x, mean)), t.Hold(t.Sub(gt, mean))
		i = t.Rebind(i, t.NormalizeDim(i, 1))
		g = t.Rebind(g, t.NormalizeDim(g, 1))
		var all []nn.Tensor
		for range n { // each sample by itself, its pixels as the kernels of a convolution
			kernel := t.Hold(t.Contiguous(t.Permute(t.View(t.Select(g, 0), 1, 1, c, h*w), 3, 2, 0, 1)))
			y := t.ConvWeight(t.View(t.Select(i, 0), 1, c, h, w), kernel, nn.Tensor{}, nn.Conv{Valid: true})
			y = t.Hold(t.Contiguous(t.Permute(y, 0, 2, 3, 1)))
			all = append(all, t.Hold(t.To(y, nn.F32)))
		}
		y := t.Hold(t.Cat(0, all...))
		for _, part := range all { // the list's name is the sum's
			t.Rebind(part, y)
		}
		y = t.Rebind(y, t.DivScalar(t.Neg(y)))
		return t.Rebind(y, t.Clamp(y))
	}, x, gt)
}

// l2Distance is _create_using_l2 (line 209): the product of all pixels with all.
func l2Distance(t *nn.Tape, x, gt nn.Tensor) nn.Tensor {
	square := func(x nn.Tensor) nn.Tensor {
		y := t.SumDim(t.Mul(x, x), 1)
		return t.Hold(t.View(y, y.Dim(0), y.Dim(2)))
	}
	var squareI, squareT nn.Tensor
	var ab []nn.Tensor // of the sample before, until there is the next one
	return distances(t, x, gt, func(ivecs, tvecs nn.Tensor) { squareI, squareT = square(ivecs), square(tvecs) },
		func(ivec, tvec nn.Tensor) nn.Tensor {
			p := ivec.Dim(1)
			sI, sT := t.Select(squareI, 0), t.Select(squareT, 0)
			y := t.Hold(t.Matmul(t.Permute(ivec, 1, 0), tvec))
			for _, before := range ab {
				t.Rebind(before, y)
			}
			ab = []nn.Tensor{y}
			return t.Sub(t.Add(t.View(sI, p, 1), t.View(sT, 1, p)), t.MulScalar(y))
		}, (*nn.Tape).Clamp)
}

// l1Distance is _create_using_l1 (line 243): of all pixels from all, in every channel.
func l1Distance(t *nn.Tape, x, gt nn.Tensor) nn.Tensor {
	return distances(t, x, gt, func(_, _ nn.Tensor) {}, func(ivec, tvec nn.Tensor) nn.Tensor {
		c, p := ivec.Dim(0), ivec.Dim(1)
		y := t.SumDim(t.Abs(t.Sub(t.View(ivec, c, p, 1), t.View(tvec, c, 1, p))), 0)
		return t.View(y, p, p)
	}, func(_ *nn.Tape, x nn.Tensor) nn.Tensor { return x })
}

// distances are those of each sample by itself, put together and then through last: (n, h, w, h·w).
func distances(
	t *nn.Tape, x, gt nn.Tensor, first func(ivecs, tvecs nn.Tensor), one func(ivec, tvec nn.Tensor) nn.Tensor,
	last nn.Module,
) nn.Tensor {
	return t.Within("", func() nn.Tensor {
		n, c, h, w := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
		ivecs, tvecs := t.View(x, n, c, h*w), t.View(gt, n, c, h*w)
		first(ivecs, tvecs)
		var all []nn.Tensor
		for range n {
			all = append(all, t.Hold(t.View(one(t.Select(ivecs, 0), t.Select(tvecs, 0)), 1, h, w, h*w)))
		}
		y := t.Hold(t.Cat(0, all...))
		for _, part := range all[:n-1] { // the list's name is the sum's, and the last one's stays
			t.Rebind(part, y)
		}
		return t.Rebind(y, last(t, y))
	}, x, gt)
}
