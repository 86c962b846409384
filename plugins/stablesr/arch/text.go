package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// text is the text tower of OpenCLIP (ldm/modules/encoders/modules.py).
type text struct {
	width, layers, heads, vocab, context, embed int64
	penultimate                                 bool // the last block is not run
}

// openCLIP are text towers by open_clip's model names (open_clip/model_configs).
var openCLIP = map[string]text{
	"ViT-H-14": {width: 1024, layers: 24, heads: 16, vocab: 49408, context: 77, embed: 1024},
	"ViT-L-14": {width: 768, layers: 12, heads: 12, vocab: 49408, context: 77, embed: 768},
	"ViT-B-32": {width: 512, layers: 12, heads: 8, vocab: 49408, context: 77, embed: 512},
}

// readText reads cond_stage_config of a FrozenOpenCLIPEmbedder.
func readText(c Config) (*text, error) {
	a := c.params()
	n, ok := openCLIP[a.text("arch", "ViT-H-14")]
	if !ok {
		return nil, fmt.Errorf("cond_stage_config arch %s: %w", a.text("arch", ""), ErrUnknown)
	}
	n.penultimate = a.text("layer", "last") == "penultimate"
	return &n, nil
}

func (n *text) part() string { return partText }

// forward is encode_with_transformer: (batch, context, width).
func (n *text) forward(t *nn.Tape, batch int64, _ nn.Tensor) (x nn.Tensor) {
	return t.Within("model", func() nn.Tensor {
		t.Param("token_embedding.weight", n.vocab, n.width)
		pos := t.Param("positional_embedding", n.context, n.width)
		t.Param("text_projection", n.width, n.embed)
		t.Param("logit_scale")
		x = t.Hold(t.Add(t.Zeros(nn.F32, batch, n.context, n.width), pos))
		last := int(n.layers) - 1
		for i := range int(n.layers) {
			if t.Inference() && i > 1 && i < last { // the first two are as large as any, and stand for all
				t.Alike(named("transformer.resblocks", i), named("transformer.resblocks", 1))
				continue
			}
			y := t.Call(named("transformer.resblocks", i), x, n.block)
			if i == last && n.penultimate {
				break
			}
			x = t.Rebind(x, y)
		}
		return t.Rebind(x, t.LayerNorm("ln_final", x))
	})
}

// block is ResidualAttentionBlock, with torch.nn.MultiheadAttention and its mask.
func (n *text) block(t *nn.Tape, x nn.Tensor) nn.Tensor {
	b, l := x.Dim(0), n.context
	h := t.Hold(t.LayerNorm("ln_1", x))
	t.Scope("attn", func() {
		qkv := t.Hold(t.Linear("in_proj", h, 3*n.width, true))
		parts := t.Split(qkv, 2, n.width, n.width, n.width)
		split := func(x nn.Tensor) nn.Tensor {
			return t.Hold(t.View(t.Permute(t.View(x, b, l, n.heads, n.width/n.heads), 0, 2, 1, 3), b*n.heads, l, n.width/n.heads))
		}
		q, k, v := split(parts[0]), split(parts[1]), split(parts[2])
		attn := t.Hold(t.Softmax(t.Add(t.Bmm(t.MulScalar(q), t.Transpose(k, 1, 2)), t.Zeros(nn.F32, l, l))))
		a := t.View(t.Permute(t.View(t.Bmm(attn, v), b, n.heads, l, n.width/n.heads), 0, 2, 1, 3), b, l, n.width)
		h = t.Rebind(h, t.Linear("out_proj", a, n.width, true))
	}, h)
	x = t.Hold(t.Add(x, h))
	h = t.Sequential("mlp", t.LayerNorm("ln_2", x), nn.Linear{Out: 4 * n.width}.Module(), (*nn.Tape).GELU, nn.Linear{Out: n.width}.Module())
	return t.Add(x, h)
}
