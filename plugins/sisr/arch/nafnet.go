package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// NAFNet (Chen et al., 2022), as traiNNer-redux builds it from spandrel 0.4.2 (architectures/NAFNet/__arch/NAFNet_arch.py;
// defaults in traiNNer/archs/nafnet_arch.py at 68629319).
var _ = entry(func() {
	naf := func(width int64) builder {
		return func(s Spec, a *args) Network {
			n := nafNet{inCh: a.int("img_channel", 3), width: a.int("width", width), middle: a.int("middle_blk_num", 12)}
			n.enc, n.dec = a.intsOrNone("enc_blk_nums", 2, 2, 4, 8), a.intsOrNone("dec_blk_nums", 2, 2, 2, 2)
			refuse(len(n.dec) != len(n.enc), "enc_blk_nums %v and dec_blk_nums %v are not of one length", n.enc, n.dec)
			sameSize(s.Scale)
			return Network{InCh: n.inCh, Forward: n.forward, Multiple: 1 << len(n.enc)}
		}
	}
	register(naf(64), "nafnet64")
	register(naf(32), "nafnet32")
})

// intsOrNone is a list whose default stands for None too.
func (a *args) intsOrNone(name string, def ...int64) []int64 {
	if v, ok := a.get(name); ok && v == nil {
		return def
	}
	return a.ints(name, def...)
}

// sameSize is the error for a network whose result has the size of its input, whatever scale it is given: the loss of the
// first step stops at it.
func sameSize(scale int64) {
	refuse(scale != 1, "the network leaves an image at its size: the scale is 1")
}

type nafNet struct {
	inCh, width, middle int64
	enc, dec            []int64
	encoder             func(level int) nn.Module // of one block, where it is none of NAFNet's own
	block               nn.Module                 // of every level, likewise
}

// forward is NAFNet.forward.
func (n nafNet) forward(t *nn.Tape, inp nn.Tensor) nn.Tensor {
	h, w, side := inp.Dim(2), inp.Dim(3), int64(1)<<len(n.enc)
	inp = t.Hold(t.PadTo(inp, false, inp.Dim(0), inp.Dim(1), multiple(h, side), multiple(w, side))) // check_image_size
	x := t.Conv2d("intro", inp, conv(n.width, 3))
	block := nafBlock
	if n.block != nil {
		block = n.block
	}
	blocks := func(count int64) []nn.Module { return nn.Repeat(block, count) }

	t.Hold(x)
	var encs []nn.Tensor
	for i, count := range n.enc {
		ms := blocks(count)
		if n.encoder != nil {
			ms = nn.Repeat(n.encoder(i), count)
		}
		x = t.Rebind(x, t.Sequential(fmt.Sprint("encoders.", i), x, ms...))
		encs = append(encs, x)
		x = t.Hold(t.Conv2d(fmt.Sprint("downs.", i), x, nn.Conv{Out: 2 * x.Dim(1), K: 2, Stride: 2, Valid: true}))
	}
	x = t.Rebind(x, t.Sequential("middle_blks", x, blocks(n.middle)...))
	for i, count := range n.dec {
		up := nn.Conv{Out: 2 * x.Dim(1), K: 1, NoBias: true}.Module()
		x = t.Rebind(x, t.Sequential(fmt.Sprint("ups.", i), x, up, shuffle(2)))
		x = t.Rebind(x, t.Add(x, encs[len(encs)-1-i]))
		x = t.Rebind(x, t.Sequential(fmt.Sprint("decoders.", i), x, blocks(count)...))
	}
	x = t.Rebind(x, t.Conv2d("ending", x, conv(n.inCh, 3)))
	x = t.Rebind(x, t.Add(x, inp))
	return t.Narrow(t.Narrow(x, 2, h), 3, w)
}

// nafBlock is NAFBlock with both expansions at 2.
var nafBlock = nafBlockOf((*nn.Tape).AvgPoolAll)

// nafBlockOf is the same with a pooling of its own.
func nafBlockOf(pool nn.Module) nn.Module {
	return func(t *nn.Tape, inp nn.Tensor) nn.Tensor { return nafBlockWith(t, inp, pool) }
}

func nafBlockWith(t *nn.Tape, inp nn.Tensor, pool nn.Module) nn.Tensor {
	c := inp.Dim(1)
	beta, gamma := t.Param("beta", 1, c, 1, 1), t.Param("gamma", 1, c, 1, 1)
	x := t.Hold(t.Call("norm1", inp, layerNormFunction))
	x = t.Rebind(x, t.Conv2d("conv1", x, conv(2*c, 1)))
	x = t.Rebind(x, t.Conv2d("conv2", x, depthwise(2*c, 3)))
	x = t.Rebind(x, t.Call("", x, simpleGate))
	x = t.Rebind(x, t.Mul(x, t.Sequential("sca", x, pool, conv(c, 1).Module())))
	x = t.Rebind(x, t.Conv2d("conv3", x, conv(c, 1)))
	y := t.Hold(t.Add(inp, t.Mul(x, beta)))
	x = t.Rebind(x, t.Conv2d("conv4", t.Call("norm2", y, layerNormFunction), conv(2*c, 1)))
	x = t.Rebind(x, t.Call("", x, simpleGate))
	x = t.Rebind(x, t.Conv2d("conv5", x, conv(c, 1)))
	return t.Add(y, t.Mul(x, gamma))
}
