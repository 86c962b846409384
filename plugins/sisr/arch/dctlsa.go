package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// DCTLSA (Zeng et al., 2023), as traiNNer-redux builds it from spandrel 0.4.2 (architectures/DCTLSA/__arch/dctlsa.py;
// defaults in traiNNer/archs/dctlsa_arch.py at 68629319).
var _ = register(func(s Spec, a *args) Network {
	n := dctlsa{
		scale: s.Scale, in: a.int("in_nc", 3), nf: a.int("nf", 55), out: a.int("out_nc", 3), heads: a.int("num_head", 5),
	}
	m := a.int("num_modules", dctlsaModules)
	refuse(m != dctlsaModules, "num_modules %d: the network has %d whatever it is told", m, dctlsaModules)
	refuse(n.heads < 1 || n.nf%n.heads != 0, "nf %d does not divide among %d heads", n.nf, n.heads)
	return Network{InCh: n.in, Forward: n.forward, BatchNorm: true, Multiple: dctlsaWindow}
}, "dctlsa")

const (
	dctlsaModules = 6
	dctlsaWindow  = 16
)

type dctlsa struct{ scale, in, nf, out, heads int64 }

// forward is DCTLSA.forward.
func (n dctlsa) forward(t *nn.Tape, input nn.Tensor) nn.Tensor {
	joined := func(name string, x nn.Tensor) nn.Tensor { // conv_block
		return t.Sequential(name, x, conv(n.nf, 1).Module(), (*nn.Tape).LeakyReLUInplace)
	}
	outFea := t.Hold(t.Conv2d("fea_conv", input, conv(n.nf, 3)))
	all, in := outFea, outFea
	var outs []nn.Tensor
	for i := 1; i <= dctlsaModules; i++ {
		out := t.Hold(t.Sequential(fmt.Sprint("B", i, ".body"), in, n.swinT, n.swinT))
		outs = append(outs, out)
		if i < dctlsaModules {
			all = t.Hold(t.Cat(1, all, out))
			in = t.Hold(joined(fmt.Sprint("c", i), all))
		}
	}
	outB := t.Hold(joined("c", t.Cat(1, outs...)))
	outLR := t.Hold(t.Add(t.Conv2d("LR_conv", outB, conv(n.nf, 3)), outFea))
	return t.Sequential("upsampler", outLR, conv(n.out*n.scale*n.scale, 3).Module(), shuffle(n.scale))
}

// swinT is SwinT with its BasicLayer.
func (n dctlsa) swinT(t *nn.Tape, x nn.Tensor) nn.Tensor {
	return t.Hold(t.Sequential("transformer_body", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		h, w := x.Dim(2), x.Dim(3)
		hPad, wPad := multiple(h, dctlsaWindow), multiple(w, dctlsaWindow)
		if hPad != h || wPad != w { // check_image_size
			x = t.Hold(t.PadTo(x, true, x.Dim(0), x.Dim(1), hPad, wPad))
		}
		x = t.Hold(t.Rebind(x, t.LayerNorm("patch_embed.norm", tokens(t, x))))
		for i := range int64(2) {
			x = t.Rebind(x, t.Call(fmt.Sprint("blocks.", i), x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
				return n.block(t, x, hPad, wPad, i%2 == 1)
			}))
		}
		x = image(t, x, hPad, wPad)
		if hPad != h || wPad != w {
			x = t.Rebind(x, t.Contiguous(t.Narrow(t.Narrow(x, 2, h), 3, w)))
		}
		return x
	}))
}

// block is SwinTransformerBlock.
func (n dctlsa) block(t *nn.Tape, x nn.Tensor, h, w int64, shift bool) nn.Tensor {
	b, c := x.Dim(0), x.Dim(2)
	x = t.View(x, b, h, w, c)
	shifted := x
	if shift {
		shifted = t.Hold(t.Roll(x))
	}
	y := t.Call("attn", shifted, n.attention)
	if shift {
		shifted = t.Rebind(shifted, y)
		y = t.Roll(shifted)
	}
	y = t.Hold(t.View(y, b, h*w, c))
	return t.Rebind(y, t.Add(y, t.Call("mlp", y, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		x = t.Hold(t.Linear("fc1", x, 2*c, true))
		x = t.Rebind(x, t.GELU(x))
		return t.Rebind(x, t.Linear("fc2", x, c, true))
	})))
}

// attention is WindowAttention: a matrix of a head's channels for each window, after convolutions between neighbours.
func (n dctlsa) attention(t *nn.Tape, x nn.Tensor) nn.Tensor {
	const ws = dctlsaWindow
	b, h, w, c := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	temp := t.Hold(t.Contiguous(t.Permute(x, 0, 3, 1, 2)))
	local := t.Hold(t.Call("local", temp, func(t *nn.Tape, x nn.Tensor) nn.Tensor { // LocalModule
		norm, point := nn.BatchNorm{}.Module(), nn.Conv{Out: c, K: 1, NoBias: true}.Module()
		return t.Sequential("", x, norm, point, nn.Conv{Out: c, K: 3, Groups: c, NoBias: true}.Module(), norm, point)
	}))
	local = t.Rebind(local, t.Add(local, temp))
	local = t.Rebind(local, t.Contiguous(t.Permute(local, 0, 2, 3, 1)))
	qkv := t.Hold(t.Linear("qkv", local, 3*c, true))
	qkv = t.Rebind(qkv, t.Call("", qkv, func(t *nn.Tape, x nn.Tensor) nn.Tensor { return windows(t, x, ws) }))
	qkv = t.Permute(t.View(qkv, -1, ws*ws, 3, n.heads, c/n.heads), 2, 0, 3, 1, 4)
	p := t.Unbind(qkv)
	q, k, v := p[0], p[1], p[2]
	k = t.Hold(t.Softmax(k))
	q = t.Hold(t.MulScalar(q))
	attn := t.Hold(t.Matmul(t.Transpose(k, -2, -1), v))
	y := t.Hold(t.View(t.Transpose(t.Matmul(q, attn), 1, 2), -1, ws*ws, c))
	y = t.Rebind(y, t.Linear("proj", y, c, true))
	y = t.Rebind(y, windowReverse(t, t.View(y, -1, ws, ws, c), ws, b, h, w))
	return t.Rebind(y, t.Add(y, local))
}
