package arch

import (
	"fmt"
	"math/bits"

	"github.com/launch-ml/launch/core/nn"
)

// FlexNet: traiNNer/archs/flexnet_arch.py at 68629319, in a line of blocks of one size, or in a pyramid ("meta").
var _ = entry(func() {
	flexNet := func(pipeline string, blocks ...int64) builder {
		return func(s Spec, a *args) Network {
			n := flexNet{
				scale: s.Scale, in: a.int("inp_channels", 3), out: a.int("out_channels", 3), dim: a.int("dim", 64),
				blocks: a.ints("num_blocks", blocks...), hidden: a.float("hidden_rate", 4), norm: a.bool("channel_norm", false),
				attnDrop: a.float("attn_drop", 0), projDrop: a.float("proj_drop", 0),
				meta: a.string("pipeline_type", pipeline) != "linear", upsampler: a.string("upsampler", "pixelshuffle"),
			}
			ws := a.int("window_size", flexWindow) // get_lepe (line 216) takes each for 8
			refuse(ws != flexWindow, "window_size %d: the position encoding is made for %d", ws, flexWindow)
			net := Network{InCh: n.in, Forward: n.forward, Multiple: flexWindow}
			if n.meta {
				refuse(len(n.blocks) < 4, "num_blocks: the pyramid has four levels")
				net.Multiple *= 8
			}
			net.MinLQ = net.Multiple/2 + 1 // what is reflected is smaller than the image
			n.check()
			return net
		}
	}
	register(flexNet("linear", 6, 6, 6, 6, 6, 6), "flexnet")
	register(flexNet("meta", 4, 6, 6, 8), "metaflexnet")
	networks.add(Neosr, flexNetNeosr("linear", 64, 6, 6, 6, 6, 6, 6), "flexnet")
	networks.add(Neosr, flexNetNeosr("meta", 48, 4, 6, 6, 8), "metaflexnet")
})

// flexNetNeosr is neosr's FlexNet (neosr/archs/flexnet_arch.py:604 at 31c7022).
func flexNetNeosr(pipeline string, dim int64, blocks ...int64) builder {
	return func(s Spec, a *args) Network {
		n := flexNet{
			scale: s.Scale, in: a.int("inp_channels", 3), out: a.int("out_channels", 3), dim: a.int("dim", dim),
			blocks: a.ints("num_blocks", blocks...), hidden: a.float("hidden_rate", 4), norm: a.bool("channel_norm", false),
			attnDrop: a.float("attn_drop", 0), projDrop: a.float("proj_drop", 0),
			meta: a.string("pipeline_type", pipeline) != "linear", flash: a.bool("flash_attn", true), inplace: true,
		}
		switch name := a.string("upsampler", "ps"); name {
		case "ps":
			n.upsampler = "pixelshuffle"
		case "n+c":
			n.upsampler = "nearest+conv"
		case "dys":
			n.upsampler = "dysample"
		default:
			reject("upsampler: %q is none of ps, n+c, dys", name)
		}
		ws := a.int("window_size", flexWindow)
		refuse(ws != flexWindow, "window_size %d: the position encoding is made for %d", ws, flexWindow)
		refuse(n.meta && len(n.blocks) < 4, "num_blocks: the pyramid has four levels")
		net := Network{InCh: n.in, Forward: n.forward, Multiple: flexWindow}
		if n.meta {
			net.Multiple *= 8
		}
		net.MinLQ = net.Multiple/2 + 1
		n.check()
		return net
	}
}

// flexWindow is the side of a window of attention.
const flexWindow = 8

type flexNet struct {
	scale, in, out, dim        int64
	blocks                     []int64
	hidden, attnDrop, projDrop float64
	norm, meta                 bool
	upsampler                  string
	flash                      bool // neosr's: its attention has no graph
	inplace                    bool // neosr's: its Mish and its ReLU work in place
}

// check finds what upstream's constructor stops at.
func (n flexNet) check() {
	switch n.upsampler {
	case "pixelshuffle":
	case "nearest+conv":
		upsamples(n.scale)
	case "dysample":
		refuse(n.dim%2 != 0 || n.dim < 2, "dim: incorrect in_channels and groups values of DySample")
	default:
		reject("upsampler %s not supported, choose one of these options: pixelshuffle, nearest+conv, dysample", n.upsampler)
	}
}

// forward is FlexNet.forward (line 699).
func (n flexNet) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	t.Buffer("window_size", nn.Bool) // uint8, of one byte as well
	if n.flash {
		t.Buffer("flash_attn", nn.Bool, 1)
	}
	h, w, side := x.Dim(2), x.Dim(3), int64(flexWindow)
	if n.meta {
		side *= 8
	}
	x = t.Hold(t.PadTo(x, true, x.Dim(0), x.Dim(1), multiple(h, side), multiple(w, side))) // check_img_size
	shortCut := t.Hold(t.Call("short_cut", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.convBlock(t, x, n.dim) }))
	x = t.Rebind(x, t.Conv2d("in_to_feat", x, conv(n.dim, 3)))
	pipeline := n.linear
	if n.meta {
		pipeline = n.pyramid
	}
	x = t.Rebind(x, t.Call("pipeline", x, pipeline))
	x = t.Rebind(x, t.Cat(1, x, shortCut))
	x = t.Rebind(x, t.Call("to_img", x, n.toImage))
	return t.Narrow(t.Narrow(x, 2, h*n.scale), 3, w*n.scale)
}

// toImage is to_img.
func (n flexNet) toImage(t *nn.Tape, x nn.Tensor) nn.Tensor {
	switch n.upsampler {
	case "pixelshuffle":
		return t.Sequential("", x, conv(n.out*n.scale*n.scale, 3).Module(), shuffle(n.scale))
	case "dysample":
		return dySample(n.out, n.scale, 4, true)(t, x)
	}
	t.Buffer("scale_factor", nn.Bool)
	return t.Sequential("", x, conv(n.dim, 3).Module(), func(t *nn.Tape, x nn.Tensor) nn.Tensor { // InterpolateUpsampler
		by, times, lrelu := int64(2), bits.Len64(uint64(n.scale))-1, nn.Module((*nn.Tape).LeakyReLUInplace)
		if n.scale == 3 {
			by, times = 3, 1
		}
		var ms []nn.Module
		for range times {
			ms = append(ms, conv(n.dim, 3).Module(), func(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.Upsample(x, by) }, lrelu)
		}
		if n.scale == 3 || bits.OnesCount64(uint64(n.scale)) == 1 {
			ms = append(ms, conv(n.dim, 3).Module(), lrelu)
		}
		return t.Sequential("", x, append(ms, conv(n.out, 3).Module())...)
	})
}

// convBlock is ConvBlock.
func (n flexNet) convBlock(t *nn.Tape, x nn.Tensor, out int64) nn.Tensor {
	mish := (*nn.Tape).Mish
	if n.inplace {
		mish = (*nn.Tape).MishInplace
	}
	out1 := t.Hold(t.Sequential("block", x, conv(out, 3).Module(), mish, conv(out, 3).Module(), mish))
	return t.Add(out1, t.Hold(t.Conv2d("conv11", x, conv(out, 1))))
}

// linear is LinearPipeline: LBlock after LBlock, between which images are tokens.
func (n flexNet) linear(t *nn.Tape, x nn.Tensor) nn.Tensor {
	h, w := x.Dim(2), x.Dim(3)
	y := t.Hold(tokens(t, x))
	t.Rebind(x, y)
	for i, count := range n.blocks {
		y = t.Rebind(y, t.Call(fmt.Sprint("att.", i), y, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			return tokens(t, n.mixed(t, x, h, w, count))
		}))
	}
	return spread(t, y, h, w)
}

// mixed is what LBlock and MBlock do with tokens: blocks, whose result stands beside what they were given in a ConvBlock.
func (n flexNet) mixed(t *nn.Tape, x nn.Tensor, h, w, count int64) nn.Tensor {
	y := x // the shortcut: whoever calls holds it
	for i := range count {
		z := t.Call(fmt.Sprint("t_blocks.", i), y, func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.block(t, x, h, w) })
		y = t.Assign(i == 0, y, z)
	}
	y = t.Rebind(y, t.Cat(-1, x, y))
	img := spread(t, y, h, w) // of twice the channels
	return t.Rebind(y, t.Call("conv", img, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		return n.convBlock(t, x,
			x.Dim(1)/2)
	}))
}

// mBlock is MBlock.
func (n flexNet) mBlock(count int64) nn.Module {
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		return t.Sequential("", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			y := t.Hold(tokens(t, x))
			return n.mixed(t, y, x.Dim(2), x.Dim(3), count)
		})
	}
}

// pyramid is MetaPipeline.
func (n flexNet) pyramid(t *nn.Tape, x nn.Tensor) nn.Tensor {
	plain := func(out int64) nn.Module { return nn.Conv{Out: out, K: 3, NoBias: true}.Module() }
	level := func(name string, count int64, x nn.Tensor) nn.Tensor { return t.Call(name, x, n.mBlock(count)) }
	down := func(name string, x nn.Tensor) nn.Tensor {
		return t.Sequential(name+".body", x, plain(x.Dim(1)/2), func(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.PixelUnshuffle(x, 2) })
	}
	up := func(name string, x nn.Tensor) nn.Tensor {
		return t.Sequential(name+".body", x, plain(x.Dim(1)), shuffle(2))
	}

	enc0 := t.Hold(level("enc0", n.blocks[0], x))
	enc0 = t.Rebind(enc0, down("down1", enc0))
	enc1 := t.Hold(level("enc1", n.blocks[1], enc0))
	enc1 = t.Rebind(enc1, down("down2", enc1))
	enc2 := t.Hold(level("enc2", n.blocks[2], enc1))
	enc2 = t.Rebind(enc2, down("down3", enc2))
	enc3 := t.Hold(level("enc3", n.blocks[3], enc2))
	enc3 = t.Rebind(enc3, t.Cat(1, enc3, enc2))

	y := t.Hold(up("up1", enc3))
	y = t.Rebind(y, level("dec0", n.blocks[2], y))
	y = t.Rebind(y, t.Cat(1, y, enc1))
	y = t.Rebind(y, up("up2", y))
	y = t.Rebind(y, level("dec1", n.blocks[1], y))
	y = t.Rebind(y, t.Cat(1, y, enc0))
	y = t.Rebind(y, up("up3", y))
	return level("dec2", n.blocks[0], y)
}

// block is TransformerBlock.
func (n flexNet) block(t *nn.Tape, x nn.Tensor, h, w int64) nn.Tensor {
	c := x.Dim(-1)
	var att nn.Tensor
	if n.flash {
		att = n.attentionFlash(t, x, h, w)
	} else {
		att = t.Call("att", t.RMSNorm("rn1", x), func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.attention(t, x, h, w) })
	}
	y := t.Hold(t.Add(x, t.Mul(t.Param("gamma1", c), att)))
	ffn := t.Call("ffn", t.RMSNorm("rn2", y), func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.channelMix(t, x, h, w) })
	return t.Add(y, t.Mul(t.Param("gamma2", c), ffn))
}

// flexShift is OmniShift: three convolutions in training, one that is put together from them in eval.
func flexShift(t *nn.Tape, x nn.Tensor) nn.Tensor {
	c := x.Dim(1)
	each := func(k int64) nn.Conv { return nn.Conv{Out: c, K: k, Groups: c, NoBias: true} }
	alpha := t.Param("alpha", 4)
	if !t.Training {
		for _, k := range []int64{1, 3, 5} {
			t.Scope(fmt.Sprint("conv", k, "x", k), func() { t.FrozenParam("weight", c, 1, k, k) })
		}
		return t.Conv2d("conv5x5_reparam", x, each(5))
	}
	t.Scope("conv5x5_reparam", func() { t.FrozenParam("weight", c, 1, 5, 5) }) // which never has a gradient
	out1, out3, out5 := t.Hold(t.Conv2d("conv1x1", x, each(1))), t.Hold(t.Conv2d("conv3x3", x, each(3))), t.Hold(t.Conv2d("conv5x5", x, each(5)))
	sum := t.Mul(t.Select(alpha, 0), x)
	for _, y := range []nn.Tensor{out1, out3, out5} {
		sum = t.Add(sum, t.Mul(t.Select(alpha, 0), y))
	}
	return sum
}

// attention is LMLTVIT: of windows of tokens, as in LMLT.
func (n flexNet) attention(t *nn.Tape, x nn.Tensor, h, w int64) nn.Tensor {
	b, c := x.Dim(0), x.Dim(-1)
	x = t.Hold(t.Call("omni_shift", spread(t, x, h, w), flexShift))
	x = t.Permute(x, 0, 2, 3, 1)
	xWindow := t.Hold(windows(t, x, flexWindow))
	qkv := t.Hold(t.Linear("qkv", xWindow, 3*c, true))
	p := t.Split(qkv, -1, c, c, c)
	q, k := p[0], p[1]
	v, lepe := lmlt{}.lepe(t, p[2])
	t.Hold(v)
	t.Hold(lepe)

	attn := t.Hold(t.MulScalar(t.Matmul(q, t.Transpose(k, -2, -1))))
	attn = t.Rebind(attn, t.Softmax(attn))
	attn = t.Rebind(attn, t.Dropout(attn, n.attnDrop))
	x = t.Rebind(x, t.Add(t.Matmul(attn, v), lepe))
	x = t.Rebind(x, t.Linear("proj", x, c, true))
	x = t.Rebind(x, t.Dropout(x, n.projDrop))
	x = t.Rebind(x, windowReverse(t, x, flexWindow, b, h, w))
	return t.View(x, b, h*w, c)
}

// attentionFlash is LMLTVIT of neosr with flash_attn, of what rn1 makes of x: PyTorch's attention under no_grad
// (flexnet_arch.py:284),
// so that all before it has a graph that no loss depends on.
func (n flexNet) attentionFlash(t *nn.Tape, x nn.Tensor, h, w int64) (y nn.Tensor) {
	b, c := x.Dim(0), x.Dim(-1)
	var norm nn.Tensor
	first := t.Dead(func() { norm = t.RMSNorm("rn1", x) })
	t.Scope("att", func() {
		rest := t.Dead(func() {
			shifted := t.Hold(t.Call("omni_shift", spread(t, norm, h, w), flexShift))
			xWindow := t.Hold(windows(t, t.Permute(shifted, 0, 2, 3, 1), flexWindow))
			p := t.Split(t.Hold(t.Linear("qkv", xWindow, 3*c, true)), -1, c, c, c)
			v, lepe := lmlt{}.lepe(t, p[2])
			t.Hold(v)
			t.Hold(lepe)
			t.NoGrad(func() {
				y = t.Rebind(shifted, t.Add(plainSDPA(t, p[0], p[1], v), lepe))
				y = t.Rebind(y, t.Reshape(t.Transpose(y, 1, 2), y.Shape()...))
			})
		})
		y = t.Rebind(y, t.Linear("proj", y, c, true))
		y = t.Rebind(y, t.Dropout(y, n.projDrop))
		y = t.Rebind(y, windowReverse(t, y, flexWindow, b, h, w))
		y = t.View(y, b, h*w, c)
		rest()
	})
	first()
	return y
}

// channelMix is ChannelMix.
func (n flexNet) channelMix(t *nn.Tape, x nn.Tensor, h, w int64) nn.Tensor {
	b, c := x.Dim(0), x.Dim(-1)
	x = t.Hold(t.Call("omni_shift", spread(t, x, h, w), flexShift))
	x = t.View(t.Permute(x, 0, 2, 3, 1), b, h*w, c)
	k := t.Hold(t.Linear("key", x, int64(n.hidden*float64(c)), false))
	if n.inplace {
		k = t.ReLUInplace(k)
	} else {
		k = t.ReLU(k)
	}
	k = t.Rebind(k, t.Pow(k))
	if n.norm {
		k = t.Rebind(k, t.RMSNorm("key_norm", k))
	}
	kv := t.Hold(t.Linear("value", k, c, false))
	return t.Mul(t.Sigmoid(t.Linear("receptance", x, c, false)), kv)
}
