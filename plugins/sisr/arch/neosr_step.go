package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/unit"
)

// A NeosrStep is what a recipe of neosr says of its training step beside the rest (neosr/models/image.py at 31c7022,
// init_training_settings).
type NeosrStep struct {
	Unclamped bool   // train.clamp is false
	MatchLQ   bool   // train.match_lq_colors
	Wavelet   string // from which iteration on the discriminator sees wavelets' coefficients; "" for never
	Augments  bool   // datasets.train.augmentation has more than "none"
	SAM, ECO  bool   // train.sam, train.eco: neither has a formula
}

// unknown names what of the step has no formula, or "".
func (n NeosrStep) unknown() string {
	switch {
	case n.SAM:
		return fmt.Sprintf("train.sam: %v: its closure runs the step twice", ErrUnknown)
	case n.ECO:
		return fmt.Sprintf("train.eco: %v: it runs the network twice", ErrUnknown)
	}
	return ""
}

var _ = entry(func() { models.add(Neosr, model{record: StepConfig.recordNeosr}, "", "image", "otf") })

// recordNeosr puts the step of neosr on the tape: image.feed_data and image.closure (neosr/models/image.py:441 and
// 506 at 31c7022), then both optimizers. The generator's gradients are there until the discriminator's step is over.
func (cfg StepConfig) recordNeosr(t *nn.Tape) (unknown string) {
	n, gtSize := cfg.Neosr, cfg.LQ*cfg.Net.Scale
	optG, optD := cfg.optimizers()
	gtShape := []int64{cfg.gathered(), cfg.Net.gtCh(), gtSize, gtSize}
	var lq, gt, previous nn.Tensor
	t.Part("batch", func() {
		lq = t.Hold(t.Input(nn.F32, cfg.gathered(), cfg.Net.InCh, cfg.LQ, cfg.LQ))
		gt = t.Hold(t.Input(nn.F32, gtShape...))
		previous = t.Zeros(nn.F32, gtShape...) // self.output of the step before
	})
	cfg.staleNeosr(t, gtShape)
	if cfg.Accumulate > 1 {
		t.KeepGradients("network_g")
		if cfg.hasGAN() {
			t.KeepGradients("network_d")
		}
	}

	var output, lGTotal, fakeHF, realHF nn.Tensor
	gan := false
	t.Autocast(cfg.AMP, func() {
		t.Part("network_g", func() { output = cfg.parallel(t, lq, cfg.Net.Forward) })
		output = t.Hold(t.Rebind(previous, output))
		if !n.Unclamped {
			output = t.Rebind(output, t.Clamp(output))
		}
		if n.MatchLQ {
			t.Part("match_lq_colors", func() {
				t.NoGrad(func() { t.Attribute("lq_interp", t.Clamp(t.Interpolate(lq, gtSize, gtSize))) })
			})
		}
		fakeHF, realHF = output, gt
		if n.Wavelet != "" {
			fakeHF, realHF = cfg.waveletNeosr(t, gtShape)
		}
		lGTotal, gan, unknown = cfg.lossesNeosr(t, output, gt)
	})
	if len(cfg.Losses) == 0 {
		unknown = "no losses given"
		lGTotal = t.Mean(output)
	}
	if why := n.unknown(); why != "" {
		unknown = why
	}
	t.Part("network_g", func() { t.Backward(lGTotal) })
	if gan {
		if cfg.Disc.forward == nil {
			return cfg.Disc.unknown()
		}
		cfg.discriminateNeosr(t, fakeHF, realHF)
	}
	t.OptimizerStep("network_g", cfg.reduced(optG, t.Size("network_g").GradBytes))
	if gan {
		t.OptimizerStep("network_d", cfg.reduced(optD, t.Size("network_d").GradBytes))
	}
	return unknown
}

// staleNeosr is what modules still have of the step before: ldl_loss its two images, the step its enlarged crop.
func (cfg StepConfig) staleNeosr(t *nn.Tape, gtShape []int64) {
	for _, l := range cfg.Losses {
		if l.Weight == 0 || !l.keepsImages() {
			continue
		}
		t.Part(l.part(), func() {
			for _, name := range keptImages {
				t.Attribute(name, t.Zeros(nn.F32, gtShape...))
			}
		})
	}
	if cfg.Neosr.MatchLQ {
		t.Part("match_lq_colors", func() { t.Attribute("lq_interp", t.Zeros(nn.F32, gtShape...)) })
	}
}

// keptImages are the attributes of ldl_loss (ldl_loss.py:100).
var keptImages = []string{"output", "gt"}

// keepsImages reports whether the loss holds its weighted images until the next step.
func (l Loss) keepsImages() bool { return l.Type == "ldl_loss" }

// waveletNeosr are the coefficients that the discriminator sees: of three bands, at the image's size
// (wavelet_guided.py:367).
func (cfg StepConfig) waveletNeosr(t *nn.Tape, gtShape []int64) (fake, real nn.Tensor) {
	t.Part("wavelet_guided, from iteration "+cfg.Neosr.Wavelet, func() {
		bands := func() nn.Tensor {
			shape := []int64{gtShape[0], 4, gtShape[2], gtShape[3]}
			z := t.Within("", func() nn.Tensor {
				t.Hold(t.Zeros(nn.F32, shape...)) // all four
				return t.Zeros(nn.F32, gtShape...)
			})
			return t.Hold(z)
		}
		t.NoGrad(func() { fake, real = bands(), bands() })
	})
	return fake, real
}

// lossesNeosr sums the generator's losses. The adversarial one has no gradient: the discriminator judges in eval
// mode and under inference_mode (image.py:640).
func (cfg StepConfig) lossesNeosr(t *nn.Tape, output, gt nn.Tensor) (lGTotal nn.Tensor, gan bool, unknown string) {
	t.Part("losses", func() { lGTotal = t.Hold(t.Zeros(nn.F32, 1)) })
	for _, l := range cfg.Losses {
		if l.IsGAN() {
			gan = true
			continue
		}
		f, err := l.build()
		if err != nil {
			unknown = err.Error()
			continue
		}
		target := gt
		if cfg.Neosr.MatchLQ && matchesLQ(l.Type) {
			target = t.Detach(gt) // lq_interp, which is of its size
		}
		t.Part(l.part(), func() {
			t.FreezeParams(func() {
				t.Scope("", func() { lGTotal = t.AddInplace(lGTotal, f(t, output, target)) }, output, target)
			})
		})
	}
	if gan && cfg.Disc.forward != nil {
		t.Part("network_d", func() {
			evaluated(t, func() { t.NoGrad(func() { t.FreezeParams(func() { cfg.parallel(t, output, cfg.Disc.forward) }) }) })
		})
	}
	return lGTotal, gan, unknown
}

// matchesLQ are the losses that match_lq_colors compares with the enlarged crop (image.py:590 and 598).
func matchesLQ(kind string) bool { return kind == "consistency_loss" || kind == "msswd_loss" }

// evaluated runs f in eval mode.
func evaluated(t *nn.Tape, f func()) {
	old := t.Training
	t.Training = false
	f()
	t.Training = old
}

// discriminateNeosr judges the real and the generated image, in eval mode, and runs backward over both inside
// autocast (image.py:680).
func (cfg StepConfig) discriminateNeosr(t *nn.Tape, fake, real nn.Tensor) {
	t.Part("network_d", func() {
		evaluated(t, func() {
			t.Autocast(cfg.AMP, func() {
				realDPred := t.Hold(cfg.parallel(t, real, cfg.Disc.forward))
				lDReal := ganLoss(t, realDPred)
				fakeDPred := t.Hold(cfg.parallel(t, t.Detach(fake), cfg.Disc.forward))
				t.Backward(t.Add(lDReal, ganLoss(t, fakeDPred)))
			})
		})
	})
}

// residentNeosr is what stays on the card beside what all projects keep: the averaged discriminator (image.py:98),
// the batch that CUDAPrefetcher has loaded ahead (train.py:65), and the crops as the loader gave them, where the
// step has augmented copies.
func (cfg StepConfig) residentNeosr(d nn.Size) (items []mem.Item) {
	if cfg.EMA && d.Params > 0 {
		const part, from = "network_d EMA", "train.ema > 0: a copy of network_d"
		items = append(items, mem.Item{Kind: mem.Parameters, What: part, Bytes: d.ParamBytes, Count: d.Params, From: from},
			mem.Item{Kind: mem.Buffers, What: part, Bytes: d.BufferBytes, Count: d.Buffers, From: from})
	}
	gtSize := cfg.LQ * cfg.Net.Scale
	count := cfg.gathered() * (cfg.Net.InCh*cfg.LQ*cfg.LQ + cfg.Net.gtCh()*gtSize*gtSize)
	crops := func(what, from string) {
		items = append(items, mem.Item{Kind: mem.Inputs, What: what, Bytes: unit.Bytes(4 * count), Count: count, From: from})
	}
	crops("next batch", "CUDAPrefetcher loads it during the step (data/prefetch_dataloader.py)")
	if cfg.Neosr.Augments {
		crops("batch before augmentation", "the loop holds it beside its augmented copies (train.py)")
	}
	return items
}
