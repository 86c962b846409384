package arch

import (
	"github.com/launch-ml/launch/core/nn"
)

// MS-SSIM and L1 mixed (Zhao et al., 2017): traiNNer/losses/ms_ssim_l1_loss.py at 68629319, in float32 whatever autocast
// says. All scales are taken from the image itself, each through a window of its own width.
var _ = registerLoss(func(a *args) lossFunc {
	sigmas := a.floats("gaussian_sigmas", 0.5, 1, 2, 4, 8)
	refuse(len(sigmas) == 0, "gaussian_sigmas: list index out of range")
	a.ignore("data_range", "k", "alpha", "cuda_dev")
	last := sigmas[len(sigmas)-1]
	l := msSSIML1{scales: int64(len(sigmas)), window: int64(4*last + 1), pad: int64(2 * last)}
	return float32Loss(l.forward)
}, "msssiml1loss")

// An msSSIML1 is MSSSIML1Loss.
type msSSIML1 struct{ scales, window, pad int64 }

// forward is MSSSIML1Loss.forward (line 69).
func (l msSSIML1) forward(t *nn.Tape, x, y nn.Tensor) nn.Tensor {
	c := x.Dim(1)
	masks := t.Buffer("g_masks", nn.F32, 3*l.scales, 1, l.window, l.window) // an attribute, there all the time
	filter := func(x nn.Tensor) nn.Tensor {
		return t.ConvWeight(x, masks, nn.Tensor{}, nn.Conv{Groups: c, Pad: l.pad, Valid: true})
	}
	mux, muy := t.Hold(filter(x)), t.Hold(filter(y))
	mux2, muy2, muxy := t.Hold(t.Mul(mux, mux)), t.Hold(t.Mul(muy, muy)), t.Hold(t.Mul(mux, muy))

	sigmax2 := t.Hold(t.Sub(filter(t.Mul(x, x)), mux2))
	sigmay2 := t.Hold(t.Sub(filter(t.Mul(y, y)), muy2))
	sigmaxy := t.Hold(t.Sub(filter(t.Mul(x, y)), muxy))
	ratio := func(a, b, c nn.Tensor) nn.Tensor { // (2 a + C) / (b + c + C)
		above := t.AddScalar(t.MulScalar(a))
		return t.Hold(t.Div(above, t.AddScalar(t.Add(b, c))))
	}
	luminance, cs := ratio(muxy, mux2, muy2), ratio(sigmaxy, sigmax2, sigmay2)

	plane := func() nn.Tensor { return t.Select(luminance, 1) }
	lm := t.Hold(t.Mul(t.Mul(plane(), plane()), plane()))
	pics := t.Hold(t.Prod(cs, 1))
	loss := t.Hold(t.Neg(t.Mul(lm, pics)))

	l1 := t.Hold(t.Abs(t.Sub(x, y)))
	last := t.Narrow(masks, 0, c)
	gaussian := t.MeanDim(t.ConvWeight(l1, last, nn.Tensor{}, nn.Conv{Groups: c, Pad: l.pad, Valid: true}), 1)
	gaussian = t.Hold(t.View(gaussian, x.Dim(0), x.Dim(2), x.Dim(3)))

	mix := t.Hold(t.Add(t.MulScalar(loss), t.DivScalar(t.MulScalar(gaussian))))
	return t.Mean(mix)
}
