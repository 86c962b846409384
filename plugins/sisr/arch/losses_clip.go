package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// The contrastive loss of Phhofm's tree (traiNNer/losses/contrastive_loss.py at 069b6d59): CLIP's features of the output, of the
// target and of the enlarged input (ViT-B/32, models/clip/modeling_clip.py of transformers 4.57.6). All of them are extracted under
// torch.no_grad, so the loss keeps nothing for backward, and has no gradient; its cost is the network's weights. Where
// transformers is missing, which the project's pyproject.toml requires, it compares the images themselves and needs less.
var _ = registerLoss(func(a *args) lossFunc {
	refuse(a.float("temperature", 0.1) <= 0, "temperature must be a positive float")
	return contrastiveLoss
}, "contrastiveloss")

// contrastiveLoss is ContrastiveLoss.forward (line 123). What it is given of the input lies in the batch already.
func contrastiveLoss(t *nn.Tape, sr, gt nn.Tensor) nn.Tensor {
	negative := t.Hold(t.Zeros(gt.DType(), gt.Shape()...))
	features := func(x nn.Tensor) nn.Tensor { return t.Hold(t.Call("clip_model", x, clipFeatures)) }
	srFeatures, gtFeatures, negativeFeatures := features(sr), features(gt), features(negative)
	unit := func(x nn.Tensor) nn.Tensor { return t.Rebind(x, t.NormalizeDim(x, -1)) }
	srFeatures, gtFeatures, negativeFeatures = unit(srFeatures), unit(gtFeatures), unit(negativeFeatures)
	similarity := func(x nn.Tensor) nn.Tensor { return t.Hold(t.View(t.SumDim(t.Mul(srFeatures, x), -1), x.Dim(0))) }
	logits := t.Hold(t.DivScalar(t.StackLast(similarity(gtFeatures), similarity(negativeFeatures))))
	return t.MulScalar(t.CrossEntropy(logits, t.Hold(t.Indices(sr.Dim(0)))))
}

// CLIP's ViT-B/32, and its text tower, which is on the card too.
const (
	clipSide, clipPatch, clipDim, clipLayers, clipOut = 224, 32, 768, 12, 512

	clipTextDim, clipTextLayers, clipWords, clipTextTokens = 512, 12, 49408, 77
	// By layer: four projections, two of the MLP, two norms; around them two embeddings, a norm and a projection.
	clipTextLayer = 4*(clipTextDim*clipTextDim+clipTextDim) + 8*clipTextDim*clipTextDim + 5*clipTextDim + 4*clipTextDim
	clipText      = clipTextLayers*clipTextLayer + (clipWords+clipTextTokens)*clipTextDim + 2*clipTextDim + clipTextDim*clipOut
)

// clipFeatures is extract_clip_features (line 109): resized and normalized with a graph, which goes with them.
func clipFeatures(t *nn.Tape, x nn.Tensor) (features nn.Tensor) {
	t.FrozenParam("logit_scale")
	t.FrozenParam("text_model", clipText)
	t.Buffer("text_model.position_ids", nn.I64, 1, clipTextTokens)
	drop := t.Dead(func() {
		if x.Dim(2) != clipSide || x.Dim(3) != clipSide {
			x = t.Hold(t.To(t.Interpolate(x, clipSide, clipSide), x.DType()))
		}
		x = t.Rebind(x, t.Sub(x, t.Zeros(x.DType(), 3, 1, 1)))
		x = t.Hold(t.To(t.MulInplace(x, t.Zeros(x.DType(), 3, 1, 1)), nn.F32))
	})
	t.NoGrad(func() {
		t.FreezeParams(func() {
			pooled := t.Call("vision_model", x, clipVision)
			features = t.Hold(t.Linear("visual_projection", pooled, clipOut, false))
		})
	})
	drop()
	return features
}

// clipVision is CLIPVisionTransformer.
func clipVision(t *nn.Tape, x nn.Tensor) nn.Tensor {
	n := x.Dim(0)
	const tokens = (clipSide / clipPatch) * (clipSide / clipPatch)
	hidden := t.Call("embeddings", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		y := t.Conv2d("patch_embedding", x, nn.Conv{Out: clipDim, K: clipPatch, Stride: clipPatch, Valid: true, NoBias: true})
		y = t.Hold(t.Transpose(t.View(y, n, clipDim, tokens), 1, 2))
		class := t.Expand(t.View(t.Param("class_embedding", clipDim), 1, 1, clipDim), n, 1, clipDim)
		y = t.Hold(t.Cat(1, class, y))
		t.Buffer("position_ids", nn.I64, 1, tokens+1)
		position := t.Copy("torch.nn.functional.embedding", t.Param("position_embedding.weight", tokens+1, clipDim), 1, tokens+1, clipDim)
		return t.Add(y, position)
	})
	hidden = t.Hold(hidden)
	hidden = t.Rebind(hidden, t.LayerNorm("pre_layrnorm", hidden))
	for i := range clipLayers {
		y := t.Call(fmt.Sprint("encoder.layers.", i), hidden, clipLayer)
		hidden = t.Assign(i == 0, hidden, y) // the first is held outside
	}
	return t.Hold(t.LayerNorm("post_layernorm", t.Select(hidden, 1)))
}

// clipLayer is CLIPEncoderLayer, with the approximate GELU of CLIP.
func clipLayer(t *nn.Tape, x nn.Tensor) nn.Tensor {
	const heads = 12
	y := t.Hold(t.LayerNorm("layer_norm1", x))
	y = t.Rebind(y, t.Call("self_attn", y, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		n, tokens := x.Dim(0), x.Dim(1)
		head := func(name string) nn.Tensor {
			y := t.Hold(t.Linear(name, x, clipDim, true))
			return t.Transpose(t.View(y, n, tokens, heads, clipDim/heads), 1, 2)
		}
		q, k, v := head("q_proj"), head("k_proj"), head("v_proj")
		y := t.Hold(t.View(t.Transpose(t.SDPA(q, k, v), 1, 2), n, tokens, clipDim))
		return t.Rebind(y, t.Linear("out_proj", y, clipDim, true))
	}))
	y = t.Rebind(y, t.Add(x, y))
	residual := y
	z := t.Hold(t.LayerNorm("layer_norm2", y))
	z = t.Rebind(z, t.Call("mlp", z, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		y := t.Hold(t.Linear("fc1", x, 4*clipDim, true))
		y = t.Rebind(y, t.Mul(y, t.Sigmoid(t.MulScalar(y))))
		return t.Linear("fc2", y, clipDim, true)
	}))
	return t.Add(residual, z)
}
