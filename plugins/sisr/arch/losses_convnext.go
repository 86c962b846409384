package arch

import (
	"fmt"
	"slices"

	"github.com/launch-ml/launch/core/nn"
)

// ConvNeXt's features as a loss: traiNNer/losses/convnext_perceptual_loss.py of Phhofm's tree, one text at 2f64430b, 069b6d59
// and 22faa2a6, over timm's convnext_tiny (models/convnext.py at 1.0.31). The features of the output are extracted under
// torch.no_grad too, so the loss keeps nothing for backward, and has no gradient.
var _ = registerLoss(func(a *args) lossFunc {
	layers := a.ints("layers", 1, 2)
	a.ignore("eps")
	weights := int64(len(layers))
	if v, ok := a.get("layer_weights"); ok && v != nil {
		list, ok := v.([]any)
		refuse(!ok || len(list) != len(layers), "layer_weights must match layers, of which there are %d", len(layers))
	}
	for _, l := range layers {
		refuse(l < 0 || l > 3, "layers: index %d is out of range for 4 features", l)
	}
	return float32Loss(func(t *nn.Tape, x, gt nn.Tensor) nn.Tensor {
		t.FrozenParam("layer_weights", weights)
		featsGT := convNeXtFeatures(t, gt, layers)
		featsX := convNeXtFeatures(t, x, layers)
		loss := t.Zeros(nn.F32)
		for i := range layers {
			loss = t.Add(loss, l1Loss(t, featsX[i], featsGT[i]))
		}
		return t.MulScalar(loss)
	})
}, "convnextperceptualloss")

// convNeXtStages are the depths and channels of convnext_tiny.
var convNeXtStages = []struct{ depth, channels int64 }{{3, 96}, {3, 192}, {9, 384}, {3, 768}}

// convNeXtFeatures is _extract_feats: all four stages are computed, and those of the layers kept.
func convNeXtFeatures(t *nn.Tape, x nn.Tensor, layers []int64) (selected []nn.Tensor) {
	t.NoGrad(func() {
		t.Scope("", func() {
			mean, std := t.Buffer("mean", nn.F32, 1, 3, 1, 1), t.Buffer("std", nn.F32, 1, 3, 1, 1)
			x = t.Hold(t.Clamp(x))
			x = t.Rebind(x, t.Div(t.Sub(x, mean), std))
			var feats []nn.Tensor
			t.Scope("backbone", func() {
				y := t.Hold(t.Conv2d("stem_0", x, nn.Conv{Out: 96, K: 4, Stride: 4, Valid: true, Frozen: true}))
				y = t.Rebind(y, channelsNorm(t, "stem_1", y))
				for s := range convNeXtStages {
					y = t.Call(fmt.Sprint("stages_", s), y, func(t *nn.Tape, x nn.Tensor) nn.Tensor { return convNeXtStage(t, x, s) })
					feats = append(feats, t.Hold(y))
				}
			}, x)
			for _, l := range layers {
				selected = append(selected, feats[l])
			}
		}, x)
	})
	t.HoldAll(selected...)
	return selected
}

// channelsNorm is timm's LayerNorm2d: over the last of permuted dimensions.
func channelsNorm(t *nn.Tape, name string, x nn.Tensor) nn.Tensor {
	return t.Permute(frozenLayerNorm(t, name, t.Permute(x, 0, 2, 3, 1)), 0, 3, 1, 2)
}

// frozenLayerNorm is torch.nn.LayerNorm whose parameters require no gradient.
func frozenLayerNorm(t *nn.Tape, name string, x nn.Tensor) nn.Tensor {
	t.Scope(name, func() { t.FrozenParam("weight", x.Dim(-1)); t.FrozenParam("bias", x.Dim(-1)) })
	return t.LayerNorm(name, x)
}

func convNeXtStage(t *nn.Tape, x nn.Tensor, stage int) nn.Tensor {
	c := convNeXtStages[stage].channels
	if stage > 0 {
		x = channelsNorm(t, "downsample.0", x)
		x = t.Conv2d("downsample.1", x, nn.Conv{Out: c, K: 2, Stride: 2, Valid: true, Frozen: true})
	}
	blocks := slices.Repeat([]nn.Module{func(t *nn.Tape, x nn.Tensor) nn.Tensor { // ConvNeXtBlock
		gamma := t.FrozenParam("gamma", c)
		linear := func(name string, x nn.Tensor, out int64) nn.Tensor {
			t.Scope(name, func() { t.FrozenParam("weight", out, x.Dim(-1)); t.FrozenParam("bias", out) })
			return t.Linear(name, x, out, true)
		}
		shortcut := x
		x = t.Hold(t.Conv2d("conv_dw", x, nn.Conv{Out: c, K: 7, Groups: c, Frozen: true}))
		x = t.Rebind(x, frozenLayerNorm(t, "norm", t.Permute(x, 0, 2, 3, 1)))
		y := t.Call("mlp", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			x = t.Hold(linear("fc1", x, 4*c))
			x = t.Rebind(x, t.GELU(x))
			return linear("fc2", x, c)
		})
		x = t.Rebind(x, t.Permute(y, 0, 3, 1, 2))
		x = t.Rebind(x, t.Mul(x, t.View(gamma, 1, c, 1, 1)))
		return t.Add(x, shortcut)
	}}, int(convNeXtStages[stage].depth))
	return t.Sequential("blocks", x, blocks...)
}
