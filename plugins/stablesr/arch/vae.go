package arch

import (
	"fmt"
	"slices"

	"github.com/launch-ml/launch/core/nn"
)

// vae is AutoencoderKL, and AutoencoderKLResi's controllable feature wrapping where fusion is set
// (ldm/models/autoencoder.py, ldm/modules/diffusionmodules/model.py).
type vae struct {
	xformers          bool
	ch, in, out, z    int64
	embed, resolution int64
	mult              []int64
	blocks            int64
	attn              []int64 // attn_resolutions
	fusion            bool    // Decoder_Mix
	codes             int64   // n_embed of VQModelInterface, whose latent is no distribution; 0 for AutoencoderKL
	frozen            bool    // all but the fusion layers
	plain             bool    // attn_type none: neither the middle nor a level has attention
	identity          bool    // IdentityFirstStage, which does nothing
}

func readVAE(c Config) (*vae, error) {
	p, _ := c["params"].(map[string]any)
	dd := &args{values: section(p["ddconfig"])}
	n := &vae{
		ch: dd.size("ch", 128), in: dd.size("in_channels", 3), out: dd.size("out_ch", 3), z: dd.size("z_channels", 4),
		resolution: dd.size("resolution", 256), mult: dd.sizes("ch_mult", 1, 2, 4, 8), blocks: dd.size("num_res_blocks", 2),
		attn: dd.sizes("attn_resolutions"), embed: c.params().size("embed_dim", 4),
	}
	switch c.Target() {
	case "AutoencoderKL":
	case "VQModelInterface", "VQModel": // autoencoder.py:14 and 261; its quantisation is part of decode alone
		n.codes = c.params().size("n_embed", 0)
	case "IdentityFirstStage": // autoencoder.py:420
		return &vae{identity: true, in: 3, out: 3, z: 3, embed: 3, ch: 32, mult: []int64{1}}, nil
	case "AutoencoderKLResi":
		n.fusion = true
	default:
		return nil, c.unknown("first_stage_config")
	}
	if dd.err != nil {
		return nil, fmt.Errorf("first_stage_config.ddconfig: %w", dd.err)
	}
	switch attn := dd.text("attn_type", "vanilla"); attn {
	case "none":
		n.plain = true
	case "linear":
		return nil, fmt.Errorf("first_stage_config.ddconfig.attn_type %s: %w", attn, ErrUnknown)
	}
	if n.ch%32 != 0 {
		return nil, fmt.Errorf("first_stage_config: ch %d is no multiple of the 32 groups of its norms", n.ch)
	}
	return n, nil
}

// factor is how much smaller than the image a latent is.
func (n *vae) factor() int64 { return 1 << (len(n.mult) - 1) }

// normalize is Normalize of model.py.
func normalize(t *nn.Tape, name string, x nn.Tensor) nn.Tensor { return t.GroupNorm(name, x, 32) }

// nonlinearity is x*sigmoid(x), written out.
func nonlinearity(t *nn.Tape, x nn.Tensor) nn.Tensor {
	return t.Within("", func() nn.Tensor { return t.Mul(x, t.Sigmoid(x)) }, x)
}

// resnet is ResnetBlock without a time embedding.
func resnet(out int64) nn.Module { return resnetBy("nin_shortcut", out) }

// resnetBy is one whose shortcut has that name.
func resnetBy(shortcut string, out int64) nn.Module {
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		h := t.Hold(x)
		h = t.Rebind(h, normalize(t, "norm1", h))
		h = t.Rebind(h, nonlinearity(t, h))
		h = t.Rebind(h, t.Conv2d("conv1", h, conv(out, 3)))
		h = t.Rebind(h, normalize(t, "norm2", h))
		h = t.Rebind(h, nonlinearity(t, h))
		h = t.Rebind(h, t.Conv2d("conv2", h, conv(out, 3)))
		if x.Dim(1) != out {
			x = t.Conv2d(shortcut, x, conv(out, 1))
		}
		return t.Add(x, h)
	}
}

// attnBlock is AttnBlock, or MemoryEfficientAttnBlock.
func (n *vae) attnBlock(t *nn.Tape, x nn.Tensor) nn.Tensor {
	b, c, h, w := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	hn := t.Hold(normalize(t, "norm", x))
	q, k, v := t.Hold(t.Conv2d("q", hn, conv(c, 1))), t.Hold(t.Conv2d("k", hn, conv(c, 1))), t.Hold(t.Conv2d("v", hn, conv(c, 1)))
	var a nn.Tensor
	if n.xformers {
		flat := func(x nn.Tensor) nn.Tensor {
			return t.View(t.Contiguous(t.Permute(t.View(x, b, c, h*w), 0, 2, 1)), b, 1, h*w, c)
		}
		a = t.Hold(t.SDPA(flat(q), flat(k), flat(v)))
		a = t.View(t.Permute(t.View(a, b, h*w, c), 0, 2, 1), b, c, h, w)
	} else {
		weight := t.Hold(t.Bmm(t.Permute(t.View(q, b, c, h*w), 0, 2, 1), t.View(k, b, c, h*w)))
		weight = t.Rebind(weight, t.MulScalar(weight))
		weight = t.Rebind(weight, t.Softmax(weight))
		a = t.View(t.Bmm(t.View(v, b, c, h*w), t.Permute(weight, 0, 2, 1)), b, c, h, w)
	}
	return t.Add(x, t.Conv2d("proj_out", a, conv(c, 1)))
}

func (n *vae) hasAttn(res int64) bool { return !n.plain && slices.Contains(n.attn, res) }

// encoder is Encoder.forward: the moments, and where fea is not nil the features that Decoder_Mix is given. hs keeps
// every level's results.
func (n *vae) encoder(t *nn.Tape, x nn.Tensor, fea *[]nn.Tensor) (moments nn.Tensor) {
	if n.identity {
		return x
	}
	t.Scope("encoder", func() {
		h := t.Hold(t.Conv2d("conv_in", x, conv(n.ch, 3)))
		res := n.resolution
		for level, mult := range n.mult {
			for i := range int(n.blocks) {
				h = t.Call(fmt.Sprintf("down.%d.block.%d", level, i), h, resnet(n.ch*mult))
				if n.hasAttn(res) {
					h = t.Call(fmt.Sprintf("down.%d.attn.%d", level, i), h, n.attnBlock)
				}
				t.Hold(h)
			}
			if fea != nil && (level == 1 || level == 2) {
				*fea = append(*fea, h)
			}
			if level != len(n.mult)-1 {
				h = t.Hold(t.Conv2d(fmt.Sprintf("down.%d.downsample.conv", level), t.Pad(h, 1, 1, false), nn.Conv{Out: h.Dim(1), K: 3, Stride: 2, Valid: true}))
				res /= 2
			}
		}
		t.Scope("", func() { h = n.middle(t, h) }, h) // in a frame of its own: hs keeps what it begins with
		h = t.Rebind(h, nonlinearity(t, t.Hold(normalize(t, "norm_out", h))))
		moments = t.Conv2d("conv_out", h, conv(n.outputs()*n.z, 3))
	}, x)
	return t.Conv2d("quant_conv", moments, conv(n.outputs()*n.embed, 1))
}

// outputs is how many numbers the encoder gives for each of the latent's: of a distribution two (double_z).
func (n *vae) outputs() int64 {
	if n.codes > 0 {
		return 1
	}
	return 2
}

func (n *vae) middle(t *nn.Tape, h nn.Tensor) nn.Tensor {
	c := h.Dim(1)
	h = t.Rebind(h, t.Call("mid.block_1", h, resnet(c)))
	if !n.plain {
		h = t.Rebind(h, t.Call("mid.attn_1", h, n.attnBlock))
	}
	return t.Hold(t.Rebind(h, t.Call("mid.block_2", h, resnet(c))))
}

// decoder is Decoder.forward, or Decoder_Mix's with the encoder's features.
func (n *vae) decoder(t *nn.Tape, z nn.Tensor, fea, canny []nn.Tensor) (x nn.Tensor) {
	if n.identity {
		return z
	}
	own := style{frozen: n.frozen}
	own.freeze(t, func() { z = t.Conv2d("post_quant_conv", z, conv(n.z, 1)) })
	t.Scope("decoder", func() {
		last := len(n.mult) - 1
		var h nn.Tensor
		own.freeze(t, func() {
			h = t.Hold(t.Conv2d("conv_in", z, conv(n.ch*n.mult[last], 3)))
			h = n.middle(t, h)
		})
		res := n.resolution >> last
		for level := last; level >= 0; level-- {
			own.freeze(t, func() {
				for i := range int(n.blocks) + 1 {
					h = t.Rebind(h, t.Call(fmt.Sprintf("up.%d.block.%d", level, i), h, resnet(n.ch*n.mult[level])))
					if n.hasAttn(res) {
						h = t.Rebind(h, t.Call(fmt.Sprintf("up.%d.attn.%d", level, i), h, n.attnBlock))
					}
				}
			})
			if n.fusion && fea != nil && level != last && level != 0 {
				cond := []nn.Tensor{fea[level-1]}
				if canny != nil {
					cond = append(cond, canny[level-1])
				}
				t.Part(partFusion, func() { h = t.Rebind(h, fuse(t, fmt.Sprint("fusion_layer_", level), cond, h)) })
			}
			if level != 0 {
				own.freeze(t, func() {
					h = t.Rebind(h, t.Call(fmt.Sprintf("up.%d.upsample", level), h, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
						x = t.Rebind(x, t.Upsample(x, 2))
						return t.Conv2d("conv", x, conv(x.Dim(1), 3))
					}))
				})
				res *= 2
			}
		}
		own.freeze(t, func() {
			h = t.Rebind(h, normalize(t, "norm_out", h))
			h = t.Rebind(h, nonlinearity(t, h))
			x = t.Conv2d("conv_out", h, conv(n.out, 3))
		})
	}, z)
	return x
}

// declareDecoder enters the decoder's parameters for a phase that never decodes, by a forward of the smallest latent.
func (n *vae) declareDecoder(t *nn.Tape) {
	t.NoGrad(func() { n.decoder(t, t.Zeros(nn.F32, 1, n.embed, 1, 1), nil, nil) })
	if n.codes > 0 {
		n.codebook(t)
	}
}

// codebook is quantize.embedding.
func (n *vae) codebook(t *nn.Tape) nn.Tensor {
	return t.Within("quantize", func() nn.Tensor { return t.Param("embedding.weight", n.codes, n.embed) })
}

// quantize is VectorQuantizer2.forward (taming/modules/vqvae/quantize.py:271 of CompVis/taming-transformers at
// 3ba01b24): the distance of every latent to every code.
func (n *vae) quantize(t *nn.Tape, z nn.Tensor) (quant nn.Tensor) {
	codes := n.codebook(t)
	return t.Within("", func() nn.Tensor {
		b, e, h, w := z.Dim(0), z.Dim(1), z.Dim(2), z.Dim(3)
		z = t.Hold(t.Contiguous(t.Permute(z, 0, 2, 3, 1)))
		flat := t.View(z, b*h*w, e)
		squares := t.Hold(t.View(t.SumDim(t.Pow(flat), 1), b*h*w, 1))
		sum := t.Hold(t.Add(squares, t.View(t.SumDim(t.Pow(codes), 1), 1, n.codes)))
		t.Hold(t.Sub(sum, t.MulScalar(t.Matmul(flat, t.Transpose(codes, 0, 1))))) // d, which stays until the end
		t.Rebind(sum, t.Indices(b*h*w))                                           // argmin
		quant = t.Hold(t.View(t.Lookup(codes, t.Indices(b*h*w), b*h*w, e), b, h, w, e))
		quant = t.Rebind(quant, t.Add(z, t.Detach(t.Sub(quant, z))))
		return t.Contiguous(t.Permute(quant, 0, 3, 1, 2))
	}, z)
}

// fuse is Fuse_sft_block_RRDB with two RRDB of 32 growing channels (model.py:822), whose conditions are the encoder's
// features and, in stm233's fork, those of edges, enlarged to the same size (model.py:840 at a9548ad).
func fuse(t *nn.Tape, name string, cond []nn.Tensor, decFeat nn.Tensor) nn.Tensor {
	return t.Within(name, func() nn.Tensor {
		c := decFeat.Dim(1)
		in := append([]nn.Tensor(nil), cond...)
		for i := 1; i < len(in); i++ {
			if in[i].Dim(3) != in[0].Dim(3) {
				in[i] = t.Hold(t.Interpolate(in[i], in[0].Dim(2), in[0].Dim(3)))
			}
		}
		fusedIn := t.Cat(1, append(in, decFeat)...)
		if len(cond) > 1 {
			t.Hold(fusedIn) // a variable of the fork's
		}
		h := t.Hold(t.Call("encode_enc_1", fusedIn, fusionBlock(c)))
		for i := range 2 {
			h = t.Rebind(h, t.Call(named("encode_enc_2", i), h, rrdb))
		}
		h = t.Rebind(h, t.Call("encode_enc_3", h, fusionBlock(c)))
		return t.Add(decFeat, t.MulScalar(h))
	}, append([]nn.Tensor{decFeat}, cond...)...)
}

// fusionBlock is ResBlock of model.py: a ResnetBlock whose shortcut has another name.
func fusionBlock(out int64) nn.Module { return resnetBy("conv_out", out) }

// rrdb is RRDB of basicsr/archs/rrdbnet_arch.py.
func rrdb(t *nn.Tape, x nn.Tensor) nn.Tensor {
	out := t.Hold(t.Call("rdb1", x, denseBlock))
	out = t.Rebind(out, t.Call("rdb2", out, denseBlock))
	out = t.Rebind(out, t.Call("rdb3", out, denseBlock))
	return t.Add(t.MulScalar(out), x)
}

func denseBlock(t *nn.Tape, x nn.Tensor) nn.Tensor {
	xs := []nn.Tensor{x}
	for i := range 4 {
		in := x
		if i > 0 {
			in = t.Cat(1, xs...)
		}
		xs = append(xs, t.Hold(t.LeakyReLUInplace(t.Conv2d(fmt.Sprint("conv", i+1), in, conv(32, 3)))))
	}
	x5 := t.Hold(t.Conv2d("conv5", t.Cat(1, xs...), conv(x.Dim(1), 3)))
	return t.Add(t.MulScalar(x5), x)
}
