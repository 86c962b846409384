package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// CascadedGaze (Ghasemabadi et al., 2024): traiNNer/archs/cgnet_arch.py at 68629319. It is NAFNet but for the blocks of the
// encoders.
var _ = register(func(s Spec, a *args) Network {
	convs := a.intsOrNone("GCE_CONVS_nums", 3, 3, 2, 2)
	n := nafNet{inCh: a.int("img_channel", 3), width: a.int("width", 60), middle: a.int("middle_blk_num", 10)}
	n.enc, n.dec = a.intsOrNone("enc_blk_nums", 2, 2, 4, 6), a.intsOrNone("dec_blk_nums", 2, 2, 2, 2)
	refuse(len(convs) < len(n.enc) || len(n.dec) != len(n.enc),
		"enc_blk_nums %v, dec_blk_nums %v and GCE_CONVS_nums %v are not of one length", n.enc, n.dec,
		convs)
	sameSize(s.Scale)
	n.encoder = func(level int) nn.Module { return gazeBlock(gazeConvs(convs[level])) }
	side := int64(1) << len(n.enc)
	least := side
	for !gazes(least, n.enc, convs) && least < 1<<20 {
		least += side
	}
	return Network{InCh: n.inCh, Forward: n.forward, Multiple: side, MinLQ: least - side + 1}
}, "cascadedgaze")

// A gazeConv is a convolution of GlobalContextExtractor, which has no padding.
type gazeConv struct{ k, stride int64 }

func gazeConvs(number int64) []gazeConv {
	if number == 3 {
		return []gazeConv{{3, 2}, {3, 3}, {5, 4}}
	}
	return []gazeConv{{3, 2}, {3, 3}}
}

// gazes says whether an image of that side leaves every convolution a pixel.
func gazes(side int64, enc, convs []int64) bool {
	for level := range enc {
		n := side >> level
		for _, c := range gazeConvs(convs[level]) {
			if n < c.k {
				return false
			}
			n = (n-c.k)/c.stride + 1
		}
	}
	return true
}

// gazeBlock is CascadedGazeBlock with both expansions at 2.
func gazeBlock(convs []gazeConv) nn.Module {
	return func(t *nn.Tape, inp nn.Tensor) nn.Tensor {
		c, h, w := inp.Dim(1), inp.Dim(2), inp.Dim(3)
		beta, gamma := t.Param("beta", 1, c, 1, 1), t.Param("gamma", 1, c, 1, 1)
		x := t.Hold(t.Call("norm1", inp, layerNormFunction))
		x = t.Rebind(x, t.Conv2d("conv1", x, conv(2*c, 1)))
		x = t.Rebind(x, t.Conv2d("conv2", x, depthwise(2*c, 3)))
		x = t.Rebind(x, t.GELU(x))
		p := t.Split(x, 1, c, c)
		t.Hold(p[0]) // x_1 and x_2 are names for halves of it to the end

		var outputs []nn.Tensor
		t.Call("GCE", t.Add(p[0], p[1]), func(t *nn.Tape, x nn.Tensor) nn.Tensor { // GlobalContextExtractor
			for i, g := range convs {
				x = t.GELU(t.Call(fmt.Sprint("depthwise_separable_convs.", i), x, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
					x = t.Hold(t.Conv2d("depthwise", x, nn.Conv{Out: c, K: g.k, Stride: g.stride, Groups: c, Valid: true, NoBias: true}))
					return t.Rebind(x, t.Conv2d("pointwise", x, nn.Conv{Out: c, K: 1, NoBias: true}))
				}))
				outputs = append(outputs, t.Hold(x))
			}
			return x
		})
		xs := []nn.Tensor{x}
		for _, o := range outputs {
			xs = append(xs, t.Interpolate(t.Hold(o), h, w))
		}
		x = t.Hold(t.Cat(1, xs...))
		wide := x.Dim(1)
		x = t.Rebind(x, t.Mul(t.Sequential("sca", x, (*nn.Tape).AvgPoolAll, conv(wide, 1).Module()), x))
		x = t.Rebind(x, t.Conv2d("project_out", x, conv(c, 1)))
		y := t.Hold(t.Add(inp, t.Mul(x, beta)))
		x = t.Rebind(x, t.Conv2d("conv4", t.Call("norm2", y, layerNormFunction), conv(2*c, 1)))
		x = t.Rebind(x, t.Call("", x, simpleGate))
		x = t.Rebind(x, t.Conv2d("conv5", x, conv(c, 1)))
		return t.Add(y, t.Mul(x, gamma))
	}
}
