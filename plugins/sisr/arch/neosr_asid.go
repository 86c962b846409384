package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// ASID of neosr: neosr/archs/asid_arch.py at 31c7022. Its first group makes attention maps that all others use
// again.
var _ = entry(func() {
	asid := func(groups int64) builder {
		return func(s Spec, a *args) Network {
			n := asid{
				scale: s.Scale, in: a.int("num_in_ch", 3), out: a.int("num_out_ch", 3), feat: a.int("num_feat", 48), groups: groups,
				window: a.int("window_size", 8), bias: a.bool("bias", true), pe: a.bool("pe", false),
				flash: a.bool("flash_attn", true),
			}
			a.ignore("res_num")
			if a.bool("d8", groups == 8) {
				n.groups = 8
			}
			refuse(a.int("block_num", 1) != 1, "block_num: the class takes 1 only")
			refuse(n.feat < 4 || n.feat%4 != 0 || n.window < 1, "num_feat %d, window_size %d", n.feat, n.window)
			refuse(n.pe || !n.flash || a.float("drop", 0) != 0, "pe, flash_attn or drop: %w", ErrUnknown)
			return Network{InCh: n.in, Forward: n.forward, Multiple: n.window, MinLQ: 14/n.window*n.window + 1}
		}
	}
	networks.add(Neosr, asid(3), "asid")
	networks.add(Neosr, asid(8), "asid_d8")
})

type asid struct {
	scale, in, out, feat, groups, window int64
	bias, pe, flash                      bool
}

// forward is asid.forward (line 831).
func (n asid) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	h, w := x.Dim(2), x.Dim(3)
	x = t.Hold(t.PadTo(x, false, x.Dim(0), n.in, multiple(h, n.window), multiple(w, n.window))) // check_image_size
	plain := func(out, k int64) nn.Conv { return nn.Conv{Out: out, K: k, NoBias: !n.bias} }
	residual := t.Hold(t.Conv2d("input", x, plain(n.feat, 3)))
	var maps []nn.Tensor
	out := residual
	for i := range n.groups {
		var y nn.Tensor
		t.Scope(fmt.Sprint("block", i), func() { y, maps = n.group(t, out, maps) }, append([]nn.Tensor{out}, maps...)...)
		if i == 0 {
			out = t.Hold(y)
			t.HoldAll(maps...)
		} else {
			out = t.Rebind(out, y)
		}
	}
	out = t.Rebind(out, t.Add(t.Conv2d("output", out, plain(n.feat, 3)), residual))
	out = t.Rebind(out, t.Sequential("up", out, plain(n.out*n.scale*n.scale, 3).Module(), shuffle(n.scale)))
	return t.Narrow(t.Narrow(out, 2, h*n.scale), 3, w*n.scale)
}

// group is IDSG_A, which makes the maps, and IDSG, which is given them.
func (n asid) group(t *nn.Tape, x nn.Tensor, given []nn.Tensor) (y nn.Tensor, maps []nn.Tensor) {
	name := "residual_layer"
	if len(given) == 0 {
		name = "residual_layer.0"
	}
	t.Scope(name, func() { y, maps = n.block(t, x, given) }, x)
	t.HoldAll(maps...)
	y = t.Hold(y)
	y = t.Rebind(y, t.Conv2d("res_end", y, nn.Conv{Out: n.feat, K: 1, NoBias: !n.bias}))
	y = t.Rebind(y, t.Add(y, x))
	return t.Call("esa", y, esa(max(n.feat/4, 16))), maps
}

// block is IDSA_Block1 (line 486) and IDSA_Block2: local features of all, three and two quarters of the channels,
// each before two attentions of the rest.
func (n asid) block(t *nn.Tape, x nn.Tensor, given []nn.Tensor) (y nn.Tensor, maps []nn.Tensor) {
	q := n.feat / 4
	x = t.Hold(x)
	local := func(name string, x nn.Tensor) nn.Tensor {
		return t.Call(name+".net", x, omniSR{feat: x.Dim(1)}.mbConv)
	}
	attend := func(name string, x nn.Tensor, grid bool) nn.Tensor {
		var y, a nn.Tensor
		var old nn.Tensor
		if len(given) > 0 {
			old = given[len(maps)]
		}
		t.Scope(name, func() { y, a = n.attention(t, x, old, grid) }, x, old)
		maps = append(maps, t.Hold(a))
		return y
	}
	x = t.Hold(local("LB1", x))
	p := t.Split(x, 1, q, 3*q)
	loc := t.Hold(p[0])
	z := t.Hold(attend("SLA1", p[1], false))
	z = t.Rebind(z, attend("SGA1", z, true))
	z = t.Rebind(z, t.Conv2d("pw1", t.Cat(1, z, loc), conv(4*q, 1)))
	p = t.Split(z, 1, q, 3*q)
	x1 := t.Hold(p[0])
	z = t.Hold(local("LB2", p[1]))
	p = t.Split(z, 1, q, 2*q)
	loc = t.Rebind(loc, p[0])
	z = t.Hold(attend("SLA2", p[1], false))
	z = t.Rebind(z, attend("SGA2", z, true))
	z = t.Rebind(z, t.Conv2d("pw2", t.Cat(1, z, loc), conv(3*q, 1)))
	p = t.Split(z, 1, q, 2*q)
	x2 := t.Hold(p[0])
	z = t.Hold(local("LB3", p[1]))
	p = t.Split(z, 1, q, q)
	loc = t.Rebind(loc, p[0])
	z = t.Hold(attend("SLA3", p[1], false))
	z = t.Rebind(z, attend("SGA3", z, true))
	z = t.Rebind(z, t.Conv2d("pw3", t.Cat(1, x1, x2, z, loc), conv(4*q, 1)))
	return t.Call("BlockC", z, n.channels), maps
}

// attention is SLA and SGA, of windows or of a grid, with a map of its own or a given one: A and B.
func (n asid) attention(t *nn.Tape, x, given nn.Tensor, grid bool) (y, attn nn.Tensor) {
	b, d, h, w, ws := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3), n.window
	var z nn.Tensor
	if grid {
		z = t.Permute(t.View(x, b, d, ws, h/ws, ws, w/ws), 0, 3, 5, 2, 4, 1)
	} else {
		z = t.Permute(t.View(x, b, d, h/ws, ws, w/ws, ws), 0, 2, 4, 3, 5, 1)
	}
	z = t.Hold(z)
	norm := t.LayerNorm("norm", z)
	var out nn.Tensor
	t.Scope("attn", func() { out, attn = n.self(t, norm, given) }, norm, given)
	attn = t.Hold(attn)
	y = t.Hold(t.Add(out, z))
	if grid {
		y = t.Rebind(y, t.Reshape(t.Permute(y, 0, 5, 3, 1, 4, 2), b, d, h, w))
	} else {
		y = t.Rebind(y, t.Reshape(t.Permute(y, 0, 5, 1, 3, 2, 4), b, d, h, w))
	}
	ffn := t.Call("gfn", t.Call("cnorm", y, layerNormFunction), omniSR{feat: d}.feedForward)
	return t.Rebind(y, t.Add(ffn, y)), attn
}

// self is SelfAttentionA and SelfAttentionB, of one head.
func (n asid) self(t *nn.Tape, x, given nn.Tensor) (y, attn nn.Tensor) {
	shape, area, d := x.Shape(), n.window*n.window, x.Dim(-1)
	x = t.View(x, -1, area, d)
	head := func(x nn.Tensor) nn.Tensor { return t.View(x, x.Dim(0), 1, area, d) }
	var v nn.Tensor
	if given.Dims() > 0 {
		attn = given
		v = t.Hold(head(t.Linear("to_v", x, d, false)))
	} else {
		p := t.Split(t.Hold(t.Linear("to_qkv", x, 3*d, false)), -1, d, d, d)
		q, k := head(p[0]), head(p[1])
		v = head(p[2])
		q = t.Hold(t.MulScalar(q))
		attn = t.Hold(t.Matmul(q, t.Transpose(k, -2, -1)))
		attn = t.Rebind(attn, t.Softmax(attn))
	}
	y = t.Hold(t.Matmul(attn, v))
	y = t.Rebind(y, t.Linear("to_out.0", t.View(y, y.Dim(0), n.window, n.window, d), d, false))
	return t.View(y, shape...), attn
}

// channels is TrBlockC (line 445).
func (n asid) channels(t *nn.Tape, x nn.Tensor) nn.Tensor {
	step := func(norm, name string, x nn.Tensor, m nn.Module) nn.Tensor {
		return t.Add(t.Call(name, t.Call(norm, x, layerNormFunction), m), x)
	}
	ffn := omniSR{feat: n.feat}.feedForward
	x = t.Hold(t.Add(n.channelAttention(t, "1", x, false), x))
	x = t.Rebind(x, step("cnorm1", "gfn1", x, ffn))
	x = t.Rebind(x, t.Add(n.channelAttention(t, "2", x, true), x))
	return t.Rebind(x, step("cnorm2", "gfn2", x, ffn))
}

// channelAttention is Channel_Attention, or Channel_Attention_grid, of what canorm makes of x: PyTorch's own under
// no_grad, so that all before it has a graph that no loss depends on.
func (n asid) channelAttention(t *nn.Tape, which string, x nn.Tensor, grid bool) (y nn.Tensor) {
	b, c, h, w := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	outer, inner := h*w/(n.window*n.window), n.window*n.window
	if grid {
		outer, inner = inner, outer
	}
	var norm nn.Tensor
	first := t.Dead(func() { norm = t.Call("canorm"+which, x, layerNormFunction) })
	t.Scope("cttn"+which, func() {
		t.Param("temperature", 1, 1, 1)
		var out nn.Tensor
		rest := t.Dead(func() {
			qkv := t.Conv2d("qkv", norm, nn.Conv{Out: 3 * c, K: 1, NoBias: true})
			p := t.Split(t.Hold(t.Conv2d("qkv_dwconv", qkv, nn.Conv{Out: 3 * c, K: 3, Groups: 3 * c, NoBias: true})), 1, c, c, c)
			rearrange := func(x nn.Tensor) nn.Tensor { return t.Rearrange(x, b, outer, 1, c, inner) }
			q, k, v := t.Hold(rearrange(p[0])), t.Hold(rearrange(p[1])), t.Hold(rearrange(p[2]))
			q = t.Rebind(q, t.NormalizeDim(q, -1))
			k = t.Rebind(k, t.NormalizeDim(k, -1))
			t.NoGrad(func() {
				out = t.Hold(plainSDPA(t, q, k, v))
				out = t.Rebind(out, t.Rearrange(out, b, c, h, w))
			})
		})
		y = t.Conv2d("project_out", out, nn.Conv{Out: c, K: 1, NoBias: true})
		rest()
	}, norm)
	first()
	return y
}
