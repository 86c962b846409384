package arch

import "github.com/launch-ml/launch/core/nn"

// An imageLog is one call of LatentDiffusion.log_images.
type imageLog struct {
	Step
	t    *nn.Tape
	n    int64 // images
	x    inputs
	kept int64 // trained numbers that ema_scope puts aside
}

// logImages is LatentDiffusion.log_images (ddpm.py:1251 at a506df57, and the forks' own, whose order is the same),
// under no_grad: what it makes stays until all of it is written. A sampler's steps leave nothing but latents, so that
// one stands for all.
func (s Step) logImages(t *nn.Tape) {
	m, g := s.Model, s.Model.images
	l := &imageLog{Step: s, t: t, n: min(s.Batch, g.N)}
	l.x = s.getInput(t, s.loaded(t), l.n, true)
	// log["inputs"], log["reconstruction"] and others
	for _, y := range []nn.Tensor{l.x.x, l.x.xrec, l.x.z, l.x.c, l.x.concat, l.x.xc} {
		if y.Dims() > 0 {
			t.Hold(y)
		}
	}
	if m.EMA && g.EMA {
		l.kept = m.unetParams()
	}
	if g.DiffusionRows { // which holds its rows and their grid to the end
		s.grid(t, t.Hold(s.rows(t, first(t, l.x.z, min(l.n, g.Rows)))))
	}
	if g.Sample {
		y := t.Hold(l.sampled())
		l.decoded(y)
		if g.DenoiseRows {
			s.grid(t, s.rows(t, y))
		}
		if g.Quantized && m.vae.codes > 0 {
			l.decoded(l.sampled())
		}
	}
	if g.Guided {
		l.decoded(l.guided())
	}
	if g.Inpaint {
		for range 2 { // and outpaint
			l.decoded(l.sampled())
		}
	}
	if g.ProgressiveRows {
		s.grid(t, s.rows(t, t.Hold(l.sampled())))
	}
}

// decoded is what log keeps of a sample.
func (l *imageLog) decoded(y nn.Tensor) { l.t.Hold(l.decode(l.t, l.t.Hold(y))) }

// sampled is sample_log.
func (l *imageLog) sampled() nn.Tensor {
	side := l.Model.imageSize
	return l.step(l.t.Zeros(nn.F32, l.n, l.Model.latent(), side, side), l.x.c, l.x.concat)
}

// guided is sample_log with unconditional_conditioning: every condition, and its absence beside it (ddim.py:196).
func (l *imageLog) guided() nn.Tensor {
	t, x := l.t, l.x
	c, concat := x.c, x.concat
	switch {
	case l.Model.cond == nil:
	case l.Model.seesImage():
		c = t.Hold(t.Cat(0, t.Hold(t.ZerosLike(c)), c))
	default:
		c = t.Hold(t.Cat(0, t.Hold(l.condition(t, l.n, nn.Tensor{})), c))
	}
	if concat.Dims() > 0 {
		concat = t.Hold(t.Cat(0, concat, concat))
	}
	side := l.Model.imageSize
	return l.step(t.Zeros(nn.F32, 2*l.n, l.Model.latent(), side, side), c, concat)
}

// step is a sampler's: p_sample_ddim, or p_sample.
func (l *imageLog) step(img, c, concat nn.Tensor) nn.Tensor {
	t := l.t
	if l.kept > 0 {
		l.swap(t, l.kept)
	}
	return t.Within("", func() nn.Tensor {
		e := t.Hold(l.apply(t, t.Hold(img), c, concat))
		return t.Add(first(t, img, l.n), first(t, e, l.n))
	}, img)
}

// rows is one image for each step that is logged, stacked.
func (s Step) rows(t *nn.Tape, z nn.Tensor) nn.Tensor {
	return t.Within("", func() nn.Tensor {
		var row []nn.Tensor
		for range s.Model.logged {
			row = append(row, t.Hold(s.decode(t, t.AddScalar(z))))
		}
		return t.Cat(0, row...)
	}, z)
}

// grid is rearrange to (b n) c h w, which copies, and torchvision's make_grid, which log keeps.
func (s Step) grid(t *nn.Tape, rows nn.Tensor) {
	grid := t.Within("", func() nn.Tensor {
		t.Hold(rows)
		t.Hold(t.Clone(rows))
		return t.ZerosLike(rows)
	})
	t.Hold(grid)
}

// unetParams is how many numbers the UNet has, by a forward of the smallest latent.
func (m *Model) unetParams() int64 {
	t := nn.NewTape()
	defer t.Done()
	t.NoGrad(func() {
		side := int64(1) << (len(m.unet.mult) - 1)
		s := Step{Model: m}
		var c nn.Tensor
		if m.unet.contextDim > 0 {
			c = t.Zeros(nn.F32, 1, 1, m.unet.contextDim)
		}
		s.diffuse(t, t.Zeros(nn.F32, 1, m.unet.in, side, side), c, nil, nn.Tensor{})
	})
	return t.Size(partUNet).Params
}
