package arch

import (
	"fmt"
	"slices"

	"github.com/launch-ml/launch/core/nn"
)

// SRFormer (Zhou et al., 2023), as traiNNer-redux builds it from spandrel_extra_arches 0.2.0
// (architectures/SRFormer/__arch/SRFormer.py; defaults in traiNNer/archs/srformer_arch.py at 68629319).
var _ = entry(func() {
	register1 := func(name string, img, window int64, layers int, upsampler string) {
		register(func(s Spec, a *args) Network {
			six := slices.Repeat([]int64{6}, layers)
			defaults := swinIR{
				img: img, dim: 180, depths: six, heads: six, window: window, mlp: 2, upsampler: upsampler, resi: "1conv",
			}
			n := srformer{swinIR: defaults.read(s, a), ape: a.bool("ape", false)}
			a.ignore("qk_scale", "img_range")
			refuse(n.checkpointing,
				"use_checkpoint: its blocks are checkpointed without the size that they ask for (SRFormer.py, BasicLayer.forward)")
			a.onlyPatch1()
			n.squeezed = n.dim
			n.check()
			return Network{InCh: n.in, Forward: n.forward, NoFP16: true, Multiple: n.window, MinLQ: n.window/2 + 1}
		}, name)
	}
	register1("srformer", 48, 24, 6, "pixelshuffle")
	register1("srformer_light", 64, 16, 4, "pixelshuffledirect")
})

// srformer shares with SwinIR what is around its blocks.
type srformer struct {
	swinIR
	squeezed int64 // channels of the queries: embed_dim, or SRFormerV2's four times squeeze_dim
	ape      bool
	v2       bool
}

// check finds what upstream's constructor or its first forward stops at.
func (n srformer) check() {
	refuse(n.window < 2 || n.window%2 != 0 || n.img < 1,
		"window_size %d, img_size %d: the window is halved", n.window, n.img)
	refuse(n.squeezed < 4 || n.squeezed%4 != 0, "%d channels do not divide by the 4 pixels of a permutation", n.squeezed)
	n.swinIR.check()
}

// check finds what the constructors of SwinIR's relatives, or their first forwards, stop at.
func (n swinIR) check() {
	refuse(len(n.heads) < len(n.depths), "num_heads %v for depths %v", n.heads, n.depths)
	for _, h := range n.heads[:len(n.depths)] {
		refuse(h < 1 || n.dim%h != 0, "embed_dim %d does not divide among %d heads", n.dim, h)
	}
	refuse(n.resi != "1conv" && n.resi != "3conv", "resi_connection %q is none of 1conv, 3conv", n.resi)
	switch n.upsampler {
	case "pixelshuffle":
		upsamples(n.scale)
	case "nearest+conv":
		refuse(n.scale != 4, "upsampler nearest+conv at scale %d: only 4 is supported", n.scale)
	case "pixelshuffledirect":
	case "":
		refuse(n.scale != 1, "no upsampler at scale %d: the output is as large as the input", n.scale)
	default:
		reject("upsampler %q is none of pixelshuffle, pixelshuffledirect, nearest+conv", n.upsampler)
	}
}

func (n srformer) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	h, w := x.Dim(2), x.Dim(3)
	if ph, pw := multiple(h, n.window), multiple(w, n.window); n.v2 || ph != h || pw != w { // check_image_size
		x = t.Hold(t.PadTo(x, true, x.Dim(0), x.Dim(1), ph, pw))
	}
	return n.restore(t, x, h, w, n.features)
}

// resolution is input_resolution.
func (n srformer) resolution() int64 { return multiple(n.img, n.window) }

// features is forward_features.
func (n srformer) features(t *nn.Tape, x nn.Tensor) (y nn.Tensor) {
	h, w := x.Dim(2), x.Dim(3)
	y = t.Hold(t.Call("patch_embed", x, embed(n.patchNorm)))
	if n.ape {
		y = t.Rebind(y, t.Add(y, t.Param("absolute_pos_embed", 1, n.resolution()*n.resolution(), n.dim)))
	}
	y = t.Rebind(y, t.Dropout(y, n.drop))
	y = layers(t, y, n.dropPath, n.depths, func(t *nn.Tape, x nn.Tensor, i int, rate dropPaths) nn.Tensor { // PSA_Group
		group := t.Call("residual_group", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			return n.basicLayer(t, x, h, w, i, rate)
		})
		return t.Add(tokens(t, t.Call("conv", image(t, group, h, w), n.resiConv)), x)
	})
	y = t.Rebind(y, t.LayerNorm("norm", y))
	return image(t, y, h, w)
}

// basicLayer is BasicLayer. SRFormerV2 puts blocks of plain windows before the first, the third and the fifth of its own.
func (n srformer) basicLayer(t *nn.Tape, x nn.Tensor, h, w int64, layer int, rate dropPaths) nn.Tensor {
	type block struct {
		psa             bool
		shift           int64
		ws              int64
		dropPath        float64
		mlp             nn.Module
		tokens, context int64 // of a window
	}
	heads := n.heads[layer]
	var blocks []block
	for i := range n.depths[layer] {
		ws, shift := n.window, i%2*(n.window/2)
		if n.resolution() <= n.window && !n.v2 {
			shift = 0
		}
		mlp := func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.convFFN(t, x, h, w) }
		blocks = append(blocks, block{psa: true, shift: shift, ws: ws, dropPath: rate(i), mlp: mlp, tokens: ws * ws, context: ws * ws / 4})
	}
	if n.v2 {
		ws := min(srformerPlain, n.resolution())
		if h%ws != 0 || w%ws != 0 {
			panic(fmt.Sprintf("an image of %d×%d does not divide into windows of %d", h, w, ws))
		}
		for _, at := range []int{0, 3, 6} {
			plain := block{ws: ws, dropPath: rate(0), mlp: n.mlpOf, tokens: ws * ws, context: ws * ws}
			blocks = slices.Insert(blocks, min(at, len(blocks)), plain)
		}
	}
	for i, b := range blocks {
		m := func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			var mask nn.Tensor
			if b.shift > 0 {
				windows := n.resolution() / b.ws * (n.resolution() / b.ws)
				mask = t.Buffer("attn_mask", nn.F32, windows, b.tokens, b.context)
			}
			if h != n.resolution() || w != n.resolution() { // calculate_mask of another size, whether or not there is a shift
				mask = t.Zeros(nn.F32, h/b.ws*(w/b.ws), b.tokens, b.context)
			}
			attention := func(t *nn.Tape, x nn.Tensor) nn.Tensor {
				if b.psa {
					return n.psa(t, x, mask, heads)
				}
				return n.attention(t, x, mask, b.ws, heads)
			}
			return n.psaBlock(t, x, h, w, b.ws, b.shift, b.dropPath, attention, b.mlp)
		}
		x = t.Rebind(x, t.CheckpointIf(n.checkpointing, fmt.Sprint("blocks.", i), x, m))
	}
	return x
}

// psaBlock is PSA_Block, and SRFormerV2's SwinTransformerBlock.
func (n srformer) psaBlock(t *nn.Tape, x nn.Tensor, h, w, ws, shift int64, dropPath float64, attention, mlp nn.Module) nn.Tensor {
	b, c := x.Dim(0), x.Dim(2)
	shortcut := x
	x = t.LayerNorm("norm1", x)
	x = t.Hold(t.View(x, b, h, w, c))
	y := rolled(t, x, shift > 0, func(x nn.Tensor) nn.Tensor {
		return windowReverse(t, t.Hold(t.Call("attn", t.Hold(windows(t, x, ws)), attention)), ws, b, h, w)
	})
	x = t.Rebind(x, t.View(y, b, h*w, c))
	x = t.Rebind(x, t.Add(shortcut, scaledDropPath(t, x, dropPath)))
	return t.Add(x, scaledDropPath(t, t.Call("mlp", t.LayerNorm("norm2", x), mlp), dropPath))
}

// scaledDropPath is the older drop_path, x.div(keep_prob) * random_tensor.
func scaledDropPath(t *nn.Tape, x nn.Tensor, p float64) nn.Tensor {
	if p == 0 || !t.Training {
		return x
	}
	return dropPathOf(t, t.DivScalar(x), p)
}

// convFFN is ConvFFN.
func (n srformer) convFFN(t *nn.Tape, x nn.Tensor, h, w int64) nn.Tensor {
	hidden := int64(float64(n.dim) * n.mlp)
	x = t.Hold(t.GELU(t.Linear("fc1", x, hidden, true)))
	conv := t.Call("dwconv", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		x = t.Hold(t.Contiguous(t.View(t.Transpose(x, 1, 2), x.Dim(0), hidden, h, w)))
		x = t.Rebind(x, t.Sequential("depthwise_conv", x, depthwise(hidden, 5).Module(), (*nn.Tape).GELU))
		return t.Contiguous(tokens(t, x))
	})
	x = t.Rebind(x, t.Add(x, conv))
	x = t.Rebind(x, t.Dropout(x, n.drop))
	return t.Dropout(t.Linear("fc2", x, n.dim, true), n.drop)
}

// psa is PSA: keys and values have a quarter of the channels, and four pixels of them are one token.
func (n srformer) psa(t *nn.Tape, x, mask nn.Tensor, heads int64) nn.Tensor {
	b, tokens, c := x.Dim(0), x.Dim(1), n.squeezed
	permuted := n.window / 2
	table := t.Param("relative_position_bias_table", (2*permuted-1)*(2*permuted-1), heads)
	t.Buffer("aligned_relative_position_index", nn.I64, tokens, tokens/4)

	kv := t.Rearrange(t.Linear("kv", x, c/2, n.qkvBias), b, tokens/4, 2, heads, c/heads)
	p := t.Unbind(t.Permute(kv, 2, 0, 3, 1, 4))
	k, v := t.Hold(p[0]), p[1]
	q := t.Permute(t.View(t.Linear("q", x, c, n.qkvBias), b, tokens, 1, heads, c/heads), 2, 0, 3, 1, 4)
	q = t.Hold(t.MulScalar(t.Select(q, 0)))
	attn := t.Hold(t.Matmul(q, t.Transpose(k, -2, -1)))

	attn = masked(t, biased(t, attn, table, tokens, tokens/4, heads), mask, b, heads, tokens, tokens/4)
	attn = t.Rebind(attn, t.Softmax(attn))
	attn = t.Rebind(attn, t.Dropout(attn, n.attnDrop))

	x = t.Reshape(t.Transpose(t.Matmul(attn, v), 1, 2), b, tokens, c)
	return t.Dropout(t.Linear("proj", x, n.dim, true), n.drop)
}
