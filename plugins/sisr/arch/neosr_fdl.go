package arch

import (
	"fmt"
	"slices"

	"github.com/launch-ml/launch/core/nn"
)

// FDL (Ni et al., 2024): neosr/losses/fdl_loss.py at 31c7022, in float32 whatever autocast says. Its network is by
// default DINOv2's ViT-B/14, which torch.hub loads from facebookresearch/dinov2 (b8931f7 is what was read and
// recorded).
var _ = losses.add(Neosr, func(a *args) lossFunc {
	l := fdlNeosr{patch: a.int("patch_size", 4), stride: a.int("stride", 1), proj: a.int("num_proj", 24)}
	a.ignore("vgg_weights", "phase_weight", "dino_weights") // of each layer a number
	layers := a.ints("dino_layers", 0, 1, 2, 3, 4, 5, 6, 7)
	norm := a.bool("dino_norm", false)
	switch name := a.string("model", "dinov2"); name {
	case "dinov2":
		l.features = func(t *nn.Tape, x nn.Tensor) []nn.Tensor { return dinov2(t, x, layers, norm) }
	case "vgg", "resnet", "effnet":
		reject("model %q: %w", name, ErrUnknown)
	default:
		reject("model %q: VGG, EffNet, ResNet or DINOv2", name)
	}
	return float32Loss(l.forward)
}, "fdl_loss")

type fdlNeosr struct {
	patch, stride, proj int64
	features            func(t *nn.Tape, x nn.Tensor) []nn.Tensor
}

// forward is fdl_loss.forward (line 317).
func (l fdlNeosr) forward(t *nn.Tape, x, y nn.Tensor) nn.Tensor {
	features := func(x nn.Tensor) (fs []nn.Tensor) {
		t.Scope("model", func() { fs = l.features(t, x) }, x)
		t.HoldAll(fs...)
		return fs
	}
	xs, ys := features(x), features(y)
	var score []nn.Tensor
	var locals []nn.Tensor // of a turn, which the next turn replaces
	for i := range xs {
		bind := func(k int, v nn.Tensor) nn.Tensor {
			if len(locals) <= k {
				locals = append(locals, t.Hold(v))
			} else {
				locals[k] = t.Rebind(locals[k], v)
			}
			return v
		}
		fftX, fftY := bind(0, t.FFT2(xs[i])), bind(1, t.FFT2(ys[i]))
		xMag, xPhase := bind(2, t.AbsComplex(fftX)), bind(3, t.Angle(fftX))
		yMag, yPhase := bind(4, t.AbsComplex(fftY)), bind(5, t.Angle(fftY))
		amplitude := bind(6, l.forwardOnce(t, xMag, yMag, i))
		phase := bind(7, l.forwardOnce(t, xPhase, yPhase, i))
		score = append(score, t.Hold(t.Add(amplitude, t.MulScalar(phase))))
	}
	sum := score[0]
	for _, s := range score[1:] {
		sum = t.Add(sum, s)
	}
	return t.MulScalar(t.Mean(sum))
}

// forwardOnce is fdl_loss.forward_once (line 298).
func (l fdlNeosr) forwardOnce(t *nn.Tape, x, y nn.Tensor, i int) nn.Tensor {
	rand := t.Buffer(fmt.Sprint("rand_", i), nn.F32, l.proj, x.Dim(1), l.patch, l.patch)
	return t.Within("", func() nn.Tensor {
		project := func(x nn.Tensor) nn.Tensor {
			p := t.ConvWeight(x, rand, nn.Tensor{}, nn.Conv{K: l.patch, Stride: l.stride, Valid: true})
			return t.Hold(t.View(p, p.Dim(0), p.Dim(1), p.Dim(2)*p.Dim(3)))
		}
		projX, projY := project(x), project(y)
		sortedX, indices := t.Sort(projX)
		projX = t.Rebind(projX, sortedX)
		t.Hold(indices)
		sortedY, more := t.Sort(projY)
		projY = t.Rebind(projY, sortedY)
		t.Rebind(indices, more)
		return t.MeanDim(t.Abs(t.Sub(projX, projY)), 1, 2)
	}, x, y)
}

// DINOv2's ViT-B/14, made for images of 518.
const dinoDim, dinoDepth, dinoHeads, dinoPatch, dinoSide = 768, 12, 12, 14, 37

// dinov2 is dinov2.get_features (line 221). Backward needs no more than the layers up to the last that is asked for.
func dinov2(t *nn.Tape, x nn.Tensor, layers []int64, norm bool) (feats []nn.Tensor) {
	weights := t.Buffer("layer_weights", nn.F32, int64(len(layers)), 1, 1)
	if norm {
		mean, std := t.Buffer("mean", nn.F32, 1, 3, 1, 1), t.Buffer("std", nn.F32, 1, 3, 1, 1)
		x = t.Hold(t.Div(t.Sub(x, mean), std))
	}
	up := func(n int64) int64 { return (n + dinoPatch - 1) / dinoPatch * dinoPatch }
	if h, w := up(x.Dim(2)), up(x.Dim(3)); h != x.Dim(2) || w != x.Dim(3) {
		x = t.Hold(t.PadTo(x, true, x.Dim(0), x.Dim(1), h, w))
	}
	var outputs []nn.Tensor
	t.Scope("model", func() { t.FreezeParams(func() { outputs = dinoLayers(t, x, layers) }) }, x)
	t.HoldAll(outputs...)
	for _, f := range outputs {
		feats = append(feats, t.Hold(t.Mul(f, t.View(t.Narrow(weights, 0, 1), 1, 1))))
	}
	return feats
}

// dinoLayers is DinoVisionTransformer.get_intermediate_layers with reshape (dinov2/models/vision_transformer.py):
// all blocks run, and the results of some are taken.
func dinoLayers(t *nn.Tape, x nn.Tensor, layers []int64) (outputs []nn.Tensor) {
	b, h, w := x.Dim(0), x.Dim(2)/dinoPatch, x.Dim(3)/dinoPatch
	var taken, normed []nn.Tensor
	tokens := dinoTokens(t, x)
	t.Param("mask_token", 1, dinoDim)
	last := slices.Max(append(slices.Clone(layers), -1))
	var dead []func()
	for i := range int64(dinoDepth) {
		block := func() { tokens = t.Call(fmt.Sprint("blocks.", i), tokens, dinoBlock) }
		if i > last { // no result depends on it
			dead = append(dead, t.Dead(block))
			continue
		}
		block()
		if slices.Contains(layers, i) {
			taken = append(taken, t.Hold(tokens))
		}
	}
	for _, drop := range dead {
		drop()
	}
	for _, y := range taken {
		normed = append(normed, t.Hold(t.LayerNorm("norm", y)))
	}
	for _, y := range normed {
		y = t.View(t.Narrow(y, 1, h*w), b, h, w, dinoDim)
		outputs = append(outputs, t.Hold(t.Contiguous(t.Permute(y, 0, 3, 1, 2))))
	}
	return outputs
}

// dinoTokens is prepare_tokens_with_masks: patches, the class, and positions interpolated to the image's size.
func dinoTokens(t *nn.Tape, x nn.Tensor) nn.Tensor {
	b := x.Dim(0)
	h, w := x.Dim(2)/dinoPatch, x.Dim(3)/dinoPatch
	x = t.Conv2d("patch_embed.proj", x, nn.Conv{Out: dinoDim, K: dinoPatch, Stride: dinoPatch, Valid: true})
	x = t.Hold(t.Transpose(t.View(x, b, dinoDim, h*w), 1, 2))
	class := t.Expand(t.Param("cls_token", 1, 1, dinoDim), b, 1, dinoDim)
	x = t.Rebind(x, t.Cat(1, class, x))
	position := t.Param("pos_embed", 1, dinoSide*dinoSide+1, dinoDim)
	if h != dinoSide || w != dinoSide {
		grid := t.Permute(t.View(t.Narrow(position, 1, dinoSide*dinoSide), 1, dinoSide, dinoSide, dinoDim), 0, 3, 1, 2)
		grid = t.Permute(t.Interpolate(grid, h, w), 0, 2, 3, 1)
		position = t.Cat(1, t.Narrow(position, 1, 1), t.Reshape(grid, 1, h*w, dinoDim))
	}
	return t.Rebind(x, t.Add(x, position))
}

// dinoBlock is Block (dinov2/layers/block.py) with MemEffAttention, which without xFormers is PyTorch's own.
func dinoBlock(t *nn.Tape, x nn.Tensor) nn.Tensor {
	scaled := func(name string, y nn.Tensor) nn.Tensor { return t.Mul(y, t.Param(name+".gamma", dinoDim)) }
	attention := t.Call("attn", t.LayerNorm("norm1", x), func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		b, n := x.Dim(0), x.Dim(1)
		qkv := t.Hold(t.View(t.Linear("qkv", x, 3*dinoDim, true), b, n, 3, dinoHeads, dinoDim/dinoHeads))
		head := func() nn.Tensor { return t.Transpose(t.Select(qkv, 2), 1, 2) }
		x = t.Hold(t.Transpose(t.SDPA(head(), head(), head()), 1, 2))
		x = t.View(t.Contiguous(x), b, n, dinoDim)
		return t.Linear("proj", x, dinoDim, true)
	})
	x = t.Hold(t.Add(x, scaled("ls1", attention)))
	mlp := t.Call("mlp", t.LayerNorm("norm2", x), func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		y := t.Hold(t.Linear("fc1", x, 4*dinoDim, true))
		y = t.Rebind(y, t.GELU(y))
		return t.Rebind(y, t.Linear("fc2", y, dinoDim, true))
	})
	return t.Rebind(x, t.Add(x, scaled("ls2", mlp)))
}
