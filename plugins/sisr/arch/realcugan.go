package arch

import (
	"github.com/launch-ml/launch/core/nn"
)

// Real-CUGAN, as traiNNer-redux builds it from spandrel 0.4.2 (architectures/RealCUGAN/__arch/upcunet_v3.py; defaults in
// traiNNer/archs/realcugan_arch.py at 68629319): two U-Nets without padding, whose results are cropped.
var _ = register(func(s Spec, a *args) Network {
	n := realCUGAN{
		scale: s.Scale, in: a.int("in_channels", 3), out: a.int("out_channels", 3),
		pro: a.bool("pro", false), fast: a.bool("fast", false),
	}
	net := Network{Multiple: 2, MinLQ: 20} // reflection wants more pixels than it adds: 18 or 19
	switch {
	case n.fast && s.Scale != 2:
		reject("fast is only supported on scale 2, not %d", s.Scale)
	case n.pro && n.fast:
		reject("pro is not supported with fast enabled")
	case n.fast:
		net.MinLQ, net.Forward = 40, n.final
	case s.Scale == 4:
		net.Forward = n.final
	case s.Scale == 3:
		net.Multiple, net.MinLQ, net.Forward = 4, 16, n.direct
	case s.Scale == 2:
		n.in, n.out = 3, 3 // which are not passed on
		net.Forward = n.direct
	default:
		reject("scale must be 2, 3 or 4, not %d", s.Scale)
	}
	net.InCh = n.in
	return net
}, "realcugan")

type realCUGAN struct {
	scale, in, out int64
	pro, fast      bool
}

// inset is F.pad by minus that much on each side.
func inset(t *nn.Tape, x nn.Tensor, by int64) nn.Tensor { return t.Pad(x, -2*by, -2*by, false) }

func (n realCUGAN) enter(t *nn.Tape, x nn.Tensor) nn.Tensor {
	if n.pro {
		t.Buffer("pro", nn.F32, 1)
		return t.Hold(t.AddScalar(t.MulScalar(x)))
	}
	return x
}

func (n realCUGAN) leave(t *nn.Tape, x nn.Tensor) nn.Tensor {
	if n.pro {
		return t.Rebind(x, t.DivScalar(t.AddScalar(x)))
	}
	return x
}

// direct is the forward of UpCunet2x and UpCunet3x.
func (n realCUGAN) direct(t *nn.Tape, x nn.Tensor) nn.Tensor {
	h0, w0 := x.Dim(2), x.Dim(3)
	side, border, last := int64(2), int64(18), nn.ConvTranspose{Out: n.out, K: 4, Stride: 2, Pad: 3}
	if n.scale == 3 {
		side, border, last = 4, 14, nn.ConvTranspose{Out: n.out, K: 5, Stride: 3, Pad: 2}
	}
	x = n.enter(t, x)
	ph, pw := multiple(h0, side), multiple(w0, side)
	y := t.Hold(t.PadTo(x, true, x.Dim(0), x.Dim(1), ph+2*border, pw+2*border))
	y = t.Rebind(y, t.Call("unet1", y, func(t *nn.Tape, x nn.Tensor) nn.Tensor { return cuganUNet1(t, x, last) }))
	x0 := t.Hold(t.Call("unet2", y, func(t *nn.Tape, x nn.Tensor) nn.Tensor { return cuganUNet2(t, x, n.out) }))
	y = t.Rebind(y, inset(t, y, 20))
	y = t.Rebind(y, t.Add(x0, y))
	y = t.Narrow(t.Narrow(y, 2, h0*n.scale), 3, w0*n.scale)
	return n.leave(t, y)
}

// final is the forward of UpCunet4x and UpCunet2x_fast, which end in a convolution and a pixel shuffle.
func (n realCUGAN) final(t *nn.Tape, x nn.Tensor) nn.Tensor {
	h0, w0 := x.Dim(2), x.Dim(3)
	x = n.enter(t, x)
	x00, border := x, int64(19)
	if n.fast {
		border = 38
	}
	y := t.Hold(t.PadTo(x, true, x.Dim(0), x.Dim(1), multiple(h0, 2)+2*border, multiple(w0, 2)+2*border))
	if n.fast {
		y = t.Rebind(y, t.PixelUnshuffle(y, 2))
	}
	last := nn.ConvTranspose{Out: 64, K: 4, Stride: 2, Pad: 3}
	y = t.Rebind(y, t.Call("unet1", y, func(t *nn.Tape, x nn.Tensor) nn.Tensor { return cuganUNet1(t, x, last) }))
	x0 := t.Hold(t.Call("unet2", y, func(t *nn.Tape, x nn.Tensor) nn.Tensor { return cuganUNet2(t, x, 64) }))
	x1 := t.Hold(inset(t, y, 20))
	y = t.Rebind(y, t.Add(x0, x1))
	y = t.Rebind(y, t.Conv2d("conv_final", y, nn.Conv{Out: 4 * n.out, K: 3, Valid: true}))
	y = t.Rebind(y, inset(t, y, 1))
	y = t.Rebind(y, t.PixelShuffle(y, 2))
	y = t.Narrow(t.Narrow(y, 2, h0*n.scale), 3, w0*n.scale)
	y = t.AddInplace(y, t.Upsample(x00, n.scale))
	return n.leave(t, y)
}

// cuganConv is UNetConv: two convolutions without padding, and SEBlock where asked for.
func cuganConv(mid, out int64, se bool) nn.Module {
	valid := func(out int64) nn.Module { return nn.Conv{Out: out, K: 3, Valid: true}.Module() }
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		z := t.Hold(t.Sequential("conv", x, valid(mid), (*nn.Tape).LeakyReLUInplace, valid(out), (*nn.Tape).LeakyReLUInplace))
		if se {
			z = t.Rebind(z, t.Call("seblock", z, cuganSE))
		}
		return z
	}
}

// cuganSE is SEBlock. Of a half tensor the mean is taken in float32, which is a copy of it.
func cuganSE(t *nn.Tape, x nn.Tensor) nn.Tensor {
	c := x.Dim(1)
	x0 := x
	if x.DType() == nn.F16 {
		x0 = t.To(x0, nn.F32)
	}
	x0 = t.Hold(t.To(t.MeanDim(x0, 2, 3), x.DType()))
	x0 = t.Rebind(x0, t.Conv2d("conv1", x0, conv(c/8, 1)))
	x0 = t.ReLUInplace(x0)
	x0 = t.Rebind(x0, t.Conv2d("conv2", x0, conv(c, 1)))
	x0 = t.Rebind(x0, t.Sigmoid(x0))
	return t.Mul(x, x0)
}

// cuganUNet1 is UNet1 and UNet1x3, whose last transposed convolution is another.
func cuganUNet1(t *nn.Tape, x nn.Tensor, last nn.ConvTranspose) nn.Tensor {
	lrelu := (*nn.Tape).LeakyReLUInplace
	x1 := t.Hold(t.Call("conv1", x, cuganConv(32, 64, false)))
	x2 := t.Hold(t.Conv2d("conv1_down", x1, nn.Conv{Out: 64, K: 2, Stride: 2, Valid: true}))
	x1 = t.Rebind(x1, inset(t, x1, 4))
	x2 = lrelu(t, x2)
	x2 = t.Rebind(x2, t.Call("conv2", x2, cuganConv(128, 64, true)))
	x2 = t.Rebind(x2, t.Call("conv2_up", x2, nn.ConvTranspose{Out: 64, K: 2, Stride: 2}.Module()))
	x2 = lrelu(t, x2)
	x3 := t.Hold(t.Conv2d("conv3", t.Add(x1, x2), nn.Conv{Out: 64, K: 3, Valid: true}))
	x3 = lrelu(t, x3)
	return t.Call("conv_bottom", x3, last.Module())
}

// cuganUNet2 is UNet2 without a transposed convolution at its end.
func cuganUNet2(t *nn.Tape, x nn.Tensor, out int64) nn.Tensor {
	lrelu := (*nn.Tape).LeakyReLUInplace
	down := func(out int64) nn.Conv { return nn.Conv{Out: out, K: 2, Stride: 2, Valid: true} }
	up := func(out int64) nn.Module { return nn.ConvTranspose{Out: out, K: 2, Stride: 2}.Module() }
	x1 := t.Hold(t.Call("conv1", x, cuganConv(32, 64, false)))
	x2 := t.Hold(t.Conv2d("conv1_down", x1, down(64)))
	x1 = t.Rebind(x1, inset(t, x1, 16))
	x2 = lrelu(t, x2)
	x2 = t.Rebind(x2, t.Call("conv2", x2, cuganConv(64, 128, true)))
	x3 := t.Hold(t.Conv2d("conv2_down", x2, down(128)))
	x2 = t.Rebind(x2, inset(t, x2, 4))
	x3 = lrelu(t, x3)
	x3 = t.Rebind(x3, t.Call("conv3", x3, cuganConv(256, 128, true)))
	x3 = t.Rebind(x3, t.Call("conv3_up", x3, up(128)))
	x3 = lrelu(t, x3)
	x4 := t.Hold(t.Call("conv4", t.Add(x2, x3), cuganConv(64, 64, true)))
	x4 = t.MulInplace(x4, t.Zeros(nn.F32)) // by alpha
	x4 = t.Rebind(x4, t.Call("conv4_up", x4, up(64)))
	x4 = lrelu(t, x4)
	x5 := t.Hold(t.Conv2d("conv5", t.Add(x1, x4), nn.Conv{Out: 64, K: 3, Valid: true}))
	x5 = lrelu(t, x5)
	return t.Conv2d("conv_bottom", x5, nn.Conv{Out: out, K: 3, Valid: true})
}
