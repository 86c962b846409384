package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// Discriminators without a norm of their weights: VGGStyleDiscriminator of SRGAN and ESRGAN (traiNNer/archs/discriminator_arch.py at
// 68629319) and docres_discriminator (docres_arch.py, line 319).
var _ = entry(func() {
	registerDiscriminator("vggstylediscriminator", func(_ Spec, a *args) nn.Module {
		d := vggStyle{feat: a.int("num_feat", 64), size: a.int("input_size", 128)}
		refuse(d.size != 128 && d.size != 256, "input size must be 128 or 256, but received %d", d.size)
		a.ignore("num_in_ch")
		return d.forward
	})
	registerDiscriminator("docres_discriminator", func(_ Spec, a *args) nn.Module {
		out, dim, bias := a.int("out_channels", 1), a.int("dim", 64), a.bool("bias", false)
		depth := len(a.ints("num_blocks", 1, 2, 2, 3))
		a.ignore("inp_channels", "heads", "ffn_expansion_factor", "LayerNorm_type")
		return func(t *nn.Tape, x nn.Tensor) nn.Tensor {
			var layers []nn.Module
			for range depth {
				layers = append(layers, nn.Conv{Out: dim, K: 3, NoBias: !bias}.Module(), (*nn.Tape).LeakyReLUInplace)
			}
			return t.Sequential("model", x, append(layers, nn.Conv{Out: out, K: 3, NoBias: !bias}.Module())...)
		}
	})
})

// assertsSize reports whether the discriminator takes images of one size alone.
func (d Discriminator) assertsSize() bool { return d.Name == "vggstylediscriminator" }

type vggStyle struct{ feat, size int64 }

// forward is VGGStyleDiscriminator.forward, whose first line asserts the image's side.
func (d vggStyle) forward(t *nn.Tape, x nn.Tensor) nn.Tensor {
	if x.Dim(2) != d.size {
		panic(fmt.Sprintf("vggstylediscriminator asserts images of its input_size %d, and the high-resolution crop is %d", d.size, x.Dim(2)))
	}
	layer := func(name, norm string, x nn.Tensor, out, k, stride int64) nn.Tensor {
		y := t.Conv2d(name, x, nn.Conv{Out: out, K: k, Stride: stride, NoBias: norm != ""})
		if norm != "" {
			y = t.BatchNorm2d(norm, y)
		}
		return t.LeakyReLUInplace(y)
	}
	feat := t.Hold(layer("conv0_0", "", x, d.feat, 3, 1))
	feat = t.Rebind(feat, layer("conv0_1", "bn0_1", feat, d.feat, 4, 2))
	for i := int64(1); d.size>>i >= 8; i++ { // to a side of 4
		out := d.feat * min(int64(1)<<i, 8)
		for j, stride := range []int64{1, 2} {
			feat = t.Rebind(feat, layer(fmt.Sprintf("conv%d_%d", i, j), fmt.Sprintf("bn%d_%d", i, j), feat, out, 2+stride, stride))
		}
	}
	feat = t.Rebind(feat, t.View(feat, feat.Dim(0), feat.Numel()/feat.Dim(0)))
	feat = t.Rebind(feat, t.LeakyReLUInplace(t.Linear("linear1", feat, 100, true)))
	return t.Linear("linear2", feat, 1, true)
}
