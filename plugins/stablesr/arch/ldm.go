package arch

import "github.com/launch-ml/launch/core/nn"

// LatentDiffusion of CompVis and of its forks (ldm/models/diffusion/ddpm.py at a506df57; the forks' commits are in
// code.go).

// loaded is a batch as the loader gives it, which the trainer holds.
type loaded struct{ image, cond nn.Tensor }

// inputs is what get_input returns.
type inputs struct{ z, c, concat, x, xrec, xc nn.Tensor }

// steps is the loss of training_step, or of the shared_step that a validation is.
func (s Step) steps(t *nn.Tape, training bool) nn.Tensor {
	if s.Model.trainer != TwoBatches || !training {
		return s.sharedStep(t, s.loaded(t))
	}
	images, kept := s.loaded(t), s.loaded(t) // Dreambooth, ddpm.py:911
	loss := t.Hold(s.sharedStep(t, images))
	return t.Add(loss, t.MulScalar(s.sharedStep(t, kept)))
}

// loaded puts a batch on the card, as Lightning does.
func (s Step) loaded(t *nn.Tape) (in loaded) {
	m := s.Model
	input := func(channels, side int64) nn.Tensor { // (b, h, w, c)
		return t.Hold(t.Input(nn.F32, s.Batch, side, side, channels))
	}
	t.Part(partBatch, func() {
		in.image = input(m.vae.in, s.Size)
		switch {
		case m.rescaler != nil:
			in.cond = input(m.rescaler.in, s.Size)
		case m.low > 0:
			in.cond = input(m.low, s.Size/m.Factor())
		case m.seesImage(), m.trainer == EditPairs:
			in.cond = input(m.vae.in, s.Size)
		}
	})
	return in
}

// seesImage says that the condition of the attention looks at an image.
func (m *Model) seesImage() bool { return m.cond != nil && m.cond.part() == partImage }

// copied is DDPM.get_input (ddpm.py:321): a contiguous copy in the order of a network, or in instruct-pix2pix, whose
// loader has that order, nothing.
func (s Step) copied(t *nn.Tape, x nn.Tensor) (y nn.Tensor) {
	t.Part(partBatch, func() { y = t.Permute(x, 0, 3, 1, 2) })
	if s.Model.trainer == EditPairs {
		return y
	}
	t.Part(partBatch, func() { y = t.Contiguous(y) })
	return y
}

// first is the first n of a batch.
func first(t *nn.Tape, x nn.Tensor, n int64) nn.Tensor {
	if x.Dims() == 0 || x.Dim(0) == n {
		return x
	}
	return t.Narrow(x, 0, n)
}

// getInput is get_input (ddpm.py:651), of the first n images. logging says that it is log_images', which wants the
// images and what the first stage makes of them, too, and every condition.
func (s Step) getInput(t *nn.Tape, in loaded, n int64, logging bool) (out inputs) {
	m := s.Model
	t.Scope("", func() {
		out.x = first(t, t.Hold(s.copied(t, in.image)), n)
		out.z = t.Hold(s.encode(t, out.x))
		if m.trainer == EditPairs || m.trainer == Views {
			out = s.pairInput(t, in, n, out)
		} else {
			s.conditions(t, in, n, logging, &out)
		}
		if logging {
			out.xrec = t.Hold(s.decode(t, out.z))
		}
	})
	return out
}

// conditions is the condition of CompVis' get_input: of the whole batch, also where few images are logged.
func (s Step) conditions(t *nn.Tape, in loaded, n int64, logging bool, out *inputs) {
	m := s.Model
	if in.cond.Dims() > 0 {
		out.xc = t.Hold(s.copied(t, in.cond))
	}
	switch {
	case m.low > 0:
		out.concat = first(t, out.xc, n)
	case m.trainableText && !logging: // forward has it computed
	case m.rescaler != nil:
		t.NoGrad(func() { out.concat = first(t, t.Hold(s.rescale(t, out.xc)), n) })
	case m.cond != nil:
		t.NoGrad(func() { out.c = first(t, t.Hold(s.condition(t, s.Batch, out.xc)), n) })
	}
}

// pairInput is get_input of instruct-pix2pix (ddpm_edit.py:686) and of zero123 (ddpm.py:723): a condition in the
// latent and one for the attention, either of which is left out of one sample in twenty.
func (s Step) pairInput(t *nn.Tape, in loaded, n int64, out inputs) inputs {
	out.xc = first(t, t.Hold(s.copied(t, in.cond)), n)
	t.NoGrad(func() {
		if s.Model.trainer == EditPairs {
			null := t.Hold(s.condition(t, 1, nn.Tensor{}))
			out.c = t.Hold(t.Add(t.Hold(s.condition(t, n, nn.Tensor{})), null)) // torch.where
		} else {
			out.c = t.Hold(s.condition(t, n, out.xc))
		}
	})
	if s.Model.trainer == Views { // cc_projection, with the pose beside what CLIP has seen
		t.Part(partCond, func() {
			seen := t.Hold(t.Cat(2, out.c, t.Input(nn.F32, n, 1, 4)))
			out.c = t.Hold(t.Linear("cc_projection", seen, s.Model.unet.contextDim, true))
		})
	}
	t.NoGrad(func() { out.concat = t.Hold(t.MulScalar(s.encode(t, out.xc))) })
	return out
}

// sharedStep is shared_step, forward and p_losses (ddpm.py:866, 871, 1012).
func (s Step) sharedStep(t *nn.Tape, in loaded) nn.Tensor {
	m := s.Model
	return t.Within("", func() nn.Tensor {
		x := s.getInput(t, in, s.Batch, false)
		z, c, concat := t.Hold(x.z), x.c, x.concat
		switch {
		case !m.trainableText:
		case m.rescaler != nil:
			concat = t.Hold(s.rescale(t, t.Hold(x.xc)))
		case m.cond != nil:
			if x.xc.Dims() > 0 {
				t.Hold(x.xc)
			}
			c = t.Hold(s.condition(t, s.Batch, x.xc))
		}
		for _, x := range []nn.Tensor{c, concat} {
			if x.Dims() > 0 {
				t.Hold(x)
			}
		}
		noise := t.Hold(t.ZerosLike(z))
		noisy := t.Hold(t.Add(z, noise)) // q_sample
		out := t.Hold(s.apply(t, noisy, c, concat))
		return t.Mean(t.MSELoss(out, noise)) // or the absolute difference, whose numbers are as many
	}, in.image)
}

// rescale is the condition that becomes a map beside the latent.
func (s Step) rescale(t *nn.Tape, xc nn.Tensor) (y nn.Tensor) {
	run := func() { y = s.Model.rescaler.forward(t, xc) }
	t.Part(partCond, func() {
		if s.Model.trainableText {
			run()
			return
		}
		t.FreezeParams(run)
	})
	return y
}

// apply is apply_model: DiffusionWrapper.forward (ddpm.py:1410).
func (s Step) apply(t *nn.Tape, x, c, concat nn.Tensor) nn.Tensor {
	return t.Within("", func() nn.Tensor {
		if concat.Dims() > 0 {
			x = t.Hold(t.Cat(1, x, concat))
		}
		return s.diffuse(t, x, c, nil, nn.Tensor{})
	}, x)
}
