package arch

import (
	"slices"
	"strings"

	"github.com/launch-ml/launch/core/nn"
)

// BasicSR's training loops (basicsr/models at 8d56e3a0). They clear the gradients of a network before its backward
// and not after its optimizer's step, so the generator's lie beside the discriminator's backward, and the
// discriminator's of the step before beside all that the generator does (srgan_model.py, optimize_parameters).
var _ = entry(func() {
	models.share(BasicSR)
	for _, loop := range []struct {
		basicLoop
		names []string
	}{
		{basicLoop{sections: pixelSections}, []string{"srmodel", "swinirmodel", "realesrnetmodel"}},
		{basicLoop{sections: pixelSections}, []string{"videobasemodel", "edvrmodel", "videorecurrentmodel"}},
		{basicLoop{sections: ganSections}, []string{"srganmodel", "videoganmodel", ""}},
		{basicLoop{sections: ganSections, clips: true}, []string{"videorecurrentganmodel"}},
		{basicLoop{sections: ganSections, relativistic: true}, []string{"esrganmodel"}},
		{basicLoop{sections: append(slices.Clone(ganSections), ldlSection), sharpened: true}, []string{"realesrganmodel"}},
	} {
		models.add(BasicSR, model{record: loop.record, gradientsStay: true}, loop.names...)
	}
})

// The sections of losses that SRModel and SRGANModel read.
var (
	pixelSections = []string{"pixel_opt", "perceptual_opt"}
	ganSections   = []string{"pixel_opt", "perceptual_opt", "gan_opt"}
)

// ComputesAll reports whether the project computes a loss whatever it weighs: BasicSR multiplies by the weight
// (losses/basic_loss.py at 8d56e3a0), where the others leave a loss of the weight 0 out.
func (p Project) ComputesAll() bool { return p.Base() == BasicSR }

// ldlSection is the section of a loss that weighs pixels by LDL's map of artifacts, whatever its type is
// (realesrgan_model.py, line 209).
const ldlSection = "ldl_opt"

// A basicLoop is optimize_parameters of one of BasicSR's models.
type basicLoop struct {
	sections     []string // of the losses that the model reads
	relativistic bool     // each judgement is of the distance to the mean of the others (esrgan_model.py)
	clips        bool     // losses and discriminator see all frames as a batch (video_recurrent_gan_model.py)
	sharpened    bool     // the losses compare with a sharpened copy of the image (realesrgan_model.py, gt_usm)
}

func (b basicLoop) record(cfg StepConfig, t *nn.Tape) (unknown string) {
	losses, ldl := b.losses(cfg.Losses)
	cfg.Losses = losses
	gan := cfg.hasGAN()
	optG, optD := cfg.optimizers()
	t.KeepGradients("network_g")
	if gan {
		t.KeepGradients("network_d")
	}
	lq, gt, previous := cfg.batch(t)
	if b.sharpened {
		t.Part("batch", func() { t.Hold(t.Input(nn.F32, gt.Shape()...)) })
	}
	letGo := func() {}
	if ldl { // output_ema of the step before, with its graph
		letGo = cfg.averagedGraph(t, lq)
	}
	t.ZeroGrad("network_g")

	var output, lGTotal nn.Tensor
	t.Autocast(cfg.AMP, func() {
		t.Part("network_g", func() { output = cfg.parallel(t, lq, cfg.Net.Forward) })
		output = t.Hold(t.Rebind(previous, output))
		if ldl {
			stays := cfg.averagedGraph(t, lq)
			letGo()
			letGo = stays
		}
		if b.clips {
			output, gt = t.View(output, -1, 3, gt.Dim(2), gt.Dim(3)), t.View(gt, -1, 3, gt.Dim(2), gt.Dim(3))
		}
		lGTotal, unknown = b.generatorLosses(cfg, t, lq, gt, output)
	})
	if len(cfg.Losses) == 0 {
		unknown, lGTotal = "no losses given", t.Mean(output)
	}
	t.Part("network_g", func() { t.Backward(lGTotal) })
	t.OptimizerStepAlone("network_g", cfg.reduced(optG, t.Size("network_g").GradBytes))

	if gan {
		if cfg.Disc.forward == nil {
			return cfg.Disc.unknown()
		}
		t.ZeroGrad("network_d")
		t.Part("network_d", func() { b.discriminate(cfg, t, output, gt) })
		t.OptimizerStepAlone("network_d", cfg.reduced(optD, t.Size("network_d").GradBytes))
	}
	letGo()
	return unknown
}

// losses are those that the model reads: of a recipe by their sections. ldl says that one of them wants the averaged
// network's output.
func (b basicLoop) losses(all []Loss) (out []Loss, ldl bool) {
	for _, l := range all {
		switch {
		case l.Name == "":
			ldl = ldl || l.wantsEMA()
		case !slices.Contains(b.sections, l.Name):
			continue
		case l.Name == ldlSection:
			l.Args = map[string]any{"criterion": strings.TrimSuffix(strings.ToLower(l.Type), "loss")}
			l.Type, ldl = "ldlloss", true
		}
		out = append(out, l)
	}
	return out, ldl
}

// averagedGraph is net_g_ema(lq), with a graph that no loss depends on: the averaged network's parameters require
// gradients, and nothing turns them off (realesrgan_model.py, line 198). drop lets go of it.
func (cfg StepConfig) averagedGraph(t *nn.Tape, lq nn.Tensor) (drop func()) {
	t.Part(emaPart, func() {
		drop = t.Dead(func() { t.Hold(t.Call("", lq, cfg.Net.Forward)) })
	})
	return drop
}

// generatorLosses sums the losses of the image, and the discriminator's judgement of it, which comes last.
func (b basicLoop) generatorLosses(cfg StepConfig, t *nn.Tape, lq, gt, output nn.Tensor) (nn.Tensor, string) {
	image := cfg
	image.Losses = slices.DeleteFunc(slices.Clone(cfg.Losses), Loss.IsGAN)
	for i := range image.Losses { // the loop itself has made the averaged network's output
		image.Losses[i].averaged = true
	}
	total, _, unknown := image.generatorLosses(t, lq, gt, output)
	if !cfg.hasGAN() || cfg.Disc.forward == nil {
		return total, unknown
	}
	t.Part("network_d", func() {
		t.FreezeParams(func() {
			if !b.relativistic {
				total = t.AddInplace(total, ganLoss(t, cfg.parallel(t, output, cfg.Disc.forward)))
				return
			}
			realDPred := t.Hold(t.Detach(cfg.parallel(t, gt, cfg.Disc.forward)))
			fakeGPred := t.Hold(cfg.parallel(t, output, cfg.Disc.forward))
			lGReal := t.Hold(ganLoss(t, t.Sub(realDPred, t.Mean(fakeGPred))))
			lGFake := t.Hold(ganLoss(t, t.Sub(fakeGPred, t.Mean(realDPred))))
			total = t.AddInplace(total, t.DivScalar(t.Add(lGReal, lGFake)))
		})
	})
	return total, unknown
}

// discriminate judges the real and the generated image, with a backward for each.
func (b basicLoop) discriminate(cfg StepConfig, t *nn.Tape, output, gt nn.Tensor) {
	judge := func(x nn.Tensor) (y nn.Tensor) {
		t.Autocast(cfg.AMP, func() { y = t.Hold(cfg.parallel(t, x, cfg.Disc.forward)) })
		return y
	}
	if !b.relativistic {
		t.Backward(t.Hold(ganLoss(t, judge(gt))))
		t.Backward(t.Hold(ganLoss(t, judge(t.Detach(output)))))
		return
	}
	var fake nn.Tensor // net_d(self.output).detach(): the graph goes as soon as it is made
	t.Dead(func() { fake = t.Detach(cfg.parallel(t, output, cfg.Disc.forward)) })()
	fake = t.Hold(fake)
	real := judge(gt)
	t.Backward(t.Hold(ganLoss(t, t.Sub(real, t.Mean(fake)))))
	fake = t.Rebind(fake, judge(t.Detach(output)))
	t.Backward(t.Hold(ganLoss(t, t.Sub(fake, t.Mean(t.Detach(real))))))
}
