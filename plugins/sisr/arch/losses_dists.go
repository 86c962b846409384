package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// DISTS (Ding et al., 2020): traiNNer/losses/dists_loss.py at 68629319, over VGG-16, in float32 whatever autocast says.
var _ = registerLoss(func(a *args) lossFunc {
	a.ignore("load_weights", "clip_min")
	norm := a.bool("use_input_norm", true)
	refuse(!a.bool("as_loss", true), "as_loss: false: %w", ErrUnknown)
	return float32Loss(func(t *nn.Tape, x, y nn.Tensor) nn.Tensor { return distsLoss(t, x, y, norm) })
}, "distsloss")

// distsChannels are the channels of the image and of the five stages' features.
var distsChannels = []int64{3, 64, 128, 256, 512, 512}

// distsConvs is how many convolutions each stage of VGG-16 has.
var distsConvs = [...]int{2, 2, 3, 3, 3}

func distsLoss(t *nn.Tape, x, y nn.Tensor, norm bool) nn.Tensor {
	total := int64(0)
	for _, c := range distsChannels {
		total += c
	}
	alpha, beta := t.Param("alpha", 1, total, 1, 1), t.Param("beta", 1, total, 1, 1)
	feats0 := distsFeatures(t, x, norm)
	feats1 := distsFeatures(t, y, norm)
	dist := t.Zeros(nn.F32)
	wSum := t.Hold(t.Add(t.Sum(alpha), t.Sum(beta)))
	alphas := t.Split(t.Hold(t.Div(alpha, wSum)), 1, distsChannels...)
	betas := t.Split(t.Hold(t.Div(beta, wSum)), 1, distsChannels...)

	for k := range distsChannels {
		f0, f1 := feats0[k], feats1[k]
		t.Scope("", func() { // what a turn of the loop binds, the next binds anew
			ratio := func(a, b, c nn.Tensor) nn.Tensor { // (2 a + c) / (b + c + c)
				return t.Div(t.AddScalar(t.MulScalar(a)), t.AddScalar(t.Add(b, c)))
			}
			xMean, yMean := t.Hold(t.MeanDim(f0, 2, 3)), t.Hold(t.MeanDim(f1, 2, 3))
			s1 := t.Hold(ratio(t.Mul(t.MulScalar(xMean), yMean), t.Pow(xMean), t.Pow(yMean)))
			dist = t.Add(dist, t.SumDim(t.Mul(alphas[k], s1), 1))

			xVar := t.Hold(t.MeanDim(t.Pow(t.Sub(f0, xMean)), 2, 3))
			yVar := t.Hold(t.MeanDim(t.Pow(t.Sub(f1, yMean)), 2, 3))
			xyCov := t.Hold(t.Sub(t.MeanDim(t.Mul(f0, f1), 2, 3), t.Mul(xMean, yMean)))
			s2 := t.Hold(ratio(xyCov, xVar, yVar))
			dist = t.Add(dist, t.SumDim(t.Mul(betas[k], s2), 1))
		})
	}
	return t.Clamp(t.Neg(t.Mean(dist)))
}

// distsFeatures is forward_once: the image, and what each stage ends in. VGG-16's activations work in place.
func distsFeatures(t *nn.Tape, x nn.Tensor, norm bool) []nn.Tensor {
	feats := []nn.Tensor{x}
	h := x
	if norm {
		mean, std := t.Buffer("mean", nn.F32, 1, 3, 1, 1), t.Buffer("std", nn.F32, 1, 3, 1, 1)
		h = t.Div(t.Sub(h, mean), std)
	}
	layer := 0
	for s, convs := range distsConvs {
		stage := fmt.Sprint("stage", s+1, ".")
		if s > 0 {
			h = t.Call(fmt.Sprint(stage, layer), h, l2Pooling)
			layer++
		}
		for range convs {
			h = t.Conv2d(fmt.Sprint(stage, layer), h, nn.Conv{Out: distsChannels[s+1], K: 3, Frozen: true})
			h = t.ReLUInplace(h)
			layer += 2
		}
		feats = append(feats, t.Hold(h))
	}
	return feats
}

// l2Pooling is L2pooling with a Hann window of 5, of which 3 are not zero.
func l2Pooling(t *nn.Tape, x nn.Tensor) nn.Tensor {
	c := x.Dim(1)
	filter := t.Buffer("filter", nn.F32, c, 1, 3, 3)
	input := t.Hold(t.Pow(x))
	out := t.Hold(t.ConvWeight(input, filter, nn.Tensor{}, nn.Conv{K: 3, Stride: 2, Groups: c}))
	return t.Sqrt(t.AddScalar(out))
}
