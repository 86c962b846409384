package arch

import "github.com/launch-ml/launch/core/nn"

// HiT-SNG (Zhang et al., 2024): traiNNer/archs/hit_sng_arch.py at 68629319. It is HiT-SIR with images padded to twice a
// block's window, and with windows to which what their neighbours have in common is added: see hit.
var _ = entry(func() { register(buildHiT(sng), "hit_sng") })

// ngrams is NGramWindowPartition, with two windows to look at.
func (n hit) ngrams(t *nn.Tape, x nn.Tensor, win [2]int64, heads int64) nn.Tensor {
	b, h, w, c := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	wh, ww := h/win[0], w/win[1]
	context := t.Hold(t.Call("ngram_context", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		pairs := t.Hold(t.View(t.Contiguous(t.Permute(x, 0, 3, 1, 2)), b*(c/2), 2, h, w))
		unigram := t.Conv2d("unigram_embed", pairs, nn.Conv{Out: 1, K: win[0], KW: win[1], Stride: win[0], Valid: true})
		unigram = t.Hold(t.View(unigram, b, c/2, wh, ww))
		forward, backward := t.Hold(t.Pad(unigram, 1, 1, false)), t.Hold(t.Pad(unigram, 1, 1, false)) // seq_refl_win_pad
		slide := func(x nn.Tensor) nn.Tensor {
			return t.Hold(t.Call("", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor { // sliding_window_attention
				y := t.Hold(t.Copy("einops.rearrange", x, b, 2*wh, 2*ww, c/2))
				y = t.Rebind(y, windows(t, y, 2))
				y = t.Hold(t.Call("ngram_attn", y, func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.attention(t, x, nn.Tensor{}, 2, heads) }))
				y = t.Rebind(y, windowReverse(t, y, 2, b, 2*wh, 2*ww))
				return t.AvgPoolBy(t.Permute(y, 0, 3, 1, 2), 2)
			}))
		}
		y := t.Hold(t.Cat(1, slide(forward), slide(backward)))
		y = t.Rebind(y, t.Conv2d("merge", y, conv(c, 1)))
		return t.Contiguous(t.Permute(y, 0, 2, 3, 1))
	}))
	y := t.Hold(t.Contiguous(t.Permute(t.View(x, b, wh, win[0], ww, win[1], c), 0, 1, 3, 2, 4, 5)))
	y = t.AddInplace(y, t.View(context, b, wh, ww, 1, 1, c))
	return t.View(y, -1, win[0]*win[1], c)
}
