package arch

import (
	"bytes"
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// MUNet of Phhofm/traiNNer-redux: traiNNer/archs/munet_arch.py at 2f64430b, a U-Net whose upsampling is the magic kernel. The
// one of four branches that follows under the same name reads self.num_in_ch in its forward, which nothing sets (lines 593 to
// 694 at 069b6d59 and da033d99), so that its first step stops.
var _ = registerDiscriminator("munet", func(s Spec, a *args) nn.Module {
	switch attribute := []byte("self.num_in_ch"); {
	case bytes.Contains(s.Source, attribute) && !bytes.Contains(s.Source, append(attribute, " ="...)):
		reject("'MUNet' object has no attribute 'num_in_ch', which its forward reads and its constructor does not set")
	case bytes.Contains(s.Source, []byte("class AttentionFusion")):
		reject("the one of four branches: %w", ErrUnknown)
	case s.Source == nil:
		a.warn("network_d: munet is taken for the one of 2025-11 (2f64430b)")
	}
	d := munet{feat: a.int("num_feat", 64), mult: a.ints("ch_mult", 1, 2, 4, 8)}
	a.ignore("num_in_ch", "slope")
	return d.forward
})

type munet struct {
	feat int64
	mult []int64
}

// parametrized is spectral_norm(nn.Conv2d(…, k, bias=False)) of torch.nn.utils.parametrizations.
func parametrized(out, k, stride int64) nn.Conv {
	return nn.Conv{Out: out, K: k, Stride: stride, NoBias: true, Parametrized: true}
}

// forward is MUNet.forward.
func (d munet) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	act := (*nn.Tape).LeakyReLUInplace
	x = t.Hold(t.Conv2d("in_conv", x, conv(d.feat, 3)))
	skips := []nn.Tensor{x}
	for i, mult := range d.mult { // DownBlock
		x = t.Hold(t.Sequential(fmt.Sprint("down_blocks.", i), x, parametrized(d.feat*mult, 4, 2).Module(), act))
		skips = append(skips, x)
	}
	mid := parametrized(x.Dim(1), 3, 1).Module()
	x = t.Rebind(x, t.Sequential("mid_conv", x, mid, act, mid, act))

	for i := range d.mult {
		skip := skips[len(d.mult)-1-i]
		if i > 0 { // the loop's name is the next one's
			t.Rebind(skips[len(d.mult)-i], skip)
		}
		x = t.Rebind(x, d.up(t, fmt.Sprint("up_blocks.", i), x, skip))
	}
	return t.Conv2d("out_conv", x, nn.Conv{Out: 1, K: 3, Parametrized: true})
}

// up is UpBlock.
func (d munet) up(t *nn.Tape, name string, x, skip nn.Tensor) (y nn.Tensor) {
	return t.Within(name, func() nn.Tensor {
		larger := func(t *nn.Tape, x nn.Tensor) nn.Tensor { return t.Interpolate(x, skip.Dim(2), skip.Dim(3)) }
		y = t.Hold(t.Call("magic_upsample", x, magicKernelBy(larger, 1, "sharpen", "resample_conv", "conv_h", "conv_v")))
		y = t.Rebind(y, t.Conv2d("post_upsample_conv", y, parametrized(skip.Dim(1), 3, 1)))
		y = t.Rebind(y, t.Cat(1, y, skip))
		return t.Sequential("fusion_conv", y, parametrized(skip.Dim(1), 3, 1).Module(), (*nn.Tape).LeakyReLUInplace)
	}, x, skip)
}
