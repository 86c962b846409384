package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// A condition is cond_stage_model, as far as the UNet's attention looks at it.
type condition interface {
	// forward is encode: (batch, tokens, width). x is the image that it sees, or the zero Tensor.
	forward(t *nn.Tape, batch int64, x nn.Tensor) nn.Tensor
	// part is the name of its lines.
	part() string
}

// What stands in place of the section cond_stage_config.
const (
	unconditional = "__is_unconditional__"
	firstStage    = "__is_first_stage__"
)

// readCross reads cond_stage_config of a model whose attention looks at the condition; nil without one.
func readCross(v any) (condition, error) {
	if v == unconditional {
		return nil, nil
	}
	c := section(v)
	switch c.Target() {
	case "FrozenOpenCLIPEmbedder":
		return readText(c)
	case "FrozenCLIPEmbedder":
		return readClipText(c)
	case "BERTEmbedder":
		return readBERT(c)
	case "ClassEmbedder":
		a := c.params()
		n := &classes{n: a.size("n_classes", 1000), dim: a.size("embed_dim", 1)}
		return n, a.err
	case "FrozenCLIPImageEmbedder": // of justinpinkney's and zero123's; CompVis's FrozenClipImageEmbedder has no encode
		a := c.params()
		if m := a.text("model", "ViT-L/14"); m != "ViT-L/14" {
			return nil, fmt.Errorf("cond_stage_config model %s: %w", m, ErrUnknown)
		}
		return newClipImage(), nil
	}
	return nil, c.unknown("cond_stage_config")
}

// classes is ClassEmbedder (ldm/modules/encoders/modules.py:21 at a506df57).
type classes struct{ n, dim int64 }

func (n *classes) part() string { return partCond }

func (n *classes) forward(t *nn.Tape, batch int64, _ nn.Tensor) nn.Tensor {
	return t.Lookup(t.Param("embedding.weight", n.n, n.dim), t.Indices(batch), batch, 1, n.dim)
}

// bert is BERTEmbedder: a TransformerWrapper around an Encoder (ldm/modules/encoders/modules.py:80 and
// ldm/modules/x_transformer.py at a506df57).
type bert struct {
	dim, depth, vocab, length int64
	dropout                   float64
	learned                   int64 // vectors that a manager of embeddings puts in place of words; 0 without one
}

// The Encoder's defaults (x_transformer.py:13, :366), which no recipe can change through BERTEmbedder.
const (
	bertHeads   = 8
	bertDimHead = 64
)

func readBERT(c Config) (*bert, error) {
	a := c.params()
	n := &bert{dim: a.size("n_embed", 1), depth: a.size("n_layer", 1), vocab: a.size("vocab_size", 30522),
		length: a.size("max_seq_len", 77), dropout: a.float("embedding_dropout", 0)}
	if a.err != nil {
		return nil, fmt.Errorf("cond_stage_config: %w", a.err)
	}
	return n, nil
}

func (n *bert) part() string { return partText }

// forward is TransformerWrapper.forward (x_transformer.py:596) with return_embeddings.
func (n *bert) forward(t *nn.Tape, batch int64, _ nn.Tensor) (x nn.Tensor) {
	t.Scope("transformer", func() {
		tokens := t.Hold(t.Indices(batch * n.length))
		x = t.Hold(t.Lookup(t.Param("token_emb.weight", n.vocab, n.dim), tokens, batch, n.length, n.dim))
		x = learned(t, x, n.learned)
		x = t.Rebind(x, t.Add(x, t.Lookup(t.Param("pos_emb.emb.weight", n.length, n.dim), t.Indices(n.length), 1, n.length,
			n.dim)))
		x = t.Rebind(x, t.Dropout(x, n.dropout))
		t.Scope("attn_layers", func() {
			for i := range int(n.depth) {
				t.Hold(x) // hiddens
				at := named("layers", 2*i)
				x = t.Rebind(x, t.Add(n.attention(t, at+".1", t.LayerNorm(at+".0", x)), x))
				at = named("layers", 2*i+1)
				out := t.LayerNorm(at+".0", x)
				out = t.Sequential(at+".1.net", out, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
					return t.GELU(t.Linear("0", x,
						4*n.dim, true))
				},
					func(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.Dropout(x, 0) }, nn.Linear{Out: n.dim}.Module())
				x = t.Rebind(x, t.Add(out, x))
			}
		}, x)
		x = t.Rebind(x, t.LayerNorm("norm", x))
		// trained by name, and never by a gradient: only embeddings are asked for
		t.FrozenParam("to_logits.weight", n.vocab, n.dim)
		t.FrozenParam("to_logits.bias", n.vocab)
	})
	return x
}

// attention is Attention.forward (x_transformer.py:275) without a mask.
func (n *bert) attention(t *nn.Tape, name string, x nn.Tensor) (out nn.Tensor) {
	const inner = int64(bertHeads * bertDimHead)
	return t.Within(name, func() nn.Tensor {
		b, l := x.Dim(0), x.Dim(1)
		split := func(x nn.Tensor) nn.Tensor { // 'b n (h d) -> b h n d'
			return t.Hold(t.Permute(t.View(x, b, l, bertHeads, bertDimHead), 0, 2, 1, 3))
		}
		q, k, v := split(t.Linear("to_q", x, inner, false)), split(t.Linear("to_k", x, inner, false)),
			split(t.Linear("to_v", x, inner, false))
		flat := func(x nn.Tensor) nn.Tensor { return t.View(x, b*bertHeads, l, x.Dim(3)) } // which einsum's reshape copies
		dots := t.Hold(t.MulScalar(t.View(t.Bmm(flat(q), t.Transpose(flat(k), 1, 2)), b, bertHeads, l, l)))
		attn := t.Hold(t.Softmax(dots))
		out = t.View(t.Bmm(flat(attn), flat(v)), b, bertHeads, l, bertDimHead)
		out = t.View(t.Permute(out, 0, 2, 1, 3), b, l, inner)
		return t.Linear("to_out", out, n.dim, true)
	}, x)
}

// learned is EmbeddingManager.forward (ldm/modules/embedding_manager.py:88 of textual_inversion at 424192de): vectors
// that are parameters in place of a text's own.
func learned(t *nn.Tape, x nn.Tensor, vectors int64) nn.Tensor {
	if vectors == 0 {
		return x
	}
	t.Part(partWords, func() {
		t.Param("string_to_param_dict", vectors, x.Dim(2))
	})
	if t.Inference() {
		return x
	}
	return t.RequireGrad(x)
}
