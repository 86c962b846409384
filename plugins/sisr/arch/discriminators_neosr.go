package arch

import (
	"github.com/launch-ml/launch/core/nn"
)

// The discriminators of neosr: neosr/archs/metagan_arch.py, unet_arch.py, patchgan_arch.py and dunet_arch.py at
// 31c7022.
var _ = entry(func() {
	discriminators.add(Neosr, func(_ Spec, a *args) nn.Module {
		d := metaganNeosr{
			dims: a.ints("dims", 48, 96, 192, 288), blocks: a.ints("blocks", 3, 3, 9, 3), downs: a.ints("downs", 4, 4, 2, 2),
			classes: a.int("n_class", 1), dropPath: a.float("drop_path", 0.02), endDrop: a.float("end_drop", 0.2),
		}
		a.ignore("in_ch")
		refuse(len(d.dims) < len(d.blocks) || len(d.downs) < len(d.blocks),
			"dims %v and downs %v for blocks %v", d.dims, d.downs, d.blocks)
		for _, n := range d.dims {
			refuse(n < 8 || n%8 != 0, "dims: the 4 groups of a norm want a multiple of 8")
		}
		return d.forward
	}, "metagan")
	discriminators.add(Neosr, func(_ Spec, a *args) nn.Module {
		d := unetDiscriminatorSN{feat: a.int("num_feat", 64), skip: a.bool("skip_connection", true)}
		a.ignore("num_in_ch")
		return d.forward
	}, "unet")
	discriminators.add(Neosr, func(_ Spec, a *args) nn.Module {
		a.ignore("num_in_ch")
		a.swallow = true
		norm := a.string("norm_type", "none")
		refuse(norm != "none" || !a.bool("use_sn", true) || a.int("max_nf_mult", 8) != 8,
			"norm_type, use_sn or max_nf_mult: %w", ErrUnknown)
		return patchGAN(a.int("num_feat", 64), a.int("num_layers", 3), a.bool("use_sigmoid", false))
	}, "patchgan")
	discriminators.add(Neosr, func(_ Spec, a *args) nn.Module {
		a.ignore("in_ch")
		return dunet(a.int("dim", 64), func(c nn.Conv) nn.Conv { c.Spectral = true; return c })
	}, "dunet")
})

type metaganNeosr struct {
	dims, blocks, downs []int64
	classes             int64
	dropPath, endDrop   float64
}

// forward is metagan.forward (metagan_arch.py:182).
func (d metaganNeosr) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	var stages []nn.Module
	total, first := int64(0), int64(0)
	for _, n := range d.blocks {
		total += n
	}
	for i, blocks := range d.blocks {
		at := first
		first += blocks
		stages = append(stages, func(t *nn.Tape, x nn.Tensor) nn.Tensor { // Blocks (line 121)
			out := d.dims[i]
			down := d.down(out)
			if d.downs[i] != 2 {
				down = func(t *nn.Tape, x nn.Tensor) nn.Tensor {
					return t.Sequential("", x, d.down(out/2), (*nn.Tape).MishInplace, d.down(out))
				}
			}
			x = t.Hold(t.Permute(t.Call("down", x, down), 0, 2, 3, 1))
			var ms []nn.Module
			for b := range blocks {
				drop := d.dropPath * float64(at+b) / float64(max(total-1, 1))
				ms = append(ms, func(t *nn.Tape, x nn.Tensor) nn.Tensor { return d.block(t, x, i > 1, drop) })
			}
			return t.Permute(t.Sequential("blocks", x, ms...), 0, 3, 1, 2)
		})
	}
	spectral := func(out int64) nn.Module { return nn.Conv{Out: out, K: 1, Spectral: true}.Module() }
	drop := func(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.Dropout(x, d.endDrop) }
	stages = append(stages, spectral(100), (*nn.Tape).MishInplace, drop, spectral(d.classes))
	return t.Sequential("stages", x, stages...)
}

// down is Down (line 114): half the size.
func (d metaganNeosr) down(out int64) nn.Module {
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		return t.Sequential("", x, spectralDown(out).Module(), func(t *nn.Tape,
			x nn.Tensor) nn.Tensor {
			return t.GroupNorm("", x, 4)
		})
	}
}

// block is GatedCNNBlock (line 69), of (b, h, w, c).
func (d metaganNeosr) block(t *nn.Tape, x nn.Tensor, attention bool, dropPath float64) nn.Tensor {
	dim, ratio := x.Dim(-1), 8.0/3
	if attention {
		ratio = 1.5
	}
	hidden := int64(ratio * float64(dim))
	shortcut := x
	x = t.Hold(t.RMSNorm("norm", x))
	p := t.Split(t.Linear("fc1", x, 2*hidden, true), -1, hidden, hidden-dim, dim)
	g, i := t.Hold(p[0]), p[1]
	mixer := d.dconv
	if attention {
		mixer = d.attention
	}
	c := t.Hold(t.Call("conv", p[2], mixer))
	x = t.Rebind(x, t.Linear("fc2", t.Mul(t.Mish(g), t.Cat(-1, i, c)), dim, true))
	x = t.Rebind(x, dropPathOf(t, x, dropPath))
	return t.Add(x, shortcut)
}

// dconv is DConv (line 60).
func (d metaganNeosr) dconv(t *nn.Tape, x nn.Tensor) nn.Tensor {
	return t.Permute(t.Conv2d("conv", t.Permute(x, 0, 3, 1, 2), depthwise(x.Dim(-1), 7)), 0, 2, 3, 1)
}

// attention is Attention (line 12), of heads of 32 channels.
func (d metaganNeosr) attention(t *nn.Tape, x nn.Tensor) nn.Tensor {
	const head = 32
	b, h, w, dim := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	heads := max(dim/head, 1)
	qkv := t.View(t.Linear("qkv", x, 3*heads*head, false), b, h*w, 3, heads, head)
	p := t.Unbind(t.Hold(t.Permute(qkv, 2, 0, 3, 1, 4)))
	x = t.Hold(t.SDPA(p[0], p[1], p[2]))
	x = t.Rebind(x, t.Reshape(t.Transpose(x, 1, 2), b, h, w, heads*head))
	return t.Rebind(x, t.Linear("proj", x, dim, false))
}
