package arch

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/unit"
)

// A StepConfig is a training step on one device.
type StepConfig struct {
	Project    Project
	Model      string // model_type, in upper or lower case; "" is what the project runs without one
	Net        Network
	Batch      int64    // the micro-batch: batch_size_per_gpu
	LQ         int64    // side of the low-resolution crop
	AMP        nn.DType // F16 or BF16 under use_amp, F32 without
	Accumulate int64    // accum_iter; 0 is 1
	OptimG     string   // optim_g.type; "" is AdamW
	OptimD     string
	EMA        bool // ema_decay above 0
	Losses     []Loss
	Disc       Discriminator // network_d, used where Losses has a GAN loss
	DDP        bool          // both networks are wrapped in DistributedDataParallel, as with a launcher
	// Replicas are the cards over which DataParallel splits the batch of the one process, Batch samples each: the estimate is
	// of the first, on which the outputs of all are gathered. 0 and 1 are none.
	Replicas int64
	// OldTorch is PyTorch 1.13: interpolate is not on autocast's float32 list, and a mean saves its input.
	OldTorch bool
	CPU      bool      // the step runs there, and not on a card
	OneDNN   bool      // what oneDNN copies there counts too
	Neosr    NeosrStep // what neosr's own step has beside these
}

// A model is a project's training loop.
type model struct {
	// record puts one optimizer step on a tape, in the order of the loop. It returns why the estimate is not whole, or "".
	record func(cfg StepConfig, t *nn.Tape) (unknown string)
	// gradientsStay is true where they are cleared before the next backward, and so lie beside a validation.
	gradientsStay bool
}

// models are the training loops, by project and by the recipe's model_type.
var models catalog[model]

var _ = entry(func() { models.add(Redux, model{record: StepConfig.recordRedux}, "") })

// Training is the estimate of one optimizer step: the generator's forward, the losses, its backward, the
// discriminator's forwards and backward, the optimizers, in the order of the project's own loop.
//
// Sizes that the network cannot have (a crop of nothing, images that do not fit together) are an unknown estimate.
func Training(cfg StepConfig) (e mem.Tensors) {
	defer mem.Refused(&e, cfg.asked)
	t := nn.NewTape()
	unknown := cfg.record(t)
	e.Unknown = unknown
	e.Add(cfg.resident(t)...)
	e.AddPeak(t.Peak(), "low- and high-resolution crops in float32")
	return e
}

// asked is the step in words.
func (cfg StepConfig) asked() string {
	return fmt.Sprintf("a micro-batch of %d with low-resolution crops of %d", cfg.Batch, cfg.LQ)
}

// record puts the step on the tape. It returns why the estimate is not whole, or "".
func (cfg StepConfig) record(t *nn.Tape) (unknown string) {
	t.UpsampleLow, t.Torch1, t.CPU = cfg.OldTorch, cfg.OldTorch, cfg.CPU
	t.OneDNN = cfg.OneDNN
	m, ok := models.find(cfg.Project, cfg.Model)
	if !ok { // its parts are there all the same
		if m, ok = models.find(cfg.Project, ""); !ok {
			m = models.own[Redux][""]
		}
		m.record(cfg, t)
		return fmt.Sprintf("model_type %q: %v", cfg.Model, ErrUnknown)
	}
	return m.record(cfg, t)
}

// batch makes the pairs of a step, and self.output of the step before, which stays until this step assigns its own.
func (cfg StepConfig) batch(t *nn.Tape) (lq, gt, previous nn.Tensor) {
	gtSize := cfg.LQ * cfg.Net.Scale
	t.Part("batch", func() {
		lq = t.Hold(t.Input(nn.F32, cfg.gathered(), cfg.Net.InCh, cfg.LQ, cfg.LQ))
		gt = t.Hold(t.Input(nn.F32, cfg.gathered(), cfg.Net.gtCh(), gtSize, gtSize))
		previous = t.Zeros(nn.F32, cfg.gathered(), cfg.Net.gtCh(), gtSize, gtSize)
	})
	return lq, gt, previous
}

// recordRedux follows SRModel.optimize_parameters (traiNNer/models/sr_model.py at 68629319), which clears gradients
// after each optimizer's step.
func (cfg StepConfig) recordRedux(t *nn.Tape) (unknown string) {
	optG, optD := cfg.optimizers()
	lq, gt, previous := cfg.batch(t)
	if cfg.Accumulate > 1 {
		t.KeepGradients("network_g")
		if cfg.hasGAN() {
			t.KeepGradients("network_d")
		}
	}

	var output, lGTotal nn.Tensor
	gan := false
	t.Autocast(cfg.AMP, func() {
		t.Part("network_g", func() { output = cfg.parallel(t, lq, cfg.Net.Forward) })
		output = t.Hold(t.Rebind(previous, output))
		lGTotal, gan, unknown = cfg.generatorLosses(t, lq, gt, output)
	})
	if len(cfg.Losses) == 0 {
		unknown = "no losses given"
		lGTotal = t.Mean(output)
	}
	t.Part("network_g", func() { t.Backward(lGTotal) })
	size := t.Size("network_g")
	t.OptimizerStep("network_g", cfg.reduced(optG, size.GradBytes))

	if gan {
		if cfg.Disc.forward == nil {
			return cfg.Disc.unknown()
		}
		cfg.discriminatorStep(t, output, gt)
		t.OptimizerStep("network_d", cfg.reduced(optD, t.Size("network_d").GradBytes))
	}
	return unknown
}

// generatorLosses sums the generator's losses. gan says that one of them asks a discriminator; unknown is why the sum is not whole.
func (cfg StepConfig) generatorLosses(t *nn.Tape, lq, gt, output nn.Tensor) (lGTotal nn.Tensor, gan bool, unknown string) {
	t.Part("losses", func() { lGTotal = t.Hold(t.Zeros(nn.F32)) })
	for _, l := range cfg.Losses {
		if l.Weight == 0 {
			continue
		}
		if l.IsGAN() {
			gan = true
			if l.penalizes() {
				unknown = fmt.Sprintf("loss %q: %v: its penalties differentiate a gradient", "r3ganloss", ErrUnknown)
			}
			lGTotal = t.AddInplace(lGTotal, cfg.generatorGAN(t, output))
			continue
		}
		f, err := l.build()
		if err != nil {
			unknown = err.Error()
			continue
		}
		if l.wantsEMA() && !l.averaged {
			cfg.averagedForward(t, lq)
		}
		t.Part(l.part(), func() {
			t.FreezeParams(func() {
				t.Scope("", func() { lGTotal = t.AddInplace(lGTotal, f(t, output, gt)) }, output, gt)
			})
		})
	}
	return lGTotal, gan, unknown
}

// gathered is how many samples lie on the first card.
func (cfg StepConfig) gathered() int64 { return cfg.Batch * max(1, cfg.Replicas) }

// parallel is a network that model_to_device has wrapped: under DataParallel it runs on this card's share of the batch, a
// view, and the outputs of all cards are put together here (scatter and gather in torch/nn/parallel/scatter_gather.py).
// The replica on this card has the parameters themselves (broadcast_coalesced in torch/csrc/cuda/comm.cpp), and
// the others' need here no more than buffers of 10 MiB while they are sent.
func (cfg StepConfig) parallel(t *nn.Tape, x nn.Tensor, forward nn.Module) nn.Tensor {
	if cfg.Replicas <= 1 {
		return t.Call("", x, forward)
	}
	y := t.Call("", t.Narrow(x, 0, cfg.Batch), forward)
	return t.Cat(0, slices.Repeat([]nn.Tensor{y}, int(cfg.Replicas))...)
}

// reduced is what is needed between backward and the optimizer's end: under DataParallel the gradients of this card's
// replica are there until the sum of all cards' is (Broadcast.backward in torch/nn/parallel/_functions.py).
func (cfg StepConfig) reduced(o optimizer, grads unit.Bytes) unit.Bytes {
	if cfg.Replicas > 1 {
		return max(grads, o.tempBytes(grads))
	}
	return o.tempBytes(grads)
}

// emaPart is the averaged copy of the generator.
const emaPart = "network_g EMA"

// averagedForward is net_g_ema(lq) under inference_mode, whose copies of weights autocast does not cache. Its output is
// on the account of the loss that asked for it.
func (cfg StepConfig) averagedForward(t *nn.Tape, lq nn.Tensor) {
	t.Part(emaPart, func() {
		t.NoGrad(func() { t.FreezeParams(func() { t.Call("", lq, cfg.Net.Forward) }) })
	})
}

func (cfg StepConfig) hasGAN() bool {
	return slices.ContainsFunc(cfg.Losses, func(l Loss) bool { return l.IsGAN() && l.Weight != 0 })
}

// generatorGAN is the discriminator's judgement of the output, with the discriminator's parameters frozen.
func (cfg StepConfig) generatorGAN(t *nn.Tape, output nn.Tensor) (loss nn.Tensor) {
	if cfg.Disc.forward == nil {
		return t.Mean(output)
	}
	t.Part("network_d", func() {
		t.FreezeParams(func() {
			fakeGPred := cfg.parallel(t, output, cfg.Disc.forward)
			loss = ganLoss(t, fakeGPred)
		})
	})
	return loss
}

// discriminatorStep judges the real and the generated image and runs backward over both.
func (cfg StepConfig) discriminatorStep(t *nn.Tape, output, gt nn.Tensor) {
	t.Part("network_d", func() {
		var lDReal, lDFake nn.Tensor
		t.Autocast(cfg.AMP, func() {
			realDPred := t.Hold(cfg.parallel(t, gt, cfg.Disc.forward))
			lDReal = ganLoss(t, realDPred)
			fakeDPred := t.Hold(cfg.parallel(t, t.Detach(output), cfg.Disc.forward))
			lDFake = ganLoss(t, fakeDPred)
		})
		t.Backward(t.Add(lDReal, lDFake))
	})
}

func (cfg StepConfig) optimizers() (g, d optimizer) {
	g, _ = optimizerOf(orAdamW(cfg.OptimG))
	d, _ = optimizerOf(orAdamW(cfg.OptimD))
	return g, d
}

func orAdamW(name string) string {
	return cmp.Or(name, "AdamW")
}

// resident is what stays on the card from the first step on, by the sizes that the tape has seen.
func (cfg StepConfig) resident(t *nn.Tape) []mem.Item {
	g, d := t.Size("network_g"), t.Size("network_d")
	items := modelItems("network_g", g, cfg.Net.label())
	items = append(items, cfg.optimizerItem("network_g", cfg.OptimG, g))
	if cfg.EMA {
		const from = "ema_decay > 0: a copy of network_g"
		items = append(items, mem.Item{Kind: mem.Parameters, What: emaPart, Bytes: g.ParamBytes, Count: g.Params, From: from},
			mem.Item{Kind: mem.Buffers, What: emaPart, Bytes: g.BufferBytes, Count: g.Buffers, From: from})
	}
	if cfg.DDP {
		items = append(items, mem.Item{Kind: mem.Buffers, What: "DDP buckets", Bytes: g.GradBytes + d.GradBytes, Count: g.Trainable + d.Trainable,
			From: "DistributedDataParallel's, a second copy of the gradients (gradient_as_bucket_view=False; base_model.py, model_to_device)"})
	}
	if d.Params > 0 {
		items = append(items, modelItems("network_d", d, cfg.Disc.Name)...)
		items = append(items, cfg.optimizerItem("network_d", cfg.OptimD, d))
	}
	for _, l := range cfg.Losses {
		if what := l.part(); l.Weight != 0 && !l.IsGAN() {
			items = append(items, modelItems(what, t.Size(what), l.Type)...)
		}
	}
	if cfg.Project == Neosr {
		items = append(items, cfg.residentNeosr(d)...)
	}
	return items
}

func modelItems(what string, s nn.Size, from string) []mem.Item {
	return []mem.Item{
		{Kind: mem.Parameters, What: what, Bytes: s.ParamBytes, Count: s.Params, From: from + ", counted"},
		{Kind: mem.Buffers, What: what, Bytes: s.BufferBytes, Count: s.Buffers, From: from + ", counted"},
	}
}

func (cfg StepConfig) optimizerItem(what, name string, s nn.Size) mem.Item {
	o, known := optimizerOf(orAdamW(name))
	it := mem.Item{Kind: mem.Optimizer, What: what, Bytes: o.stateBytes(s.GradBytes), Count: int64(o.stateBytes(s.GradBytes)) / 4,
		From: fmt.Sprintf("%s: %d float32 states a parameter", orAdamW(name), o.states)}
	if !known {
		it.Guess, it.From = true, fmt.Sprintf("%s is not known; as many states as Adam are assumed", name)
	}
	return it
}
