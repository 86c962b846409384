package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// MAN (Wang et al., 2024): traiNNer/archs/man_arch.py at 68629319.
var _ = entry(func() {
	man := func(blocks, feats int64) builder {
		return func(s Spec, a *args) Network {
			scale := s.Scale
			n := man{
				scale: scale, blocks: a.int("n_resblocks", blocks), groups: a.int("n_resgroups", 1),
				colors: a.int("n_colors", 3), feats: a.int("n_feats", feats),
			}
			refuse(n.colors != 3, "n_colors: an image of %d channels does not go through MeanShift, which has 3", n.colors)
			refuse(n.feats%3 != 0, "n_feats: the large kernels want three equal parts")
			return Network{Forward: n.forward}
		}
	}
	register(man(36, 180), "man")
	register(man(24, 60), "man_light")
	register(man(5, 48), "man_tiny")
})

type man struct {
	scale, blocks, groups, colors, feats int64
}

// forward is MAN.forward.
func (n man) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	meanShift := nn.Conv{Out: 3, K: 1, Frozen: true}
	x = t.Hold(t.Conv2d("sub_mean", x, meanShift))
	x = t.Rebind(x, t.Conv2d("head", x, conv(n.feats, 3)))
	res := n.body(t, x)
	x = t.Rebind(x, t.Sequential("tail", res, conv(n.colors*n.scale*n.scale, 3).Module(), shuffle(n.scale)))
	return t.Conv2d("add_mean", x, meanShift)
}

// body is what lies between head and tail.
func (n man) body(t *nn.Tape, x nn.Tensor) nn.Tensor {
	res := x
	for i := range n.groups {
		res = t.Assign(i == 0, res, t.Call(fmt.Sprint("body.", i), res, n.resGroup))
	}
	if n.groups > 1 {
		res = t.Rebind(res, t.Add(t.Conv2d("body_t", res, conv(n.feats, 3)), x))
	}
	return res
}

// resGroup is ResGroup.
func (n man) resGroup(t *nn.Tape, x nn.Tensor) nn.Tensor {
	res := t.Hold(t.Clone(x))
	for i := range n.blocks {
		res = t.Rebind(res, t.Call(fmt.Sprint("body.", i), res, n.mab))
	}
	return t.Add(t.Call("body_t", res, n.lkat), x)
}

// lkat is LKAT.
func (n man) lkat(t *nn.Tape, x nn.Tensor) nn.Tensor {
	c := n.feats
	x = t.Hold(t.Sequential("conv0", x, conv(c, 1).Module(), (*nn.Tape).GELU))
	x = t.Rebind(x, t.Mul(x, t.Sequential("att", x, depthwise(c, 7).Module(),
		nn.Conv{Out: c, K: 9, Dilation: 3, Groups: c}.Module(), conv(c, 1).Module())))
	return t.Conv2d("conv1", x, conv(c, 1))
}

// mab is MAB: GroupGLKA and SGAB.
func (n man) mab(t *nn.Tape, x nn.Tensor) nn.Tensor {
	x = t.Hold(t.Call("LKA", x, n.groupGLKA))
	return t.Call("LFE", x, n.sgab)
}

// groupGLKA is GroupGLKA: three large-kernel attentions on a third of the channels each.
func (n man) groupGLKA(t *nn.Tape, x nn.Tensor) nn.Tensor {
	c := n.feats
	shortcut := t.Hold(t.Clone(x))
	x = t.Hold(t.Call("norm", x, channelLayerNorm))
	x = t.Rebind(x, t.Sequential("proj_first", x, conv(2*c, 1).Module()))
	p := t.Split(x, 1, c, c)
	a, x := p[0], p[1]

	third := c / 3
	parts := t.Split(a, 1, third, third, third)
	gated := func(lka, plain string, k, k2, dilation int64, x nn.Tensor) nn.Tensor {
		attn := t.Sequential(lka, x, depthwise(third, k).Module(),
			nn.Conv{Out: third, K: k2, Dilation: dilation, Groups: third}.Module(), conv(third, 1).Module())
		return t.Mul(attn, t.Conv2d(plain, x, depthwise(third, k)))
	}
	a = t.Hold(t.Cat(1, gated("LKA3", "X3", 3, 5, 2, parts[0]), gated("LKA5", "X5", 5, 7, 3, parts[1]),
		gated("LKA7", "X7", 7, 9, 4, parts[2])))

	y := t.Sequential("proj_last", t.Mul(x, a), conv(c, 1).Module())
	return t.Add(t.Mul(y, t.Param("scale", 1, c, 1, 1)), shortcut)
}

// sgab is SGAB.
func (n man) sgab(t *nn.Tape, x nn.Tensor) nn.Tensor {
	c := n.feats
	shortcut := t.Hold(t.Clone(x))
	x = t.Hold(t.Conv2d("Conv1", t.Call("norm", x, channelLayerNorm), conv(2*c, 1)))
	p := t.Split(x, 1, c, c)
	a := t.Hold(p[0])
	x = t.Hold(t.Mul(p[1], t.Conv2d("DWConv1", a, depthwise(c, 7))))
	x = t.Rebind(x, t.Conv2d("Conv2", x, conv(c, 1)))
	return t.Add(t.Mul(x, t.Param("scale", 1, c, 1, 1)), shortcut)
}
