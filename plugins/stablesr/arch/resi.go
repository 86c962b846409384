package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/unit"
)

// The second stage, controllable feature wrapping: AutoencoderKLResi (ldm/models/autoencoder.py:469-890) with
// LPIPSWithDiscriminator (ldm/modules/losses/contperceptual.py), line by line.

// A lossConfig is the section lossconfig of a recipe.
type lossConfig struct {
	kl, perceptual float64 // kl_weight, perceptual_weight
	disc           patchGAN
	vanilla        bool // disc_loss, which is else "hinge"
	codes          bool // of VQModel: VQLPIPSWithDiscriminator, which has no logvar
}

// readLoss reads lossconfig by LPIPSWithDiscriminator's constructor (contperceptual.py:8-30).
func readLoss(v any) (*lossConfig, error) {
	c := section(v)
	if c.Target() != "LPIPSWithDiscriminator" && c.Target() != "VQLPIPSWithDiscriminator" {
		return nil, c.unknown("lossconfig")
	}
	a := c.params()
	l := &lossConfig{
		codes: c.Target() == "VQLPIPSWithDiscriminator",
		kl:    a.float("kl_weight", 1), perceptual: a.float("perceptual_weight", 1), vanilla: a.text("disc_loss",
			"hinge") == "vanilla",
		disc: patchGAN{in: a.size("disc_in_channels", 3), layers: a.size("disc_num_layers", 3)},
	}
	for _, name := range []string{"use_actnorm", "disc_conditional"} {
		if a.bool(name, false) {
			return nil, fmt.Errorf("lossconfig %s: %w", name, ErrUnknown)
		}
	}
	if a.err != nil {
		return nil, fmt.Errorf("lossconfig: %w", a.err)
	}
	return l, nil
}

// resi is training_step (autoencoder.py:834): forward and loss for each of the two optimizers in turn, while the
// parameters of the other one require no gradient (toggle_optimizer of Lightning 1.4). backward is called with the loss
// of each.
func (s Step) resi(t *nn.Tape, backward func(nn.Tensor)) {
	for optimizer := range 2 {
		loss := t.Within("", func() nn.Tensor {
			inputs, gts, latents := s.resiInput(t)
			reconstructions := t.Hold(s.resiForward(t, inputs, latents, s.edges(t, gts), optimizer == 0))
			return s.resiLoss(t, gts, reconstructions, optimizer)
		})
		backward(loss)
	}
}

// resiInput is get_input (autoencoder.py:649): what the loader gives, which the trainer holds, and each image in the
// range of -1 to 1 beside it.
func (s Step) resiInput(t *nn.Tape) (inputs, gts, latents nn.Tensor) {
	side := s.Size / s.Model.Factor()
	image := func() nn.Tensor { return t.Hold(t.Input(nn.F32, s.Batch, 3, s.Size, s.Size)) }
	latent := func() nn.Tensor { return t.Hold(t.Input(nn.F32, s.Batch, s.Model.vae.embed, side, side)) }
	t.Part(partBatch, func() {
		for range 3 { // batch["lq"], batch["gt"], batch["sample"]
			image()
		}
		latent()
		inputs, gts = image(), image()
		image() // the sample, which the step takes and does not look at
		latents = latent()
	})
	return inputs, gts, latents
}

// edges is _enc_fea_canny_from_gt of stm233's fork (autoencoder.py:613 at a9548ad); nil without a ControlNet.
func (s Step) edges(t *nn.Tape, gts nn.Tensor) (canny []nn.Tensor) {
	if s.Model.control == nil {
		return nil
	}
	t.Part(partControl, func() {
		t.Scope("", func() {
			t.Hold(t.MulScalar(gts)) // in the range of 0 to 1, while the edges are found on the host
			hint := t.Hold(t.Zeros(nn.F32, s.Batch, s.Model.control.hint, s.Size, s.Size))
			canny = s.Model.control.encodeHint(t, hint)
		}, gts)
	})
	t.HoldAll(canny...)
	return canny
}

// inputs is what resiInput holds.
func (s Step) inputs() unit.Bytes {
	side := s.Size / s.Model.Factor()
	return unit.Bytes(s.Batch * 4 * (6*3*s.Size*s.Size + 2*s.Model.vae.embed*side*side))
}

// resiForward is forward (autoencoder.py:591): the features of the low-resolution image's encoder into the decoder. own
// says that the step is that of the autoencoder's optimizer.
func (s Step) resiForward(t *nn.Tape, input, latent nn.Tensor, canny []nn.Tensor, own bool) (dec nn.Tensor) {
	run := func() {
		t.Scope("", func() {
			v := s.vae()
			v.frozen = s.Model.freezeDec
			var encFea []nn.Tensor
			encode := func() {
				// posterior, of which the moments, the mean, the deviation and the variance live on
				moments := t.Hold(v.encoder(t, input, &encFea))
				logvar := t.Hold(t.Clamp(t.Narrow(moments, 1, moments.Dim(1)/2)))
				t.Hold(t.Exp(t.MulScalar(logvar)))
				t.Hold(t.Exp(logvar))
			}
			if v.frozen {
				t.FreezeParams(encode)
			} else {
				encode()
			}
			t.HoldAll(encFea...)
			dec = v.decoder(t, latent, encFea, canny)
		}, input, latent)
	}
	t.Part(partVAE, func() {
		if own {
			run()
			return
		}
		t.FreezeParams(run)
	})
	return dec
}

// resiLoss is LPIPSWithDiscriminator.forward (contperceptual.py:46).
func (s Step) resiLoss(t *nn.Tape, inputs, reconstructions nn.Tensor, optimizer int) (loss nn.Tensor) {
	l := s.Model.loss
	discriminate := func(x nn.Tensor) (logits nn.Tensor) {
		t.Part(partDisc, func() {
			run := func() { logits = l.disc.forward(t, x) }
			if optimizer == 0 {
				t.FreezeParams(run)
				return
			}
			run()
		})
		return t.Hold(logits)
	}
	t.Scope("", func() {
		recLoss := t.Hold(t.Abs(t.Sub(inputs, reconstructions))) // :49
		if l.perceptual > 0 {                                    // :50-52
			var pLoss nn.Tensor
			t.Part(partLPIPS, func() { pLoss = t.Hold(lpips(t, inputs, reconstructions)) })
			recLoss = t.Rebind(recLoss, t.Add(recLoss, t.MulScalar(pLoss)))
		}
		nllLoss := recLoss
		if !l.codes {
			nllLoss = t.Hold(t.AddScalar(t.DivScalar(recLoss))) // :54, by exp(logvar), a parameter of one number
		}
		weighted := t.Hold(t.Mean(nllLoss)) // :58
		t.Hold(t.Mean(nllLoss))             // :59
		if optimizer == 0 {
			gLoss := t.Hold(t.Neg(t.Mean(discriminate(reconstructions)))) // :69, :73
			loss = t.Add(weighted, t.MulScalar(gLoss))                    // :88
			return
		}
		judge := func(x nn.Tensor) nn.Tensor { // hinge_d_loss, vanilla_d_loss (vqperceptual.py:20-31)
			if l.vanilla {
				return t.Hold(t.Mean(t.Elementwise("torch.nn.functional.softplus", x, true, false)))
			}
			return t.Hold(t.Mean(t.ReLU(t.AddScalar(x))))
		}
		real, fake := discriminate(t.Detach(inputs)), discriminate(t.Detach(reconstructions)) // :131-132
		loss = t.MulScalar(t.Add(judge(real), judge(fake)))                                   // :138
	}, inputs, reconstructions)
	return loss
}

// declareLosses enters the losses' parameters, of which a step may not compute all, by an image of the smallest size.
func (s Step) declareLosses(t *nn.Tape) {
	x := t.Zeros(nn.F32, 1, 3, 32, 32)
	if s.Model.control != nil {
		t.Part(partControl, func() { s.Model.control.declare(t) })
	}
	t.Part(partLPIPS, func() { lpips(t, x, x) })
	t.Part(partDisc, func() { s.Model.loss.disc.forward(t, x) })
}
