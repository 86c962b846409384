package arch

import (
	"fmt"
	"slices"

	"github.com/launch-ml/launch/core/nn"
)

// The losses of neosr that its recipes have commented out: neosr/losses at 31c7022.
var _ = entry(func() {
	losses.share(Neosr, "l1loss")
	plain := func(f lossFunc, names ...string) { losses.add(Neosr, plainLoss(f), names...) }
	// basic_loss.py:88
	plain(func(t *nn.Tape, x, y nn.Tensor) nn.Tensor { return t.HuberLoss(x, y) }, "huberloss")
	// basic_loss.py:55
	plain(func(t *nn.Tape, x, y nn.Tensor) nn.Tensor { return t.MulScalar(t.MSELoss(x, y)) }, "mseloss")
	plain(nccNeosr, "ncc_loss")
	plain(klNeosr, "kl_loss")
	losses.add(Neosr, func(a *args) lossFunc { // dists_loss.py:42
		a.ignore("load_weights")
		refuse(!a.bool("as_loss", true), "as_loss: false: %w", ErrUnknown)
		return float32Loss(func(t *nn.Tape, x, y nn.Tensor) nn.Tensor { return distsLoss(t, x, y, false) })
	}, "dists_loss")
	losses.add(Neosr, perceptualNeosr, "vgg_perceptual_loss")
})

// perceptualNeosr is vgg_perceptual_loss (vgg_perceptual_loss.py:55), under autocast, over vgg_arch.py's features.
func perceptualNeosr(a *args) lossFunc {
	a.ignore("patch_weight")
	c := criterionNeosr(a.string("criterion", "chc"))
	want := vggConvLayers
	if v, ok := a.get("layer_weights"); ok && v != nil {
		table, ok := v.(map[string]any)
		refuse(!ok || len(table) == 0, "layer_weights: %v is not a table of layers", v)
		want = nil
		for name := range table {
			refuse(!slices.Contains(vggConvLayers, name), "layer_weights: %s: %w", name, ErrUnknown)
			want = append(want, name)
		}
	}
	norm, wide := a.bool("use_input_norm", true), a.bool("range_norm", false)
	refuse(a.string("vgg_type", "vgg19") != "vgg19", "vgg_type: %w", ErrUnknown)
	refuse(a.bool("patchloss", false), "patchloss: %w", ErrUnknown)
	refuse(a.bool("ipk", false), "ipk: enable patchloss to use IPK")
	return func(t *nn.Tape, x, gt nn.Tensor) nn.Tensor {
		look := func(x nn.Tensor) (feats []nn.Tensor) {
			t.Scope("vgg", func() { feats = vggNeosr(t, x, want, norm, wide) }, x)
			t.HoldAll(feats...)
			return feats
		}
		xs, ys := look(x), look(t.Detach(gt))
		total := t.Zeros(nn.F32)
		for i := range xs {
			total = t.Add(total, t.MulScalar(c(t, t.MulScalar(xs[i]), t.MulScalar(ys[i]))))
		}
		return t.MulScalar(total)
	}
}

// vggNeosr is VGGFeatureExtractor.forward (vgg_arch.py:180): each layer that is asked for is copied before its ReLU
// works in place.
func vggNeosr(t *nn.Tape, x nn.Tensor, want []string, norm, wide bool) (feats []nn.Tensor) {
	if wide {
		x = t.DivScalar(t.AddScalar(x))
	}
	if norm {
		mean, std := t.Buffer("mean", nn.F32, 1, 3, 1, 1), t.Buffer("std", nn.F32, 1, 3, 1, 1)
		x = t.Hold(t.Div(t.Sub(x, mean), std))
	}
	for s, stage := range vgg19 {
		for c := range stage.convs {
			name := fmt.Sprintf("conv%d_%d", s+1, c+1)
			x = t.Conv2d("vgg_net."+name, x, nn.Conv{Out: stage.channels, K: 3, Frozen: true})
			if slices.Contains(want, name) {
				feats = append(feats, t.Hold(t.Clone(x)))
			}
			if len(feats) == len(want) {
				return feats
			}
			x = t.ReLUInplace(x)
		}
		x = t.MaxPool2d(x, 2, 2)
	}
	return feats
}

// nccNeosr is ncc_loss (ncc_loss.py:8): the correlation of each channel over the whole batch.
func nccNeosr(t *nn.Tape, x, y nn.Tensor) nn.Tensor {
	cc := t.Within("", func() nn.Tensor { // _cc
		flat := func(x nn.Tensor) nn.Tensor { return t.View(x, x.Dim(1), -1) }
		x, y := flat(x), flat(y)
		xMean, yMean := t.Hold(t.MeanDim(x, 1)), t.Hold(t.MeanDim(y, 1))
		square := func(x, mean nn.Tensor) nn.Tensor { return t.SumDim(t.Pow(t.Sub(x, mean)), 1) }
		joint := t.SumDim(t.Mul(t.Sub(x, xMean), t.Sub(y, yMean)), 1)
		return t.Mean(t.Div(joint, t.Sqrt(t.Mul(square(x, xMean), square(y, yMean)))))
	}, x, y)
	return t.MulScalar(t.Neg(t.MulScalar(t.AddScalar(cc))))
}

// klNeosr is kl_loss (kl_loss.py:8). What kl_div computes is xlogy(y, y) - y * x (kl_div in native/Loss.cpp).
func klNeosr(t *nn.Tape, x, y nn.Tensor) nn.Tensor {
	prob, target := t.Hold(t.Softmax(x)), t.Hold(t.Softmax(y))
	log := t.Hold(t.Elementwise("torch.log", t.AddScalar(prob), true, false))
	loss := t.Within("", func() nn.Tensor {
		entropy := t.Hold(t.Elementwise("torch.xlogy", target, false, false))
		cross := t.Hold(t.Mul(target, log))
		return t.DivScalar(t.Sum(t.Hold(t.Sub(entropy, cross))))
	}, log, target)
	return t.MulScalar(t.MulScalar(loss))
}
