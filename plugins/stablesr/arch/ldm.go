package arch

import "github.com/launch-ml/launch/core/nn"

// ldm is shared_step of CompVis's LatentDiffusion (ldm/models/diffusion/ddpm.py:565 at a506df5 and at 398ee938): the whole
// UNet is trained, on latents and a text or a map beside them.
func (s Step) ldm(t *nn.Tape) nn.Tensor {
	m := s.Model
	var x, xc nn.Tensor
	t.Part(partBatch, func() { // DDPM.get_input: the loader's (b, h, w, c), and a contiguous copy of (b, c, h, w)
		pair := func(channels int64) (copied nn.Tensor) {
			for range 2 {
				copied = t.Hold(t.Input(nn.F32, s.Batch, channels, s.Size, s.Size))
			}
			return copied
		}
		x = pair(m.vae.in)
		if m.rescaler != nil {
			xc = pair(m.rescaler.in)
		}
	})
	z := t.Hold(s.encode(t, x))
	var c nn.Tensor
	if m.rescaler == nil {
		c = t.Hold(s.condition(t, s.Batch))
	} else {
		t.Part(partCond, func() {
			run := func() { xc = t.Hold(m.rescaler.forward(t, xc)) }
			if m.trainableText {
				run()
			} else {
				t.NoGrad(func() { t.FreezeParams(run) })
			}
		})
	}
	noise := t.Hold(t.ZerosLike(z))
	in := t.Hold(t.Add(z, noise)) // q_sample
	if m.rescaler != nil {
		in = t.Cat(1, in, xc) // DiffusionWrapper.forward (ddpm.py:3353)
	}
	out := t.Hold(s.diffuse(t, in, c, nil, nn.Tensor{}))
	return t.Mean(t.MSELoss(out, noise)) // or the absolute difference, whose numbers are as many
}
