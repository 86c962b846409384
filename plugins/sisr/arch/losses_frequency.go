package arch

import (
	"github.com/launch-ml/launch/core/nn"
)

// Focal frequency loss (Jiang et al., 2021): traiNNer/losses/focal_frequency_loss.py at 68629319, in float32 whatever
// autocast says.
var _ = registerLoss(func(a *args) lossFunc {
	l := focalFrequencyLoss{
		patch: a.int("patch_factor", 1), average: a.bool("ave_spectrum", true), log: a.bool("log_matrix", false),
		batch: a.bool("batch_matrix", false),
	}
	a.ignore("alpha")
	refuse(l.patch < 1, "patch_factor must be at least 1")
	return float32Loss(l.forward)
}, "ffloss")

// A focalFrequencyLoss is FFLoss.
type focalFrequencyLoss struct {
	patch               int64
	average, log, batch bool
}

func (l focalFrequencyLoss) forward(t *nn.Tape, pred, target nn.Tensor) nn.Tensor {
	predFreq, targetFreq := t.Hold(l.frequencies(t, pred)), t.Hold(l.frequencies(t, target))
	if l.average {
		predFreq = t.Rebind(predFreq, t.MeanDim(predFreq, 0))
		targetFreq = t.Rebind(targetFreq, t.MeanDim(targetFreq, 0))
	}
	loss := t.Within("", func() nn.Tensor { return l.formulation(t, predFreq, targetFreq) }, predFreq, targetFreq)
	return t.MulScalar(loss)
}

// frequencies is tensor2freq: (b, c, h, w) to (b, patches, c, h, w, 2). A complex number is two float32.
func (l focalFrequencyLoss) frequencies(t *nn.Tape, x nn.Tensor) (freq nn.Tensor) {
	return t.Within("", func() nn.Tensor {
		b, c, h, w := x.Dim(0), x.Dim(1), x.Dim(2)/l.patch, x.Dim(3)/l.patch
		var patches []nn.Tensor
		for range l.patch * l.patch {
			p := t.Narrow(t.Narrow(x, 2, h), 3, w)
			patches = append(patches, p)
		}
		y := t.Hold(t.StackSecond(patches...))
		complex := t.Copy("torch.fft.fft2", y, b, l.patch*l.patch, c, h, w, 2)
		freq = t.Hold(complex)
		return t.Rebind(freq, t.Copy("torch.stack", freq, freq.Shape()...))
	}, x)
}

// formulation is loss_formulation. The weights are detached, so what their graph has saved is let go with it.
func (l focalFrequencyLoss) formulation(t *nn.Tape, recon, real nn.Tensor) nn.Tensor {
	squares := func() nn.Tensor { return t.Hold(t.Pow(t.Sub(recon, real))) }
	parts := func(x nn.Tensor) nn.Tensor { return t.Add(t.Select(x, -1), t.Select(x, -1)) }
	var weight nn.Tensor
	drop := t.Dead(func() {
		matrix := squares()
		matrix = t.Rebind(matrix, t.Pow(t.Sqrt(parts(matrix))))
		if l.log {
			matrix = t.Rebind(matrix, t.Elementwise("torch.log", t.AddScalar(matrix), true, false))
		}
		if l.batch {
			matrix = t.Rebind(matrix, t.Div(matrix, t.MaxAll(matrix)))
		} else {
			top := t.MinDim(t.MinDim(matrix, 4), 3)
			matrix = t.Rebind(matrix, t.Div(matrix, t.View(top, append(top.Shape(), 1, 1)...)))
		}
		matrix = t.MaskedFill(matrix, t.Compare(matrix, matrix))
		matrix = t.Rebind(matrix, t.Clamp(matrix))
		weight = t.Hold(t.Detach(t.Clone(matrix)))
	})
	tmp := squares()
	distance := t.Hold(parts(tmp))
	loss := t.Mean(t.Hold(t.Mul(weight, distance)))
	drop()
	return loss
}
