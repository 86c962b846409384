package arch

import (
	"github.com/launch-ml/launch/core/nn"
)

// Structure and texture: traiNNer/losses/structure_texture_loss.py at 68629319, in float32 whatever autocast says: MS-SSIM
// where the target has edges, and features of VGG-19 where it has none.
var _ = registerLoss(func(a *args) lossFunc {
	a.ignore("pixel_weight", "perceptual_weight", "structure_k", "structure_t", "texture_k", "texture_t")
	l := structureTextureLoss{
		luma: lumaOf(a), luminance: a.bool("include_luminance", false), want: vggConvLayers,
	}
	if v, ok := a.get("layer_weights"); ok && v != nil {
		layers, ok := v.(map[string]any)
		refuse(!ok, "layer_weights: %v is not a table", v)
		l.want = nil
		for k := range layers {
			l.want = append(l.want, k)
		}
	}
	return float32Loss(l.forward)
}, "structuretextureloss")

// A structureTextureLoss is StructureTextureLoss.
type structureTextureLoss struct {
	luma      string
	luminance bool
	want      []string
}

// forward is StructureTextureLoss.forward (line 151).
func (l structureTextureLoss) forward(t *nn.Tape, pred, gt nn.Tensor) nn.Tensor {
	gt = t.Detach(gt)
	var structure, texture nn.Tensor // where they weigh
	t.Scope("", func() {             // compute_weights
		sobelX, sobelY := t.Buffer("sobel_x", nn.F32, 1, 1, 3, 3), t.Buffer("sobel_y", nn.F32, 1, 1, 3, 3)
		luma := t.Hold(gray(t, gt))
		gx := t.Hold(t.ConvWeight(luma, sobelX, nn.Tensor{}, nn.Conv{}))
		gy := t.Hold(t.ConvWeight(luma, sobelY, nn.Tensor{}, nn.Conv{}))
		mag := t.Hold(t.Sqrt(t.AddScalar(t.Add(t.Pow(gx), t.Pow(gy)))))
		structure = t.Hold(t.Sigmoid(t.MulScalar(t.AddScalar(mag))))
		texture = t.Hold(t.AddScalar(t.Neg(structure)))
	}, gt)
	t.Hold(structure)
	t.Hold(texture)
	predY, gtY := t.Hold(preprocessRGB(t, pred, l.luma)), t.Hold(preprocessRGB(t, gt, l.luma))
	ssim := t.Within("", func() nn.Tensor { return l.weighted(t, predY, gtY, structure) }, predY, gtY)
	structureLoss := t.Hold(t.Neg(t.Mean(t.Hold(ssim))))

	predFeats := vggFeatures(t, pred, l.want)
	gtFeats := vggFeatures(t, gt, l.want)
	loss := t.Zeros(nn.F32)
	for i, f := range predFeats {
		t.Scope("", func() { // what a turn of the loop binds, the next binds anew
			diff := t.Hold(t.MeanDim(t.Abs(t.Sub(f.Tensor, gtFeats[i].Tensor)), 1))
			down := t.Hold(t.Interpolate(texture, diff.Dim(2), diff.Dim(3)))
			loss = t.Add(loss, t.MulScalar(t.Mean(t.Mul(down, diff))))
		})
	}
	return t.Add(structureLoss, loss)
}

// weighted is weighted_ms_ssim (line 12), of five scales.
func (l structureTextureLoss) weighted(t *nn.Tape, x, y, w nn.Tensor) nn.Tensor {
	win := t.Hold(t.Zeros(nn.F32, x.Dim(1), 1, 11, 11))
	var values []nn.Tensor
	for i := range 5 {
		value := t.Within("", func() nn.Tensor {
			mu1, mu2 := t.Hold(filter2(t, x, win)), t.Hold(filter2(t, y, win))
			mu1Sq, mu2Sq, mu1Mu2 := t.Hold(t.Pow(mu1)), t.Hold(t.Pow(mu2)), t.Hold(t.Mul(mu1, mu2))
			sigma1Sq := t.Hold(t.Sub(filter2(t, t.Mul(x, x), win), mu1Sq))
			sigma2Sq := t.Hold(t.Sub(filter2(t, t.Mul(y, y), win), mu2Sq))
			sigma12 := t.Hold(t.Sub(filter2(t, t.Mul(x, y), win), mu1Mu2))
			ratio := func(a, b, c nn.Tensor) nn.Tensor {
				above := t.AddScalar(t.MulScalar(a))
				return t.Div(above, t.AddScalar(t.Add(b, c)))
			}
			csMap := t.Hold(t.ReLU(ratio(sigma12, sigma1Sq, sigma2Sq)))
			down := t.Hold(t.Interpolate(w, csMap.Dim(2), csMap.Dim(3)))
			if i == 4 && l.luminance {
				csMap = t.Hold(t.Mul(t.Hold(ratio(mu1Mu2, mu1Sq, mu2Sq)), csMap))
			}
			return t.Div(t.SumDim(t.Mul(down, csMap), 1, 2, 3), t.AddScalar(t.SumDim(down, 1, 2, 3)))
		})
		values = append(values, t.Hold(t.View(value, value.Dim(0))))
		pool := func(x nn.Tensor) nn.Tensor { return t.AvgPool2d(x, 2, 2, x.Dim(2)%2) }
		x, y, w = t.Hold(t.Rebind(x, pool(x))), t.Hold(t.Rebind(y, pool(y))), t.Hold(t.Rebind(w, pool(w)))
	}
	mcs := t.Hold(t.Clamp(t.Stack(values...)))
	return t.Prod(t.PowTensor(mcs, t.Zeros(nn.F32, 5, 1)), 0)
}
