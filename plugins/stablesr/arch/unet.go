package arch

import (
	"fmt"
	"slices"

	"github.com/launch-ml/launch/core/nn"
)

// unet is UNetModelDualcondV2 (openaimodel.py:958), its edge forks (unet_with_edge.py), and UNetModel (:627), which has
// neither SPADE nor a linear projection in its transformers.
type unet struct {
	in, channels, out int64
	resBlocks         []int64 // by level
	attention         []int64 // attention_resolutions
	dropout           float64
	mult              []int64
	convResample      bool
	heads, headDim    int64 // -1 where the other decides
	headsUp           int64
	scaleShift        bool
	resUpdown         bool
	spatial           bool
	depth, contextDim int64
	legacy            bool
	noSelf            []any // disable_self_attentions, by level
	attentionBlocks   []int64
	noMiddleSelf      bool
	linear            bool
	semb              int64 // 0 without SPADE
	checkpoint        bool
	kept              bool // nothing is recomputed, whatever asks for it
	blocks            bool // activation checkpointing of the transformers' blocks
	edge              *edge
}

// readUNet reads the section unet_config. code is what the checkout's source says.
func readUNet(c Config, code Code) (*unet, error) {
	a := c.params()
	n := &unet{
		in: a.size("in_channels", 4), channels: a.size("model_channels", 320), out: a.size("out_channels", 4),
		attention: a.sizes("attention_resolutions"), dropout: a.float("dropout", 0), mult: a.sizes("channel_mult", 1, 2, 4, 8),
		convResample: a.bool("conv_resample", true), heads: a.int("num_heads", -1), headDim: a.int("num_head_channels", -1),
		headsUp: a.int("num_heads_upsample", -1), scaleShift: a.bool("use_scale_shift_norm", false),
		resUpdown: a.bool("resblock_updown", false), spatial: a.bool("use_spatial_transformer", false),
		depth: a.size("transformer_depth", 1), legacy: a.bool("legacy", true), noMiddleSelf: a.bool("disable_middle_self_attn", false),
		linear: a.bool("use_linear_in_transformer", false), checkpoint: a.bool("use_checkpoint", false),
	}
	if n.spatial {
		if dims := a.sizes("context_dim"); len(dims) > 0 {
			n.contextDim = dims[0]
		}
	}
	if n.headsUp == -1 {
		n.headsUp = n.heads
	}
	n.resBlocks = a.sizes("num_res_blocks", 2)
	for len(n.resBlocks) == 1 && len(n.resBlocks) < len(n.mult) {
		n.resBlocks = slices.Repeat(n.resBlocks, len(n.mult))
	}
	n.noSelf, _ = a.values["disable_self_attentions"].([]any)
	n.attentionBlocks = a.sizes("num_attention_blocks")
	n.blocks = n.checkpoint
	switch c.Target() {
	case "UNetModelDualcondV2":
		n.semb = a.size("semb_channels", 256)
	case "UNetModelDualcondV2WithEdge":
		n.semb = a.size("semb_channels", 256)
		if a.bool("use_edge_processing", false) {
			if code.Edge == NoEdge {
				return nil, fmt.Errorf("the edge processor of this checkout: %w", ErrUnknown)
			}
			n.edge = &edge{generation: code.Edge, in: a.size("edge_input_channels", 3)}
		}
	case "UNetModel": // whose SpatialTransformer mostly is not told of use_checkpoint
		n.blocks = code.Blocks == BlocksAlways || code.Blocks == BlocksAsked && n.checkpoint
	default:
		return nil, c.unknown("unet_config")
	}
	if n.kept = code.Kept; n.kept {
		n.checkpoint, n.blocks = false, false
	}
	switch {
	case a.err != nil:
		return nil, fmt.Errorf("unet_config: %w", a.err)
	case len(n.resBlocks) != len(n.mult):
		return nil, fmt.Errorf("unet_config: num_res_blocks has %d levels and channel_mult %d", len(n.resBlocks), len(n.mult))
	case n.heads == -1 && n.headDim == -1:
		return nil, fmt.Errorf("unet_config: either num_heads or num_head_channels has to be set")
	case a.values["num_classes"] != nil, a.values["n_embed"] != nil, a.int("dims", 2) != 2, a.bool("use_fp16", false):
		return nil, fmt.Errorf("unet_config with num_classes, n_embed, dims or use_fp16: %w", ErrUnknown)
	case n.channels%32 != 0:
		return nil, fmt.Errorf("unet_config: model_channels %d is no multiple of the 32 groups of its norms", n.channels)
	}
	return n, nil
}

// forward is UNetModelDualcondV2.forward. cond are structcond's results by their width; edgeMap is the zero Tensor without
// edge processing.
func (n *unet) forward(t *nn.Tape, s style, x, context nn.Tensor, cond map[int64]nn.Tensor, edgeMap nn.Tensor) (out nn.Tensor) {
	s.checkpoint, s.kept = n.checkpoint, n.kept
	if n.edge != nil && edgeMap.Dims() > 0 {
		x = n.edge.fuse(t, s, x, edgeMap, n.in)
	}
	t.Scope("", func() {
		var emb nn.Tensor
		s.freeze(t, func() { emb = t.Hold(timeEmbed(t, x.Dim(0), n.channels)) })
		w := &walk{n: n, t: t, style: s, emb: emb, context: context, cond: cond, heads: n.heads, ds: 1}
		h := t.Hold(x)
		var hs []nn.Tensor
		push := func() { hs = append(hs, t.Hold(h)) }

		s.freeze(t, func() { h = t.Rebind(h, t.Conv2d("input_blocks.0.0", h, conv(n.channels, 3))) })
		push()
		block := 1
		for level, mult := range n.mult {
			for nr := range n.resBlocks[level] {
				w.at, w.k = named("input_blocks", block), 0
				h = t.Rebind(h, w.res(h, mult*n.channels, 0))
				h = t.Rebind(h, w.attend(h, level, nr, n.heads))
				push()
				block++
			}
			if level != len(n.mult)-1 {
				w.at, w.k = named("input_blocks", block), 0
				h = t.Rebind(h, w.down(h))
				push()
				block++
				w.ds *= 2
			}
		}

		w.at, w.k = "middle_block", 0
		ch := h.Dim(1)
		h = t.Rebind(h, w.res(h, ch, 0))
		h = t.Rebind(h, w.attention(h, n.noMiddleSelf, w.heads))
		h = t.Rebind(h, w.res(h, ch, 0))

		block = 0
		for level := len(n.mult) - 1; level >= 0; level-- {
			for i := range n.resBlocks[level] + 1 {
				w.at, w.k = named("output_blocks", block), 0
				skip := hs[len(hs)-1]
				hs = hs[:len(hs)-1]
				h = t.Rebind(h, t.Cat(1, h, skip))
				h = t.Rebind(h, w.res(h, n.mult[level]*n.channels, 0))
				h = t.Rebind(h, w.attend(h, level, i, n.headsUp))
				if level > 0 && i == n.resBlocks[level] {
					h = t.Rebind(h, w.up(h))
					w.ds /= 2
				}
				block++
			}
		}
		s.freeze(t, func() {
			out = t.Sequential("out", h, func(t *nn.Tape, x nn.Tensor) nn.Tensor { return normalization(t, "", x) },
				(*nn.Tape).SiLU, conv(n.out, 3).Module())
		})
	}, x, context)
	return out
}

// walk builds the blocks in the constructor's order, whose variables go on from block to block.
type walk struct {
	style
	n       *unet
	t       *nn.Tape
	emb     nn.Tensor
	context nn.Tensor
	cond    map[int64]nn.Tensor
	at      string // the TimestepEmbedSequential
	k       int    // the next of its layers
	heads   int64  // num_heads, which the constructor overwrites
	ds      int64
}

func (w *walk) next() string {
	w.k++
	return named(w.at, w.k-1)
}

func (w *walk) res(h nn.Tensor, out int64, updown int) nn.Tensor {
	b := resBlock{style: w.style, out: out, dropout: w.n.dropout, scaleShift: w.n.scaleShift, updown: updown}
	if w.n.semb > 0 {
		b.cond = w.cond
	}
	return b.call(w.t, w.next(), h, w.emb)
}

// attend is the attention behind a residual block, if its level has one.
func (w *walk) attend(h nn.Tensor, level int, i, heads int64) nn.Tensor {
	n := w.n
	if !slices.Contains(n.attention, w.ds) || len(n.attentionBlocks) > 0 && i >= n.attentionBlocks[min(level, len(n.attentionBlocks)-1)] {
		return h
	}
	noSelf := false
	if level < len(n.noSelf) {
		noSelf, _ = n.noSelf[level].(bool)
	}
	return w.attention(h, noSelf, heads)
}

func (w *walk) attention(h nn.Tensor, noSelf bool, heads int64) nn.Tensor {
	n, ch := w.n, h.Dim(1)
	dim := n.headDim
	if dim == -1 {
		dim = ch / w.heads
	} else {
		w.heads = ch / dim
	}
	if n.legacy {
		dim = n.headDim
		if n.spatial {
			dim = ch / w.heads
		}
	}
	if !n.spatial {
		if dim != -1 {
			heads = ch / dim
		}
		return w.attentionBlock(w.t, w.next(), h, heads)
	}
	tr := transformer{style: w.style, heads: w.heads, dimHead: dim, depth: n.depth, contextDim: n.contextDim,
		linear: n.linear, noSelf: noSelf, checkpoints: n.blocks}
	return tr.call(w.t, w.next(), h, w.context)
}

func (w *walk) down(h nn.Tensor) (y nn.Tensor) {
	if w.n.resUpdown {
		return w.res(h, h.Dim(1), -1)
	}
	w.freeze(w.t, func() {
		if w.n.convResample {
			y = w.t.Conv2d(w.next()+".op", h, nn.Conv{Out: h.Dim(1), K: 3, Stride: 2})
		} else {
			w.next()
			y = w.t.AvgPool2d(h, 2, 2, 0)
		}
	})
	return y
}

func (w *walk) up(h nn.Tensor) (y nn.Tensor) {
	if w.n.resUpdown {
		return w.res(h, h.Dim(1), 1)
	}
	w.freeze(w.t, func() {
		y = w.t.Call(w.next(), h, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			x = t.Rebind(x, t.Upsample(x, 2))
			if w.n.convResample {
				x = t.Conv2d("conv", x, conv(x.Dim(1), 3))
			}
			return x
		})
	})
	return y
}

// encoder is EncoderUNetModelWT, the structure encoder (openaimodel.py:1341).
type encoder struct {
	unet
}

func readEncoder(c Config) (*encoder, error) {
	if c.Target() != "EncoderUNetModelWT" {
		return nil, c.unknown("structcond_stage_config")
	}
	a := c.params()
	n := &encoder{unet{
		in: a.size("in_channels", 4), channels: a.size("model_channels", 256), out: a.size("out_channels", 256),
		attention: a.sizes("attention_resolutions"), dropout: a.float("dropout", 0), mult: a.sizes("channel_mult", 1, 2, 4, 8),
		convResample: a.bool("conv_resample", true), heads: a.int("num_heads", 1), headDim: a.int("num_head_channels", -1),
		scaleShift: a.bool("use_scale_shift_norm", false), resUpdown: a.bool("resblock_updown", false), checkpoint: a.bool("use_checkpoint", false),
	}}
	n.resBlocks = slices.Repeat([]int64{a.size("num_res_blocks", 2)}, len(n.mult))
	if a.err != nil {
		return nil, fmt.Errorf("structcond_stage_config: %w", a.err)
	}
	if n.channels%32 != 0 {
		return nil, fmt.Errorf("structcond_stage_config: model_channels %d is no multiple of the 32 groups of its norms", n.channels)
	}
	return n, nil
}

// forward returns the conditions by their width.
func (n *encoder) forward(t *nn.Tape, s style, x nn.Tensor) map[int64]nn.Tensor {
	s.checkpoint = n.checkpoint
	results := map[int64]nn.Tensor{}
	t.Scope("", func() {
		emb := t.Hold(timeEmbed(t, x.Dim(0), n.channels))
		w := &walk{n: &n.unet, t: t, style: s, emb: emb, heads: n.heads, ds: 1}
		heads := func(ch int64) int64 {
			if n.headDim == -1 {
				return n.heads
			}
			return ch / n.headDim
		}
		h := t.Hold(t.Conv2d("input_blocks.0.0", x, conv(n.channels, 3)))
		var resultList []nn.Tensor
		block := 1
		for level, mult := range n.mult {
			for range n.resBlocks[level] {
				w.at, w.k = named("input_blocks", block), 0
				h = t.Rebind(h, w.res(h, mult*n.channels, 0))
				if slices.Contains(n.attention, w.ds) {
					h = t.Rebind(h, s.attentionBlock(t, w.next(), h, heads(h.Dim(1))))
				}
				block++
			}
			if level != len(n.mult)-1 {
				resultList = append(resultList, t.Hold(h))
				w.at, w.k = named("input_blocks", block), 0
				h = t.Rebind(h, w.down(h))
				block++
				w.ds *= 2
			}
		}
		w.at, w.k = "middle_block", 0
		h = t.Rebind(h, w.res(h, h.Dim(1), 0))
		h = t.Rebind(h, s.attentionBlock(t, w.next(), h, heads(h.Dim(1))))
		h = t.Rebind(h, w.res(h, h.Dim(1), 0))
		resultList = append(resultList, h)
		for i, r := range resultList {
			w.at, w.k = "fea_tran", i
			results[r.Dim(3)] = w.res(r, n.out, 0)
		}
	}, x)
	return results
}
