package arch

import (
	"slices"
	"strconv"

	"github.com/launch-ml/launch/core/nn"
)

// patch is the side of a patch of every vision transformer here, and the image that they are made for: their position
// embedding has one row a patch, and they assert the size.
const patch, vitImage = 16, 224

// A vit is timm.models.vision_transformer.VisionTransformer with patches of 16.
type vit struct {
	dim, depth, heads int64
	convStem          bool // moco-v3's ConvStem (vits.py:63-107) for the patch projection
	fixedPosition     bool // moco-v3's sine-cosine position embedding, which never requires a gradient (vits.py:44-60)
	fused             bool // scaled_dot_product_attention, where torch has it
}

// vits are moco-v3's, on timm 0.4.9: vit_small has 12 heads, twice those of DeiT's, and so twice the attention matrices
// (vits.py:113-143).
func vits() map[string]Encoder {
	out := map[string]Encoder{}
	for name, v := range map[string]vit{
		"vit_small":      {dim: 384, depth: 12, heads: 12},
		"vit_base":       {dim: 768, depth: 12, heads: 12},
		"vit_conv_small": {dim: 384, depth: 11, heads: 12, convStem: true},
		"vit_conv_base":  {dim: 768, depth: 11, heads: 12, convStem: true},
	} {
		v.fixedPosition = true
		out[name] = v.encoder()
	}
	return out
}

// timm are vit_small_patch16_224 and vit_base_patch16_224 of timm 1.0, which solar-ssl's experiment branch calls by
// moco's names (src/models/backbones.py:37-58 at 023a7ec).
func timm() map[string]Encoder {
	return map[string]Encoder{
		"vit_small": vit{dim: 384, depth: 12, heads: 6, fused: true}.encoder(),
		"vit_base":  vit{dim: 768, depth: 12, heads: 12, fused: true}.encoder(),
		"resnet50":  torchvision()["resnet50"],
	}
}

func (v vit) encoder() Encoder {
	return Encoder{Features: v.dim, HeadName: "head", Image: vitImage, BatchNorm: v.convStem, Naive: !v.fused, body: v.body}
}

// body is VisionTransformer.forward_features.
func (v vit) body(o Options) nn.Module {
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		x = t.Rebind(x, t.Call("patch_embed", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			if v.convStem {
				x = v.stem(t, x, o)
			} else {
				x = t.Conv2d("proj", x, nn.Conv{Out: v.dim, K: patch, Stride: patch, Valid: true, Frozen: o.FrozenStem})
			}
			return t.Transpose(t.View(x, x.Dim(0), v.dim, -1), 1, 2)
		}))
		n := x.Dim(0)
		token := t.Expand(t.Param("cls_token", 1, 1, v.dim), n, 1, v.dim)
		x = t.Rebind(x, t.Cat(1, token, x))
		position := t.Param
		if v.fixedPosition {
			position = t.FrozenParam
		}
		x = t.Rebind(x, t.Add(x, position("pos_embed", 1, x.Dim(1), v.dim)))
		x = t.Rebind(x, t.Sequential("blocks", x, nn.Repeat(v.block, v.depth)...))
		x = t.Rebind(x, t.LayerNorm("norm", x))
		return t.View(t.Narrow(x, 1, 1), n, v.dim) // x[:, 0]
	}
}

// stem is moco-v3's ConvStem: four strided convolutions, then one of 1×1.
func (v vit) stem(t *nn.Tape, x nn.Tensor, o Options) nn.Tensor {
	return t.Call("proj", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		for l := range 4 {
			i := 3 * l
			x = t.Conv2d(strconv.Itoa(i), x, nn.Conv{Out: v.dim / 8 << l, K: 3, Stride: 2, NoBias: true})
			x = t.BatchNorm(strconv.Itoa(i+1), x, nn.BatchNorm{Ranks: o.Ranks})
			x = t.ReLUInplace(x)
		}
		return t.Conv2d("12", x, nn.Conv{Out: v.dim, K: 1})
	})
}

// block is timm's Block: x = x + attn(norm1(x)); x = x + mlp(norm2(x)).
func (v vit) block(t *nn.Tape, x nn.Tensor) nn.Tensor {
	x = t.Hold(x)
	x = t.Rebind(x, t.Add(x, t.Call("attn", t.LayerNorm("norm1", x), v.attention)))
	return t.Add(x, t.Call("mlp", t.LayerNorm("norm2", x), mlp(4*v.dim, v.dim, "fc1", "fc2")))
}

// attention is timm's Attention: of 0.4.9 written out, of 1.0 fused where torch has it.
func (v vit) attention(t *nn.Tape, x nn.Tensor) nn.Tensor {
	b, n, c := x.Dim(0), x.Dim(1), x.Dim(2)
	qkv := t.Linear("qkv", x, 3*c, true)
	qkv = t.Hold(t.Permute(t.View(qkv, b, n, 3, v.heads, c/v.heads), 2, 0, 3, 1, 4))
	heads := t.Unbind(qkv)
	q, k, value := heads[0], heads[1], heads[2]
	var y nn.Tensor
	if v.fused && !t.Torch1 {
		y = t.SDPA(q, k, value)
	} else {
		attn := t.Hold(t.MulScalar(t.Matmul(q, t.Transpose(k, -2, -1)))) // (q @ k.transpose(-2, -1)) * self.scale
		attn = t.Rebind(attn, t.Softmax(attn))
		y = t.Matmul(attn, value)
	}
	x = t.Rebind(x, t.Reshape(t.Transpose(y, 1, 2), b, n, c))
	return t.Linear("proj", x, c, true)
}

func mlp(hidden, out int64, fc1, fc2 string) nn.Module {
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		x = t.Rebind(x, t.Linear(fc1, x, hidden, true))
		x = t.Rebind(x, t.GELU(x))
		return t.Linear(fc2, x, out, true)
	}
}

// vitB16 is torchvision.models.vit_b_16 (vision_transformer.py at v0.14), which solar-ssl's main takes for vit_base and,
// "as proxy", for vit_small (src/models/backbones.py:33-46 at d3649f9).
func vitB16() Encoder {
	const dim, depth = 768, 12
	return Encoder{Features: dim, HeadName: "heads", Image: vitImage, body: func(o Options) nn.Module {
		return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			n := x.Dim(0)
			x = t.Conv2d("conv_proj", x, nn.Conv{Out: dim, K: patch, Stride: patch, Valid: true, Frozen: o.FrozenStem})
			x = t.Permute(t.View(x, n, dim, -1), 0, 2, 1)
			x = t.Cat(1, t.Expand(t.Param("class_token", 1, 1, dim), n, 1, dim), x)
			x = t.Call("encoder", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
				x = t.Hold(t.Add(x, t.Param("pos_embedding", 1, x.Dim(1), dim)))
				x = t.Sequential("layers", x, slices.Repeat([]nn.Module{encoderBlock}, depth)...)
				return t.LayerNorm("ln", x)
			})
			return t.View(t.Narrow(x, 1, 1), n, dim) // x[:, 0]
		}
	}}
}

// encoderBlock is torchvision's EncoderBlock.
func encoderBlock(t *nn.Tape, input nn.Tensor) nn.Tensor {
	x := t.Hold(t.LayerNorm("ln_1", input))
	x = t.Rebind(x, t.Call("self_attention", x, multihead))
	x = t.Rebind(x, t.Add(x, input))
	y := t.Hold(t.LayerNorm("ln_2", x))
	y = t.Rebind(y, t.Call("mlp", y, mlp(3072, 768, "0", "3")))
	return t.Add(x, y)
}

// multihead is torch.nn.MultiheadAttention(768, 12, batch_first=True) of one tensor with itself, without weights: before
// torch 2.0 written out (_scaled_dot_product_attention in torch/nn/functional.py), since then fused.
func multihead(t *nn.Tape, x nn.Tensor) nn.Tensor {
	const heads = 12
	b, n, c := x.Dim(0), x.Dim(1), x.Dim(2)
	x = t.Transpose(x, 0, 1)                  // batch_first
	proj := t.Linear("in_proj", x, 3*c, true) // in_proj_weight; copies x, which is not contiguous
	var y nn.Tensor
	if t.Torch1 {
		parts := t.Split(proj, 2, c, c, c)
		head := func(x nn.Tensor) nn.Tensor { // .contiguous().view(n, b * heads, head_dim).transpose(0, 1)
			return t.Transpose(t.View(t.Contiguous(x), n, b*heads, c/heads), 0, 1)
		}
		q, k, v := t.Hold(head(parts[0])), t.Hold(head(parts[1])), t.Hold(head(parts[2]))
		q = t.Rebind(q, t.DivScalar(q))
		attn := t.Hold(t.Bmm(q, t.Transpose(k, -2, -1)))
		attn = t.Rebind(attn, t.Softmax(attn))
		y = t.Bmm(attn, v)
		y = t.View(t.Contiguous(t.Transpose(y, 0, 1)), n*b, c)
	} else {
		// _in_projection_packed: unflatten, unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()
		packed := t.Contiguous(t.Permute(t.View(proj, n, b, 3, c), 2, 0, 1, 3))
		parts := t.Unbind(packed)
		head := func(x nn.Tensor) nn.Tensor { // view(b, heads, n, head_dim) of the transposed view
			return t.Permute(t.View(x, n, b, heads, c/heads), 1, 2, 0, 3)
		}
		y = t.SDPA(head(parts[0]), head(parts[1]), head(parts[2]))
		y = t.View(t.Contiguous(t.Permute(y, 2, 0, 1, 3)), n*b, c)
	}
	y = t.View(t.Linear("out_proj", y, c, true), n, b, c)
	return t.Transpose(y, 1, 0)
}
