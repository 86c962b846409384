package arch

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/nn"
)

// BasicSR's losses (basicsr/losses/basic_loss.py at 8d56e3a0).
var _ = entry(func() {
	losses.share(BasicSR) // what is not listed is unknown
	losses.add(BasicSR, reduced(l1Loss, (*nn.Tape).Abs), "l1loss")
	losses.add(BasicSR, reduced(mseLoss, (*nn.Tape).Pow), "mseloss")
	losses.add(BasicSR, reduced(charbonnierLoss, func(t *nn.Tape, d nn.Tensor) nn.Tensor {
		return t.Sqrt(t.AddScalar(t.Pow(d)))
	}), "charbonnierloss")
	losses.add(BasicSR, basicPerceptual, "perceptualloss")
	losses.add(BasicSR, ldlLoss, "ldlloss") // of the section ldl_opt, for whose type it stands: see basicLoop.losses
})

// reduced is weighted_loss: the mean, or the sum of what each makes of the difference.
func reduced(mean lossFunc, each nn.Module) lossBuilder {
	return func(a *args) lossFunc {
		r := a.string("reduction", "mean")
		if r == "mean" {
			return mean
		}
		refuse(r == "none", "reduction: %q leaves an image, which has no backward", r)
		refuse(r != "sum", "reduction: %q is none of none, mean, sum", r)
		return func(t *nn.Tape, x, y nn.Tensor) nn.Tensor { return t.Sum(each(t, t.Sub(x, y))) }
	}
}

// vggStages are how many convolutions of torchvision's VGGs lie between two pools.
var vggStages = map[string][5]int{
	"vgg11": {1, 1, 2, 2, 2}, "vgg13": {2, 2, 2, 2, 2}, "vgg16": {2, 2, 3, 3, 3}, "vgg19": {2, 2, 4, 4, 4},
}

// A vggExtractor is VGGFeatureExtractor (vgg_arch.py): the layers of a torchvision VGG up to the last that is wanted.
type vggExtractor struct {
	layers []string // wanted, in the order of the network
	stages [5]int
	norm   bool // use_input_norm
	range1 bool // range_norm
}

// basicPerceptual is PerceptualLoss.
func basicPerceptual(a *args) lossFunc {
	kind := a.string("vgg_type", "vgg19")
	refuse(strings.HasSuffix(kind, "_bn"), "vgg_type %q: %w", kind, ErrUnknown)
	v := vggExtractor{norm: a.bool("use_input_norm", true), range1: a.bool("range_norm", false)}
	var ok bool
	v.stages, ok = vggStages[kind]
	refuse(!ok, "vgg_type: %q is none of vgg11, vgg13, vgg16, vgg19", kind)
	weights, _ := a.get("layer_weights")
	wanted, ok := weights.(map[string]any)
	refuse(!ok, "layer_weights: %v is not a table", weights)
	names := v.names()
	for _, k := range slices.Sorted(maps.Keys(wanted)) {
		refuse(!slices.Contains(names, k), "layer_weights: %s has no layer %q", kind, k)
	}
	for _, n := range names {
		if _, ok := wanted[n]; ok {
			v.layers = append(v.layers, n)
		}
	}
	content, style := a.float("perceptual_weight", 1) > 0, a.float("style_weight", 0) > 0
	criterions := map[string]lossFunc{"l1": l1Loss, "l2": mseLoss, "fro": frobenius}
	c, ok := criterions[a.string("criterion", "l1")]
	refuse(!ok, "%s criterion has not been supported", a.string("criterion", "l1"))
	return func(t *nn.Tape, x, gt nn.Tensor) nn.Tensor {
		xFeatures, gtFeatures := v.features(t, x), v.features(t, t.Detach(gt))
		total := t.Zeros(nn.F32)
		for _, part := range []struct {
			on   bool
			map1 func(nn.Tensor) nn.Tensor
		}{{content, func(x nn.Tensor) nn.Tensor { return x }}, {style, func(x nn.Tensor) nn.Tensor { return gram(t, x) }}} {
			for i := range v.layers {
				if part.on {
					total = t.Add(total, c(t, part.map1(xFeatures[i]), part.map1(gtFeatures[i])))
				}
			}
		}
		return total
	}
}

// names are those of NAMES.
func (v vggExtractor) names() (names []string) {
	for s, convs := range v.stages {
		for c := range convs {
			names = append(names, fmt.Sprintf("conv%d_%d", s+1, c+1), fmt.Sprintf("relu%d_%d", s+1, c+1))
		}
		names = append(names, fmt.Sprint("pool", s+1))
	}
	return names
}

// features is VGGFeatureExtractor.forward, whose ReLUs are torchvision's, in place; what is wanted is cloned.
func (v vggExtractor) features(t *nn.Tape, x nn.Tensor) (feats []nn.Tensor) {
	if v.range1 {
		x = t.Hold(t.DivScalar(t.AddScalar(x)))
	}
	if v.norm {
		mean, std := t.Buffer("mean", nn.F32, 1, 3, 1, 1), t.Buffer("std", nn.F32, 1, 3, 1, 1)
		x = t.Rebind(x, t.Div(t.Sub(x, mean), std))
	}
	t.Scope("vgg_net", func() {
		for _, name := range v.names() {
			var stage int
			_, _ = fmt.Sscanf(name[4:], "%d", &stage)
			switch name[:4] {
			case "conv":
				channels := int64(64) << min(stage-1, 3)
				x = t.Rebind(x, t.Conv2d(name, x, nn.Conv{Out: channels, K: 3, Frozen: true}))
			case "relu":
				x = t.ReLUInplace(x)
			case "pool":
				x = t.Rebind(x, t.MaxPool2d(x, 2, 2))
			}
			if slices.Contains(v.layers, name) {
				feats = append(feats, t.Hold(t.Clone(x)))
			}
			if len(feats) == len(v.layers) {
				return
			}
		}
	}, x)
	for i := range feats {
		feats[i] = t.Hold(feats[i])
	}
	return feats
}

// gram is PerceptualLoss._gram_mat.
func gram(t *nn.Tape, x nn.Tensor) nn.Tensor {
	f := t.View(x, x.Dim(0), x.Dim(1), x.Dim(2)*x.Dim(3))
	return t.Hold(t.DivScalar(t.Bmm(f, t.Transpose(f, 1, 2))))
}

// frobenius is torch.norm(x - y, p="fro").
func frobenius(t *nn.Tape, x, y nn.Tensor) nn.Tensor {
	d := t.Hold(t.Sub(x, y))
	return t.Norm(t.View(d, 1, d.Numel()), 1)
}
