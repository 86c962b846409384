package arch

import (
	"fmt"

	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
	"github.com/launch-ml/launch/core/unit"
)

// A Step is a training step of one process, as transformers' Trainer makes it.
type Step struct {
	Model      Config
	Batch      int64 // sequences of a micro-batch
	Length     int64 // tokens of the longest
	Accumulate int64
	World      int64 // processes that share a step, under DistributedDataParallel
	// Weights is the type that the model is loaded in, and Autocast that of mixed precision; F32 for none.
	Weights, Autocast nn.DType
	Eager             bool // attn_implementation of "eager", otherwise "sdpa"
	Padded            bool // the longest sequence is not alone, so that others are padded to its length
	Checkpointing     bool
	Reentrant         bool // use_reentrant, which transformers before 5.0 leaves to torch
	Optimizer         string
	// Fused is trl's fused head, which makes no logits.
	Fused           bool
	LoRA            *LoRA
	CPU, Dispatched bool // as of nn.Tape
}

// The names of the parts, on the tape and in a ledger.
const (
	partBatch = "batch"
	partModel = "model"
	partLoss  = "loss"
)

// asked is the step in words.
func (s Step) asked() string {
	return fmt.Sprintf("a micro-batch of %d with %d tokens", s.Batch, s.Length)
}

// tape is an empty one with the step's model on it.
func (s Step) tape() (*nn.Tape, *decoder) {
	t := nn.NewTape()
	t.CPU, t.Dispatched = s.CPU, s.Dispatched
	t.ParamType, t.Frozen = s.Weights, s.LoRA != nil
	return t, &decoder{Config: s.Model, Tape: t, s: s}
}

// Training is the estimate of a step in the steady state, when gradients and optimizer states are there.
func Training(s Step) (e mem.Tensors) {
	defer mem.Refused(&e, s.asked)
	if why := s.unknown(); why != "" {
		return mem.Unpriced(why)
	}
	t := s.training()
	e.Add(s.resident(t)...)
	e.AddPeak(t.Peak(), s.inputs())
	return e
}

// Saved is what the graph holds when backward begins, without the batch.
func Saved(s Step) unit.Bytes { return s.training().Peak().Saved }

func (s Step) inputs() string {
	return fmt.Sprintf("%d sequences of %d tokens: ids, mask and labels in int64", s.Batch, s.Length)
}

// unknown says what of the step has no formula; "" for nothing.
func (s Step) unknown() string {
	dropout := s.Model.Attention > 0 && !s.Eager
	switch {
	case s.CPU && s.Autocast != nn.F32:
		return "mixed precision on a CPU has no formula: it casts by other lists than a card"
	case s.CPU && s.Model.Embed+s.Model.Attention+s.Model.Residual > 0:
		return "dropout on a CPU has no formula"
	case s.CPU && s.Padded && s.Model.Type == "phi" && !s.Eager:
		return "padded attention of phi on a CPU has no formula"
	case dropout && s.Padded:
		return "attention with dropout and a mask has no formula"
	case !s.known():
		return fmt.Sprintf("the optimizer %q has no formula", s.Optimizer)
	}
	return ""
}

// training is Trainer.training_step (trainer.py:2043) and the optimizer's step after it (line 1928).
func (s Step) training() *nn.Tape {
	t, d := s.tape()
	var loss nn.Tensor
	if s.Accumulate > 1 {
		t.KeepGradients(partModel)
	}
	t.Scope("", func() { // the batches of all micro-batches are there (get_batch_samples), in host memory
		inputs := s.batch(t)
		loss = t.Hold(s.computeLoss(d, inputs, func(nn.Tensor) {}))
	})
	t.Part(partModel, func() { t.Backward(loss) })
	t.OptimizerStep(partModel, s.stepTemps(t))
	return t
}

// Evaluation is the estimate of a step of Trainer.evaluation_loop (trainer.py:2896) in the middle of a training:
// gradients are gone, optimizer states are there. Predicted says that compute_metrics is given the likeliest tokens
// (preprocess_logits_for_metrics), rather than the loss alone.
func Evaluation(s Step, predicted bool) (e mem.Tensors) {
	defer mem.Refused(&e, s.asked)
	s.Checkpointing, s.Accumulate = false, 1
	if why := s.unknown(); why != "" {
		return mem.Unpriced(why)
	}
	t := s.evaluation(predicted)
	e.Add(s.resident(t)...)
	e.AddPeak(t.Peak(), s.inputs())
	return e
}

func (s Step) evaluation(predicted bool) *nn.Tape {
	t, d := s.tape()
	t.Training = false
	t.NoGrad(func() {
		t.Scope("", func() {
			s.computeLoss(d, s.batch(t), func(logits nn.Tensor) {
				if predicted {
					t.Line("preprocess_logits_for_metrics: logits.argmax(dim=-1)")
					t.Integers("torch.argmax", logits, 1, s.Batch, s.Length)
				}
			})
		})
	})
	return t
}

// batch is a collator's: input_ids, attention_mask and labels.
func (s Step) batch(t *nn.Tape) (ids nn.Tensor) {
	t.Part(partBatch, func() {
		ids = t.Hold(t.Input(nn.I64, s.Batch, s.Length))
		t.Hold(t.Input(nn.I64, s.Batch, s.Length))
		t.Hold(t.Input(nn.I64, s.Batch, s.Length))
	})
	return ids
}

// computeLoss is Trainer.compute_loss (trainer.py:2122): the model's outputs live until it returns.
func (s Step) computeLoss(d *decoder, ids nn.Tensor, outputs func(logits nn.Tensor)) (loss nn.Tensor) {
	d.Scope("", func() {
		var logits nn.Tensor
		d.Autocast(s.Autocast, func() { logits, loss = d.forward(ids) })
		if s.Fused {
			return
		}
		logits = d.Hold(logits)
		if s.Autocast != nn.F32 { // ConvertOutputsToFp32 (accelerate/utils/operations.py:913), of the logits too
			logits = d.Rebind(logits, d.To(logits, nn.F32))
		}
		if s.World > 1 { // loss *= loss_scale (trainer.py:2207)
			loss = d.Hold(d.MulScalar(loss))
		}
		outputs(logits)
	})
	return loss
}

// forward is LlamaForCausalLM.forward (modeling_llama.py:427), and the same of the other models.
func (d *decoder) forward(ids nn.Tensor) (logits, loss nn.Tensor) {
	d.Scope("", func() {
		d.Part(partModel, func() {
			hidden := d.Hold(d.body(ids))
			if d.s.Fused {
				loss = d.Hold(d.fusedLoss(hidden))
				return
			}
			d.Line("logits = self.lm_head(hidden_states)")
			if d.Tied { // _tied_weights_keys
				var w nn.Tensor
				outer, inner := d.embedding()
				d.nested([]string{outer, inner}, func() { w = d.Param("weight", d.Vocab, d.Hidden) })
				d.Scope(head, func() { logits = d.LinearWeight(hidden, w, nn.Tensor{}) }, hidden)
			} else {
				logits = d.Linear(head, hidden, d.Vocab, d.Type == "phi")
			}
			logits = d.Hold(logits)
		})
		if !d.s.Fused {
			d.Part(partLoss, func() { loss = d.Hold(d.causalLoss(logits)) })
		}
	}, ids)
	return logits, loss
}

// body is the model below its last layer.
func (d *decoder) body(ids nn.Tensor) nn.Tensor {
	switch d.Type {
	case "gpt2":
		return d.gpt2(ids)
	case "phi":
		return d.phi(ids)
	case "gemma":
		return d.gemma(ids)
	}
	return d.llama(ids)
}

// embedding is the path of the input embedding.
func (d *decoder) embedding() (outer, inner string) {
	if d.Type == "gpt2" {
		return "transformer", "wte"
	}
	return "model", "embed_tokens"
}

// causalLoss is ForCausalLMLoss (loss/loss_utils.py:51): float32 logits, padded and shifted labels, the sum of the
// cross entropy over the number of tokens.
func (d *decoder) causalLoss(logits nn.Tensor) (loss nn.Tensor) {
	b, n, v := logits.Dim(0), logits.Dim(1), logits.Dim(2)
	d.Scope("loss_function", func() {
		d.Line("logits = logits.float()")
		wide := d.Hold(d.To(logits, nn.F32))
		d.Line("labels = nn.functional.pad(labels, (0, 1), value=ignore_index)")
		d.Hold(d.Zeros(nn.I64, b, n+1))
		labels := d.Hold(d.Zeros(nn.I64, b*n))
		d.Line("loss = nn.functional.cross_entropy(source, target, reduction=reduction)")
		loss = d.DivScalar(d.CrossEntropy(d.View(wide, b*n, v), labels))
	}, logits)
	return loss
}

// An optimizer keeps states of the size and the type of the trainable parameters, and needs so many more of them while
// it steps.
type optimizer struct{ states, temps unit.Bytes }

// optimizers are by the name that TrainingArguments knows (training_args.py, OptimizerNames): torch's AdamW, whose
// fused kernel writes in place, and whose lists make the root of the second moment (_multi_tensor_adamw in
// torch/optim/adamw.py).
var optimizers = map[string]optimizer{"adamw_torch": {2, 1}, "adamw_torch_fused": {2, 0}}

func (s Step) known() bool {
	_, ok := optimizers[s.Optimizer]
	return ok
}

// stepTemps is what the optimizer needs while it steps. On a CPU it goes from tensor to tensor.
func (s Step) stepTemps(t *nn.Tape) unit.Bytes {
	if s.CPU {
		return optimizers[s.Optimizer].temps * t.LargestParam(partModel)
	}
	return optimizers[s.Optimizer].temps * t.Size(partModel).GradBytes
}

// resident is what stays on the card from the first optimizer step on.
func (s Step) resident(t *nn.Tape) []mem.Item {
	size, o := t.Size(partModel), optimizers[s.Optimizer]
	from := s.Model.Type + ", counted from config.json"
	items := []mem.Item{
		{Kind: mem.Parameters, What: partModel, Bytes: size.ParamBytes, Count: size.Params, From: from},
		{Kind: mem.Optimizer, What: partModel, Bytes: o.states * size.GradBytes, Count: int64(o.states) * size.Trainable,
			From: fmt.Sprintf("%s: %d states of a trainable parameter's type, from the first optimizer step on", s.Optimizer,
				o.states)},
	}
	if size.Buffers > 0 {
		items = append(items, mem.Item{Kind: mem.Buffers, What: partModel, Bytes: size.BufferBytes, Count: size.Buffers,
			From: from})
	}
	if s.World > 1 {
		items = append(items, mem.Item{Kind: mem.Buffers, What: "DDP buckets", Bytes: size.GradBytes, Count: size.Trainable,
			From: "DistributedDataParallel's, a second copy of the gradients (gradient_as_bucket_view=False)"})
	}
	return items
}
