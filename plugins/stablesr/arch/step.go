package arch

import (
	"fmt"
	"slices"

	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/unit"
)

// A Step is one micro-batch on one device.
type Step struct {
	Model    *Model
	Batch    int64 // data.params.batch_size, of training, of validation and of the sanity check
	Size     int64 // side of the high-resolution crop, which the low-resolution one is enlarged to
	Xformers bool
	DDP      bool  // Lightning's strategy, which main.py forces for any number of GPUs
	Queue    int64 // of degraded pairs; 0 without one
	Swaps    bool  // use_ema: a validation or an image log with the averages comes, or has come
	// Amp is what Lightning's precision casts to, around a step and not around its backward pass or log_images; or F32.
	Amp     nn.DType
	NoAdam  bool // before the first optimizer step: the sanity check
	Foreach bool // torch 2's optimizer on a card, which makes lists of temporaries
	Torch1  bool
	// Dispatched is as of nn.Tape.
	Dispatched bool
}

// Training is the estimate of a forward, its backward and the optimizer's step: shared_step and configure_optimizers of
// ddpm.py:2306 and 3232, training_step of ddpm_with_edge.py:332.
func (s Step) Training() (e mem.Tensors) {
	defer mem.Refused(&e, s.asked)
	t := s.tape()
	for _, part := range s.Model.trainable() {
		t.KeepGradients(part) // DDP keeps them between steps, and zero_grad of torch 1 fills with zeros
	}
	backward := func(loss nn.Tensor) { t.Part(partLoss, func() { t.Backward(loss) }) }
	switch {
	case s.Model.auto:
		s.autoencode(t, backward)
	case s.Model.Resi():
		s.resi(t, backward)
	default:
		var loss nn.Tensor
		s.autocast(t, func() { loss = s.loss(t, true) })
		backward(loss)
	}
	if s.Foreach {
		for _, part := range s.Model.trainable() {
			t.OptimizerStep(part, t.Size(part).ParamBytes)
		}
	}
	e.Unknown = s.Model.Unknown
	s.resident(&e, t, false)
	e.AddPeak(t.Peak(), "images of the micro-batch in float32")
	return e
}

// Validation is the estimate of validation_step, which is the training's own shared_step under no_grad, and of the sanity
// check before the training.
func (s Step) Validation() (e mem.Tensors) {
	defer mem.Refused(&e, s.asked)
	s.Swaps = true
	t := s.validate()
	e.Unknown = s.Model.Unknown
	s.resident(&e, t, true)
	e.AddPeak(t.Peak(), "images of the micro-batch in float32")
	return e
}

// Kept is what a validation finds on the card before it begins: the lines that stay from step to step.
func (s Step) Kept() (e mem.Tensors) {
	defer mem.Refused(&e, s.asked)
	s.Swaps = true
	t := s.validate()
	defer t.Done()
	e.Unknown = s.Model.Unknown
	s.resident(&e, t, true)
	return e
}

// validate records a validation step.
func (s Step) validate() *nn.Tape {
	t := s.tape()
	t.NoGrad(func() {
		switch {
		case s.Model.auto:
			s.autocast(t, func() { s.autoencodeVal(t) })
		case s.Model.Resi(): // validation_step (autoencoder.py:858), in evaluation mode
			t.Training = false
			inputs, gts, latents := s.resiInput(t)
			reconstructions := t.Hold(s.resiForward(t, inputs, latents, s.edges(t, inputs), true))
			for optimizer := range 2 {
				t.Hold(s.resiLoss(t, gts, reconstructions, optimizer))
			}
		default:
			s.autocast(t, func() { s.loss(t, false) })
			if s.Model.EMA { // and again with the averages in place (ddpm.py:354)
				s.swap(t, t.Size(averaged...).Params)
			}
		}
	})
	return t
}

// autocast runs a step's forward as its precision has it.
func (s Step) autocast(t *nn.Tape, f func()) {
	if s.Amp != nn.F32 {
		t.Autocast(s.Amp, f)
		return
	}
	f()
}

// swap is ema_scope's beginning: the copies of the swap before are there until the new ones are made.
func (s Step) swap(t *nn.Tape, params int64) {
	t.Scope("", func() { t.Part(partUNet+EMA, func() { t.Hold(t.Zeros(nn.F32, params)) }) })
}

// Logged is how many images of StableSR's batch log_images takes (ddpm.py:3123, N=8).
const Logged = 8

// Images is the estimate of log_images.
func (s Step) Images() (e mem.Tensors) {
	defer mem.Refused(&e, s.asked)
	s.Swaps = s.Swaps || s.Model.LogsAverages()
	t := s.tape()
	t.NoGrad(func() {
		switch {
		case s.Model.auto:
			s.autoencodeImages(t)
		case s.Model.Resi(): // autoencoder.py:888: one reconstruction
			t.Training = false
			inputs, _, latents := s.resiInput(t)
			t.Hold(s.resiForward(t, inputs, latents, s.edges(t, inputs), true))
		case s.Model.stableSR:
			s.stableImages(t)
		default:
			s.logImages(t)
		}
	})
	e.Unknown = s.Model.Unknown
	s.resident(&e, t, true)
	e.AddPeak(t.Peak(), "images of the micro-batch in float32")
	return e
}

// stableImages is StableSR's log_images (ddpm.py:3123): eight samples, every one of them decoded three times, and the
// UNet once for each of the diffusion's steps, of which one is enough to know.
func (s Step) stableImages(t *nn.Tape) {
	s.Batch = min(s.Batch, Logged)
	x, _, edgeMap := s.batch(t, true)
	z := t.Hold(s.encode(t, x))
	zGT := t.Hold(s.encode(t, x))
	t.Hold(s.decode(t, zGT))
	t.Hold(s.decode(t, z))
	c := t.Hold(s.condition(t, s.Batch, nn.Tensor{}))
	t.Scope("", func() { // p_sample, whose steps leave nothing but a latent
		cond := s.structure(t, z)
		for _, c := range cond {
			t.Hold(c)
		}
		s.diffuse(t, t.AddScalar(z), c, cond, edgeMap)
	})
	if s.Model.EMA {
		s.swap(t, t.Size(averaged...).Params)
	}
	t.Hold(s.decode(t, t.AddScalar(z)))
}

// Saved is what the graph of one micro-batch holds when its backward begins, without the batch itself.
func (s Step) Saved() unit.Bytes {
	t := s.tape()
	t.Backward(s.loss(t, true))
	return t.Peak().Saved
}

func (s Step) tape() *nn.Tape {
	t := nn.NewTape()
	t.Torch1, t.Dispatched = s.Torch1, s.Dispatched
	return t
}

// batch is get_input: what the loader gives, the pair that degradation and pool make of it, and the edge map.
func (s Step) batch(t *nn.Tape, val bool) (lq, gt, edgeMap nn.Tensor) {
	image := func() nn.Tensor { return t.Hold(t.Input(nn.F32, s.Batch, 3, s.Size, s.Size)) }
	t.Part(partBatch, func() {
		image() // batch["gt"]
		if s.Model.Edge() != NoEdge {
			image() // batch["img_edge"]
			edgeMap = image()
		}
		if s.Queue > 0 && !val { // the full pool is shuffled by indexing, which copies one half of it after the other
			t.Line(shuffle)
			t.Zeros(nn.F32, s.Queue, 3, s.Size, s.Size)
			t.Line("")
		}
		lq, gt = image(), image()
	})
	return lq, gt, edgeMap
}

// loss is the step's forward up to its loss. training is training_step, which differs from validation's in the edge fork.
func (s Step) loss(t *nn.Tape, training bool) nn.Tensor {
	if !s.Model.stableSR {
		return s.steps(t, training)
	}
	lq, gt, edgeMap := s.batch(t, false)
	if edgeMap.Dims() > 0 && s.Model.Edge().differentiated() {
		edgeMap = t.RequireGrad(edgeMap)
	}
	z := t.Hold(s.encode(t, lq))
	zGT := t.Hold(s.encode(t, gt))
	var c nn.Tensor
	var cond map[int64]nn.Tensor
	if s.Model.edgeStep && training {
		t.Hold(s.decode(t, zGT)) // return_first_stage_outputs=True
		cond = s.structure(t, t.Hold(s.encode(t, lq)))
		c = t.Hold(s.condition(t, s.Batch, nn.Tensor{}))
	} else {
		c = t.Hold(s.condition(t, s.Batch, nn.Tensor{}))
		cond = s.structure(t, z)
	}
	for _, c := range cond {
		t.Hold(c)
	}
	noise := t.Hold(t.ZerosLike(z))
	xNoisy := t.Hold(t.Add(z, noise)) // q_sample
	out := t.Hold(s.diffuse(t, xNoisy, c, cond, edgeMap))
	// l2 loss without reduction, then its mean
	loss := t.Hold(t.Mean(t.MSELoss(out, noise)))
	switch {
	case edgeMap.Dims() > 0 && s.Model.Edge().compares():
		loss = t.Add(loss, t.MSELoss(out, t.Hold(s.encode(t, edgeMap))))
	case s.Model.edgeLoss > 0 && !s.Model.edgeStep && training: // b73597f, ddpm.py:2537-2567
		drop := t.Dead(func() { // the edges are found in what is detached: this graph ends with p_losses
			t.Part(partVAE, func() {
				t.FreezeParams(func() { t.Hold(s.vae().decoder(t, t.MulScalar(out), nil, nil)) })
			})
		})
		t.Hold(s.decode(t, zGT))
		drop()
	}
	return loss
}

// resident is what stays on the card: parameters, gradients and their buckets, Adam's states, the pool, averages.
// alone says that no backward is on the tape, so that gradients are not there.
func (s Step) resident(e *mem.Tensors, t *nn.Tape, alone bool) {
	if s.Model.gan() {
		if s.Model.auto && s.Model.vae.codes > 0 {
			t.Part(partVAE, func() { s.Model.vae.codebook(t) })
		}
		t.NoGrad(func() { t.FreezeParams(func() { s.declareLosses(t) }) })
	} else {
		t.Part(partVAE, func() { t.FreezeParams(func() { s.Model.vae.declareDecoder(t) }) })
	}
	from := s.Model.Target + ", counted"
	for _, part := range stages {
		size := t.Size(part)
		e.Add(mem.Item{Kind: mem.Parameters, What: part, Bytes: size.ParamBytes, Count: size.Params, From: from},
			mem.Item{Kind: mem.Buffers, What: part, Bytes: size.BufferBytes, Count: size.Buffers, From: from})
	}
	var trained nn.Size
	for _, part := range s.Model.trainable() {
		size := t.Size(part)
		trained.GradBytes += size.GradBytes
		trained.Trainable += size.Trainable
		if s.NoAdam {
			continue
		}
		if alone {
			e.Add(mem.Item{Kind: mem.Gradients, What: part, Bytes: size.GradBytes, Count: size.Trainable, From: "they stay between steps"})
		}
		e.Add(mem.Item{Kind: mem.Optimizer, What: part, Bytes: 2 * size.GradBytes, Count: 2 * size.Trainable,
			From: s.adam() + ": two float32 states a parameter, from the first optimizer step on"})
	}
	if s.DDP {
		e.Add(mem.Item{Kind: mem.Buffers, What: "DDP buckets", Bytes: trained.GradBytes, Count: trained.Trainable,
			From: "main.py forces ddp for any number of GPUs: a copy of all gradients"})
	}
	e.Add(s.pool())
	if !s.Model.EMA {
		return
	}
	for _, part := range averaged {
		size := t.Size(part)
		e.Add(mem.Item{Kind: mem.Parameters, What: part + EMA, Bytes: size.ParamBytes, Count: size.Params, From: "use_ema: LitEma copies the whole UNet"})
		if s.Swaps {
			e.Add(mem.Item{Kind: mem.Buffers, What: part + backup, Bytes: size.ParamBytes, Count: size.Params,
				From: "ema_scope copies the trained parameters, and LitEma never frees the copy (ema.py:62 at a506df57)"})
		}
	}
}

// averaged are the parts that LitEma averages: all of the UNet.
var averaged = []string{partUNet, partSPADE, partEdge}

// backup is what the copies of trained parameters are called behind a part's name.
const backup = " EMA backup"

// pool is the line of the pool of degraded pairs.
func (s Step) pool() mem.Item {
	n := s.Queue * 2 * 3 * s.Size * s.Size
	return mem.Item{Kind: mem.Buffers, What: "degradation queue", Bytes: unit.Bytes(n * 4), Count: n,
		From: fmt.Sprintf("queue_size %d × 2 × 3 × %d² × 4 B (ddpm.py:1885)", s.Queue, s.Size)}
}

// EMA is what the averages of a part are called behind its name.
const EMA = " EMA"

// adam is the optimizer: of the second stage Adam (autoencoder.py:873), else AdamW (ddpm.py:3232).
func (s Step) adam() string {
	if s.Model.gan() {
		return "Adam"
	}
	return "AdamW"
}

// shuffle is the one line that makes something of the pool's size (ddpm.py:1894).
const shuffle = "self.queue_lr = self.queue_lr[idx]"

// WithPool is an estimate of s with a pool of another size, in place of its own.
func (s Step) WithPool(e mem.Tensors, queue int64) mem.Tensors {
	other := s
	other.Queue = queue
	out, shuffled := e.Resized(shuffle, queue, s.Queue)
	if !shuffled { // an image log only keeps it
		out = e
		out.Items = slices.Clone(e.Items)
	}
	was, is := s.pool(), other.pool()
	for i := range out.Items {
		if out.Items[i].Kind == was.Kind && out.Items[i].What == was.What {
			out.Items[i] = is
		}
	}
	return out
}

// asked is the step in words.
func (s Step) asked() string {
	return fmt.Sprintf("a micro-batch of %d with images of %d", s.Batch, s.Size)
}
