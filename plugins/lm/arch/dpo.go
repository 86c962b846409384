package arch

import (
	"github.com/launch-ml/launch/core/mem"
	"github.com/launch-ml/launch/core/nn"
)

// A Preference is a step of direct preference optimisation: a micro-batch of pairs, of a chosen and a rejected answer
// each, whose logarithms of probabilities are compared with those of a reference. Chosen and rejected are one batch, so
// there are twice as many sequences as pairs.
//
// With the fused head it is trl's DPOTrainer (trl/trainer/dpo_trainer.py, trl 1.16.0), and without that LLaMA-Factory's
// CustomDPOTrainer (src/llamafactory/train/dpo/trainer.py, ff6d4d12e), which keeps the logits of all sequences.
type Preference struct {
	// Precomputed says that no reference is there: it has answered before the training (precompute_ref_log_probs), or
	// the loss wants none (orpo, simpo).
	Precomputed bool
	// Reference is the type of a reference's weights that are frozen, as LLaMA-Factory loads them; those of trl have the
	// type of the model, and nothing freezes them.
	Reference nn.DType
	// Tile is the columns of a tile of the fused head; 0 for trl's own.
	Tile int64
}

// columns are those of the buffer for a tile of the fused head.
func (d *decoder) columns() int64 {
	if p := d.s.Preference; p != nil && p.Tile > 0 {
		return p.Tile
	}
	return vocabTile
}

// partReference is the reference model: a second copy of the weights, or none with adapters, which are switched off
// for it. All of it runs under no_grad.
const partReference = "reference model"

// refers reports whether there is a reference model: adapters have none of their own.
func (s Step) refers() bool { return s.Preference != nil && !s.Preference.Precomputed && s.LoRA == nil }

// reference is the line of the reference model, if there is one.
func reference(t *nn.Tape) []mem.Item {
	ref := t.Size(partReference)
	if ref.Params == 0 {
		return nil
	}
	return []mem.Item{{Kind: mem.Parameters, What: partReference, Bytes: ref.ParamBytes + ref.BufferBytes,
		Count: ref.Params, From: "a second copy of the weights, of the type of the model"}}
}

// sequences is how many sequences a micro-batch has.
func (s Step) sequences() int64 {
	if s.Preference != nil {
		return 2 * s.Batch
	}
	return s.Batch
}

// preferenceLoss is DPOTrainer._compute_loss (line 1330): the model, then the reference, and the loss of their
// differences, whose tensors have a number for each sequence. The outputs of both live until it returns.
func (s Step) preferenceLoss(d *decoder, ids nn.Tensor) (loss nn.Tensor) {
	b, n := s.sequences(), s.Length
	d.Scope("", func() {
		d.Line("labels = inputs['input_ids'].masked_fill(completion_mask == 0, -100)")
		d.Hold(d.Zeros(nn.I64, b, n))
		scores := d.Hold(d.sum(d.scored("", partModel, ids, statistics)))
		if p := s.Preference; !p.Precomputed {
			d.NoGrad(func() { d.Hold(d.sum(d.reference().scored(d.referenceScope(), d.referencePart(), ids, 0))) })
		}
		d.Line("per_sequence_loss = -F.logsigmoid(self.beta * delta_score)")
		loss = d.Mean(d.MulScalar(scores))
	}, ids)
	return loss
}

// statistics is how many numbers of a token the model's own fused head returns beside the logarithm of its
// probability: entropy, mean_logits, and is_top1, which is a bool.
const statistics = 2

// scored is the forward of one model under mixed precision, to the logarithm of the probability of each token.
func (d *decoder) scored(scope, part string, ids nn.Tensor, more int) (logps nn.Tensor) {
	d.Scope(scope, func() {
		d.Autocast(d.s.Autocast, func() {
			d.Part(part, func() {
				d.Scope("", func() {
					if part == partReference {
						d.gatherReference()
					}
					logps = d.placed(d.Hold(d.body(ids)))
				}, ids)
			})
		})
	}, ids)
	for range more {
		d.Hold(d.Zeros(nn.F32, logps.Shape()...))
	}
	return d.Hold(logps)
}

// sum is per_token_logps.sum(dim=1).
func (d *decoder) sum(x nn.Tensor) nn.Tensor { return d.MeanDim(x, -1) }

// reference is the model that answers as the policy did before the training: its weights without adapters, or a copy.
// Activation checkpointing is off for it (disable_gradient_checkpointing, trl/models/utils.py:397).
func (d *decoder) reference() *decoder {
	r := &decoder{Config: d.Config, Tape: d.Tape, s: d.s, plain: d.s.LoRA != nil}
	r.s.Checkpointing = false
	return r
}

// switchedOff is the forward of a layer whose adapters are disabled (peft/tuners/lora/layer.py:1081, bnb.py:518).
func (d *decoder) switchedOff(name string, x nn.Tensor, out int64, bias bool) (y nn.Tensor) {
	d.Scope(name, func() {
		if d.s.Quant != nil {
			y = d.quantised("base_layer", x, out, bias)
		} else {
			y = d.Linear("base_layer", x, out, bias)
		}
	}, x)
	return y
}

func (d *decoder) referenceScope() string {
	if d.s.LoRA != nil {
		return ""
	}
	return "ref_model"
}

func (d *decoder) referencePart() string {
	if d.s.LoRA != nil {
		return partModel
	}
	return partReference
}
