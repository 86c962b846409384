package arch

import (
	"fmt"
	"slices"

	"github.com/launch-ml/launch/core/nn"
)

// GateRV3 (umzi2): traiNNer/archs/gaterv3_arch.py at 68629319.
var _ = entry(func() {
	gater := func(enc, dec []int64, own bool) builder {
		return func(s Spec, a *args) Network {
			n := gaterV3{
				scale: s.Scale, inCh: a.int("in_ch", 3), dim: 32, enc: enc, dec: dec,
				latent: a.int("num_latent", 8), sisr: a.int("sisr_blocks", 4),
			}
			if own { // the others pass dim and their blocks themselves, and a second one is a TypeError
				n.dim, n.enc, n.dec = a.int("dim", 32), a.ints("enc_blocks", enc...), a.ints("dec_blocks", dec...)
			}
			a.ignore("end_gamma_init", "flash")
			n.up = upsampler1{a.string("upsample", "pixelshuffle"), s.Scale, n.inCh, a.int("upsample_mid_dim", 48)}
			refuse(a.bool("attention", false), "attention: true: %w", ErrUnknown)
			refuse(len(n.enc) != len(n.dec), "enc_blocks %v and dec_blocks %v are not of one length", n.enc, n.dec)
			refuse(n.dim < 8 || n.dim%2 != 0, "dim %d does not divide by 2 into branches of at least one channel", n.dim)
			if n.scale != 1 {
				n.up.check(n.dim)
			}
			return Network{InCh: n.inCh, Forward: n.forward, Multiple: n.pad()}
		}
	}
	register(gater([]int64{2, 2, 4, 6}, []int64{2, 2, 2, 2}, true), "gaterv3")
	register(gater([]int64{2, 2, 4}, []int64{2, 2, 2}, false), "gaterv3_s")
	register(gater([]int64{2, 2, 4, 6}, []int64{2, 2, 2, 2}, false), "gaterv3_r")
})

type gaterV3 struct {
	scale, inCh, dim, latent, sisr int64
	enc, dec                       []int64
	up                             upsampler1
}

func (n gaterV3) pad() int64 { return 1 << len(n.enc) }

// forward is GateRV3.forward.
func (n gaterV3) forward(t *nn.Tape, inp nn.Tensor) nn.Tensor {
	h, w := inp.Dim(2), inp.Dim(3)
	inp = t.Hold(t.PadTo(inp, true, inp.Dim(0), inp.Dim(1), multiple(h, n.pad()), multiple(w, n.pad()))) // check_img_size
	x := t.Hold(t.Conv2d("in_to_dim", inp, conv(n.dim, 3)))
	sisr := t.Hold(n.span(t, x))

	var shorts []nn.Tensor
	for i, gated := range n.enc {
		var short nn.Tensor
		x = t.Rebind(x, t.Call(fmt.Sprint("gater_encode.", i), x, func(t *nn.Tape, x nn.Tensor) nn.Tensor { // Block
			x = t.Sequential("gated", x, nn.Repeat(metaGated, gated)...)
			short = t.Hold(x)
			return t.Sequential("scale", x, nn.Conv{Out: x.Dim(1) / 2, K: 3, NoBias: true}.Module(), unshuffle(2))
		}))
		shorts = append(shorts, t.Hold(short))
	}

	x = t.Rebind(x, t.Sequential("latent", x, nn.Repeat(gaterGatedCNN, n.latent)...))
	slices.Reverse(shorts)
	for i, gated := range n.dec {
		short := shorts[i]
		x = t.Rebind(x, t.Call(fmt.Sprint("decode.", i), x, func(t *nn.Tape, x nn.Tensor) nn.Tensor { // Block
			dim := x.Dim(1)
			up := t.Sequential("scale", x, nn.Conv{Out: dim * 2, K: 3, NoBias: true}.Module(), shuffle(2))
			x = t.Hold(t.Cat(1, up, short))
			x = t.Rebind(x, t.Conv2d("shor", x, conv(dim/2, 1)))
			return t.Sequential("gated", x, nn.Repeat(metaGated, gated)...)
		}))
	}

	gamma := t.Param("gamma", 1, n.inCh, 1, 1)
	if n.scale == 1 {
		x = t.Rebind(x, t.Add(t.Conv2d("dim_to_in", t.Add(x, sisr), conv(n.inCh, 3)), t.Mul(gamma, inp)))
	} else {
		x = t.Rebind(x, t.Add(t.Call("dim_to_in", t.Add(x, sisr), n.up.module), t.Mul(gamma, t.Upsample(inp, n.scale))))
	}
	return t.Narrow(t.Narrow(x, 2, h*n.scale), 3, w*n.scale)
}

// span is the branch of SPAB blocks, up to where forward deletes what it held.
func (n gaterV3) span(t *nn.Tape, x nn.Tensor) (y nn.Tensor) {
	spab := func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		out, _ := gaterSPAB(t, x)
		return out
	}
	return t.Within("", func() nn.Tensor {
		short := t.Hold(t.Call("span_block0", x, spab))
		sisr := t.Hold(t.Sequential("span_n_b", short, nn.Repeat(spab, n.sisr)...))
		var out nn.Tensor
		sisr = t.Rebind(sisr, t.Call("span_end", sisr, func(t *nn.Tape, x nn.Tensor) (y nn.Tensor) {
			y, out = gaterSPAB(t, x)
			return y
		}))
		t.Hold(out)
		sisr = t.Rebind(sisr, t.Call("sisr_end_conv", sisr, gaterConv3XC(n.dim, 1, true)))
		return t.Rebind(sisr, t.Conv2d("sisr_cat_conv", t.Cat(1, x, sisr, short, out), conv(n.dim, 1)))
	}, x)
}

// gaterSPAB is SPAB.forward. Its activation works in place, so what it returns as out1 is the activation's result.
func gaterSPAB(t *nn.Tape, x nn.Tensor) (out, out1 nn.Tensor) {
	c := gaterConv3XC(x.Dim(1), 2, false)
	out1 = t.Hold(t.SiLUInplace(t.Call("c1_r", x, c)))
	out2 := t.Hold(t.SiLUInplace(t.Call("c2_r", out1, c)))
	out3 := t.Hold(t.Call("c3_r", out2, c))
	simAtt := t.Hold(t.AddScalar(t.Sigmoid(out3)))
	return t.Mul(t.Add(out3, x), simAtt), out1
}

// gaterConv3XC is Conv3XC: as SPAN's, with a bias or without, and an eval_conv that is not frozen, though training never
// reaches it.
func gaterConv3XC(out, gain int64, bias bool) nn.Module {
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		in := x.Dim(1)
		for _, p := range [...]struct {
			name       string
			out, in, k int64
		}{{"sk", out, in, 1}, {"conv.0", in * gain, in, 1}, {"conv.1", out * gain, in * gain, 3}, {"conv.2", out, out * gain, 1}} {
			t.Scope(p.name, func() {
				t.Param("weight", p.out, p.in, p.k, p.k)
				if bias {
					t.Param("bias", p.out)
				}
			})
		}
		eval := nn.Conv{Out: out, K: 3, NoBias: !bias, Frozen: true}
		if !t.Training {
			return t.Conv2d("eval_conv", x, eval)
		}
		t.Scope("eval_conv", func() {
			t.FrozenParam("weight", out, in, 3, 3)
			if bias {
				t.FrozenParam("bias", out)
			}
		})
		xPad := t.Hold(t.Pad(x, 2, 2, false))
		y := t.Conv2d("conv.0", xPad, nn.Conv{Out: in * gain, K: 1, NoBias: !bias})
		y = t.Conv2d("conv.1", y, nn.Conv{Out: out * gain, K: 3, Valid: true, NoBias: !bias})
		y = t.Conv2d("conv.2", y, nn.Conv{Out: out, K: 1, NoBias: !bias})
		return t.Add(y, t.Conv2d("sk", x, nn.Conv{Out: out, K: 1, NoBias: !bias}))
	}
}

// metaGated is MetaGated. Both gammas have a hook on their gradient, of a few numbers.
func metaGated(t *nn.Tape, x nn.Tensor) nn.Tensor {
	dim := x.Dim(1)
	gamma0, gamma1 := t.Param("gamma0", 1, dim, 1, 1), t.Param("gamma1", 1, dim, 1, 1)
	short := x
	x = t.Hold(t.Sequential("local", x, rmsNormFlat, conv(2*dim, 1).Module(), nn.Conv{Out: 2 * dim, K: 3, Groups: dim}.Module(),
		simpleGate))
	x = t.Rebind(x, t.Mul(x, t.Sequential("sca", x, (*nn.Tape).AvgPoolAll, conv(dim, 1).Module())))
	x = t.Rebind(x, t.Add(t.Mul(x, gamma0), short))
	return t.Add(t.Mul(t.Call("glob", x, gaterGatedCNN), gamma1), x)
}

// simpleGate is SimpleGate: one half of the channels times the other.
func simpleGate(t *nn.Tape, x nn.Tensor) nn.Tensor {
	p := t.Split(x, 1, x.Dim(1)/2, x.Dim(1)/2)
	return t.Mul(p[0], p[1])
}

// gaterGatedCNN is GatedCNNBlock, without a residual connection, at an expansion of 1.5 and all channels convolved.
func gaterGatedCNN(t *nn.Tape, x nn.Tensor) nn.Tensor {
	dim := x.Dim(1)
	hidden := int64(1.5 * float64(dim))
	x = t.Hold(t.Call("norm", x, rmsNormFlat))
	// fc1 is Conv2d(dim, hidden * 2, 1, 1): a kernel and a stride of one.
	p := t.Split(t.Conv2d("fc1", x, conv(2*hidden, 1)), 1, hidden, hidden-dim, dim)
	g, i := t.Hold(p[0]), p[1]
	c := t.Hold(t.Call("token_mix", p[2], inceptionDW(dim/8, 3, 11)))
	x = t.Rebind(x, t.Mul(t.Mish(g), t.Cat(1, i, c)))
	return t.Mish(t.Conv2d("fc2", x, conv(dim, 1)))
}

func unshuffle(r int64) nn.Module {
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.PixelUnshuffle(x, r) }
}
