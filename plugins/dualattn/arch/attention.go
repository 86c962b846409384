package arch

import (
	"slices"

	"github.com/launch-ml/launch/core/nn"
)

// heads is x.reshape(b, n, k, heads, dim/heads).permute(2, 0, 3, 1, 4).unbind(0) of a projection to k·dim: views of
// (b, heads, n, dim/heads). Backward stacks their gradients once (derivatives.yaml, unbind.int).
func (n Net) heads(t *nn.Tape, x nn.Tensor, k int64) []nn.Tensor {
	b, tokens, hd := x.Dim(0), x.Dim(1), n.Dim/n.Heads
	x = t.Permute(t.View(x, b, tokens, k, n.Heads, hd), 2, 0, 3, 1, 4)
	sizes := slices.Repeat([]int64{1}, int(k))
	ys := t.Split(x, 0, sizes...)
	for i, y := range ys {
		ys[i] = t.View(y, b, n.Heads, tokens, hd)
	}
	return ys
}

// attend is softmax(q·kᵀ/√d)·v, with dropout on the attention. clean is the attention before the dropout, dropped after.
func (n Net) attend(t *nn.Tape, q, k, v nn.Tensor) (x, clean, dropped nn.Tensor) {
	b, tokens := q.Dim(0), q.Dim(2)
	t.Line("attn = (q @ k.transpose(-2, -1)) * self.scale")
	attn := t.Hold(t.MulScalar(t.Matmul(q, t.Transpose(k, -2, -1))))
	t.Line("attn_weights = attn.softmax(dim=-1)")
	clean = t.Hold(t.Softmax(attn))
	dropped = t.Hold(n.dropout(t, clean))
	t.Line("x = attn_weights @ v")
	x = t.Reshape(t.Transpose(t.Matmul(dropped, v), 1, 2), b, tokens, n.Dim)
	return x, clean, dropped
}

// selfAttention is SelfAttention.forward (attention_modules.py:63-86 at 9b6147a).
func (n Net) selfAttention(t *nn.Tape, x nn.Tensor) (y, weights nn.Tensor) {
	t.Scope("sa", func() {
		qkv := n.heads(t, t.Linear("qkv", x, 3*n.Dim, true), 3)
		t.HoldAll(qkv...)
		y, weights, _ = n.attend(t, qkv[0], qkv[1], qkv[2])
		y = n.dropout(t, t.Linear("proj", t.Hold(y), n.Dim, true))
	}, x)
	return y, weights
}

// pairWise is PairWiseCrossAttention.forward: x1 attends to the keys and values of both images, by the weights of the
// block's self-attention.
func (n Net) pairWise(t *nn.Tape, x1, x2 nn.Tensor) (y, weights nn.Tensor) {
	t.Scope("sa", func() {
		qkv1 := n.heads(t, t.Linear("qkv", x1, 3*n.Dim, true), 3)
		qkv2 := n.heads(t, t.Linear("qkv", x2, 3*n.Dim, true), 3)
		for i := range qkv1 {
			t.Hold(qkv1[i])
			t.Hold(qkv2[i])
		}
		// cat writes a contiguous tensor whatever its inputs' strides; the tape's follows its first input.
		k := t.Hold(t.Cat(2, t.Contiguous(qkv1[1]), qkv2[1]))
		v := t.Hold(t.Cat(2, t.Contiguous(qkv1[2]), qkv2[2]))
		y, _, weights = n.attend(t, qkv1[0], k, v)
		y = n.dropout(t, t.Linear("proj", t.Hold(y), n.Dim, true))
	}, x1, x2)
	return y, weights
}

// glcaBlock is DualCrossAttentionBlock.forward. drop ends the graph of a self-attention and a feed-forward of its own,
// which the versions before 227722e compute and never use.
func (n Net) glcaBlock(t *nn.Tape, name string, x nn.Tensor, history []nn.Tensor) (y nn.Tensor, drop func()) {
	drop = func() {}
	t.Scope(name, func() {
		if n.ExtraBlock {
			drop = t.Dead(func() { t.Part(unused, func() { n.stream(t, x, 0) }) })
		}
		in := t.Hold(t.LayerNorm("norm_glca", x))
		out, weights := n.glca(t, in, history)
		t.Hold(out)
		t.Hold(weights)
		y = t.Hold(t.Add(x, n.dropPath(t, out, 1)))
		y = t.Add(y, n.dropPath(t, n.mlp(t, "ffn", t.LayerNorm("norm_ffn", y)), 1))
	}, x)
	return t.Hold(y), drop
}

// unused is the part of the parameters that no loss reaches: they have neither gradients nor optimizer states.
const unused = "model, unused"

// glca is GlobalLocalCrossAttention.forward: the class token and the patches of the highest rollout attend to all.
// weights are that attention after its dropout, which the block's variables keep.
func (n Net) glca(t *nn.Tape, x nn.Tensor, history []nn.Tensor) (y, weights nn.Tensor) {
	t.Scope("glca", func() {
		b, tokens := x.Dim(0), x.Dim(1)
		scores := t.Hold(n.rollout(t, history))
		k := t.Hold(n.heads(t, t.Linear("k_proj", x, n.Dim, true), 1)[0])
		v := t.Hold(n.heads(t, t.Linear("v_proj", x, n.Dim, true), 1)[0])

		selected := max(1, int64(float64(tokens-1)*n.TopK)) + 1
		t.Copy("torch.topk", scores, b, selected-1)
		t.Hold(t.Zeros(nn.I64, b, selected))
		local := t.Hold(t.Copy("queries[batch_indices, selected_indices]", x, b, selected, n.Dim))
		q := t.Hold(n.heads(t, t.Linear("q_proj", local, n.Dim, true), 1)[0])

		var out nn.Tensor
		out, _, weights = n.attend(t, q, k, v)
		out = t.Hold(n.dropout(t, t.Linear("proj", t.Hold(out), n.Dim, true)))
		y = t.WriteSlice(t.Zeros(out.DType(), b, tokens, n.Dim), out, false) // output.scatter_(1, index, out)
	}, x)
	return y, weights
}

// rollout is AttentionRollout.rollout: the product over the layers of the maps' means over heads, with the residual.
func (n Net) rollout(t *nn.Tape, history []nn.Tensor) (scores nn.Tensor) {
	t.Scope("", func() {
		t.NoGrad(func() {
			b, tokens := history[0].Dim(0), n.tokens()
			result := t.Expand(t.Hold(t.Zeros(nn.F32, 1, tokens, tokens)), b, tokens, tokens)
			var fused, eye nn.Tensor
			for i, w := range history {
				mean := t.View(t.MeanDim(w, 1), b, tokens, tokens)
				one := t.Zeros(nn.F32, 1, tokens, tokens)
				if i == 0 {
					fused, eye = t.Hold(mean), t.Hold(one)
				} else {
					fused, eye = t.Rebind(fused, mean), t.Rebind(eye, one)
				}
				fused = t.Rebind(fused, t.DivScalar(t.Add(fused, eye)))
				fused = t.Rebind(fused, t.Div(fused, t.SumDim(fused, -1)))
				product := t.Matmul(fused, result)
				result = t.Assign(i == 0, result, product)
			}
			scores = t.Narrow(t.Select(result, 1), 1, tokens-1)
		})
	})
	return scores
}
