package arch

import (
	"strings"

	"github.com/launch-ml/launch/core/nn"
)

// SSIM and MS-SSIM: traiNNer/losses/mssim_loss.py at 68629319, in float32 whatever autocast says.
var _ = entry(func() {
	registerLoss(func(a *args) lossFunc {
		y, luminance := lumaOf(a), a.bool("include_luminance", false)
		return float32Loss(func(t *nn.Tape, x, gt nn.Tensor) nn.Tensor {
			x, gt = preprocessRGB(t, x, y), t.Hold(preprocessRGB(t, gt, y))
			return msSSIM(t, x, gt, luminance)
		})
	}, "mssimloss", "mssim_loss")
	registerLoss(func(a *args) lossFunc {
		y := lumaOf(a)
		return float32Loss(func(t *nn.Tape, x, gt nn.Tensor) nn.Tensor {
			x, gt = preprocessRGB(t, x, y), t.Hold(preprocessRGB(t, gt, y))
			score, _ := ssim(t, x, gt, true, func(f func()) { f() })
			return score
		})
	}, "ssimloss")
})

// lumaOf is the colour space whose first channel is compared, or "" for all channels of the image.
func lumaOf(a *args) string {
	space := a.string("color_space", "yiq")
	if !a.bool("test_y_channel", true) {
		return ""
	}
	return strings.ToLower(space)
}

// preprocessRGB is preprocess_rgb (line 131): clamped, and the luma where one is asked for. Of a space that it does not know the
// first channel is the image's own.
func preprocessRGB(t *nn.Tape, x nn.Tensor, space string) nn.Tensor {
	x = t.Clamp(x)
	if space == "" {
		return t.MulScalar(x)
	}
	b, h, w := x.Dim(0), x.Dim(2), x.Dim(3)
	img := x
	switch space {
	case "yiq", "lhm":
		img = t.Permute(t.MatmulConst(t.Permute(x, 0, 2, 3, 1), 3), 0, 3, 1, 2)
	case "ycbcr":
		img = t.Permute(t.MatmulConst(t.Permute(x, 0, 2, 3, 1), 3), 0, 3, 1, 2)
		img = t.DivScalar(t.Add(img, t.Zeros(nn.F32, 1, 3, 1, 1)))
	}
	return t.MulScalar(t.Copy("Tensor.__getitem__", img, b, 1, h, w)) // img[:, [0], :, :] indexes, so it copies
}

// filter2 is a depthwise convolution with a Gaussian window of 11, padded where the image is smaller than that.
func filter2(t *nn.Tape, x, win nn.Tensor) nn.Tensor {
	c := nn.Conv{Out: x.Dim(1), K: 11, Groups: x.Dim(1), NoBias: true, Valid: true}
	if x.Dim(3) < 11 {
		x = t.Pad(x, 10, 10, false)
	}
	return t.ConvWeight(x, win, nn.Tensor{}, c)
}

// ssim is ssim(get_cs=…) : the value, computed by way of value, and the contrast term.
func ssim(t *nn.Tape, x, y nn.Tensor, luminance bool, value func(f func())) (ssimVal, cs nn.Tensor) {
	t.Scope("", func() {
		win := t.Hold(t.Zeros(nn.F32, x.Dim(1), 1, 11, 11))
		mu1 := t.Hold(filter2(t, x, win))
		mu2 := t.Hold(filter2(t, y, win))
		mu1Sq := t.Hold(t.Pow(mu1))
		mu2Sq := t.Hold(t.Pow(mu2))
		mu1Mu2 := t.Hold(t.Mul(mu1, mu2))
		sigma1Sq := t.Hold(t.Sub(filter2(t, t.Mul(x, x), win), mu1Sq))
		sigma2Sq := t.Hold(t.Sub(filter2(t, t.Mul(y, y), win), mu2Sq))
		sigma12 := t.Hold(t.Sub(filter2(t, t.Mul(x, y), win), mu1Mu2))

		csMap := t.Div(t.AddScalar(t.MulScalar(sigma12)), t.AddScalar(t.Add(sigma1Sq, sigma2Sq)))
		csMap = t.Hold(t.ReLU(csMap))
		value(func() {
			var l nn.Tensor
			if luminance {
				l = t.Div(t.AddScalar(t.MulScalar(mu1Mu2)), t.AddScalar(t.Add(mu1Sq, mu2Sq)))
			} else {
				l = t.ZerosLike(csMap)
			}
			l = t.Hold(l)
			ssimMap := t.Hold(t.Mul(l, csMap))
			ssimVal = t.MeanDim(ssimMap, 1, 2, 3)
		})
		cs = t.MeanDim(csMap, 1, 2, 3)
	}, x, y)
	return ssimVal, cs
}

// msSSIM is ms_ssim over five scales, of whose values the last alone is used: the graph of another goes when the next one has
// its name.
func msSSIM(t *nn.Tape, x, y nn.Tensor, luminance bool) nn.Tensor {
	const scales = 5
	var mcs []nn.Tensor
	var last nn.Tensor
	drop := func() {}
	for i := range scales {
		before := drop
		var cs nn.Tensor
		last, cs = ssim(t, x, y, luminance, func(f func()) {
			if i == scales-1 {
				f()
				return
			}
			drop = t.Dead(f)
		})
		before()
		mcs = append(mcs, t.Hold(cs))
		x = t.Rebind(x, t.AvgPool2d(x, 2, 2, x.Dim(2)%2))
		y = t.Rebind(y, t.AvgPool2d(y, 2, 2, y.Dim(2)%2))
	}
	return t.Mean(t.Mul(t.Stack(mcs...), last))
}
