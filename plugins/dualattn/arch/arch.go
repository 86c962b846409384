// Package arch is what the dual cross-attention vision transformer (DCAL: Zhu et al., CVPR 2022) costs, as the
// re-implementation in clau_duaL_cross_attention_learning has it: its Python forward on an nn.Tape, in each of the
// states that the project went through, with a training step and a validation put together from it.
package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// A Loop is what DualCrossAttentionViT.forward does with its three streams in a training step.
type Loop int

const (
	// ThreeStreams lets the target, its pair and the pair-wise cross-attention run through all blocks, each from its own
	// state (dual_vit.py:377-394 at 9b6147a).
	ThreeStreams Loop = iota
	// LastPairs computes pair-wise cross-attention in every block and overwrites its state by the next block's, which
	// starts from the target again: only the last block's reaches a loss (dual_vit.py:383-393 at 6a4e6b6).
	LastPairs
	// Recomputed is ThreeStreams with every stream of every block under activation checkpointing (dual_vit.py:382-418
	// at 227722e).
	Recomputed
)

// A Net is a DualCrossAttentionViT by its constructor's arguments.
type Net struct {
	Height, Width, Patch int64
	Classes              int64
	Dim, Heads, Hidden   int64
	Layers, Local        int64 // num_sa_layers, num_glca_layers
	Dropout, TopK        float64
	DropPath             bool // stochastic depth: the first block's probability is zero, the others' not
	Loop                 Loop
	ExtraBlock           bool // the GLCA block carries a self-attention and a feed-forward of its own, whose result nobody reads
}

// tokens is the length of the sequence: the patches and the class token.
func (n Net) tokens() int64 { return n.Height/n.Patch*(n.Width/n.Patch) + 1 }

// outputs is what forward returns: the logits of each branch, and the features that the dictionary keeps beside them,
// which are views of whole normed sequences.
type outputs struct{ logits, features []nn.Tensor }

// forward is DualCrossAttentionViT.forward. maps are the attention maps of the last evaluation, which live until this
// forward ends, where the attribute is assigned anew.
func (n Net) forward(t *nn.Tape, x, pair nn.Tensor, maps []nn.Tensor) (out outputs) {
	paired := t.Training
	t.Scope("", func() {
		x = t.Hold(n.embed(t, x))
		if paired {
			pair = t.Hold(n.embed(t, pair))
		}
		var history []nn.Tensor
		var dead []func() // graphs that end with this function
		saX := t.Hold(t.Clone(x))
		pwcaX := saX
		if paired {
			pwcaX = t.Hold(t.Clone(x))
		}
		switch {
		case !paired:
			for i := range n.Layers {
				var y, w nn.Tensor
				t.Scope(n.block(i), func() { y, w = n.stream(t, saX, i) }, saX)
				saX = t.Rebind(saX, y)
				history = append(history, t.Hold(w))
			}
		case n.Loop == Recomputed:
			saX, pwcaX, history = n.recomputed(t, saX, pair, pwcaX)
		case n.Loop == LastPairs:
			saX, pwcaX, history, dead = n.lastPairs(t, saX, pair, pwcaX)
		default:
			saX, pwcaX, history = n.threeStreams(t, saX, pair, pwcaX)
		}
		n.head(t, &out, saX, "sa_head")
		if paired {
			n.head(t, &out, pwcaX, "sa_head")
		}
		if n.Local > 0 {
			glcaX := t.Hold(t.Clone(saX))
			for i := range n.Local {
				var drop func()
				glcaX, drop = n.glcaBlock(t, fmt.Sprint("glca_blocks.", i), glcaX, history)
				dead = append(dead, drop)
			}
			n.head(t, &out, glcaX, "glca_head")
		}
		t.Param("loss_weighting.log_vars", 3)
		for _, drop := range dead {
			drop()
		}
		t.Line("self.attention_maps = …")
	}, append(maps, x, pair)...)
	return out
}

func (n Net) block(i int64) string { return fmt.Sprint("sa_pwca_blocks.", i) }

// head is a branch's class token, of the normed sequence, and its classification head.
func (n Net) head(t *nn.Tape, out *outputs, x nn.Tensor, name string) {
	features := t.Hold(t.Select(t.LayerNorm("norm", x), 1))
	out.features = append(out.features, features)
	out.logits = append(out.logits, t.Hold(t.Linear(name, features, n.Classes, true)))
}

// embed is PatchEmbedding, with class token, positions and dropout.
func (n Net) embed(t *nn.Tape, x nn.Tensor) nn.Tensor {
	b, d := x.Dim(0), n.Dim
	x = t.Conv2d("patch_embed.proj", x, nn.Conv{Out: d, K: n.Patch, Stride: n.Patch, Valid: true})
	x = t.Hold(t.Transpose(t.View(x, b, d, -1), 1, 2))
	x = t.Rebind(x, t.Cat(1, t.Expand(t.Param("cls_token", 1, 1, d), b, 1, d), x))
	x = t.Rebind(x, t.Add(x, t.Param("pos_embed", 1, n.tokens(), d)))
	return t.Rebind(x, n.dropout(t, x))
}

func (n Net) dropout(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.Dropout(x, n.Dropout) }

// dropPath is DropPath of block i: a random factor for each sample.
func (n Net) dropPath(t *nn.Tape, x nn.Tensor, i int64) nn.Tensor {
	if !n.DropPath || i == 0 || !t.Training {
		return x
	}
	return t.Mul(x, t.Zeros(x.DType(), x.Dim(0), 1, 1))
}

// stream is one image through the self-attention of a block: x + sa(norm1(x)), then + ffn(norm2(x)). weights are the
// attention before its dropout.
func (n Net) stream(t *nn.Tape, x nn.Tensor, i int64) (y, weights nn.Tensor) {
	y, weights = n.selfAttention(t, t.LayerNorm("norm1", x))
	y = t.Hold(t.Add(x, n.dropPath(t, y, i)))
	return n.feedForward(t, y, i), weights
}

func (n Net) feedForward(t *nn.Tape, x nn.Tensor, i int64) nn.Tensor {
	return t.Add(x, n.dropPath(t, n.mlp(t, "ffn", t.LayerNorm("norm2", x)), i))
}

func (n Net) mlp(t *nn.Tape, name string, x nn.Tensor) nn.Tensor {
	return t.Sequential(name, x, nn.Linear{Out: n.Hidden}.Module(), (*nn.Tape).GELU, n.dropout,
		nn.Linear{Out: n.Dim}.Module(), n.dropout)
}

// pairs is one block of pair-wise cross-attention on the state x. held is the attention after its dropout, which the
// caller's variable keeps.
func (n Net) pairs(t *nn.Tape, x, pair nn.Tensor, i int64) (y, held nn.Tensor) {
	y, held = n.pairWise(t, t.LayerNorm("norm1", x), t.LayerNorm("norm1", pair))
	y = t.Hold(t.Add(x, n.dropPath(t, y, i)))
	return n.feedForward(t, y, i), held
}

// threeStreams is the training loop of 6b0e3ec to 9b6147a without activation checkpointing.
func (n Net) threeStreams(t *nn.Tape, saX, pair, pwcaX nn.Tensor) (sa, pwca nn.Tensor, history []nn.Tensor) {
	var underscore nn.Tensor // the variable _, which the second result of a module is assigned to
	for i := range n.Layers {
		var y, w nn.Tensor
		at := func(f func()) { t.Scope(n.block(i), f) }
		at(func() { y, w = n.stream(t, saX, i) })
		saX = t.Rebind(saX, y)
		history = append(history, t.Hold(w))

		at(func() { y, w = n.stream(t, pair, i) })
		if i > 0 {
			t.Rebind(underscore, w)
		}
		pair = t.Rebind(pair, y)

		at(func() { y, underscore = n.pairs(t, pwcaX, pair, i) })
		pwcaX = t.Rebind(pwcaX, y)
	}
	t.Hold(underscore)
	return saX, pwcaX, history
}

// lastPairs is the training loop of 6a4e6b6. The graph of a block's pair-wise cross-attention dies when the next block
// has returned, that of the pair's last self-attention with the function.
func (n Net) lastPairs(t *nn.Tape, saX, pair, pwcaX nn.Tensor) (sa, pwca nn.Tensor, history []nn.Tensor, dead []func()) {
	drop := func() {}
	var before nn.Tensor // block_outputs["pwca_weights"]
	for i := range n.Layers {
		last := i == n.Layers-1
		next := func() {}
		var y, w, pwcaY, pwcaW nn.Tensor
		at := func(f func()) { t.Scope(n.block(i), f) }
		at(func() { y, w = n.stream(t, saX, i) })
		history = append(history, t.Hold(w))
		cross := func() { at(func() { pwcaY, pwcaW = n.pairs(t, saX, pair, i) }) }
		if last {
			cross()
		} else {
			next = t.Dead(cross)
		}
		if i > 0 {
			t.Rebind(before, pwcaW)
		}
		saX, pwcaX, before = t.Rebind(saX, y), t.Rebind(pwcaX, pwcaY), pwcaW
		drop()
		drop = next

		evolve := func() { at(func() { y, _ = n.stream(t, pair, i) }) }
		if last {
			dead = append(dead, t.Dead(evolve))
		} else {
			evolve()
		}
		pair = t.Rebind(pair, y)
	}
	t.Hold(before)
	return saX, pwcaX, history, dead
}

// recomputed is the training loop of 6d5161d to 227722e with its activation checkpointing on: what it keeps are the
// inputs of each stream and the maps for the rollout. (The recomputation runs with the last block's weights, since the
// closures capture the loop's variable; that changes the gradients, not their size.)
func (n Net) recomputed(t *nn.Tape, saX, pair, pwcaX nn.Tensor) (sa, pwca nn.Tensor, history []nn.Tensor) {
	for i := range n.Layers {
		var weights nn.Tensor
		first := true
		target := func(t *nn.Tape, xs []nn.Tensor) nn.Tensor {
			y, w := n.stream(t, xs[0], i)
			if first { // the forward's own, not the recomputation's
				weights, first = w, false
			}
			return y
		}
		saX = t.Rebind(saX, t.CheckpointAll(n.block(i), target, saX))
		history = append(history, t.Hold(weights))
		pair = t.Rebind(pair, t.CheckpointAll(n.block(i), target, pair))
		pwcaX = t.Rebind(pwcaX, t.CheckpointAll(n.block(i), func(t *nn.Tape, xs []nn.Tensor) nn.Tensor {
			y, _ := n.pairs(t, xs[0], xs[1], i)
			return y
		}, pwcaX, pair))
	}
	return saX, pwcaX, history
}
