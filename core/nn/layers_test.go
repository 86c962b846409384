package nn_test

import "github.com/launch-ml/launch/core/nn"

const channels = 16

type (
	T = *nn.Tape
	X = nn.Tensor
)

func conv(out, k int64) nn.Conv { return nn.Conv{Out: out, K: k} }

func body(m nn.Module) nn.Module { return func(t T, x X) X { return t.Call("body", x, m) } }

func a(t T, x X) X { return t.Conv2d("a", x, conv(channels, 3)) }

// layers are the networks of tools/capture/layers.py, under the same names.
var layers = map[string]nn.Module{
	"conv":           body(conv(channels, 3).Module()),
	"conv stride 2":  body(nn.Conv{Out: channels, K: 3, Stride: 2}.Module()),
	"conv depthwise": body(nn.Conv{Out: channels, K: 3, Groups: channels}.Module()),
	"conv dilated":   body(nn.Conv{Out: channels, K: 3, Dilation: 2}.Module()),
	"conv no bias":   body(nn.Conv{Out: channels, K: 3, NoBias: true}.Module()),
	"conv frozen":    body(nn.Conv{Out: channels, K: 3, Frozen: true}.Module()),
	"spectral norm":  body(nn.Conv{Out: channels, K: 3, NoBias: true, Spectral: true}.Module()),
	"batch norm":     func(t T, x X) X { return t.BatchNorm2d("body", x) },
	"group norm":     func(t T, x X) X { return t.GroupNorm("body", x, 4) },
	"layer norm by hand": body(func(t T, x X) X {
		w, b := t.Param("weight", channels), t.Param("bias", channels)
		u := t.Hold(t.MeanDim(x, 1))
		s := t.Hold(t.MeanDim(t.Pow(t.Sub(x, u)), 1))
		x = t.Hold(t.Div(t.Sub(x, u), t.Sqrt(t.AddScalar(s))))
		return t.Add(t.Mul(t.View(w, channels, 1, 1), x), t.View(b, channels, 1, 1))
	}),
	"prelu":              func(t T, x X) X { return t.PReLU("body", x, channels) },
	"relu":               (*nn.Tape).ReLU,
	"relu inplace":       (*nn.Tape).ReLUInplace,
	"leaky relu":         (*nn.Tape).LeakyReLU,
	"leaky relu inplace": (*nn.Tape).LeakyReLUInplace,
	"silu":               (*nn.Tape).SiLU,
	"silu inplace":       (*nn.Tape).SiLUInplace,
	"gelu":               (*nn.Tape).GELU,
	"mish":               (*nn.Tape).Mish,
	"mish inplace":       (*nn.Tape).MishInplace,
	"sigmoid":            (*nn.Tape).Sigmoid,
	"tanh":               (*nn.Tape).Tanh,
	"layer scale":        func(t T, x X) X { return t.Mul(x, t.Param("gamma", 1, channels, 1, 1)) },
	"scalar gain":        func(t T, x X) X { return t.Mul(x, t.Param("gamma")) },
	"pixel shuffle":      func(t T, x X) X { return t.PixelShuffle(x, 2) },
	"pixel unshuffle":    func(t T, x X) X { return t.PixelUnshuffle(x, 2) },

	"interpolate nearest":  func(t T, x X) X { return t.Upsample(x, 2) },
	"interpolate bilinear": func(t T, x X) X { return t.Upsample(x, 2) },
	"interpolate bicubic":  func(t T, x X) X { return t.Upsample(x, 2) },
	"pad constant":         func(t T, x X) X { return t.Pad(x, 2, 2, false) },
	"pad reflect":          func(t T, x X) X { return t.Pad(x, 2, 2, true) },

	"cat": func(t T, x X) X { return t.Cat(1, a(t, x), x) },
	"split": func(t T, x X) X {
		p := t.Split(x, 1, channels/2, channels/2)
		half := conv(channels/2, 3)
		return t.Cat(1, t.Conv2d("a", p[0], half), t.Conv2d("a", p[1], half))
	},
	"slice": func(t T, x X) X { return a(t, t.Narrow(x, 1, channels/2)) },
	"add":   func(t T, x X) X { return t.Add(a(t, x), x) },
	"mul":   func(t T, x X) X { return t.Mul(a(t, x), x) },
	"sub":   func(t T, x X) X { return t.Sub(x, a(t, x)) },
	"div":   func(t T, x X) X { return t.Div(x, t.AddScalar(a(t, x))) },
	"abs":   (*nn.Tape).Abs,
	"sqrt":  (*nn.Tape).Sqrt,
	"pow":   (*nn.Tape).Pow,
	"exp":   (*nn.Tape).Exp,
	"clamp": (*nn.Tape).Clamp,
	"norm":  func(t T, x X) X { return t.Div(x, t.AddScalar(t.Norm(x, 1))) },
	"channel attention": func(t T, x X) X {
		y := t.Conv2d("a", t.AvgPoolAll(x), conv(4, 1))
		return t.Mul(x, t.Sigmoid(t.Conv2d("b", t.ReLUInplace(y), conv(channels, 1))))
	},
	"max pool": func(t T, x X) X { return t.MaxPool2d(x, 2, 2) },
	"avg pool": func(t T, x X) X { return t.AvgPool2d(x, 2, 2, 0) },
	"where": func(t T, x X) X {
		return t.Where(t.Compare(x, x), x, a(t, x))
	},
	"maximum": func(t T, x X) X { return t.Max(x, a(t, x)) },

	"layer norm of tokens": func(t T, x X) X {
		return image(t, t.LayerNorm("n", tokens(t, x)), x)
	},
	"mlp of tokens": func(t T, x X) X {
		y := t.GELU(t.Linear("a", tokens(t, x), 2*channels, true))
		return image(t, t.Linear("b", y, channels, true), x)
	},
	"attention in windows":       func(t T, x X) X { return windowAttention(t, x, false) },
	"fused attention in windows": func(t T, x X) X { return windowAttention(t, x, true) },
	"attention over the image":   imageAttention,
	"dense block": func(t T, x X) X {
		x1 := t.Hold(t.LeakyReLUInplace(t.Conv2d("c1", x, conv(channels, 3))))
		x2 := t.Hold(t.LeakyReLUInplace(t.Conv2d("c2", t.Cat(1, x, x1), conv(channels, 3))))
		x3 := t.Hold(t.Conv2d("c3", t.Cat(1, x, x1, x2), conv(channels, 3)))
		return t.Add(t.MulScalar(x3), x)
	},
	"in-place slices": func(t T, x X) X {
		out, count := t.Hold(t.ZerosLike(x)), t.Hold(t.ZerosLike(x))
		var part, weight X
		for i := range 2 {
			p := t.Conv2d("c1", t.Narrow(x, 3, channels), conv(channels, 3))
			if i > 0 {
				t.Rebind(part, p)
			}
			part = t.Hold(p)
			w := t.ZerosLike(part)
			if i > 0 {
				t.Rebind(weight, w)
			}
			weight = t.Hold(w)
			out = t.WriteSlice(out, t.Mul(weight, part), true)
			count = t.WriteSlice(count, weight, true)
		}
		out = t.Rebind(out, t.Div(out, t.AddScalar(count)))
		return t.Add(x, out)
	},
	"two blocks": func(t T, x X) X { return t.Call("b", t.Call("a", x, branch), branch) },
	"two blocks, checkpointed": func(t T, x X) X {
		return t.Checkpoint("b", t.Checkpoint("a", x, branch), branch)
	},
	"l1 loss":  func(t T, x X) X { return t.Mul(a(t, x), t.L1Loss(a(t, x), t.ZerosLike(x))) },
	"mse loss": func(t T, x X) X { return t.Mul(a(t, x), t.MSELoss(a(t, x), t.ZerosLike(x))) },
}

func branch(t T, x X) X {
	return t.Add(t.Conv2d("c2", t.GELU(t.Conv2d("c1", x, conv(2*channels, 3))), conv(channels, 3)), x)
}

func tokens(t T, x X) X {
	return t.Transpose(t.View(x, x.Dim(0), x.Dim(1), x.Dim(2)*x.Dim(3)), 1, 2)
}

func image(t T, y, x X) X { return t.Reshape(t.Transpose(y, 1, 2), x.Shape()...) }

func windowAttention(t T, x X, fused bool) X {
	const ws, heads = 8, 4
	b, c, h, w := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	x = t.Permute(x, 0, 2, 3, 1)
	x = t.View(x, b, h/ws, ws, w/ws, ws, c)
	x = t.Hold(t.View(t.Contiguous(t.Permute(x, 0, 1, 3, 2, 4, 5)), -1, ws*ws, c))
	n := x.Dim(0)

	qkv := t.Hold(t.Linear("qkv", x, 3*c, true))
	p := t.Unbind(t.Permute(t.View(qkv, n, ws*ws, 3, heads, c/heads), 2, 0, 3, 1, 4))
	q, k, v := p[0], p[1], p[2]
	if fused {
		x = t.Rebind(x, t.SDPA(q, k, v))
	} else {
		q = t.Hold(t.MulScalar(q))
		attn := t.Hold(t.Matmul(q, t.Transpose(k, -2, -1)))
		attn = t.Rebind(attn, t.Softmax(attn))
		x = t.Rebind(x, t.Matmul(attn, v))
	}
	x = t.Rebind(x, t.Reshape(t.Transpose(x, 1, 2), n, ws*ws, c))
	x = t.Rebind(x, t.Linear("proj", x, c, true))
	y := t.Permute(t.View(x, b, h/ws, w/ws, ws, ws, c), 0, 1, 3, 2, 4, 5)
	return t.Permute(t.View(t.Contiguous(y), b, h, w, c), 0, 3, 1, 2)
}

func imageAttention(t T, x X) X {
	b, c, h, w := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	q := t.Hold(t.Permute(t.View(t.Conv2d("q", x, conv(2, 1)), b, -1, h*w), 0, 2, 1))
	k := t.Hold(t.View(t.Conv2d("k", x, conv(2, 1)), b, -1, h*w))
	v := t.Hold(t.View(t.Conv2d("v", x, conv(c, 1)), b, -1, h*w))
	attn := t.Hold(t.Bmm(q, k))
	attn = t.Rebind(attn, t.Softmax(t.DivScalar(attn)))
	out := t.Hold(t.View(t.Bmm(v, t.Permute(attn, 0, 2, 1)), b, c, h, w))
	return t.Add(x, t.Mul(t.Param("gamma", 1), out))
}
