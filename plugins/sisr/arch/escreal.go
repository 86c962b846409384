package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// ESC-Real (Lee et al., 2025): traiNNer/archs/escreal_arch.py at 68629319. Its attention is a compiled flex_attention unless
// the recipe asks for another.
var _ = entry(func() {
	type variant struct {
		dim, part, blocks, heads int64
		upsampler                string
	}
	esc := func(v variant) builder {
		return func(s Spec, a *args) Network {
			n := escReal{
				scale: s.Scale, dim: a.int("dim", v.dim), part: a.int("pdim", v.part), kernel: a.int("kernel_size", 13),
				blocks: a.int("n_blocks", v.blocks), convs: a.int("conv_blocks", 5), window: a.int("window_size", 32),
				heads: a.int("num_heads", v.heads), expand: a.float("exp_ratio", 2), attention: a.string("attn_type", "Flex"),
			}
			n.up = upsampler3{a.string("upsampler", v.upsampler), s.Scale, 3, a.int("mid_dim", 64)}
			if a.bool("unshuffle_mod", false) && s.Scale < 3 && s.Scale > 0 {
				n.unshuffle, n.up.scale = 4/s.Scale, 4
			}
			switch n.attention {
			case "Flex", "Naive":
			case "SDPA":
				refuse(n.window%4 != 0, "attn_type %s and window_size %d: %w", n.attention, n.window, ErrUnknown)
			default:
				reject("attention type %s is not supported", n.attention)
			}
			refuse(min(n.heads, n.window, n.dim) < 1 || n.dim%n.heads != 0 || n.part < 2 || n.part > n.dim || n.kernel%2 == 0,
				"dim %d, pdim %d, kernel_size %d, window_size %d, num_heads %d", n.dim, n.part, n.kernel,
				n.window, n.heads)
			n.up.check()
			each := max(n.unshuffle, 1)
			// What is reflected is smaller than the image: to whole windows, and 3 at each side before the skip's convolution.
			return Network{Forward: n.forward, Multiple: n.window * each, MinLQ: max(n.window/2+1, 4) * each}
		}
	}
	register(esc(variant{64, 16, 10, 4, "transpose+conv"}), "escrealm")
	register(esc(variant{128, 32, 16, 8, "pixelshuffle"}), "escrealm_xl")
})

type escReal struct {
	scale, unshuffle, dim, part, kernel, blocks, convs, window, heads int64
	expand                                                            float64
	attention                                                         string
	up                                                                upsampler3
	// neosr's: the index of the bias lies on the card
	indexed bool
	// neosr's without realsr: no norms before its convolutions
	plain bool
}

// forward is ESCRealM.forward (line 526).
func (n escReal) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	h, w := x.Dim(2), x.Dim(3)
	var before []nn.Module
	if n.unshuffle > 0 {
		x = t.Hold(t.PadTo(x, true, x.Dim(0), x.Dim(1), multiple(h, n.unshuffle), multiple(w, n.unshuffle)))
		before = append(before, func(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.PixelUnshuffle(x, n.unshuffle) })
	}
	feat := t.Hold(t.Sequential("proj", x, append(before[:len(before):len(before)], conv(n.dim, 3).Module())...))
	skip := feat
	filter := t.Param("plk_filter", n.part, n.part, n.kernel, n.kernel)
	filter = t.Hold(t.Call("", filter, geoEnsemble))
	for i := range n.blocks {
		next := t.Call(fmt.Sprint("blocks.", i), feat, func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.block(t, x, filter) })
		feat = t.Assign(i == 0, feat, next) // the skip connection holds the first
	}
	sum := t.Add(t.Conv2d("last", feat, conv(n.dim, 3)), skip)
	wide := 2 * n.dim
	around := func(t *nn.Tape, x nn.Tensor) nn.Tensor { // padding_mode="reflect"
		return t.Conv2d("", t.Pad(x, 6, 6, true), nn.Conv{Out: wide, K: 7, Groups: wide, Valid: true})
	}
	feat = t.Rebind(feat, t.Add(sum, t.Sequential("skip", x,
		append(before, conv(wide, 1).Module(), around, (*nn.Tape).LeakyReLUInplace, conv(n.dim, 1).Module())...)))
	x = t.Hold(t.Call("to_img", feat, n.up.module))
	return t.Narrow(t.Narrow(x, 2, h*n.scale), 3, w*n.scale)
}

// geoEnsemble is _geo_ensemble (line 399): the filter in its eight positions.
func geoEnsemble(t *nn.Tape, k nn.Tensor) nn.Tensor {
	sum := nn.Tensor{}
	var all []nn.Tensor
	for range 3 {
		all = append(all, t.Hold(t.Copy("torch.flip", k, k.Shape()...)))
	}
	turned := t.Hold(t.Transpose(t.Copy("torch.rot90", k, k.Shape()...), 2, 3))
	all = append(all, turned)
	for range 3 {
		all = append(all, t.Hold(t.Elementwise("torch.flip", turned, false, false)))
	}
	sum = k
	for _, y := range all {
		sum = t.Add(sum, y)
	}
	return t.DivScalar(sum)
}

// block is Block (line 354).
func (n escReal) block(t *nn.Tape, x, filter nn.Tensor) nn.Tensor {
	skip := x
	y := t.Hold(t.Call("ln_proj", x, escNorm))
	y = t.Rebind(y, t.Call("proj", y, n.convFFN(2)))
	y = t.Rebind(y, t.Add(y, t.Call("attn", t.Call("ln_attn", y, escNorm), n.windowAttention)))
	for i := range n.convs {
		z := y
		if !n.plain {
			z = t.Call(fmt.Sprint("lns.", i), y, escNorm)
		}
		z = t.Call(fmt.Sprint("convffns.", i), z, n.convFFN(n.expand))
		z = t.Call(fmt.Sprint("pconvs.", i), z, func(t *nn.Tape, x nn.Tensor) nn.Tensor { // ConvAttnWrapper
			x = t.Call("plk", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.convAttention(t, x, filter) })
			return t.Conv2d("aggr", t.Hold(x), conv(n.dim, 1))
		})
		y = t.Rebind(y, t.Add(y, z))
	}
	y = t.Rebind(y, t.Conv2d("conv_out", t.Call("ln_out", y, escNorm), conv(n.dim, 3)))
	return t.Add(y, skip)
}

// escNorm is LayerNorm of channels first (line 84), which copies while training.
func escNorm(t *nn.Tape, x nn.Tensor) nn.Tensor {
	x = t.Permute(x, 0, 2, 3, 1)
	if !t.Training {
		return t.Permute(t.LayerNorm("", x), 0, 3, 1, 2)
	}
	return t.Contiguous(t.Permute(t.LayerNorm("", t.Contiguous(x)), 0, 3, 1, 2))
}

// convFFN is ConvFFN (line 208).
func (n escReal) convFFN(ratio float64) nn.Module {
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		wide := int64(float64(n.dim) * ratio)
		y := t.Hold(t.GELU(t.Conv2d("proj", x, conv(wide, 1))))
		y = t.Rebind(y, t.Add(t.GELU(t.Conv2d("dwc", y, depthwise(wide, 3))), y))
		return t.Conv2d("aggr", y, conv(n.dim, 1))
	}
}

// convAttention is ConvolutionalAttention (line 130): of the first channels, a kernel of the network's own and one that is
// made from them. In eval their sum is written in their place.
func (n escReal) convAttention(t *nn.Tape, x, filter nn.Tensor) nn.Tensor {
	const sk = 3
	b, h, w := x.Dim(0), x.Dim(2), x.Dim(3)
	first := func() nn.Tensor { return t.Narrow(x, 1, n.part) }
	kernel := func() nn.Tensor {
		k := t.Sequential("dwc_proj", first(), (*nn.Tape).AvgPoolAll, conv(n.part/2, 1).Module(), (*nn.Tape).GELU,
			conv(n.part*sk*sk, 1).Module())
		return t.Hold(t.View(k, -1, 1, sk, sk))
	}
	static := func(x nn.Tensor) nn.Tensor { return t.ConvWeight(x, filter, nn.Tensor{}, nn.Conv{}) }
	dynamic := func(x, k nn.Tensor) nn.Tensor { return t.ConvWeight(x, k, nn.Tensor{}, nn.Conv{Groups: k.Dim(0)}) }
	if !t.Training {
		k := kernel()
		y := static(first())
		return t.WriteSlice(x, t.Add(y, dynamic(first(), k)), false)
	}
	parts := []nn.Tensor{x}
	if rest := n.dim - n.part; rest > 0 {
		parts = t.Split(x, 1, n.part, rest)
	}
	k := kernel()
	y := t.Hold(t.View(parts[0], 1, b*n.part, h, w))
	y = t.Rebind(y, dynamic(y, k))
	y = t.Rebind(y, t.View(y, b, n.part, h, w))
	parts[0] = t.Hold(t.Add(static(parts[0]), y))
	return t.Cat(1, parts...)
}

// windowAttention is WindowAttention (line 229).
func (n escReal) windowAttention(t *nn.Tape, x nn.Tensor) nn.Tensor {
	b, h, w, ws := x.Dim(0), x.Dim(2), x.Dim(3), n.window
	table := t.Param("relative_position_bias", n.heads, (2*ws-1)*(2*ws-1))
	ph, pw := multiple(h, ws), multiple(w, ws)
	x = t.Hold(t.PadTo(x, true, b, n.dim, ph, pw)) // pad_to_win
	area := ws * ws
	all := b * ph * pw / area
	qkv := t.Hold(t.Conv2d("to_qkv", x, conv(3*n.dim, 1)))
	low := qkv.DType()
	qkv = t.Rebind(qkv, t.Rearrange(qkv, 3, all, n.heads, area, n.dim/n.heads)) // feat_to_win
	q, k, v := t.Select(qkv, 0), t.Select(qkv, 0), t.Select(qkv, 0)
	var out nn.Tensor
	bias := func() nn.Tensor {
		if n.indexed {
			index := t.Buffer("rpe_idxs", nn.I64, n.heads*area*area, 2)
			y := t.Lookup(table, t.Select(index, 1), n.heads*area*area)
			return t.Hold(t.View(y, 1, n.heads, area, area))
		}
		y := t.LookupHost(table, n.heads*area*area, n.heads*area*area)
		return t.Hold(t.View(y, 1, n.heads, area, area))
	}
	switch n.attention {
	case "Flex":
		out = t.FlexAttention(q, k, v, table)
	case "SDPA":
		out = t.SDPABiased(q, k, v, bias())
	default:
		b := bias()
		t.Scope("", func() { // attention
			score := t.Hold(t.DivScalar(t.Matmul(q, t.Transpose(k, -2, -1))))
			score = t.Rebind(score, t.Add(score, b))
			score = t.Rebind(score, t.Softmax(score))
			out = t.Matmul(score, v)
		}, q, k, v, b)
	}
	out = t.Hold(out)
	out = t.Rebind(out, t.Rearrange(out, b, n.dim, ph, pw)) // win_to_feat
	return t.Conv2d("to_out", t.Narrow(t.Narrow(t.To(out, low), 2, h), 3, w), conv(n.dim, 1))
}
