package arch

import (
	"fmt"

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
	NoAdam   bool  // before the first optimizer step: the sanity check
	Foreach  bool  // torch 2's optimizer on a card, which makes lists of temporaries
	Torch1   bool
}

// Training is the estimate of a forward, its backward and the optimizer's step: shared_step and configure_optimizers of
// ddpm.py:2306 and 3232, training_step of ddpm_with_edge.py:332.
func (s Step) Training() (e mem.Estimate) {
	defer unknownOnPanic(&e)
	t := s.tape()
	for _, part := range s.Model.trainable() {
		t.KeepGradients(part) // DDP keeps them between steps, and zero_grad of torch 1 fills with zeros
	}
	var loss nn.Tensor
	if s.Model.Resi() {
		loss = s.resi(t)
	} else {
		loss = s.loss(t, true)
	}
	t.Backward(loss)
	var grads unit.Bytes
	for _, part := range s.Model.trainable() {
		grads += t.Size(part).ParamBytes
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
func (s Step) Validation() (e mem.Estimate) {
	defer unknownOnPanic(&e)
	t := s.tape()
	t.NoGrad(func() {
		if s.Model.Resi() {
			s.resi(t)
		} else {
			s.loss(t, false)
		}
	})
	e.Unknown = s.Model.Unknown
	s.resident(&e, t, true)
	e.AddPeak(t.Peak(), "images of the micro-batch in float32")
	return e
}

// Images is the estimate of log_images (ddpm.py:3123): n samples, every one of them decoded three times, and the UNet once
// for each of the diffusion's steps, of which one is enough to know.
func (s Step) Images(n int64) (e mem.Estimate) {
	defer unknownOnPanic(&e)
	if s.Model.Resi() {
		return mem.Estimate{Unknown: "log_images of " + s.Model.Target + " has no formula yet"}
	}
	t := s.tape()
	s.Batch = min(s.Batch, n)
	t.NoGrad(func() {
		x, _, edgeMap := s.batch(t, true)
		z := t.Hold(s.encode(t, x))
		zGT := t.Hold(s.encode(t, x))
		t.Hold(s.decode(t, zGT))
		t.Hold(s.decode(t, z))
		c := t.Hold(s.condition(t, s.Batch))
		t.Scope("", func() { // p_sample, whose steps leave nothing but a latent
			cond := s.structure(t, z)
			for _, x := range cond {
				t.Hold(x)
			}
			s.diffuse(t, t.AddScalar(z), c, cond, edgeMap)
		})
		t.Hold(s.decode(t, t.AddScalar(z)))
	})
	s.resident(&e, t, true)
	e.AddPeak(t.Peak(), "images of the micro-batch in float32")
	return e
}

// Saved is what the graph of one micro-batch holds when its backward begins, without the batch itself.
func (s Step) Saved() unit.Bytes {
	t := s.tape()
	t.Backward(s.loss(t, true))
	return t.Peak().Saved
}

func (s Step) tape() *nn.Tape {
	t := nn.NewTape()
	t.Torch1 = s.Torch1
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
			t.Zeros(nn.F32, s.Queue, 3, s.Size, s.Size)
		}
		lq, gt = image(), image()
	})
	return lq, gt, edgeMap
}

// loss is the step's forward up to its loss. training is training_step, which differs from validation's in the edge fork.
func (s Step) loss(t *nn.Tape, training bool) nn.Tensor {
	lq, gt, edgeMap := s.batch(t, false)
	if edgeMap.Dims() > 0 {
		edgeMap = t.RequireGrad(edgeMap) // ddpm_with_edge.py:174
	}
	z := t.Hold(s.encode(t, lq))
	zGT := t.Hold(s.encode(t, gt))
	if !s.Model.stableSR {
		zGT = z
	}
	var c nn.Tensor
	var cond map[int64]nn.Tensor
	if s.Model.edgeStep && training {
		t.Hold(s.decode(t, zGT)) // return_first_stage_outputs=True
		cond = s.structure(t, t.Hold(s.encode(t, lq)))
		c = t.Hold(s.condition(t, s.Batch))
	} else {
		c = t.Hold(s.condition(t, s.Batch))
		cond = s.structure(t, z)
	}
	for _, x := range cond {
		t.Hold(x)
	}
	noise := t.Hold(t.ZerosLike(z))
	xNoisy := t.Hold(t.Add(z, noise)) // q_sample
	out := t.Hold(s.diffuse(t, xNoisy, c, cond, edgeMap))
	if s.Model.edgeLoss > 0 && training { // b73597f: two decodes that are differentiated
		t.Part(partVAE, func() {
			t.FreezeParams(func() {
				first := t.Hold(s.vae().decoder(t, t.MulScalar(out), nil))
				second := t.Hold(s.vae().decoder(t, t.MulScalar(out), nil))
				out = t.Add(t.Mean(first), t.Mean(second))
			})
		})
	}
	// l2 loss without reduction, then its mean
	return t.Mean(t.MSELoss(out, noise))
}

// resi is AutoencoderKLResi's forward with freeze_dec: the encoder's features into the frozen decoder, whose fusion is
// trained. Its loss has no formula.
func (s Step) resi(t *nn.Tape) nn.Tensor {
	var x, latent nn.Tensor
	t.Part(partBatch, func() {
		x = t.Hold(t.Input(nn.F32, s.Batch, 3, s.Size, s.Size))
		t.Hold(t.Input(nn.F32, s.Batch, 3, s.Size, s.Size)) // gt
		t.Hold(t.Input(nn.F32, s.Batch, 3, s.Size, s.Size)) // sample
		latent = t.Hold(t.Input(nn.F32, s.Batch, s.Model.vae.embed, s.Size/s.Model.Factor(), s.Size/s.Model.Factor()))
	})
	var out nn.Tensor
	t.Part(partVAE, func() {
		var fea []nn.Tensor
		t.FreezeParams(func() { s.vae().encoder(t, x, &fea) })
		for _, f := range fea {
			t.Hold(f)
		}
		out = s.vae().frozenDecoder(t, latent, fea)
	})
	return t.Mean(out)
}

// resident is what stays on the card: parameters, gradients and their buckets, Adam's states, the pool, averages.
// alone says that no backward is on the tape, so that gradients are not there.
func (s Step) resident(e *mem.Estimate, t *nn.Tape, alone bool) {
	if !s.Model.Resi() {
		t.Part(partVAE, func() { t.FreezeParams(func() { s.Model.vae.declareDecoder(t) }) })
	}
	for _, part := range []string{partUNet, partSPADE, partStruct, partVAE, partText, partEdge, partFusion} {
		size := t.Size(part)
		e.Add(mem.Item{Kind: mem.Parameters, What: part, Bytes: size.ParamBytes, Count: size.Params, From: s.Model.Target + ", counted"},
			mem.Item{Kind: mem.Buffers, What: part, Bytes: size.BufferBytes, Count: size.Buffers, From: s.Model.Target + ", counted"})
	}
	var trained unit.Bytes
	for _, part := range s.Model.trainable() {
		trained += t.Size(part).ParamBytes
	}
	if alone && !s.NoAdam {
		e.Add(mem.Item{Kind: mem.Gradients, What: "trained parameters", Bytes: trained, From: "they stay between steps"})
	}
	if !s.NoAdam {
		e.Add(mem.Item{Kind: mem.Optimizer, What: "trained parameters", Bytes: 2 * trained,
			From: "AdamW: two float32 states, from the first optimizer step on"})
	}
	if s.DDP {
		e.Add(mem.Item{Kind: mem.Buffers, What: "DDP buckets", Bytes: trained,
			From: "main.py forces ddp for any number of GPUs: a copy of all gradients"})
	}
	e.Add(s.pool())
	if s.Model.EMA {
		size := t.Size(partUNet, partSPADE, partEdge)
		e.Add(mem.Item{Kind: mem.Parameters, What: "EMA", Bytes: size.ParamBytes, Count: size.Params, From: "use_ema: LitEma copies the whole UNet"})
		if alone {
			e.Add(mem.Item{Kind: mem.Transients, What: "EMA", Bytes: size.ParamBytes, From: "ema_scope keeps the trained parameters aside while it swaps"})
		}
	}
}

// pool is the line of the pool of degraded pairs.
func (s Step) pool() mem.Item {
	return mem.Item{Kind: mem.Buffers, What: "pool of degraded pairs", Bytes: unit.Bytes(s.Queue * 2 * 3 * s.Size * s.Size * 4),
		From: fmt.Sprintf("queue_size %d × 2 × 3 × %d² × 4 B (ddpm.py:1885)", s.Queue, s.Size)}
}

// SetPool makes an estimate of the same step with another pool, which keeps one, that of s.
func (s Step) SetPool(e *mem.Estimate) {
	line := s.pool()
	for i := range e.Items {
		if e.Items[i].Kind == line.Kind && e.Items[i].What == line.What {
			e.Items[i] = line
		}
	}
}

// unknownOnPanic turns a shape that the tape refuses into an estimate that says so: the job itself may still run.
func unknownOnPanic(e *mem.Estimate) {
	if r := recover(); r != nil {
		*e = mem.Estimate{Unknown: fmt.Sprint(r)}
	}
}
