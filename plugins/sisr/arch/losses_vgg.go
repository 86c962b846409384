package arch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/nn"
)

// Perceptual losses over VGG-19: traiNNer/losses/perceptual_loss.py and perceptual_fp16_loss.py at 68629319. The
// first runs in float32 whatever autocast says, the second as autocast does.
var _ = entry(func() {
	registerLoss(func(a *args) lossFunc {
		f := perceptual(a)

		return float32Loss(f)
	}, "perceptualloss")
	registerLoss(perceptual, "perceptualfp16loss")
})

// vgg19 is the features of torchvision's vgg19 by their names: convolutions' channels, and where pools stand.
var vgg19 = []struct {
	convs, channels int64
}{{2, 64}, {2, 128}, {4, 256}, {4, 512}, {4, 512}}

var (
	vggConvLayers = []string{"conv1_2", "conv2_2", "conv3_4", "conv4_4", "conv5_4"}
	vggReLULayers = []string{"relu1_2", "relu2_2", "relu3_4", "relu4_4", "relu5_4"}
)

func perceptual(a *args) lossFunc {
	name := a.string("criterion", "charbonnier")
	var want []string
	var c1 lossFunc = l1Loss
	switch name {
	case "charbonnier":
		c1, want = charbonnierLoss, vggConvLayers
	case "l1":
		want = vggConvLayers
	case "pd":
		want = vggReLULayers
	case "pd+l1":
		want = slices.Concat(vggConvLayers, vggReLULayers)
	default:
		reject("criterion %q: %w", name, ErrUnknown)
	}
	if v, ok := a.get("layer_weights"); ok && v != nil {
		layers, ok := v.(map[string]any)
		refuse(!ok, "layer_weights: %v is not a table", v)
		want = want[:0:0]
		for k := range layers {
			want = append(want, k)
		}
	}
	refuse(a.bool("antialiased", false), "antialiased: %w", ErrUnknown)
	return func(t *nn.Tape, x, gt nn.Tensor) nn.Tensor {
		xVGG := vggFeatures(t, x, want)
		gtVGG := vggFeatures(t, t.Detach(gt), want)
		total := t.Zeros(nn.F32)
		for i, layer := range xVGG {
			c := c1
			if strings.HasPrefix(layer.name, "relu") {
				c = phaseDistance
			}
			total = t.Add(total, c(t, layer.Tensor, gtVGG[i].Tensor))
		}
		return total
	}
}

type feature struct {
	name string
	nn.Tensor
}

// vggFeatures is VGG.forward: the features in their order, held as the dictionary holds them. The first convolution
// pads by replication; ReLUs do not work in place.
func vggFeatures(t *nn.Tape, x nn.Tensor, want []string) (feats []feature) {
	mean, std := t.Buffer("mean", nn.F32, 1, 3, 1, 1), t.Buffer("std", nn.F32, 1, 3, 1, 1)
	h := t.Hold(t.Div(t.Sub(x, mean), std))
	keep := func(name string) bool {
		if slices.Contains(want, name) {
			feats = append(feats, feature{name, t.Hold(h)})
		}
		return len(feats) == len(want)
	}
	for s, stage := range vgg19 {
		for c := range stage.convs {
			name := fmt.Sprintf("conv%d_%d", s+1, c+1)
			layer := nn.Conv{Out: stage.channels, K: 3, Frozen: true}
			if s == 0 && c == 0 {
				h = t.PadTo(h, true, h.Dim(0), h.Dim(1), h.Dim(2)+2, h.Dim(3)+2)
				layer.Valid = true
			}
			h = t.Conv2d("vgg."+name, h, layer)
			if keep(name) {
				return feats
			}
			h = t.ReLU(h)
			if keep(fmt.Sprintf("relu%d_%d", s+1, c+1)) {
				return feats
			}
		}
		h = t.MaxPool2d(h, 2, 2)
		if keep(fmt.Sprintf("pool%d", s+1)) {
			return feats
		}
	}
	return feats
}

// phaseDistance is PerceptualFP16Loss.pd: the distance of cumulative sums.
func phaseDistance(t *nn.Tape, x, y nn.Tensor) nn.Tensor {
	return t.Within("", func() nn.Tensor {
		share := func(x nn.Tensor) nn.Tensor {
			x = t.Hold(t.Div(x, t.AddScalar(t.SumDim(x, 2, 3))))
			return t.View(x, x.Dim(0), x.Dim(1), -1)
		}
		xVGG, yVGG := share(x), share(y)
		cdfX, cdfY := t.Hold(t.Cumsum(xVGG)), t.Hold(t.Cumsum(yVGG))
		return t.Mean(t.SumDim(t.Abs(t.Sub(cdfX, cdfY)), 2))
	}, x, y)
}
