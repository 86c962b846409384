package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// EMT (Zheng et al., 2023): traiNNer/archs/emt_arch.py at 68629319.
var _ = register(func(s Spec, a *args) Network {
	n := emt{
		scale: s.Scale, in: a.int("num_in_ch", 3), out: a.int("num_out_ch", 3), dim: a.int("dim", 60),
		blocks: a.int("n_blocks", 6), layers: a.int("n_layers", 6), heads: a.int("num_heads", 3), mlp: a.int("mlp_ratio", 2),
		gtls: a.int("n_GTLs", 2), upsampler: a.string("upsampler", "pixelshuffle"),
		windows: [][2]int64{{32, 8}, {8, 32}},
	}
	for _, name := range [...]string{"window_list", "shift_list"} {
		_, ok := a.get(name)
		refuse(ok, "%s: %w", name, ErrUnknown)
	}
	switch {
	case n.in != 3 || n.out != 3:
		reject("num_in_ch, num_out_ch: the means that are taken off and added have 3")
	case n.dim%5 != 0 || n.heads < 1 || n.dim%n.heads != 0:
		reject("dim %d does not divide by 5 and among %d heads", n.dim, n.heads)
	case n.upsampler == "pixelshuffle":
		upsamples(n.scale)
	case n.upsampler != "pixelshuffledirect":
		reject("upsampler %q is none of pixelshuffle, pixelshuffledirect", n.upsampler)
	}
	return Network{InCh: n.in, Forward: n.forward, BatchNorm: true, Multiple: 32, MinLQ: 17}
}, "emt")

type emt struct {
	scale, in, out, dim, blocks, layers, heads, mlp, gtls int64
	upsampler                                             string
	windows                                               [][2]int64
}

// forward is EMT.forward.
func (n emt) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	mean := nn.Conv{Out: 3, K: 1, Frozen: true}
	sub := t.Hold(t.Conv2d("sub_mean", x, mean))
	head := t.Hold(t.Conv2d("head", sub, conv(n.dim, 3)))
	body := t.Hold(t.Sequential("body", head, nn.Repeat(n.block, n.blocks)...))
	body = t.Rebind(body, t.Add(body, head))
	var ms []nn.Module
	if n.upsampler == "pixelshuffledirect" {
		ms = append(ms, conv(3*n.scale*n.scale, 3).Module(), shuffle(n.scale))
	} else {
		by := int64(2)
		if n.scale == 3 {
			by = 3
		}
		for s := n.scale; s > 1; s /= by {
			ms = append(ms, conv(by*by*n.dim, 3).Module(), shuffle(by))
		}
		ms = append(ms, conv(n.out, 3).Module())
	}
	tail := t.Hold(t.Sequential("tail", body, ms...))
	return t.Conv2d("add_mean", tail, mean)
}

// block is MixedTransformerBlock: a few layers with attention, the others with shifted pixels.
func (n emt) block(t *nn.Tape, x nn.Tensor) nn.Tensor {
	for i := range n.layers {
		sa := n.tokenMixer
		if i < n.gtls {
			sa = func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.swsa(t, x, i%2 == 1) }
		}
		y := t.Add(x, t.Call(fmt.Sprint("sa_list.", i), x, sa))
		x = t.Assign(i == 0, x, y) // what the caller passed is the caller's
		x = t.Rebind(x, t.Add(x, t.Call(fmt.Sprint("mlp_list.", i), x, n.feedForward)))
	}
	return x
}

// tokenMixer is TokenMixer with PixelMixer.
func (n emt) tokenMixer(t *nn.Tape, x nn.Tensor) nn.Tensor {
	y := t.Call("token_mixer", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		mask := t.FrozenParam("mask", n.dim, 1, 3, 3)
		return t.ConvWeight(t.PadCircular(x, 1), mask, nn.Tensor{}, nn.Conv{Groups: n.dim, Valid: true})
	})
	return t.BatchNorm2d("norm", t.Sub(y, x))
}

// swsa is SWSA: attention of queries with themselves, within windows of two shapes.
func (n emt) swsa(t *nn.Tape, x nn.Tensor, shift bool) nn.Tensor {
	b, c := x.Dim(0), n.dim/int64(len(n.windows))
	qkv := t.Hold(t.Sequential("attn", x, conv(2*n.dim, 1).Module(), nn.BatchNorm{}.Module()))
	parts := t.Split(qkv, 1, 2*c, 2*c)
	var outputs []nn.Tensor
	var slice, qv, attn, output nn.Tensor
	bind := func(name *nn.Tensor, y nn.Tensor) {
		if name.Dims() > 0 {
			y = t.Rebind(*name, y)
		}
		*name = t.Hold(y)
	}
	for i, ws := range n.windows {
		h, w := x.Dim(2), x.Dim(3)
		hPad, wPad := multiple(h, ws[0]), multiple(w, ws[1])
		bind(&slice, t.PadTo(parts[i], true, b, 2*c, hPad, wPad)) // check_image_size
		if shift {
			bind(&slice, t.Roll(slice))
		}
		count, tokens := b*n.heads*(hPad/ws[0])*(wPad/ws[1]), ws[0]*ws[1]
		bind(&qv, t.Rearrange(slice, 2, count, tokens, c/n.heads))
		p := t.Unbind(qv)
		bind(&attn, t.Matmul(p[0], t.Transpose(p[0], -2, -1)))
		bind(&attn, t.Softmax(attn))
		bind(&output, t.Rearrange(t.Matmul(attn, p[1]), b, c, hPad, wPad))
		if shift {
			bind(&output, t.Roll(output))
		}
		outputs = append(outputs, t.Hold(t.Narrow(t.Narrow(output, 2, h), 3, w)))
		output = nn.Tensor{} // the list keeps it
	}
	y := t.Hold(t.Cat(1, outputs...))
	return t.Rebind(y, t.Sequential("proj", y, conv(n.dim, 1).Module()))
}

// feedForward is Mlp: shifts by frozen depthwise convolutions, and Swish.
func (n emt) feedForward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	shifted := func(out int64) nn.Module { // ShiftConv2d1x1
		return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			in := x.Dim(1)
			weight, bias := t.Param("weight", out, in, 1, 1), t.Param("bias", out)
			mask := t.FrozenParam("mask", in, 1, 3, 3)
			x = t.Hold(t.ConvWeight(x, mask, nn.Tensor{}, nn.Conv{Groups: in}))
			return t.Rebind(x, t.ConvWeight(x, weight, bias, nn.Conv{}))
		}
	}
	x = t.Hold(t.Call("fc1", x, shifted(n.dim*n.mlp)))
	x = t.Rebind(x, t.Call("act", x, swish))
	return t.Rebind(x, t.Call("fc2", x, shifted(n.dim)))
}

// swish is Swish, whose function keeps its input alone.
func swish(t *nn.Tape, x nn.Tensor) nn.Tensor {
	return t.Apply(nn.Function{
		Name:    "_Swish.apply",
		Forward: func() (nn.Tensor, []nn.Tensor) { return t.Mul(x, t.Sigmoid(x)), []nn.Tensor{x} },
		Temps:   2 * int64(x.Bytes()),
	}, x)
}
