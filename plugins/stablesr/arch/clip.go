package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// clipText is FrozenCLIPEmbedder's CLIPTextModel of openai/clip-vit-large-patch14
// (transformers/models/clip/modeling_clip.py at v4.19.2).
type clipText struct {
	width, layers, heads, vocab, length int64
	learned                             int64 // vectors that a manager of embeddings puts in place of words; 0 without one
}

func readClipText(c Config) (*clipText, error) {
	a := c.params()
	if v := a.text("version", "openai/clip-vit-large-patch14"); v != "openai/clip-vit-large-patch14" {
		return nil, fmt.Errorf("cond_stage_config version %s: %w", v, ErrUnknown)
	}
	// CLIPTextConfig of that checkpoint. max_length only cuts the tokens, which are 77 wherever a recipe does not say.
	n := &clipText{width: 768, layers: 12, heads: 12, vocab: 49408, length: a.size("max_length", 77)}
	if n.length > 77 {
		return nil, fmt.Errorf("cond_stage_config max_length %d: the model has 77 positions", n.length)
	}
	return n, a.err
}

func (n *clipText) part() string { return partText }

// forward is CLIPTextTransformer.forward (:670).
func (n *clipText) forward(t *nn.Tape, batch int64, _ nn.Tensor) (x nn.Tensor) {
	return t.Within("transformer.text_model", func() nn.Tensor {
		tokens := t.Hold(t.Indices(batch * n.length))
		x = t.Lookup(t.Param("embeddings.token_embedding.weight", n.vocab, n.width), tokens, batch, n.length, n.width)
		x = learned(t, x, n.learned)
		pos := t.Lookup(t.Param("embeddings.position_embedding.weight", 77, n.width), t.Indices(n.length), 1, n.length,
			n.width)
		x = t.Hold(t.Add(x, pos))
		mask := t.Hold(t.Zeros(nn.F32, batch, 1, n.length, n.length)) // causal_attention_mask
		for i := range int(n.layers) {
			x = t.Rebind(x, t.Call(named("encoder.layers", i), x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
				return n.layer(t,
					x, mask)
			}))
		}
		return t.Rebind(x, t.LayerNorm("final_layer_norm", x))
	})
}

// layer is CLIPEncoderLayer.forward (:311).
func (n *clipText) layer(t *nn.Tape, residual, mask nn.Tensor) nn.Tensor {
	x := t.Hold(t.Add(residual, n.attention(t, t.LayerNorm("layer_norm1", residual), mask)))
	return t.Add(x, quickMLP(t, "mlp.fc1", "mlp.fc2", t.LayerNorm("layer_norm2", x)))
}

// attention is CLIPAttention.forward (:216).
func (n *clipText) attention(t *nn.Tape, x, mask nn.Tensor) (out nn.Tensor) {
	b, l, dim := x.Dim(0), x.Dim(1), n.width/n.heads
	return t.Within("self_attn", func() nn.Tensor {
		shape := func(x nn.Tensor) nn.Tensor { // _shape
			return t.Contiguous(t.Permute(t.View(x, b, l, n.heads, dim), 0, 2, 1, 3))
		}
		q := t.Hold(t.MulScalar(t.Linear("q_proj", x, n.width, true)))
		k := t.Hold(shape(t.Linear("k_proj", x, n.width, true)))
		v := t.Hold(shape(t.Linear("v_proj", x, n.width, true)))
		flat := func(x nn.Tensor) nn.Tensor { return t.View(x, b*n.heads, l, dim) }
		q = t.Rebind(q, flat(shape(q)))
		weights := t.Hold(t.Bmm(q, t.Transpose(flat(k), 1, 2)))
		weights = t.Rebind(weights, t.View(t.Add(t.View(weights, b, n.heads, l, l), mask), b*n.heads, l, l))
		weights = t.Rebind(weights, t.Softmax(weights))
		out = t.Hold(t.View(t.Bmm(weights, flat(v)), b, n.heads, l, dim))
		return t.Linear("out_proj", t.View(t.Permute(out, 0, 2, 1, 3), b, l, n.width), n.width, true)
	}, x, mask)
}

// quickMLP is two Linear with x*sigmoid(1.702*x) between them: QuickGELU.
func quickMLP(t *nn.Tape, first, second string, x nn.Tensor) nn.Tensor {
	width := x.Dim(2)
	return t.Within("", func() nn.Tensor {
		h := t.Hold(t.Linear(first, x, 4*width, true))
		h = t.Rebind(h, t.Mul(h, t.Sigmoid(t.MulScalar(h))))
		return t.Linear(second, h, width, true)
	}, x)
}

// clipImage is FrozenCLIPImageEmbedder: OpenAI's CLIP without its text's transformer (clip/model.py of openai/CLIP at
// d05afc43, ldm/modules/encoders/modules.py:343 of zero123 at f426883b). It is ViT-L/14, at 224.
type clipImage struct{ width, layers, heads, patch, side, embed, vocab, length int64 }

func newClipImage() *clipImage {
	return &clipImage{width: 1024, layers: 24, heads: 16, patch: 14, side: 224, embed: 768, vocab: 49408, length: 77}
}

func (n *clipImage) part() string { return partImage }

// forward is encode: (batch, 1, embed).
func (n *clipImage) forward(t *nn.Tape, batch int64, image nn.Tensor) (c nn.Tensor) {
	t.Scope("model", func() {
		// What is left of the text's half (model.py:283-291), which no image looks at.
		t.Param("token_embedding.weight", n.vocab, n.embed)
		t.Param("positional_embedding", n.length, n.embed)
		t.Param("ln_final.weight", n.embed)
		t.Param("ln_final.bias", n.embed)
		t.Param("text_projection", n.embed, n.embed)
		t.Param("logit_scale")

		x := t.Hold(t.DivScalar(t.AddScalar(t.Hold(t.Interpolate(image, n.side, n.side))))) // preprocess
		mean, std := t.Zeros(nn.F32, 1, 3, 1, 1), t.Zeros(nn.F32, 1, 3, 1, 1)
		x = t.Rebind(x, t.Div(t.Sub(x, mean), std))
		t.Scope("visual", func() { c = n.visual(t, batch, x) }, x)
	}, image)
	return t.View(c, batch, 1, n.embed)
}

// visual is VisionTransformer.forward (model.py:223).
func (n *clipImage) visual(t *nn.Tape, batch int64, x nn.Tensor) nn.Tensor {
	x = t.Hold(t.Conv2d("conv1", x, nn.Conv{Out: n.width, K: n.patch, Stride: n.patch, Valid: true, NoBias: true}))
	grid := x.Dim(2) * x.Dim(3)
	x = t.Rebind(x, t.Permute(t.View(x, batch, n.width, grid), 0, 2, 1))
	class := t.Expand(t.View(t.Param("class_embedding", n.width), 1, 1, n.width), batch, 1, n.width)
	x = t.Rebind(x, t.Cat(1, class, x))
	x = t.Rebind(x, t.Add(x, t.Param("positional_embedding", grid+1, n.width)))
	x = t.Rebind(x, t.LayerNorm("ln_pre", x))
	for i := range int(n.layers) {
		if t.Inference() && i > 1 { // the first two are as large as any
			t.Alike(named("transformer.resblocks", i), named("transformer.resblocks", 1))
			continue
		}
		x = t.Rebind(x, t.Call(named("transformer.resblocks", i), x, n.block))
	}
	x = t.Rebind(x, t.LayerNorm("ln_post", t.Narrow(x, 1, 1)))
	return t.Matmul(t.View(x, batch, n.width), t.Param("proj", n.width, n.embed))
}

// block is ResidualAttentionBlock.forward (model.py:188), whose attention PyTorch fuses from 2.0 on and computed whole
// before: that is counted, which is the more.
func (n *clipImage) block(t *nn.Tape, x nn.Tensor) nn.Tensor {
	b, l, dim := x.Dim(0), x.Dim(1), n.width/n.heads
	h := t.Hold(t.LayerNorm("ln_1", x))
	t.Scope("attn", func() {
		qkv := t.Hold(t.Linear("in_proj", h, 3*n.width, true))
		parts := t.Split(qkv, 2, n.width, n.width, n.width)
		split := func(x nn.Tensor) nn.Tensor {
			return t.Hold(t.View(t.Permute(t.View(x, b, l, n.heads, dim), 0, 2, 1, 3), b*n.heads, l, dim))
		}
		q, k, v := split(parts[0]), split(parts[1]), split(parts[2])
		attn := t.Hold(t.Softmax(t.Bmm(t.MulScalar(q), t.Transpose(k, 1, 2))))
		a := t.View(t.Permute(t.View(t.Bmm(attn, v), b, n.heads, l, dim), 0, 2, 1, 3), b, l, n.width)
		h = t.Rebind(h, t.Linear("out_proj", a, n.width, true))
	}, h)
	x = t.Hold(t.Add(x, h))
	return t.Add(x, quickMLP(t, "mlp.c_fc", "mlp.c_proj", t.LayerNorm("ln_2", x)))
}
