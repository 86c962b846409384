package lm

import (
	"github.com/launch-ml/launch/core/config"
	"github.com/launch-ml/launch/core/ladder"
	"github.com/launch-ml/launch/plugins/lm/arch"
)

// dpoKind is trl's dpo.py.
var dpoKind = kind{dialect: "trl dpo", texts: dpo, length: "max_length", read: (*training).readDPO, config: "--config",
	rank:    "lora_r",
	classes: []string{"trl.ScriptArguments", "trl.DPOConfig", "trl.ModelConfig"},
	true: []string{"gradient_checkpointing", "bf16", "do_train", // trl/trainer/base_config.py:62, 108
		"disable_dropout"}} // trl/trainer/dpo_config.py:190

// dpo are the texts by which the source of trl's dpo.py is known (trl/scripts/dpo.py).
var dpo = []string{"TrlParser", "DPOTrainer", "DPOConfig", "get_peft_config", "get_quantization_config",
	"resume_from_checkpoint"}

// unmadeDPO are fields of DPOConfig that change what a step keeps. The kinds of loss do not: their tensors have one
// number for each pair.
var unmadeDPO = []unmade{{"use_weighting", "false"}, {"sync_ref_model", "false"}, {"ld_alpha", ""}}

const knobPrecompute = "reference before the training"

// readDPO reads what trl's dpo.py and DPOTrainer are given (trl 1.16.0).
func (t *training) readDPO() string {
	if v, ok := t.get("max_length"); ok && (v == "None" || v == "") {
		return "without max_length no pair is cut, and the longest is not known"
	}
	if why := t.readTRL(unmadeDPO); why != "" {
		return why
	}
	batch, err := t.count("precompute_ref_batch_size", t.split.Micro)
	if err != nil {
		return err.Error()
	}
	p := &arch.Preference{Precomputed: t.on("precompute_ref_log_probs")}
	if p.Precomputed && batch > t.split.Micro {
		return t.address("precompute_ref_batch_size").Path + " of more than a micro-batch has no formula"
	}
	if t.on("disable_dropout") {
		t.withoutDropout()
	}
	if t.on("padding_free") {
		t.warn("%s saves nothing, though trl's guide to memory recommends it for DPO: DPOTrainer pads the batch all "+
			"the same "+
			"(trl/trainer/dpo_trainer.py:732 of 1.16)", t.address("padding_free").Path)
	}
	t.step.Preference = p
	return ""
}

// precompute is the rung that lets the reference answer before the training, so that its weights are gone then. A
// streamed data set does not allow it (dpo_trainer.py:1171).
func (b *builder) precompute(set *ladder.Set) {
	p := b.step.Preference
	if p == nil || p.Precomputed || !b.turns("precompute_ref_log_probs") || !b.step.Fused ||
		b.on("dataset_streaming") || b.step.FSDP != nil {
		return
	}
	asked := b.ways[0]
	asked.precomputed = true
	set.Shared.Rungs = append(set.Shared.Rungs, ladder.Rung{Name: knobPrecompute, Cost: ladder.Speed, Slowdown: 1,
		Edits: []config.Edit{b.edit(knobPrecompute, "precompute_ref_log_probs", "true", ladder.Speed,
			"the reference answers all pairs once before the training, and its weights are gone then")}})
	b.ways = append(b.ways, asked)
}

// answering is the step with the reference as a way has it.
func (w way) answering(s arch.Step) arch.Step {
	if w.precomputed {
		p := *s.Preference
		p.Precomputed, s.Preference = true, &p
	}
	return s
}
