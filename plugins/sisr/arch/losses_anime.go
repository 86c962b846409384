package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// The loss of an illustration's features (Wang et al., APISR, 2024): traiNNer/losses/perceptual_anime_loss.py at 68629319, over
// torchvision's resnet50, in float32 whatever autocast says. The network stays in eval mode, and keeps what its hooks have
// seen last: the features of the target.
var _ = registerLoss(func(a *args) lossFunc {
	a.ignore("verbose_logging")
	c := criterion(a.string("criterion", "l1"))
	labels := map[string]bool{"0": true, "4_2_conv3": true, "5_3_conv3": true, "6_5_conv3": true, "7_2_conv3": true}
	if v, ok := a.get("layer_weights"); ok && v != nil {
		table, ok := v.(map[string]any)
		refuse(!ok, "layer_weights: %v is not a table", v)
		clear(labels)
		for k := range table {
			labels[k] = true
		}
	}
	n := resNet50{labels}
	known := n.known()
	refuse(known != len(labels),
		"layer_weights: of %d layers %d have no formula: %w", len(labels), len(labels)-known, ErrUnknown)
	return float32Loss(func(t *nn.Tape, gen, gt nn.Tensor) nn.Tensor {
		var genFeatures, gtFeatures []nn.Tensor
		t.FreezeParams(func() {
			genFeatures = n.features(t, gen)
			gtFeatures = n.features(t, t.Detach(gt))
		})
		total := t.Zeros(nn.F32)
		for i, f := range genFeatures {
			total = t.Add(total, t.MulScalar(c(t, f, gtFeatures[i])))
		}
		return total
	})
}, "perceptualanimeloss")

// resNetStages are the blocks and the inner channels of resnet50's four stages.
var resNetStages = [...]struct{ blocks, width int64 }{{3, 64}, {4, 128}, {6, 256}, {3, 512}}

// A resNet50 is ResNet50Extractor (line 132) with the convolutions that it listens to: "0", and "stage_block_convN".
type resNet50 struct{ labels map[string]bool }

// known counts the labels that there are.
func (n resNet50) known() (count int) {
	has := func(label string) {
		if n.labels[label] {
			count++
		}
	}
	has("0")
	for s, stage := range resNetStages {
		for b := range stage.blocks {
			for c := range 3 {
				has(fmt.Sprintf("%d_%d_conv%d", s+4, b, c+1))
			}
		}
	}
	return count
}

// features is ResNet50Extractor.forward: the whole network is run. What follows the last label has a graph that goes with
// the network's result.
func (n resNet50) features(t *nn.Tape, x nn.Tensor) (feats []nn.Tensor) {
	total := n.known()
	mean, std := t.Buffer("mean", nn.F32, 1, 3, 1, 1), t.Buffer("std", nn.F32, 1, 3, 1, 1)
	t.Scope("", func() {
		x := t.Hold(t.Div(t.Sub(x, mean), std))
		keep := func(label string, y nn.Tensor) {
			if n.labels[label] {
				feats = append(feats, t.Attribute("activation."+label, y))
			}
		}
		var drops []func()
		run := func(f func()) {
			if len(feats) == total {
				drops = append(drops, t.Dead(f))
			} else {
				f()
			}
		}
		layer := func(label, name string, x nn.Tensor, c nn.Conv) (y nn.Tensor) { // a convolution and its normalisation
			run(func() { y = t.Conv2d("model."+name, x, c) })
			keep(label, y)
			run(func() { y = t.BatchNorm2d("model."+name+".bn", y) })
			return y
		}
		plain := func(out, k, stride int64) nn.Conv { return nn.Conv{Out: out, K: k, Stride: stride, NoBias: true} }
		y := layer("0", "0", x, plain(64, 7, 2))
		run(func() { y = t.MaxPool2dPadded(t.ReLUInplace(y), 3, 2, 1) })
		for s, stage := range resNetStages {
			for b := range stage.blocks {
				t.Scope("", func() { // Bottleneck
					at := func(c int64) string { return fmt.Sprintf("%d_%d_conv%d", s+4, b, c) }
					identity, stride := y, int64(1)
					if s > 0 && b == 0 {
						stride = 2
					}
					out := t.Hold(layer(at(1), at(1), y, plain(stage.width, 1, 1)))
					run(func() { out = t.Rebind(out, t.ReLUInplace(out)) })
					out = t.Rebind(out, layer(at(2), at(2), out, plain(stage.width, 3, stride)))
					run(func() { out = t.Rebind(out, t.ReLUInplace(out)) })
					out = t.Rebind(out, layer(at(3), at(3), out, plain(4*stage.width, 1, 1)))
					if b == 0 {
						identity = t.Hold(layer("", fmt.Sprint(s+4, ".downsample"), y, plain(4*stage.width, 1, stride)))
					}
					run(func() { y = t.ReLUInplace(t.AddInplace(out, identity)) })
				}, y)
			}
		}
		for _, drop := range drops {
			drop()
		}
	}, x)
	t.HoldAll(feats...) // the dictionary that is returned
	return feats
}
