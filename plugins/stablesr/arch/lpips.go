package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
)

// LPIPS and its VGG-16: taming/modules/losses/lpips.py of CompVis/taming-transformers at 3ba01b24, which
// ldm/modules/losses/contperceptual.py takes it from. No parameter of it is ever trained.

// vgg16 are the slices of torchvision's vgg16().features (lpips.py:71-80): convolutions and their channels.
var vgg16 = [...]struct {
	convs, channels int64
}{{2, 64}, {2, 128}, {3, 256}, {3, 512}, {3, 512}}

// lpips is LPIPS.forward (lpips.py:43): a number for each image, (batch, 1, 1, 1).
func lpips(t *nn.Tape, input, target nn.Tensor) (val nn.Tensor) {
	t.FreezeParams(func() {
		t.Scope("perceptual_loss", func() {
			in0, in1 := t.Hold(scalingLayer(t, input)), t.Hold(scalingLayer(t, target)) // :44
			outs0, outs1 := vggSlices(t, in0), vggSlices(t, in1)                        // :45
			t.HoldAll(append(outs0[:], outs1[:]...)...)
			var diffs [len(vgg16)]nn.Tensor
			for k := range vgg16 { // :48-50
				f0, f1 := t.Hold(normalizeTensor(t, outs0[k])), t.Hold(normalizeTensor(t, outs1[k]))
				diffs[k] = t.Hold(t.Pow(t.Sub(f0, f1)))
			}
			for k := range vgg16 { // :52; the Dropout is on, because Lightning sets the whole module to training
				lin := t.Call(fmt.Sprintf("lin%d.model", k), diffs[k], func(t *nn.Tape, x nn.Tensor) nn.Tensor {
					return t.Conv2d("1", t.Dropout(x, 0.5), nn.Conv{Out: 1, K: 1, NoBias: true})
				})
				res := t.Hold(t.MeanDim(lin, 2, 3)) // spatial_average
				if k == 0 {
					val = res
				} else {
					val = t.AddInplace(val, res) // :53-55
				}
			}
		}, input, target)
	})
	return val
}

// scalingLayer is ScalingLayer.forward (lpips.py:64).
func scalingLayer(t *nn.Tape, inp nn.Tensor) nn.Tensor {
	return t.Within("scaling_layer", func() nn.Tensor {
		shift, scale := t.Buffer("shift", nn.F32, 1, 3, 1, 1), t.Buffer("scale", nn.F32, 1, 3, 1, 1)
		return t.Div(t.Sub(inp, shift), scale)
	}, inp)
}

// vggSlices is vgg16.forward (lpips.py:96): the last ReLU of each slice. torchvision's ReLUs work in place, so a
// slice's result is its last convolution's.
func vggSlices(t *nn.Tape, x nn.Tensor) (outs [len(vgg16)]nn.Tensor) {
	t.Scope("net", func() {
		layer, h := 0, t.Hold(x)
		for i, s := range vgg16 {
			h = t.Rebind(h, t.Call(fmt.Sprint("slice", i+1), h, func(t *nn.Tape, x nn.Tensor) nn.Tensor {
				if i > 0 {
					x = t.MaxPool2d(x, 2, 2)
					layer++
				}
				for range s.convs {
					x = t.ReLUInplace(t.Conv2d(fmt.Sprint(layer), x, conv(s.channels, 3)))
					layer += 2
				}
				return x
			}))
			outs[i] = t.Hold(h)
		}
	}, x)
	return outs
}

// normalizeTensor is normalize_tensor (lpips.py:116).
func normalizeTensor(t *nn.Tape, x nn.Tensor) nn.Tensor {
	return t.Within("", func() nn.Tensor {
		normFactor := t.Hold(t.Sqrt(t.SumDim(t.Pow(x), 1)))
		return t.Div(x, t.AddScalar(normFactor))
	}, x)
}
