package arch_test

import (
	"path/filepath"
	"testing"

	"github.com/launch-ml/launch/tools/truth/rows"
)

// Whole steps as tools/capture/steps.py has recorded them from PyTorch, of a training or an evaluation: parameters,
// saved tensors, the peak of live bytes with all model states.
func TestRecorded(t *testing.T) {
	for file, least := range map[string]int{
		"steps_lm.json":                 150, // transformers' own classes, at true sizes on the meta device
		"steps_lm_440.json":             94,  // those of transformers 4.40
		"steps_lm_444.json":             97,
		"steps_lm_446.json":             82,
		"steps_lm_449.json":             97,
		"steps_lm_455.json":             120,
		"steps_lm_trainer.json":         99, // the Trainer itself on a CPU, also of a script of one's own, and SFTTrainer
		"steps_lm_trainer_430.json":     5,  // the Trainer of transformers 4.30
		"steps_lm_trainer_434.json":     21,
		"steps_lm_trainer_436.json":     20,
		"steps_lm_trainer_440.json":     53, // and of others before 5
		"steps_lm_trainer_444.json":     62,
		"steps_lm_trainer_446.json":     62,
		"steps_lm_trainer_449.json":     62,
		"steps_lm_trainer_455.json":     71,
		"steps_lm_trainer_457.json":     71,
		"steps_lm_math.json":            32,  // where no fused kernel takes groups of heads
		"steps_lm_forms.json":           124, // quantised weights, optimizers, packing
		"steps_lm_dpo.json":             80,  // trl's DPOTrainer
		"steps_lm_sft.json":             30,  // LLaMA-Factory's supervised fine-tuning, whole and with LoRA
		"steps_lm_factory.json":         76,  // its preference optimisation, and its pretraining
		"steps_lm_axolotl.json":         46,  // axolotl's trainer, with its functions for adapters
		"steps_lm_moe.json":             154, // mixtures of experts, on the meta device
		"steps_lm_moe_trainer.json":     115, // by the Trainer and trl's SFTTrainer
		"steps_lm_moe_trainer_56.json":  70,  // by the Trainer of transformers 5.6
		"steps_lm_moe_trainer_516.json": 70,  // and of 5.16
		"steps_lm_whole.json":           90,  // modules that are trained whole beside adapters
		"steps_lm_cut.json":             41,  // cut cross entropy, whose kernels compute nothing
		"steps_lm_half.json":            39,  // adapters over half weights, in fp16
		"steps_lm_decoders.json":        240, // models of llama's make with other norms, MLPs or rotations
		"steps_lm_decoders_455.json":    118, // of eight of them in transformers 4.55
		"steps_lm_decoders_457.json":    238, // and of transformers 4.57
		"steps_lm_decoders_516.json":    60,  // of 5.16, where gemma2 has attention by SDPA
	} {
		t.Run(file, func(t *testing.T) {
			if n := rows.Check(t, filepath.Join("testdata", file)); n < least {
				t.Errorf("%d rows are recorded, want at least %d", n, least)
			}
		})
	}
}
