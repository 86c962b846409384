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
	// Upcast: the embedding, the norms and the last layer are float32, whatever the type of the other weights is.
	Upcast bool
	// InputGrad: the embedding's result asks for a gradient, with or without activation checkpointing.
	InputGrad bool
	Decay     bool // weight_decay is not 0
	// Fused is trl's fused head, which makes no logits.
	Fused bool
	// Weighted is trl's loss_type of "dft": each token's loss times its probability.
	Weighted bool
	// Preference makes Batch be of pairs, of a chosen and a rejected answer each.
	Preference *Preference
	// Balanced adds the loss that balances the experts.
	Balanced bool
	LoRA     *LoRA
	Quant    *Quant // nil for weights as they are
	// Flash is attn_implementation of "flash_attention_2" or "flash_attention_3".
	Flash bool
	// Packed says that the sequences of a micro-batch lie in one row, one after the other, and are told apart by their
	// positions: nothing is padded.
	Packed bool
	// Varlen: rows of packed sequences, which torch's varlen_attn tells apart without a mask.
	Varlen bool
	Liger  Liger
	// Router: the routers of experts are float32, whatever the type of the other weights is.
	Router bool
	// Cut is cut cross entropy, which makes no logits.
	Cut bool
	// Blocks says that the batch has a mask for each pair of tokens, as LLaMA-Factory's neat_packing makes it.
	Blocks bool
	// Shards divides the states among the processes; nil for whole ones.
	Shards          *Shards
	FSDP            *FSDP   // nil without it
	Release         Release // of transformers 4; 0 for 5
	Held            bool    // a variable has the model's outputs until backward ends: a plain loop's, not the Trainer's
	Old             bool    // the card has no FlashAttention: its compute capability is below 8.0
	row             bool    // it was Packed: see [Step.shaped]
	CPU, Dispatched bool    // as of nn.Tape
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
	s = s.shaped()
	t := s.training()
	e.Add(s.resident(t)...)
	e.AddPeak(t.Peak(), s.inputs())
	return e
}

// Saved is what the graph holds when backward begins, without the batch.
func Saved(s Step) unit.Bytes { return s.shaped().training().Peak().Saved + s.balances() }

func (s Step) inputs() string {
	return fmt.Sprintf("%d sequences of %d tokens: ids, mask and labels in int64", s.sequences(), s.Length)
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
	return s.formless()
}

// formless says what of quantised weights and of FlashAttention has no formula; "" for nothing.
func (s Step) formless() string {
	switch {
	case s.Dated() != "":
		return s.Dated()
	case s.Quant != nil && s.LoRA == nil:
		return "quantised weights without adapters train nothing: the Trainer refuses them"
	case s.Quant != nil && s.Quant.Bits != 4 && s.Quant.Bits != 8:
		return fmt.Sprintf("weights of %d bits have no formula", s.Quant.Bits)
	case s.ofFlash() != "":
		return s.ofFlash()
	case s.ofAxolotl() != "":
		return s.ofAxolotl()
	case (s.Fused || s.Cut || s.Liger.Head) && s.Model.formed() != "":
		return s.Model.formed()
	case s.ofCut() != "":
		return s.ofCut()
	case s.ofWhole() != "":
		return s.ofWhole()
	case s.ofExperts() != "":
		return s.ofExperts()
	case s.ofShards() != "":
		return s.ofShards()
	case s.ofFSDP() != "":
		return s.ofFSDP()
	}
	return s.ofLiger()
}

// ofFlash says what of FlashAttention has no formula; "" for nothing.
func (s Step) ofFlash() string {
	switch {
	case !s.Flash:
		return ""
	case s.CPU:
		return "flash attention has no CPU"
	case s.Weights == nn.F32 && s.Autocast == nn.F32:
		return "flash attention refuses float32: bfloat16 weights or mixed precision make it half"
	case s.Model.Type == "phi":
		return "flash attention of phi has no formula"
	}
	return ""
}

// training is Trainer.training_step (trainer.py:2043) and the optimizer's step after it (line 1928).
func (s Step) training() *nn.Tape {
	t, d := s.tape()
	var loss nn.Tensor
	t.Reduced = s.Shards != nil && s.Shards.Stage >= 2
	if s.FSDP != nil {
		s.scatter(t)
	}
	if s.Accumulate > 1 && (!t.Reduced || s.FSDP != nil) {
		t.KeepGradients(partModel)
	}
	var logits nn.Tensor
	backward := func() { t.Part(partModel, func() { t.Backward(loss) }) }
	t.Scope("", func() { // the batches of all micro-batches are there (get_batch_samples), in host memory
		inputs := s.batch(t, d)
		loss = t.Hold(s.computeLoss(d, inputs, func(l nn.Tensor) { logits = l }))
		if s.Held {
			t.Scope("", backward, t.Hold(logits))
		}
	})
	if !s.Held {
		backward()
	}
	if s.Shards != nil { // the partition's own are counted apart: see [Step.reducing]
		t.ZeroGrad(partModel)
	}
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
	s = s.shaped()
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
			s.computeLoss(d, s.batch(t, d), func(logits nn.Tensor) {
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
func (s Step) batch(t *nn.Tape, d *decoder) (ids nn.Tensor) {
	t.Part(partBatch, func() {
		ids = t.Hold(t.Input(nn.I64, s.sequences(), s.Length))
		t.Hold(t.Input(nn.I64, s.sequences(), s.Length))
		t.Hold(t.Input(nn.I64, s.sequences(), s.Length)) // positions instead of the mask where it is packed
		s.packedBatch(t, d)
	})
	return ids
}

// computeLoss is Trainer.compute_loss (trainer.py:2122): the model's outputs live until it returns.
func (s Step) computeLoss(d *decoder, ids nn.Tensor, outputs func(logits nn.Tensor)) (loss nn.Tensor) {
	switch p := s.Preference; {
	case p != nil && s.Fused:
		return s.preferenceLoss(d, ids)
	case p != nil:
		return s.comparedLoss(d, ids)
	}
	d.Scope("", func() {
		var logits nn.Tensor
		d.Autocast(s.Autocast, func() { logits, loss = d.forward(ids) })
		if d.headless() {
			return
		}
		logits = d.Hold(logits)
		if s.Autocast != nn.F32 { // ConvertOutputsToFp32 (accelerate/utils/operations.py:913), of the logits too
			wide := d.Hold(d.To(logits, nn.F32))
			d.widenKV() // the outputs before it live until it returns
			logits = d.Rebind(logits, wide)
		}
		if s.World > 1 { // loss *= loss_scale (trainer.py:2207)
			loss = d.Hold(d.MulScalar(loss))
		}
		outputs(logits)
		d.Scope("", func() {}, d.outputs...)
	})
	return loss
}

// forward is LlamaForCausalLM.forward (modeling_llama.py:427), and the same of the other models.
func (d *decoder) forward(ids nn.Tensor) (logits, loss nn.Tensor) {
	d.Scope("", func() {
		d.Part(partModel, func() {
			hidden := d.Hold(d.body(ids))
			switch {
			case d.s.Fused:
				loss = d.Hold(d.fusedLoss(hidden))
				return
			case d.s.Cut:
				loss = d.Hold(d.cutLoss(hidden))
				return
			case d.headless():
				loss = d.Hold(d.ligerLoss(hidden))
				return
			}
			logits = d.Hold(d.project(hidden))
		})
		if !d.headless() {
			d.Part(partLoss, func() { loss = d.Hold(d.causalLoss(logits)) })
		}
	}, ids)
	return logits, loss
}

// project is the last layer, whose weight may be the embedding's (_tied_weights_keys).
func (d *decoder) project(hidden nn.Tensor) (logits nn.Tensor) {
	d.Line("logits = self.lm_head(hidden_states)")
	switch {
	case d.borrows():
		w := d.tied()
		d.Scope(head, func() { logits = d.LinearWeight(hidden, w, nn.Tensor{}) }, hidden)
	case d.whole(head):
		w := d.headWeight()
		d.Scope(head, func() { logits = d.LinearWeight(hidden, w, nn.Tensor{}) }, hidden)
	default:
		d.upcast(func() { logits = d.Linear(head, hidden, d.Vocab, d.Type == "phi") })
	}
	switch {
	case d.Factors:
		d.Line("logits = logits / self.config.logits_scaling")
		logits = d.Hold(logits)
		logits = d.Rebind(logits, d.DivScalar(logits))
	case d.LogitCap:
		logits = d.bounded(d.Hold(logits))
	}
	if d.OwnLoss(d.s.Release) && d.Type != "gpt2" {
		d.Line("logits = logits.float()")
		logits = d.To(logits, nn.F32)
	}
	return logits
}

// body is the model below its last layer.
func (d *decoder) body(ids nn.Tensor) nn.Tensor {
	switch d.Type {
	case "gpt2":
		return d.gpt2(ids)
	case "phi":
		return d.phi(ids)
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
		kind := nn.F32
		if d.OwnLoss(d.s.Release) { // gpt2's is of the logits as they are (modeling_gpt2.py:1318 of 4.44.2)
			kind = logits.DType()
		}
		wide := d.Hold(d.To(logits, kind))
		if d.s.Release.before(paddedLoss) {
			loss = d.shiftedLoss(wide)
			return
		}
		d.Line("labels = nn.functional.pad(labels, (0, 1), value=ignore_index)")
		d.Hold(d.Zeros(nn.I64, b, n+1))
		labels := d.Hold(d.Zeros(nn.I64, b*n))
		if d.s.Liger.Cross {
			loss = d.DivScalar(d.ligerCross(d.View(wide, b*n, v)))
			return
		}
		d.Line("loss = nn.functional.cross_entropy(source, target, reduction=reduction)")
		loss = d.DivScalar(d.CrossEntropy(d.View(wide, b*n, v), labels))
	}, logits)
	return loss
}

// resident is what stays on the card from the first optimizer step on.
func (s Step) resident(t *nn.Tape) []mem.Item {
	switch {
	case s.Shards != nil:
		return s.sharded(t)
	case s.FSDP != nil:
		return s.fullySharded(t)
	}
	size := t.Size(partModel)
	from := s.Model.Type + ", counted from config.json"
	if s.Release > 0 {
		from += fmt.Sprintf(", in transformers 4.%d", s.Release)
	}
	items := []mem.Item{
		{Kind: mem.Parameters, What: partModel, Bytes: size.ParamBytes, Count: size.Params, From: from},
		s.stateLines(t),
	}
	items = append(items, reference(t)...)
	items = append(items, s.buffers(size, from)...)
	if s.World > 1 {
		items = append(items, mem.Item{Kind: mem.Buffers, What: "DDP buckets", Bytes: size.GradBytes, Count: size.Trainable,
			From: "DistributedDataParallel's, a second copy of the gradients (gradient_as_bucket_view=False)"})
	}
	if s.Balanced && s.Model.Experts != nil {
		items = append(items, s.balancing())
	}
	return items
}

// buffers is the line of the model's buffers, if it has some: the constants of its quantised weights among them.
func (s Step) buffers(size nn.Size, from string) []mem.Item {
	switch {
	case size.Buffers == 0:
		return nil
	case s.Quant != nil:
		return []mem.Item{s.Quant.constants(size)}
	}
	return []mem.Item{{Kind: mem.Buffers, What: partModel, Bytes: size.BufferBytes, Count: size.Buffers, From: from}}
}
