package arch

import (
	"fmt"
	"slices"

	"github.com/launch-ml/launch/core/nn"
)

// DITN (Liu et al., 2023), as traiNNer-redux builds it from spandrel 0.4.2 (architectures/DITN/__arch/DITN_Real.py;
// defaults in traiNNer/archs/ditn_arch.py at 68629319).
var _ = entry(func() {
	build := func(s Spec, a *args) Network {
		n := ditn{
			scale: s.Scale, in: a.int("inp_channels", 3), dim: a.int("dim", 60), itl: a.int("ITL_blocks", 4),
			sal: a.int("SAL_blocks", 4), ufone: a.int("UFONE_blocks", 1), expansion: a.float("ffn_expansion_factor", 2),
			bias: a.bool("bias", false), patch: a.int("patch_size", 8),
		}
		a.ignore("LayerNorm_type") // no block has one
		side := int64(8)
		for n.patch > 0 && side%n.patch != 0 && side < 8*n.patch {
			side += 8
		}
		refuse(n.patch < 1, "patch_size %d", n.patch)
		n.flash = s.Project == Neosr
		return Network{InCh: n.in, Forward: n.forward, Multiple: side}
	}
	register(build, "ditn_real")
	networks.add(Neosr, func(s Spec, a *args) Network { // neosr/archs/ditn_arch.py:268 at 31c7022
		ownScale(s, a, "upscale")
		a.swallow = true
		return build(s, a)
	}, "ditn")
})

type ditn struct {
	scale, in, dim, itl, sal, ufone, patch int64
	expansion                              float64
	bias                                   bool
	// neosr's: its attention is PyTorch's own beside the one that is written out
	flash bool
}

// forward is DITN_Real.forward.
func (n ditn) forward(t *nn.Tape, img nn.Tensor) nn.Tensor {
	h, w := img.Dim(2), img.Dim(3)
	if h%8 != 0 || w%8 != 0 { // check_image_size
		img = t.Hold(t.PadTo(img, true, img.Dim(0), img.Dim(1), multiple(h, 8), multiple(w, 8)))
	}
	sft := t.Hold(t.Conv2d("sft", img, conv(n.dim, 3)))
	local := t.Hold(t.Sequential("UFONE", sft, nn.Repeat(n.body, n.ufone)...))
	local = t.Rebind(local, t.Conv2d("conv_after_body", local, conv(n.dim, 3)))
	out := t.Hold(t.Sequential("upsample", t.Add(local, sft), conv(3*n.scale*n.scale, 3).Module(), shuffle(n.scale)))
	return t.Narrow(t.Narrow(out, 2, h*n.scale), 3, w*n.scale)
}

// body is UFONE: blocks on patches, and blocks on the whole.
func (n ditn) body(t *nn.Tape, x nn.Tensor) nn.Tensor {
	b, c, h, w, p := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3), n.patch
	if h%p != 0 || w%p != 0 {
		panic(fmt.Sprintf("ditn: %d×%d does not divide into patches of %d", h, w, p))
	}
	local := t.Hold(t.View(x, b, c, h/p, p, w/p, p))
	if n.flash { // whose features have one name
		local = t.Rebind(local, t.View(t.Contiguous(t.Permute(local, 0, 2, 4, 1, 3, 5)), -1, c, p, p))
		local = t.Rebind(local, t.Sequential("ITLs", local, slices.Repeat([]nn.Module{n.block("attn", n.attention())},
			int(n.itl))...))
		local = t.Rebind(local, t.View(t.Contiguous(t.Permute(t.View(local, b, h/p, w/p, c, p, p), 0, 3, 1, 4, 2, 5)), b,
			c, h, w))
		return t.Rebind(local, t.Sequential("SALs", local, nn.Repeat(n.block("SDA", n.sda), n.sal)...))
	}
	local = t.Hold(t.View(t.Contiguous(t.Permute(local, 0, 2, 4, 1, 3, 5)), -1, c, p, p))
	local = t.Rebind(local, t.Sequential("ITLs", local, slices.Repeat([]nn.Module{n.block("attn", n.attention())},
		int(n.itl))...))
	local = t.View(local, b, h/p, w/p, c, p, p)
	global := t.Hold(t.View(t.Contiguous(t.Permute(local, 0, 3, 1, 4, 2, 5)), b, c, h, w))
	return t.Rebind(global, t.Sequential("SALs", global, nn.Repeat(n.block("SDA", n.sda), n.sal)...))
}

// block is ITL and SAL, which differ in their first half.
func (n ditn) block(name string, first nn.Module) nn.Module {
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		c := conv(n.dim, 1)
		x = t.Hold(t.Add(x, t.Call(name, t.Conv2d("conv1", t.Tanh(x), c), first)))
		return t.Rebind(x, t.Add(x, t.Call("ffn", t.Conv2d("conv2", t.Tanh(x), c), n.feedForward)))
	}
}

// attention is ISA of either project.
func (n ditn) attention() nn.Module {
	if n.flash {
		return n.isaFlash
	}
	return n.isa
}

// isa is ISA: attention between channels.
func (n ditn) isa(t *nn.Tape, x nn.Tensor) nn.Tensor {
	b, c, h, w := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	x = t.Transpose(t.View(x, b, c, -1), -1, -2)
	p := t.Split(t.Hold(t.Linear("qkv", x, 3*c, true)), -1, c, c, c)
	q, k, v := t.Transpose(p[0], -1, -2), t.Transpose(p[1], -1, -2), t.Transpose(p[2], -1, -2)
	q, k = t.Hold(t.NormalizeDim(q, -1)), t.Hold(t.NormalizeDim(k, -1))
	attn := t.Hold(t.Mul(t.Matmul(q, t.Transpose(k, -2, -1)), t.Param("temperature", 1, 1, 1)))
	attn = t.Rebind(attn, t.Softmax(attn))
	out := t.Hold(t.Matmul(attn, v))
	return t.Conv2d("project_out", t.View(out, b, c, h, w), nn.Conv{Out: c, K: 1, NoBias: !n.bias})
}

// isaFlash is the same of neosr (neosr/archs/ditn_arch.py:96 at 31c7022): what is written out goes nowhere.
func (n ditn) isaFlash(t *nn.Tape, x nn.Tensor) nn.Tensor {
	b, c, h, w := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	x = t.Transpose(t.View(x, b, c, -1), -1, -2)
	p := t.Split(t.Hold(t.Linear("qkv", x, 3*c, true)), -1, c, c, c)
	q, k, v := t.Transpose(p[0], -1, -2), t.Transpose(p[1], -1, -2), t.Transpose(p[2], -1, -2)
	q, k = t.Hold(t.NormalizeDim(q, -1)), t.Hold(t.NormalizeDim(k, -1))
	drop := t.Dead(func() {
		attn := t.Hold(t.Mul(t.Matmul(q, t.Transpose(k, -2, -1)), t.Param("temperature", 1, 1, 1)))
		t.Rebind(attn, t.Softmax(attn))
	})
	defer drop()
	out := t.Hold(plainSDPA(t, q, k, v))
	out = t.Hold(t.Reshape(out, b, c, h, w))
	return t.Conv2d("project_out", out, nn.Conv{Out: c, K: 1, NoBias: !n.bias})
}

// plainSDPA is scaled_dot_product_attention of tensors of other than four dimensions, which no fused kernel
// takes (check_tensor_shapes
// in native/transformers/sdp_utils_cpp.h): it is computed in float32 (_scaled_dot_product_attention_math in
// attention.cpp).
func plainSDPA(t *nn.Tape, q, k, v nn.Tensor) (out nn.Tensor) {
	low := t.Low(q)
	t.Scope("", func() {
		q, k, v := t.Hold(t.To(q, low)), t.Hold(t.To(k, low)), t.Hold(t.To(v, low))
		t.Autocast(nn.F32, func() {
			q, k, v := t.Hold(t.To(q, nn.F32)), t.Hold(t.To(k, nn.F32)), t.Hold(t.To(v, nn.F32))
			q = t.Hold(t.MulScalar(q))
			attn := t.Hold(t.Matmul(q, t.Transpose(t.MulScalar(k), -2, -1)))
			attn = t.Rebind(attn, t.SafeSoftmax(attn))
			y := t.Hold(t.Matmul(attn, v)) // of the expression that returns both
			out = t.Hold(t.To(y, low))
			t.To(t.Detach(attn), low)
		})
	}, q, k, v)
	return out
}

// sda is SDA.
func (n ditn) sda(t *nn.Tape, x nn.Tensor) nn.Tensor {
	dim := n.dim
	x = t.Hold(t.Sequential("proj_first", x, conv(2*dim, 1).Module()))
	p := t.Split(x, 1, dim, dim)
	a := t.Hold(t.Sequential("DConvs", p[0], depthwise(dim, 5).Module(),
		nn.Conv{Out: dim, K: 7, Groups: dim, Dilation: 3}.Module(), conv(dim, 1).Module()))
	y := t.Sequential("proj_last", t.Mul(p[1], a), conv(dim, 1).Module())
	return t.Rebind(x, t.Mul(y, t.Param("scale", 1, dim, 1, 1)))
}

// feedForward is FeedForward.
func (n ditn) feedForward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	hidden := int64(float64(n.dim) * n.expansion)
	x = t.Hold(t.Conv2d("project_in", x, nn.Conv{Out: 2 * hidden, K: 1, NoBias: !n.bias}))
	y := t.Hold(t.Conv2d("dwconv", x, nn.Conv{Out: 2 * hidden, K: 3, Groups: 2 * hidden, NoBias: !n.bias}))
	p := t.Split(y, 1, hidden, hidden)
	x = t.Rebind(x, t.Mul(t.GELU(p[0]), p[1]))
	return t.Conv2d("project_out", x, nn.Conv{Out: n.dim, K: 1, NoBias: !n.bias})
}
