package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/unit"
)

// A StepConfig is the training of the network on one device.
type StepConfig struct {
	Net        Net
	Batch      int64    // the micro-batch: images in one forward, with as many pairs
	Accumulate int64    // gradient_accumulation_steps; 0 is 1
	AMP        nn.DType // F16 under mixed_precision, F32 without, and on a CPU
	SGD        bool     // SGD with momentum, of Re-ID; else Adam
	OldTorch   bool     // PyTorch 1.13, whose zero_grad keeps the gradients
	// LastVal is the samples of the last batch of a validation, whose attention maps the model still holds in the first
	// training forward after it; 0 where the training never validates.
	LastVal int64
	// LastValGuess says that LastVal is an upper bound: how many images are validated is not known.
	LastValGuess    bool
	CPU, Dispatched bool // as of nn.Tape
}

// The parts of the job.
const (
	model     = "model"
	criterion = "criterion"
	batchPart = "batch"
	lastMaps  = "attention maps of the last validation"
)

// inputs is what a batch is.
const inputs = "images and their pairs in float32"

// Training is the estimate of the training at its fullest step: either one within an accumulation group, while the
// gradients of the micro-batches before are there, or the first after a validation, whose last attention maps are. It
// follows DualCrossAttentionTrainer.train_epoch (train.py:433-590 at 6a4e6b6).
func Training(cfg StepConfig) mem.Tensors { return Trainings(cfg, cfg.Batch)[0] }

// Trainings is Training at several micro-batches, in their order. A LastVal that is the whole micro-batch is so at each of them.
func Trainings(cfg StepConfig, batches ...int64) []mem.Tensors {
	es := cfg.steps(false, batches)
	if cfg.LastVal > 0 {
		for i, first := range cfg.steps(true, batches) {
			if first.Total() > es[i].Total() {
				es[i] = first
			}
		}
	}
	return es
}

// at is the training at another micro-batch.
func (cfg StepConfig) at(batch int64) StepConfig {
	if cfg.LastVal == cfg.Batch {
		cfg.LastVal = batch
	}
	cfg.Batch = batch
	return cfg
}

// asked is a batch in words.
func (cfg StepConfig) asked() string {
	return fmt.Sprintf("a micro-batch of %d with images of %d × %d", cfg.Batch, cfg.Net.Height, cfg.Net.Width)
}

// steps are the estimates of one micro-batch: of a later one in its group, or of the first after a validation.
func (cfg StepConfig) steps(afterValidation bool, batches []int64) []mem.Tensors {
	es := mem.AtBatches(func(n int64) (e mem.Tensors) {
		cfg := cfg.at(n)
		defer mem.Refused(&e, cfg.asked)
		t := nn.NewTape()
		cfg.record(t, afterValidation)
		e.Add(cfg.resident(t)...)
		e.AddPeak(t.Peak(), inputs)
		return e
	}, batches...)
	for i, n := range batches { // the maps of the last validation say where they come from
		for k := range es[i].Items {
			if it := &es[i].Items[k]; it.What == lastMaps {
				it.Guess = cfg.LastValGuess
				it.From = fmt.Sprintf("the model keeps the maps of the last %d validated images until its next forward ends (dual_vit.py, self.attention_maps)", cfg.at(n).LastVal)
			}
		}
	}
	return es
}

// Peak replays one micro-batch of the training, for comparison with measurements.
func Peak(cfg StepConfig) nn.Peak {
	t := nn.NewTape()
	cfg.record(t, false)
	return t.Peak()
}

// Kept is what a training keeps for its backward and its optimizer: saved tensors, parameters, gradients, states.
func Kept(cfg StepConfig) unit.Bytes {
	t := nn.NewTape()
	defer t.Done()
	cfg.record(t, false)
	sum := t.Peak().Saved + t.Size(model).GradBytes
	for _, it := range cfg.resident(t) {
		sum += it.Bytes
	}
	return sum
}

// Size is what the model keeps: its parameters.
func Size(n Net) nn.Size {
	t := nn.NewTape()
	defer t.Done()
	StepConfig{Net: n, Batch: 1}.record(t, false)
	return t.Size(model, unused)
}

func (cfg StepConfig) record(t *nn.Tape, afterValidation bool) {
	n := cfg.Net
	if min(n.Height, n.Width, n.Patch, n.Dim, n.Heads, n.Layers, cfg.Batch) <= 0 {
		panic("the sizes of the network are not known")
	}
	t.Torch1 = cfg.OldTorch
	t.CPU, t.Dispatched = cfg.CPU, t.Dispatched || cfg.Dispatched
	var images, paired, labels nn.Tensor
	var before []nn.Tensor
	t.Part(batchPart, func() {
		for range 2 + min(n.Local, 1) { // outputs["…_features"] of the step before, views of whole sequences
			before = append(before, t.Hold(t.Zeros(nn.F32, cfg.Batch, n.tokens(), n.Dim)))
		}
		images = t.Hold(t.Input(nn.F32, cfg.Batch, 3, n.Height, n.Width))
		labels = t.Hold(t.Zeros(nn.I64, cfg.Batch))
		paired = t.Hold(t.Input(nn.F32, cfg.Batch, 3, n.Height, n.Width)) // images[perm_indices]
	})
	var maps []nn.Tensor
	if afterValidation {
		t.Part(lastMaps, func() { maps = n.maps(t, cfg.LastVal) })
	}
	// zero_grad() at the head of a group sets the gradients to None since torch 2.0, and to zero before.
	if cfg.Accumulate > 1 && !afterValidation || cfg.OldTorch {
		t.KeepGradients(model)
		t.KeepGradients(criterion)
	}
	var total nn.Tensor
	t.Autocast(cfg.AMP, func() {
		var out outputs
		t.Part(model, func() { out = n.forward(t, images, paired, maps) })
		for i, f := range out.features {
			t.Hold(t.Rebind(before[i], f))
		}
		t.Part(criterion, func() { total = n.criterion(t, out.logits, labels) })
		total = t.Hold(t.DivScalar(total))
	})
	t.Part(model, func() { t.Backward(total) })
	temps := t.Size(model).GradBytes
	if cfg.SGD {
		temps = 0
	}
	t.OptimizerStep(model, temps)
}

// maps are the attention maps of an evaluation's forward, in float32. They live as long as the model's attribute: until
// the forward that they are given to assigns it anew (dual_vit.py:436-441 at 9b6147a).
func (n Net) maps(t *nn.Tape, batch int64) (maps []nn.Tensor) {
	for range n.Layers {
		maps = append(maps, t.Zeros(nn.F32, batch, n.Heads, n.tokens(), n.tokens()))
	}
	return maps
}

// criterion is DualCrossAttentionLoss.forward: a cross-entropy for each branch, weighted by its uncertainty. (The
// triplets of Re-ID are mined from distances between class tokens: batch² numbers, which are not counted.)
func (n Net) criterion(t *nn.Tape, logits []nn.Tensor, labels nn.Tensor) (total nn.Tensor) {
	logVars := t.Param("uncertainty_weighting.log_vars", 3)
	for i, l := range logits {
		w := t.Hold(t.Select(logVars, 0))
		loss := t.Add(t.Mul(t.Exp(t.Neg(w)), t.CrossEntropy(l, labels)), w)
		if i > 0 {
			loss = t.Add(total, loss)
		}
		total = loss
	}
	return t.MulScalar(total)
}

// Validation is the estimate of one batch of the validation. It follows _evaluate_fgvc (train.py:630-670 at 6a4e6b6):
// torch.no_grad, no autocast, and the attention maps of all blocks kept as an attribute, where those of the batch before
// live until this batch's are complete. The gradients of the last step are still there: only the next step frees them.
func Validation(cfg StepConfig) mem.Tensors { return Validations(cfg, cfg.Batch)[0] }

// Validations is Validation at several micro-batches, in their order.
func Validations(cfg StepConfig, batches ...int64) []mem.Tensors {
	var kept []mem.Item // the same at each
	return mem.AtBatches(func(n int64) (e mem.Tensors) {
		cfg := cfg.at(n)
		defer mem.Refused(&e, cfg.asked)
		if kept == nil {
			kept = cfg.kept()
		}
		e.Add(kept...)
		e.AddPeak(cfg.evaluate().Peak(), inputs)
		return e
	}, batches...)
}

// kept is what a validation finds on the card.
func (cfg StepConfig) kept() []mem.Item {
	t := nn.NewTape()
	defer t.Done()
	cfg.at(1).record(t, false)
	size := t.Size(model)
	return append(cfg.resident(t),
		mem.Item{Kind: mem.Gradients, What: model, Bytes: size.GradBytes, Count: size.Trainable, From: "of the last training step: zero_grad() is called at the head of the next"})
}

// evaluate records one batch of the validation.
func (cfg StepConfig) evaluate() *nn.Tape {
	n := cfg.Net
	t := nn.NewTape()
	t.Torch1, t.CPU, t.Training = cfg.OldTorch, cfg.CPU, false
	t.Part(model, func() {
		t.NoGrad(func() {
			t.Part(batchPart, func() {
				for range 1 + min(n.Local, 1) { // outputs of the batch before
					t.Hold(t.Zeros(nn.F32, cfg.Batch, n.tokens(), n.Dim))
				}
			})
			var maps []nn.Tensor
			t.Part("attention maps of the batch before", func() { maps = n.maps(t, cfg.Batch) })
			images := nn.Tensor{}
			t.Part(batchPart, func() { images = t.Hold(t.Input(nn.F32, cfg.Batch, 3, n.Height, n.Width)) })
			n.forward(t, images, images, maps)
		})
	})
	return t
}

// resident is what stays on the card from the first step on.
func (cfg StepConfig) resident(t *nn.Tape) []mem.Item {
	m, dead, c := t.Size(model), t.Size(unused), t.Size(criterion)
	states, name := unit.Bytes(2), "Adam: two float32 states a parameter"
	if cfg.SGD {
		states, name = 1, "SGD with momentum: one float32 state a parameter"
	}
	return []mem.Item{
		{Kind: mem.Parameters, What: model, Bytes: m.ParamBytes, Count: m.Params, From: "DualCrossAttentionViT, counted"},
		{Kind: mem.Parameters, What: criterion, Bytes: c.ParamBytes, Count: c.Params, From: "DualCrossAttentionLoss's weights of uncertainty, counted"},
		{Kind: mem.Parameters, What: unused, Bytes: dead.ParamBytes, Count: dead.Params, From: "the GLCA block's own self-attention, whose result nobody reads"},
		{Kind: mem.Optimizer, What: model, Bytes: m.GradBytes * states, Count: m.Trainable * int64(states), From: name},
		{Kind: mem.Optimizer, What: criterion, Bytes: c.GradBytes * states, Count: c.Trainable * int64(states), From: name},
	}
}
