package arch

import "github.com/launch-ml/launch/core/nn"

// AutoencoderKL and VQModel in training (ldm/models/autoencoder.py:285 and 14 at a506df57): a first stage and its
// discriminator, each with an optimizer of its own.

// autoencode is training_step (autoencoder.py:344, :118) of the two optimizers in turn; the parameters of the other one
// require no gradient meanwhile (toggle_optimizer of Lightning 1.4). backward is called with the loss of each.
func (s Step) autoencode(t *nn.Tape, backward func(nn.Tensor)) {
	in := s.loaded(t)
	for optimizer := range 2 {
		var loss nn.Tensor
		s.autocast(t, func() { loss = s.autoencodeHalf(t, in, optimizer) })
		backward(loss)
	}
}

// autoencodeHalf is what one of the optimizers has of it.
func (s Step) autoencodeHalf(t *nn.Tape, in loaded, optimizer int) (loss nn.Tensor) {
	t.Scope("", func() {
		x := t.Hold(s.copied(t, in.image))
		xrec, more := s.reconstruct(t, x, optimizer == 0, true)
		t.Hold(xrec)
		t.HoldAll(more...)
		loss = s.resiLoss(t, x, xrec, optimizer)
		if len(more) > 0 && optimizer == 0 {
			loss = t.Add(loss, t.MulScalar(more[0]))
		}
	}, in.image)
	return loss
}

// reconstruct is forward: the reconstruction, and what the loss weighs beside it: of AutoencoderKL the divergence of
// its posterior, of VQModel its codes'. own says that the step is that of the autoencoder's optimizer.
func (s Step) reconstruct(t *nn.Tape, x nn.Tensor, own, diverges bool) (dec nn.Tensor, more []nn.Tensor) {
	run := func() {
		t.Scope("", func() {
			v := s.vae()
			moments := t.Hold(v.encoder(t, x, nil))
			z := moments
			if v.codes > 0 {
				var loss nn.Tensor
				z, loss = v.quantized(t, moments)
				more = append(more, loss)
			} else {
				mean := t.Narrow(moments, 1, v.embed)
				logvar := t.Hold(t.Clamp(t.Narrow(moments, 1, v.embed)))
				std, variance := t.Hold(t.Exp(t.MulScalar(logvar))), t.Hold(t.Exp(logvar))
				z = t.Add(mean, t.Mul(std, t.ZerosLike(mean)))
				if diverges { // kl (distributions.py:43), which the posterior lives for
					kl := t.AddScalar(t.Sub(t.Sub(t.Add(t.Pow(mean), variance), t.AddScalar(logvar)), t.ZerosLike(logvar)))
					more = append(more, t.Sum(kl), variance, std)
				}
			}
			dec = v.decoder(t, t.Hold(z), nil, nil)
		}, x)
	}
	t.Part(partVAE, func() {
		if own {
			run()
			return
		}
		t.FreezeParams(run)
	})
	return dec, more
}

// quantized is quantize in training: with the loss of codes and of latents (quantize.py:292).
func (n *vae) quantized(t *nn.Tape, z nn.Tensor) (quant, loss nn.Tensor) {
	var drop func()
	var dead nn.Tensor
	drop = t.Dead(func() { dead = n.quantize(t, z) }) // no gradient goes through the nearest code
	t.Hold(dead)
	drop()
	e := t.Hold(t.Lookup(n.codebook(t), t.Hold(t.Indices(z.Numel()/n.embed)), z.Shape()...))
	zc := t.Hold(t.Contiguous(z))
	a := t.Mean(t.Pow(t.Sub(t.Detach(e), zc)))
	b := t.MulScalar(t.Mean(t.Pow(t.Sub(e, t.Detach(zc)))))
	loss = t.Add(a, b)
	return t.Add(zc, t.Detach(t.Sub(e, zc))), loss
}

// autoencodeVal is validation_step (autoencoder.py:366).
func (s Step) autoencodeVal(t *nn.Tape) {
	t.Training = false
	x := t.Hold(s.copied(t, s.loaded(t).image))
	xrec, more := s.reconstruct(t, x, true, true)
	t.Hold(xrec)
	t.HoldAll(more...)
	for optimizer := range 2 {
		t.Hold(s.resiLoss(t, x, xrec, optimizer))
	}
}

// autoencodeImages is log_images (autoencoder.py:405, :212), of the whole batch: no recipe says how many.
func (s Step) autoencodeImages(t *nn.Tape) {
	t.Training = false
	x := t.Hold(s.copied(t, s.loaded(t).image))
	xrec, _ := s.reconstruct(t, x, true, false)
	t.Hold(xrec)
	if s.Model.vae.codes == 0 { // log["samples"]
		side := s.Size / s.Model.Factor()
		t.Part(partVAE, func() {
			t.Hold(s.vae().decoder(t, t.Hold(t.Zeros(nn.F32, s.Batch, s.Model.vae.embed, side, side)), nil, nil))
		})
	}
}
