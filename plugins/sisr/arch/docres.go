package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// DocRes (Zhang et al., 2024), which is Restormer: traiNNer/archs/docres_arch.py at 68629319.
var _ = entry(func() {
	docresOf := func(dim int64, blocks []int64, refinement int64, heads []int64) builder {
		return func(s Spec, a *args) Network {
			n := docRes{
				in: a.int("inp_channels", 3), out: a.int("out_channels", 3), dim: a.int("dim", dim),
				blocks: a.ints("num_blocks", blocks...), refinement: a.int("num_refinement_blocks", refinement),
				heads: a.ints("heads", heads...), expansion: a.float("ffn_expansion_factor", 2.66), bias: a.bool("bias", false),
				free: a.string("LayerNorm_type", "WithBias") == "BiasFree",
			}
			a.ignore("dual_pixel_task")
			refuse(len(n.blocks) < 4 || len(n.heads) < 4, "num_blocks %v and heads %v: four of each", n.blocks, n.heads)
			for i, h := range n.heads[:4] {
				refuse(h < 1 || n.dim<<i%h != 0, "%d channels do not divide among %d heads", n.dim<<i, h)
			}
			refuse(n.dim%2 != 0, "dim: half of it is what a downsampling makes")
			sameSize(s.Scale)
			return Network{InCh: n.in, Forward: n.forward, Multiple: 8}
		}
	}
	base := docresOf(48, []int64{2, 3, 3, 4}, 4, []int64{1, 2, 4, 8})
	register(base, "docres_base")
	register(docresOf(64, []int64{3, 4, 4, 6}, 6, []int64{2, 4, 8, 16}), "docres_large")
})

type docRes struct {
	in, out, dim, refinement int64
	blocks, heads            []int64
	expansion                float64
	bias, free               bool
}

func (n docRes) conv(out, k int64) nn.Conv { return nn.Conv{Out: out, K: k, NoBias: !n.bias} }

// forward is DocRes.forward.
func (n docRes) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	b, h, w := x.Dim(0), x.Dim(2), x.Dim(3)
	if h%8 != 0 || w%8 != 0 {
		x = t.Hold(t.PadTo(x, true, b, x.Dim(1), multiple(h, 8), multiple(w, 8)))
	}
	img := x
	if n.in == 3 { // where each pixel is, as two more channels
		coords := t.Hold(t.Zeros(nn.F32, b, 2, x.Dim(2), x.Dim(3)))
		img = t.Hold(t.Cat(1, x, coords))
	}
	level := func(name string, x nn.Tensor, i int, count int64) nn.Tensor {
		block := func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.block(t, x, n.heads[i]) }
		return t.Sequential(name, x, nn.Repeat(block, count)...)
	}
	plain := func(out int64) nn.Module { return nn.Conv{Out: out, K: 3, NoBias: true}.Module() }
	y := t.Hold(t.Conv2d("patch_embed.proj", img, nn.Conv{Out: n.dim, K: 3, NoBias: true}))
	var encoded []nn.Tensor
	for i, down := range [...]string{"down1_2", "down2_3", "down3_4"} {
		e := t.Hold(level(fmt.Sprint("encoder_level", i+1), y, i, n.blocks[i]))
		encoded = append(encoded, e)
		y = t.Rebind(y, t.Sequential(down+".body", e, plain(e.Dim(1)/2), unshuffle(2)))
	}
	latent := t.Hold(level("latent", y, 3, n.blocks[3]))
	from := latent
	for i, up := range [...]string{"up4_3", "up3_2", "up2_1"} {
		l := 2 - i
		y = t.Rebind(y, t.Sequential(up+".body", from, plain(2*from.Dim(1)), shuffle(2)))
		y = t.Rebind(y, t.Cat(1, y, encoded[l]))
		y = t.Rebind(y, t.Conv2d(fmt.Sprint("reduce_chan_level", l+1), y, n.conv(n.dim<<l, 1)))
		y = t.Rebind(y, level(fmt.Sprint("decoder_level", l+1), y, l, n.blocks[l]))
		from = y
	}
	y = t.Rebind(y, level("refinement", y, 0, n.refinement))
	out := t.Hold(t.Conv2d("output", y, n.conv(n.out, 3)))
	return t.Narrow(t.Narrow(out, 2, h), 3, w)
}

// block is TransformerBlock.
func (n docRes) block(t *nn.Tape, x nn.Tensor, heads int64) nn.Tensor {
	attn := func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.attention(t, x, heads) }
	x = t.Hold(t.Add(x, t.Call("attn", t.Call("norm1", x, n.norm), attn)))
	return t.Rebind(x, t.Add(x, t.Call("ffn", t.Call("norm2", x, n.norm), n.feedForward)))
}

// norm is LayerNorm over channels, written out.
func (n docRes) norm(t *nn.Tape, x nn.Tensor) nn.Tensor {
	c, h, w := x.Dim(1), x.Dim(2), x.Dim(3)
	y := t.Call("body", tokens(t, x), func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		weight := t.Param("weight", c)
		if n.free {
			sigma := t.Hold(t.VarDim(x, 2))
			return t.Mul(t.Div(x, t.Sqrt(t.AddScalar(sigma))), weight)
		}
		mu := t.Hold(t.MeanDim(x, 2))
		sigma := t.Hold(t.VarDim(x, 2))
		return t.Add(t.Mul(t.Div(t.Sub(x, mu), t.Sqrt(t.AddScalar(sigma))), weight), t.Param("bias", c))
	})
	return image(t, y, h, w)
}

// attention is Attention between channels.
func (n docRes) attention(t *nn.Tape, x nn.Tensor, heads int64) nn.Tensor {
	b, c, h, w := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	qkv := t.Conv2d("qkv", x, n.conv(3*c, 1))
	qkv = t.Hold(t.Conv2d("qkv_dwconv", qkv, nn.Conv{Out: 3 * c, K: 3, Groups: 3 * c, NoBias: !n.bias}))
	p := t.Split(qkv, 1, c, c, c)
	for i := range p {
		p[i] = t.View(p[i], b, heads, c/heads, h*w)
	}
	q, k := t.Hold(t.NormalizeDim(p[0], -1)), t.Hold(t.NormalizeDim(p[1], -1))
	attn := t.Hold(t.Mul(t.Matmul(q, t.Transpose(k, -2, -1)), t.Param("temperature", heads, 1, 1)))
	attn = t.Rebind(attn, t.Softmax(attn))
	out := t.Hold(t.Matmul(attn, p[2]))
	return t.Rebind(out, t.Conv2d("project_out", t.View(out, b, c, h, w), n.conv(c, 1)))
}

// feedForward is FeedForward.
func (n docRes) feedForward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	dim, hidden := x.Dim(1), int64(float64(x.Dim(1))*n.expansion)
	x = t.Hold(t.Conv2d("project_in", x, n.conv(2*hidden, 1)))
	y := t.Hold(t.Conv2d("dwconv", x, nn.Conv{Out: 2 * hidden, K: 3, Groups: 2 * hidden, NoBias: !n.bias}))
	p := t.Split(y, 1, hidden, hidden)
	x = t.Rebind(x, t.Mul(t.GELU(p[0]), p[1]))
	return t.Conv2d("project_out", x, n.conv(dim, 1))
}
