package arch

import (
	"slices"

	"github.com/launch-ml/launch/core/nn"
)

// The loss of what a network makes of an image's lines: traiNNer/losses/line_distiller_loss.py at 68629319, in float32
// whatever autocast says. The network stays in eval mode, and frozen.
var _ = registerLoss(func(a *args) lossFunc {
	a.ignore("debug")
	c := criterion(a.string("criterion", "l1"))
	return float32Loss(func(t *nn.Tape, x, gt nn.Tensor) nn.Tensor {
		lines := func(x nn.Tensor) (y nn.Tensor) {
			t.FreezeParams(func() { y = t.Hold(t.Call("model", t.Call("", x, normalized), lineDistiller)) })
			return y
		}
		pred := lines(x)
		return c(t, pred, lines(t.Detach(gt)))
	})
}, "linedistillerloss")

// normalized is torchvision's Normalize: a copy, changed in place (normalize in transforms/_functional_tensor.py).
func normalized(t *nn.Tape, x nn.Tensor) (y nn.Tensor) {
	y = t.Hold(t.Clone(x))
	y = t.AddInplace(y, t.Zeros(nn.F32, 3, 1, 1))
	return t.MulInplace(y, t.Zeros(nn.F32, 3, 1, 1))
}

// lineDistiller is LineDistiller (line 239).
func lineDistiller(t *nn.Tape, x nn.Tensor) nn.Tensor {
	blocks := func(first nn.Module, n int, mid, out int64) []nn.Module {
		return append([]nn.Module{first}, slices.Repeat([]nn.Module{lineBlock(mid, out, lineSame)}, n)...)
	}
	stem := nn.Conv{Out: 64, K: 7, Stride: 2, NoBias: true}.Module()
	d1 := t.Hold(t.Sequential("conv1", x, blocks(stem, 3, 16, 64)...))
	d2 := t.Hold(t.Sequential("conv2", d1, blocks(lineBlock(32, 128, lineDown), 5, 32, 128)...))
	d3 := t.Hold(t.Sequential("conv3", d2, blocks(lineBlock(64, 256, lineDown), 8, 64, 256)...))
	d4 := t.Hold(t.Sequential("conv4", d3, blocks(lineBlock(128, 512, lineDown), 11, 128, 512)...))

	u1 := t.Hold(t.Add(d3, t.Sequential("conv5", d4, blocks(lineBlock(64, 256, lineUp), 8, 64, 256)...)))
	u2 := t.Hold(t.Add(d2, t.Sequential("conv6", u1, blocks(lineBlock(32, 128, lineUp), 5, 32, 128)...)))
	u3 := t.Hold(t.Add(d1, t.Sequential("conv7", u2, blocks(lineBlock(16, 64, lineUp), 3, 16, 64)...)))
	last := append(blocks(lineBlock(16, 32, lineUp), 2, 8, 32), nn.Conv{Out: 1, K: 3, NoBias: true}.Module())
	return t.Hold(t.Sequential("conv8", u3, last...))
}

// What a block of LineDistiller does to an image's size.
const (
	lineSame = iota
	lineDown
	lineUp
)

// lineBlock is ResidualBlock, ResidualBlockDown or ResidualBlockUp (lines 93 to 236).
func lineBlock(mid, out int64, kind int) nn.Module {
	one := func(out int64) nn.Module { return nn.Conv{Out: out, K: 1, NoBias: true}.Module() }
	moved := func(out int64) nn.Module {
		switch kind {
		case lineDown:
			return nn.Conv{Out: out, K: 4, Stride: 2, NoBias: true}.Module()
		case lineUp:
			return nn.ConvTranspose{Out: out, K: 4, Stride: 2, Pad: 1, NoBias: true}.Module()
		}
		return nn.Conv{Out: out, K: 3, NoBias: true}.Module()
	}
	norm := func(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.BatchNorm2d("", x) }
	relu := nn.Module((*nn.Tape).ReLU)
	return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
		left := t.Sequential("left", x, norm, relu, one(mid), norm, relu, moved(mid), norm, relu, one(out))
		if kind == lineSame {
			return t.Add(left, x)
		}
		return t.Add(left, t.Call("shortcut", x, moved(out)))
	}
}
