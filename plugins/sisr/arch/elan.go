package arch

import (
	"fmt"
	"slices"

	"github.com/launch-ml/launch/core/nn"
)

// ELAN (Zhang et al., 2022): traiNNer/archs/elan_arch.py at 68629319.
var _ = entry(func() {
	build := func(blocks, channels, share int64) builder {
		return func(s Spec, a *args) Network {
			n := elan{
				scale: s.Scale, colors: a.int("colors", 3), norm: a.bool("norm", false), windows: []int64{4, 8, 16},
				blocks: a.int("m_elan", blocks), channels: a.int("c_elan", channels), share: a.int("n_share", share), expand: a.int("r_expand", 2),
			}
			if v, _ := a.get("window_sizes"); v != nil {
				n.windows = a.ints("window_sizes", n.windows...)
			}
			a.ignore("rgb_range")
			n.check()
			all := n.window()
			return Network{InCh: n.colors, Forward: n.forward, BatchNorm: true, NoFP16: true, Multiple: all, MinLQ: all/2 + 1}
		}
	}
	register(build(36, 180, 0), "elan")
	register(build(24, 60, 1), "elan_light")
})

type elan struct {
	scale, colors, blocks, channels, share, expand int64
	norm                                           bool
	windows                                        []int64
}

// check finds what upstream's constructor or its first forward stops at.
func (n elan) check() {
	refuse(len(n.windows) < 3, "window_sizes %v: a module has three", n.windows)
	refuse(n.channels < 3 || n.channels%3 != 0, "c_elan %d does not divide among three windows", n.channels)
	refuse(n.blocks < 0 || n.share < 0 || n.expand < 1 || n.colors < 1 || n.scale < 1,
		"m_elan %d, n_share %d, r_expand %d, colors %d", n.blocks, n.share, n.expand, n.colors)
	refuse(n.norm && n.colors != 3, "norm: it wants colors 3, not %d", n.colors)
	for _, w := range n.windows {
		refuse(w < 1, "window_sizes %v", n.windows)
	}
}

// window is the least common multiple of the windows.
func (n elan) window() int64 {
	all := int64(1)
	for _, w := range n.windows {
		all = lcm(all, w)
	}
	return all
}

func lcm(a, b int64) int64 {
	g := a
	for r := b; r != 0; {
		g, r = r, g%r
	}
	return a / g * b
}

func (n elan) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	h, w := x.Dim(2), x.Dim(3)
	x = t.Hold(t.PadTo(x, true, x.Dim(0), x.Dim(1), multiple(h, n.window()), multiple(w, n.window()))) // check_image_size
	meanShift := nn.Conv{Out: 3, K: 1, Frozen: true}
	if n.norm {
		x = t.Rebind(x, t.Conv2d("sub_mean", x, meanShift))
	}
	x = t.Rebind(x, t.Sequential("head", x, conv(n.channels, 3).Module()))
	var body []nn.Module
	for i := range n.blocks / (1 + n.share) {
		body = append(body, func(t *nn.Tape, x nn.Tensor) nn.Tensor { return n.elab(t, x, i%2 == 1) })
	}
	res := t.Hold(t.Sequential("body", x, body...))
	res = t.Rebind(res, t.Add(res, x))
	x = t.Rebind(x, t.Sequential("tail", res, conv(n.colors*n.scale*n.scale, 3).Module(), shuffle(n.scale)))
	if n.norm {
		x = t.Rebind(x, t.Conv2d("add_mean", x, meanShift))
	}
	return t.Narrow(t.Narrow(x, 2, h*n.scale), 3, w*n.scale)
}

// elab is ELAB: its first module calculates the attention, which the others share.
func (n elan) elab(t *nn.Tape, x nn.Tensor, shift bool) nn.Tensor {
	var y nn.Tensor
	var atns []nn.Tensor
	for i := range 1 + n.share {
		z := t.Add(t.Call(fmt.Sprint("modules_lfe.lfe_", i), x, n.lfe), x)
		x = t.Assign(i == 0, x, z)
		var out nn.Tensor
		t.Scope(fmt.Sprint("modules_gmsa.gmsa_", i), func() { out, atns = n.gmsa(t, x, atns, shift) }, x)
		if i == 0 {
			t.HoldAll(atns...)
			y = t.Hold(out)
		} else {
			y = t.Rebind(y, out)
		}
		x = t.Rebind(x, t.Add(y, x))
	}
	return x
}

// lfe is LFE, two convolutions of one pixel behind shifts.
func (n elan) lfe(t *nn.Tape, x nn.Tensor) nn.Tensor {
	shiftConv := func(name string, x nn.Tensor, out int64) nn.Tensor {
		return t.Call(name+".shift_conv", x, func(t *nn.Tape, x nn.Tensor) nn.Tensor { // ShiftConv2d1
			c := x.Dim(1)
			y := t.Hold(t.ConvWeight(x, t.FrozenParam("weight", c, 1, 3, 3), nn.Tensor{}, nn.Conv{Groups: c}))
			return t.Rebind(y, t.Conv2d("conv1x1", y, conv(out, 1)))
		})
	}
	y := t.Hold(t.ReLUInplace(shiftConv("conv0", x, n.channels*n.expand)))
	return shiftConv("conv1", y, n.channels)
}

// gmsa is GMSA: attention of a third of the channels in windows of each size.
func (n elan) gmsa(t *nn.Tape, x nn.Tensor, prev []nn.Tensor, shift bool) (nn.Tensor, []nn.Tensor) {
	b, h, w := x.Dim(0), x.Dim(2), x.Dim(3)
	parts, third := int64(2), n.channels/3 // queries, which are the keys too, and values; or values alone
	if prev != nil {
		parts = 1
	}
	x = t.Hold(t.Sequential("project_inp", x, conv(parts*n.channels, 1).Module(), named((*nn.Tape).BatchNorm2d)))
	xs := t.Split(x, 1, parts*third, parts*third, parts*third)

	atns := prev
	var ys []nn.Tensor
	var qv nn.Tensor // or v alone: what the loop's variables hold from one turn to the next
	for i, part := range xs {
		ws := n.windows[i]
		count := b * (h / ws) * (w / ws)
		if shift {
			part = t.Roll(part)
		}
		if i == len(xs)-1 { // the loop's variable, which outlives the loop
			t.Hold(part)
		}
		cut := t.Rearrange(part, parts, count, ws*ws, third)
		qv = t.Assign(i == 0, qv, cut)
		pixels := t.Split(qv, 0, slices.Repeat([]int64{1}, int(parts))...)
		v := t.View(pixels[parts-1], count, ws*ws, third)
		if prev == nil {
			q := t.View(pixels[0], count, ws*ws, third)
			atn := t.Hold(t.Matmul(q, t.Transpose(q, -2, -1)))
			atns = append(atns, t.Rebind(atn, t.Softmax(atn)))
		}
		y := t.Hold(t.Matmul(atns[i], v))
		y = t.Rebind(y, t.Rearrange(y, b, third, h, w))
		if shift {
			y = t.Rebind(y, t.Roll(y))
		}
		ys = append(ys, y)
	}
	y := t.Hold(t.Cat(1, ys...))
	return t.Conv2d("project_out", y, conv(n.channels, 1)), atns
}
